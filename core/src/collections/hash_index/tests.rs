use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

struct Item {
    id: u64,
    next: u32,
    colliding: bool,
}

impl Hashed for Item {
    fn hash(&self, seed: &HashSeed) -> u64 {
        hash_of(seed, self.id, self.colliding)
    }

    fn hash_next(&self) -> u32 {
        self.next
    }

    fn set_hash_next(&mut self, next: u32) {
        self.next = next;
    }
}

fn hash_of(seed: &HashSeed, id: u64, colliding: bool) -> u64 {
    if colliding {
        id % 3
    } else {
        seed.hash(&id.to_le_bytes())
    }
}

struct Table {
    items: Slab<Item>,
    index: HashIndex,
    colliding: bool,
}

impl Table {
    fn new(colliding: bool) -> Self {
        Self {
            items: Slab::new(),
            index: HashIndex::new(HashSeed::new(b"0123456789abcdef")),
            colliding,
        }
    }

    fn find(&self, id: u64) -> Option<u32> {
        let hash = hash_of(self.index.seed(), id, self.colliding);
        self.index.find(&self.items, hash, |item| item.id == id)
    }

    fn insert(&mut self, id: u64) -> u32 {
        let colliding = self.colliding;
        let hash = hash_of(self.index.seed(), id, colliding);
        let item = Item {
            id,
            next: 12345,
            colliding,
        };
        let key = self.items.insert(item).unwrap();
        self.index.insert(&mut self.items, key, hash);
        key
    }

    fn remove(&mut self, id: u64) -> bool {
        let Some(key) = self.find(id) else {
            return false;
        };
        let hash = hash_of(self.index.seed(), id, self.colliding);
        assert!(self.index.remove(&mut self.items, key, hash));
        assert!(!self.index.remove(&mut self.items, key, hash));
        self.items.remove(key);
        true
    }

    /// Every item is in the chain of its bucket, once.
    fn check(&self) {
        let mut seen = 0;
        for bucket in 0..self.index.buckets {
            let mut key = self.index.head(bucket);
            while key != NIL {
                let hash = self.items[key].hash(self.index.seed());
                assert_eq!(self.index.bucket(hash), Some(bucket));
                seen += 1;
                key = self.items[key].next;
            }
        }
        assert_eq!(seen, self.index.len());
        assert_eq!(seen, self.items.len());
        let index = &self.index;
        assert!(index.len() <= index.buckets);
        assert!(index.buckets <= (2 * index.len()).next_multiple_of(BATCH) + BATCH);
    }
}

#[test]
fn an_empty_index_finds_nothing() {
    let mut table = Table::new(false);
    assert_eq!(table.find(1), None);
    let stray = Item {
        id: 1,
        next: NIL,
        colliding: false,
    };
    let key = table.items.insert(stray).unwrap();
    assert!(!table.index.remove(&mut table.items, key, 99));
    assert_eq!(table.index.allocated_bytes(), 0);
}

#[test]
fn grows_and_shrinks_with_its_items() {
    let mut table = Table::new(false);
    for id in 0..50_000 {
        table.insert(id);
    }
    table.check();
    assert_eq!(table.index.buckets, 50_000usize.next_multiple_of(BATCH));
    let full = table.index.allocated_bytes();
    assert!(full < 50_000 * 4 + 8192);
    for id in 0..49_900 {
        assert!(table.remove(id));
    }
    table.check();
    assert!(table.index.allocated_bytes() <= 2 * 4096 + 64 * 8);
    for id in 49_900..50_000 {
        assert!(table.find(id).is_some());
    }
    table.index.clear();
    assert_eq!(table.find(49_999), None);
}

#[test]
fn chains_stay_short() {
    let mut table = Table::new(false);
    for id in 0..20_000 {
        table.insert(id);
    }
    let longest = (0..table.index.buckets)
        .map(|bucket| {
            let mut length = 0;
            let mut key = table.index.head(bucket);
            while key != NIL {
                length += 1;
                key = table.items[key].next;
            }
            length
        })
        .max();
    assert!(longest < Some(15));
}

#[test]
fn seeds_differ() {
    let one = HashSeed::new(&[1; 16]);
    let two = HashSeed::new(&[2; 16]);
    assert_ne!(one.hash(b"job"), two.hash(b"job"));
    assert_eq!(one.hash(b"job"), one.clone().hash(b"job"));
}

proptest! {
    #[test]
    fn agrees_with_a_map(
        colliding in any::<bool>(),
        steps in prop::collection::vec((0u8..10, 0u64..150, 1u64..40), 1..200),
    ) {
        let mut table = Table::new(colliding);
        let mut model = HashMap::new();
        for (kind, first, count) in steps {
            for id in first..first + count {
                prop_assert_eq!(table.find(id), model.get(&id).copied());
                if kind < 5 {
                    model.entry(id).or_insert_with(|| table.insert(id));
                } else {
                    prop_assert_eq!(table.remove(id), model.remove(&id).is_some());
                }
            }
            table.check();
        }
        for (id, key) in model {
            prop_assert_eq!(table.find(id), Some(key));
        }
    }
}

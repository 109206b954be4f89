use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

struct Table {
    items: Slab<u64>,
    keys: KeyTable,
    hash: fn(u64) -> u64,
}

fn spread(id: u64) -> u64 {
    HashSeed::new(b"0123456789abcdef").hash(&id.to_le_bytes())
}

/// Few different hashes, all at the end of a page.
fn colliding(id: u64) -> u64 {
    u64::MAX - id % 3
}

impl Table {
    fn new(hash: fn(u64) -> u64) -> Self {
        Self {
            items: Slab::new(),
            keys: KeyTable::new(HashSeed::new(b"0123456789abcdef")),
            hash,
        }
    }

    fn find(&self, id: u64) -> Option<u32> {
        self.keys
            .find(&self.items, (self.hash)(id), |item| *item == id)
    }

    fn insert(&mut self, id: u64) -> u32 {
        let key = self.items.insert(id).unwrap();
        self.keys.insert(key, (self.hash)(id));
        key
    }

    fn remove(&mut self, id: u64) -> bool {
        let Some(key) = self.find(id) else {
            return false;
        };
        assert!(self.keys.remove(key, (self.hash)(id)));
        assert!(!self.keys.remove(key, (self.hash)(id)));
        self.items.remove(key);
        true
    }

    /// Every key is in its page or young, once, and nothing stands beyond a vacancy.
    fn check(&self) {
        let pages = self.keys.directory.iter().flat_map(|part| part.iter());
        let mut seen = 0;
        for (number, page) in pages.enumerate() {
            assert_eq!(page.iter().count(), page.len());
            seen += page.len();
            assert!(page.len() * FULL.1 <= page.entries.len() * FULL.0);
            assert!(page.entries.len() <= SMALL || page.len() * 2 >= page.entries.len());
            for entry in page.iter() {
                assert_eq!(self.keys.page_number(entry.hash), number);
                let found = page.search(entry.hash, |key| key == entry.key);
                assert!(found.is_some());
            }
        }
        assert_eq!(seen, self.keys.filed);
        assert!(seen <= self.keys.pages * LOAD);
        let young = &self.keys.young;
        assert!(young.len() <= YOUNG);
        for entry in young {
            let found = |page: &Page| page.search(entry.hash, |key| key == entry.key);
            assert!(self.keys.page_of(entry.hash).and_then(found).is_none());
        }
        assert_eq!(seen + young.len(), self.items.len());
    }
}

#[test]
fn an_empty_table_finds_nothing() {
    let mut table = Table::new(spread);
    assert_eq!(table.find(1), None);
    assert!(!table.keys.remove(1, 99));
    assert_eq!(table.keys.allocated_bytes(), 0);
    table.insert(1);
    assert!(table.remove(1));
    assert_eq!(table.find(1), None);
    table.check();
}

#[test]
fn grows_and_shrinks_with_its_keys() {
    let mut table = Table::new(spread);
    for id in 0..200_000 {
        table.insert(id);
        if id % 1_000 == 0 {
            assert!(table.keys.allocated_bytes() < 12 * id as usize + 4_096);
        }
    }
    table.check();
    for id in 0..199_900 {
        assert!(table.remove(id));
        if id % 1_000 == 0 {
            assert!(table.keys.allocated_bytes() < 18 * table.items.len() + 8_192);
        }
    }
    table.check();
    for id in 0..200_000 {
        assert_eq!(table.find(id).is_some(), id >= 199_900);
    }
}

#[test]
fn probes_are_short() {
    let mut table = Table::new(spread);
    for id in 0..100_000 {
        table.insert(id);
    }
    let pages = table.keys.directory.iter().flat_map(|part| part.iter());
    let mut distances = 0;
    let mut largest = 0;
    for page in pages {
        largest = largest.max(page.entries.len());
        for (place, entry) in page.entries.iter().enumerate() {
            if !entry.is_vacant() {
                let capacity = page.entries.len();
                distances += (place + capacity - page.home(entry.hash)) % capacity;
            }
        }
    }
    assert!(distances < 300_000, "{distances}");
    assert!(largest <= 896, "{largest}");
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
        few_hashes in any::<bool>(),
        steps in prop::collection::vec((0u8..10, 0u64..2_000, 1u64..200), 1..120),
    ) {
        let mut table = Table::new(if few_hashes { colliding } else { spread });
        let mut model = HashMap::new();
        for (kind, first, count) in steps {
            let first = if few_hashes { first % 200 } else { first };
            for id in first..first + count {
                prop_assert_eq!(table.find(id), model.get(&id).copied());
                if kind < 6 {
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

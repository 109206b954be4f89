//! Costs per operation, for whoever wants to change a constant:
//! `cargo test -p disque-core --release measure -- --ignored --nocapture --test-threads 1`

use super::*;
use std::time::{Duration, Instant};

/// The size of a job, with the links of one.
struct Item {
    id: u64,
    deadline: u64,
    timer: TimerLinks,
    _rest: [u64; 9],
    _state: bool,
}

impl Item {
    fn new(id: u64) -> Self {
        Self {
            id,
            deadline: id,
            timer: TimerLinks::default(),
            _rest: [0; 9],
            _state: false,
        }
    }
}

impl Item {
    fn hash(&self, seed: &HashSeed) -> u64 {
        seed.hash(&self.id.to_le_bytes())
    }
}

impl Timed for Item {
    fn links(&self) -> TimerLinks {
        self.timer
    }

    fn links_mut(&mut self) -> &mut TimerLinks {
        &mut self.timer
    }

    fn deadline(&self) -> u64 {
        self.deadline
    }
}

/// Runs `step` `count` times; prints the mean and the slowest.
fn each(name: &str, count: u32, mut step: impl FnMut(u32)) {
    let begin = Instant::now();
    let mut last = begin;
    let mut worst = Duration::ZERO;
    for i in 0..count {
        step(i);
        // The clock costs as much as the shortest steps.
        if i % 8 == 0 {
            let now = Instant::now();
            worst = worst.max(now - last);
            last = now;
        }
    }
    let mean = begin.elapsed().as_nanos() / u128::from(count.max(1));
    println!("{count:>9} {name:<32} {mean:>6} ns/op, slowest 8: {worst:?}");
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn shuffled(count: u32) -> Vec<u32> {
    let mut keys: Vec<u32> = (0..count).collect();
    let mut state = 88_172_645_463_325_252;
    for i in (1..count).rev() {
        keys.swap(i as usize, (random(&mut state) % u64::from(i + 1)) as usize);
    }
    keys
}

fn per_item(what: &str, bytes: usize, count: u32) {
    let bytes = bytes as f64 / f64::from(count);
    println!("{count:>9} {what:<32} {bytes:>6.2} bytes per item");
}

const COUNTS: [u32; 3] = [10_000, 1_000_000, 10_000_000];

#[test]
#[ignore = "a measurement"]
fn slab() {
    println!("slot: {} bytes", size_of::<Option<Item>>());
    for count in COUNTS {
        let order = shuffled(count);
        let mut items = Slab::new();
        each("slab: insert", count, |i| {
            items.insert(Item::new(i.into())).unwrap();
        });
        per_item("slab", items.allocated_bytes(), count);
        each("slab: remove first, insert last", count, |i| {
            let item = items.remove(i).unwrap();
            items.insert(item).unwrap();
        });
        let mut sum = 0;
        each("slab: get, random", count, |i| {
            sum += items[order[i as usize]].id;
        });
        each("slab: remove, random", count - 1, |i| {
            items.remove(order[i as usize]);
        });
        per_item("slab, all but one removed", items.allocated_bytes(), count);
        each("slab: scan for the last item", 1_000, |_| {
            assert!(std::hint::black_box(&items).next_occupied(0).is_some());
        });
        assert!(sum > 0);
    }
}

#[test]
#[ignore = "a measurement"]
fn key_table() {
    let seed = HashSeed::new(&[7; 16]);
    for count in COUNTS {
        let order = shuffled(count);
        let mut items = Slab::new();
        let mut table = KeyTable::new(seed.clone());
        for id in 0..count {
            items.insert(Item::new(id.into())).unwrap();
        }
        let find = |table: &KeyTable, id: u64| {
            let hash = seed.hash(&id.to_le_bytes());
            table.find(&items, hash, |item| item.id == id)
        };
        each("table: insert", count, |key| {
            table.insert(key, items[key].hash(&seed));
        });
        per_item("table", table.allocated_bytes(), count);
        each("table: find, random", count, |i| {
            let key = order[i as usize];
            assert_eq!(find(&table, key.into()), Some(key));
        });
        each("table: find, in order", count, |key| {
            assert_eq!(find(&table, key.into()), Some(key));
        });
        each("table: find, absent", count, |i| {
            assert_eq!(find(&table, u64::from(i) << 32 | 1 << 31), None);
        });
        each("table: remove, in order", count, |key| {
            assert!(table.remove(key, items[key].hash(&seed)));
        });
        println!(
            "{count:>9} table, emptied: {} bytes",
            table.allocated_bytes()
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn wheel() {
    for count in COUNTS {
        let order = shuffled(count);
        let mut state = 1;
        let mut items = Slab::new();
        for _ in 0..count {
            let deadline = 1_000 + random(&mut state) % 86_400_000;
            let item = Item {
                deadline,
                ..Item::new(0)
            };
            items.insert(item).unwrap();
        }
        let mut wheel = Wheel::new(0);
        each("wheel: insert, within a day", count, |key| {
            wheel.insert(&mut items, key)
        });
        each("wheel: remove, random", count, |i| {
            assert!(wheel.remove(&mut items, order[i as usize]));
        });
        for key in 0..count {
            wheel.insert(&mut items, key);
        }
        let mut moves = 0;
        let mut polls = 0;
        let begin = Instant::now();
        while wheel.len() > 0 {
            each("wheel: poll, a day in one jump", count, |_| {
                let mut budget = 100;
                wheel.poll(&mut items, 100_000_000, &mut budget);
                moves += 100 - budget;
                polls += 1;
            });
        }
        println!(
            "{count:>9} wheel, per item: {} ns, {:.2} moves, {:.2} polls",
            begin.elapsed().as_nanos() / u128::from(count),
            f64::from(moves) / f64::from(count),
            f64::from(polls) / f64::from(count),
        );
        let mut now = 100_000_000;
        each("wheel: insert, poll 30 s later", count, |key| {
            now += 1;
            items[key].deadline = now + 30_000;
            wheel.insert(&mut items, key);
            wheel.poll(&mut items, now, &mut 100);
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn ordered() {
    for count in COUNTS {
        let order = shuffled(count);
        let mut items = Slab::new();
        for id in 0..count {
            items.insert(Item::new(id.into())).unwrap();
        }
        let by_id = |key: u32| (0u8, items[key].id);
        let mut keys = OrderedKeys::new();
        each("order: append", count, |key| keys.insert(key, by_id));
        per_item("order, appended", keys.allocated_bytes(), count);
        each("order: pop", count, |key| {
            assert_eq!(keys.pop_front(), Some(key))
        });
        each("order: append and pop, empty", count, |key| {
            keys.insert(key, by_id);
            keys.pop_front();
        });
        each("order: insert, random", count, |i| {
            keys.insert(order[i as usize], by_id)
        });
        per_item("order, random", keys.allocated_bytes(), count);
        each("order: remove, random", count, |i| {
            assert!(keys.remove(order[(count - 1 - i) as usize], by_id));
        });
        println!(
            "{count:>9} order, emptied: {} bytes",
            keys.allocated_bytes()
        );
    }
}

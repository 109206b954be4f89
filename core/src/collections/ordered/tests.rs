use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Sorts keys by something that is not the key itself.
fn scrambled(key: u32) -> (u32, u32) {
    (key.wrapping_mul(2_654_435_761) >> 8, key)
}

fn check<K: Ord>(keys: &OrderedKeys, key_of: impl Fn(u32) -> K) {
    let all: Vec<K> = keys.iter().map(&key_of).collect();
    assert!(all.is_sorted());
    assert_eq!(all.len(), keys.len());
    assert_eq!(keys.front(), keys.iter().next());
    assert_eq!(keys.back(), keys.iter().next_back());
    let blocks = &keys.blocks;
    assert!(blocks.iter().all(|block| block.len() <= BLOCK));
    assert!(blocks.iter().all(|block| block.capacity() <= BLOCK));
    assert!(blocks.len() <= 1 || blocks.iter().all(|block| !block.is_empty()));
}

fn filled(count: u32) -> OrderedKeys {
    let mut keys = OrderedKeys::new();
    for key in 0..count {
        keys.insert(key, |key| key);
    }
    keys
}

#[test]
fn a_queue_is_first_in_first_out() {
    let mut keys = filled(2_000);
    check(&keys, |key| key);
    for key in 0..2_000 {
        assert_eq!(keys.pop_front(), Some(key));
    }
    assert_eq!(keys.pop_front(), None);
    assert_eq!(keys.front(), None);
    assert_eq!(keys.back(), None);
}

#[test]
fn small_queues_are_small() {
    assert_eq!(OrderedKeys::new().allocated_bytes(), 0);
    assert_eq!(size_of::<OrderedKeys>(), 40);
    assert!(filled(1).allocated_bytes() <= 48);
    assert!(filled(20).allocated_bytes() <= 32 + 32 * 4);
    for peak in [1, 10, 100, 1_000, 10_000] {
        let mut popped = filled(peak);
        while popped.pop_front().is_some() {}
        assert!(popped.allocated_bytes() <= 64);
        let mut removed = filled(peak);
        for key in (0..peak).rev() {
            assert!(removed.remove(key, |key| key));
        }
        assert!(removed.allocated_bytes() <= 64);
    }
}

#[test]
fn filled_at_the_end_it_is_dense() {
    assert!(filled(1_000_000).allocated_bytes() < 4_300_000);
    // Ten priorities, each of which grows at its end.
    let mut keys = OrderedKeys::new();
    for key in 0..100_000 {
        keys.insert(key, |key| (key % 10, key));
    }
    check(&keys, |key| (key % 10, key));
    assert!(
        keys.allocated_bytes() < 520_000,
        "{}",
        keys.allocated_bytes()
    );
}

#[test]
fn descending_inserts_stay_dense() {
    let mut keys = OrderedKeys::new();
    for key in 0..10_000 {
        keys.insert(key, |key| u32::MAX - key);
    }
    check(&keys, |key| u32::MAX - key);
    assert!(keys.blocks.len() <= 41);
    // In a gap behind a full block.
    let mut keys = filled(512);
    let key_of = |key| {
        if key < 512 {
            10_000 * key
        } else {
            2_560_000 - key
        }
    };
    for key in 512..5_000 {
        keys.insert(key, key_of);
    }
    check(&keys, key_of);
    assert!(keys.blocks.len() <= 40, "{}", keys.blocks.len());
}

#[test]
fn memory_follows_random_removals() {
    let mut keys = filled(100_000);
    for key in (0..100_000).filter(|key| key % 100 != 0) {
        assert!(keys.remove(key, |key| key));
    }
    check(&keys, |key| key);
    assert_eq!(keys.len(), 1_000);
    assert!(
        keys.allocated_bytes() < 20_000,
        "{}",
        keys.allocated_bytes()
    );
}

#[test]
fn blocks_that_were_filled_up_grow_no_further() {
    let even = |key: &u32| key % 2 == 0;
    let mut keys = OrderedKeys::new();
    for key in (0..6_000).filter(even) {
        keys.insert(key, |key| key);
    }
    // Leaves blocks of odd lengths, then fills them in the middle.
    for key in (0..6_000).filter(even).filter(|key| key % 7 != 0) {
        keys.remove(key, |key| key);
    }
    for key in (0..6_000).rev().filter(|key| key % 14 != 0) {
        keys.insert(key, |key| key);
        check(&keys, |key| key);
    }
}

#[test]
fn absent_keys_are_not_removed() {
    let mut keys = OrderedKeys::new();
    assert!(!keys.remove(5, |key| key));
    for key in (100..2_000).step_by(2) {
        keys.insert(key, |key| key);
    }
    for absent in [0, 101, 1_999, 2_000] {
        assert!(!keys.remove(absent, |key| key));
    }
    assert_eq!(keys.len(), 950);
}

#[derive(Debug, Clone)]
enum Step {
    Ascending(u16),
    Random(Vec<u16>),
    Remove(Vec<u16>),
    RemoveStride(u16),
    Pop(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(0u16..10_000, 1..100);
    prop_oneof![
        3 => (1u16..600).prop_map(Step::Ascending),
        4 => some().prop_map(Step::Random),
        3 => some().prop_map(Step::Remove),
        1 => (2u16..20).prop_map(Step::RemoveStride),
        3 => (1u16..500).prop_map(Step::Pop),
    ]
}

fn run<K: Ord + std::fmt::Debug + Copy>(steps: Vec<Step>, key_of: impl Fn(u32) -> K + Copy) {
    let mut keys = OrderedKeys::new();
    let mut model = BTreeSet::new();
    let mut tail = 10_000;
    for step in steps {
        match step {
            Step::Ascending(count) => {
                for _ in 0..count {
                    tail += 1;
                    keys.insert(tail, key_of);
                    model.insert((key_of(tail), tail));
                }
            }
            Step::Random(some) => {
                for key in some.into_iter().map(u32::from) {
                    if model.insert((key_of(key), key)) {
                        keys.insert(key, key_of);
                    }
                }
            }
            Step::Remove(some) => {
                for key in some.into_iter().map(u32::from) {
                    let present = model.remove(&(key_of(key), key));
                    assert_eq!(keys.remove(key, key_of), present);
                }
            }
            Step::RemoveStride(stride) => {
                let some = model.iter().step_by(stride.into()).copied();
                for (sort, key) in some.collect::<Vec<_>>() {
                    model.remove(&(sort, key));
                    assert!(keys.remove(key, key_of));
                }
            }
            Step::Pop(count) => {
                for _ in 0..count {
                    assert_eq!(keys.pop_front(), model.pop_first().map(|(_, key)| key));
                }
            }
        }
        check(&keys, key_of);
    }
    assert!(keys.iter().eq(model.iter().map(|entry| entry.1)));
    assert!(keys
        .iter()
        .rev()
        .eq(model.iter().rev().map(|entry| entry.1)));
}

proptest! {
    #[test]
    fn agrees_with_a_btree_set(steps in prop::collection::vec(step(), 1..60)) {
        run(steps, |key| key);
    }

    #[test]
    fn agrees_when_the_order_is_not_that_of_keys(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        run(steps, scrambled);
    }
}

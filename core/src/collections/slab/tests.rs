use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn keys_are_dense_and_reused_from_the_bottom() {
    let mut slab = Slab::new();
    for i in 0..1000u64 {
        assert_eq!(slab.insert(i), Ok(i as u32));
    }
    assert_eq!(slab.remove(900), Some(900));
    assert_eq!(slab.remove(3), Some(3));
    assert_eq!(slab.remove(3), None);
    assert_eq!(slab.insert(7), Ok(3));
    assert_eq!(slab.insert(7), Ok(900));
    assert_eq!(slab.len(), 1000);
}

#[test]
fn unknown_keys_find_nothing() {
    let mut slab = Slab::new();
    slab.insert('a').unwrap();
    for key in [1, 255, 256, KEY_LIMIT, super::super::NIL] {
        assert_eq!(slab.get(key), None);
        assert_eq!(slab.get_mut(key), None);
        assert_eq!(slab.remove(key), None);
    }
}

#[test]
fn the_limit_is_exact() {
    let mut slab = Slab::with_limit(300);
    for i in 0..300 {
        assert!(slab.has_room(1));
        slab.insert(i).unwrap();
    }
    assert!(!slab.has_room(1) && slab.has_room(0));
    assert_eq!(slab.insert(0), Err(Full));
    slab.remove(17);
    assert_eq!(slab.insert(0), Ok(17));
    assert_eq!(slab.insert(0), Err(Full));
}

#[test]
fn a_backlog_gives_its_memory_back() {
    let mut slab = Slab::new();
    for i in 0..100_000u32 {
        slab.insert([i; 26]).unwrap();
    }
    for key in 1000..100_000 {
        slab.remove(key);
    }
    assert_eq!(slab.allocated, 1000usize.div_ceil(CHUNK) + 1);
    // What goes on living at the top moves down with turnover.
    let top = slab.allocated_bytes();
    for i in 0..10_000 {
        let key = slab.insert([i; 26]).unwrap();
        assert!(key < 1300);
        slab.remove(key);
    }
    assert_eq!(slab.allocated_bytes(), top);
}

#[test]
fn a_border_does_not_thrash() {
    let mut slab = Slab::new();
    for i in 0..CHUNK {
        slab.insert(i).unwrap();
    }
    let key = slab.insert(0).unwrap();
    slab.remove(key);
    for _ in 0..10 {
        assert_eq!(slab.allocated, 2);
        let key = slab.insert(0).unwrap();
        slab.remove(key);
    }
}

#[test]
fn items_are_dropped_once() {
    let counted = std::rc::Rc::new(());
    let mut slab = Slab::new();
    for _ in 0..600 {
        slab.insert(counted.clone()).unwrap();
    }
    for key in 0..300 {
        slab.remove(key);
    }
    assert_eq!(std::rc::Rc::strong_count(&counted), 301);
    drop(slab);
    assert_eq!(std::rc::Rc::strong_count(&counted), 1);
}

#[test]
fn a_niche_makes_the_tag_free() {
    struct WithNiche {
        _ids: [u64; 13],
        _state: bool,
    }
    assert_eq!(size_of::<Option<WithNiche>>(), size_of::<WithNiche>());
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u16),
    Remove(u16),
    RemoveRange(u16, u16),
    Next(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1u16..400).prop_map(Step::Insert),
        3 => (0u16..4000).prop_map(Step::Remove),
        2 => (0u16..4000, 1u16..1500).prop_map(|(from, n)| Step::RemoveRange(from, n)),
        2 => (0u16..5000).prop_map(Step::Next),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let mut slab = Slab::new();
        let mut model = BTreeMap::new();
        let mut serial = 0u64;
        for step in steps {
            match step {
                Step::Insert(count) => {
                    for _ in 0..count {
                        serial += 1;
                        let key = slab.insert(serial).unwrap();
                        prop_assert_eq!(model.insert(key, serial), None);
                    }
                }
                Step::Remove(key) => {
                    prop_assert_eq!(slab.remove(key.into()), model.remove(&key.into()));
                }
                Step::RemoveRange(from, count) => {
                    for key in u32::from(from)..u32::from(from) + u32::from(count) {
                        prop_assert_eq!(slab.remove(key), model.remove(&key));
                    }
                }
                Step::Next(from) => {
                    let next = model.range(u32::from(from)..).next().map(|(key, _)| *key);
                    prop_assert_eq!(slab.next_occupied(from.into()), next);
                }
            }
            prop_assert_eq!(slab.len(), model.len());
            // Never more than one empty chunk.
            let used: std::collections::BTreeSet<_> =
                model.keys().map(|key| *key as usize / CHUNK).collect();
            prop_assert!(slab.allocated <= used.len() + 1);
            prop_assert_eq!(slab.chunks.iter().flatten().count(), slab.allocated);
        }
        prop_assert!(slab.iter().map(|(key, value)| (key, *value)).eq(model));
    }
}

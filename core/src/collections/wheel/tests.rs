use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Default)]
struct Item {
    deadline: u64,
    links: TimerLinks,
}

impl Timed for Item {
    fn links(&self) -> TimerLinks {
        self.links
    }

    fn links_mut(&mut self) -> &mut TimerLinks {
        &mut self.links
    }

    fn deadline(&self) -> u64 {
        self.deadline
    }
}

struct Timers {
    items: Slab<Item>,
    wheel: Wheel,
}

impl Timers {
    fn new(now: u64) -> Self {
        Self {
            items: Slab::new(),
            wheel: Wheel::new(now),
        }
    }

    fn add(&mut self, deadline: u64) -> u32 {
        let item = Item {
            deadline,
            ..Item::default()
        };
        let key = self.items.insert(item).unwrap();
        self.wheel.insert(&mut self.items, key);
        key
    }

    fn poll(&mut self, now: u64, budget: &mut u32) -> Poll {
        self.wheel.poll(&mut self.items, now, budget)
    }

    /// All that is due, with a budget that suffices.
    fn due(&mut self, now: u64) -> Vec<u32> {
        let mut due = Vec::new();
        while let Poll::Due(key) = self.poll(now, &mut u32::MAX.clone()) {
            due.push(key);
        }
        due
    }
}

#[test]
fn due_exactly_at_the_deadline() {
    for start in [0, 1, 63, 64, 4095, 1_000_003] {
        for delay in [1, 2, 63, 64, 65, 4095, 4096, 4097, 262_144, 86_400_000] {
            let mut timers = Timers::new(start);
            let key = timers.add(start + delay);
            assert_eq!(timers.due(start + delay - 1), []);
            assert_eq!(timers.due(start + delay), [key]);
            assert!(!timers.items[key].links.is_scheduled());
            assert_eq!(timers.due(u64::MAX), []);
        }
    }
}

#[test]
fn the_ends_of_time() {
    let mut timers = Timers::new(0);
    let last = timers.add(u64::MAX);
    let before = timers.add(u64::MAX - 1);
    let half = timers.add(1 << 63);
    let first = timers.add(0);
    assert_eq!(timers.due(0), [first]);
    assert_eq!(timers.due((1 << 63) - 1), []);
    assert_eq!(timers.due(1 << 63), [half]);
    assert_eq!(timers.due(u64::MAX - 1), [before]);
    assert_eq!(timers.due(u64::MAX), [last]);
    let late = timers.add(5);
    assert_eq!(timers.due(0), [late]);
}

#[test]
fn one_jump_over_years_keeps_the_order() {
    let mut timers = Timers::new(1_000);
    let year = 365 * 86_400_000;
    let keys = [5 * year, 1_001, year, 60_000, 3 * year].map(|deadline| timers.add(deadline));
    let [e, a, c, b, d] = keys;
    assert_eq!(timers.due(10 * year), [a, b, c, d, e]);
    assert!(timers.wheel.len() == 0);
    assert_eq!(timers.wheel.next_wake(), None);
}

#[test]
fn a_late_item_comes_at_the_next_poll() {
    let mut timers = Timers::new(1_000);
    timers.due(5_000);
    let key = timers.add(17);
    assert!(timers.wheel.next_wake() <= Some(5_000));
    assert_eq!(timers.due(4_000), [key]);
}

#[test]
fn a_crowded_slot_is_spread_in_slices() {
    let mut timers = Timers::new(0);
    let keys: Vec<_> = (0..1_000).map(|_| timers.add(1_000_000)).collect();
    let mut slices = 0;
    let mut due = Vec::new();
    loop {
        let mut budget = 10;
        match timers.poll(1_000_000, &mut budget) {
            Poll::Due(key) => due.push(key),
            Poll::OutOfBudget => {
                assert_eq!(budget, 0);
                slices += 1;
                assert!(timers.wheel.next_wake() <= Some(1_000_000));
            }
            Poll::Idle => break,
        }
    }
    assert_eq!(due, keys);
    // One move for each level below the first.
    assert!((250..=300).contains(&slices), "{slices}");
}

#[test]
fn removal_during_the_spreading() {
    let mut timers = Timers::new(0);
    let keys: Vec<_> = (0..10).map(|_| timers.add(1_000_000)).collect();
    assert_eq!(timers.poll(2_000_000, &mut 3), Poll::OutOfBudget);
    for key in &keys {
        assert!(timers.wheel.remove(&mut timers.items, *key));
        assert!(!timers.wheel.remove(&mut timers.items, *key));
    }
    let late = timers.add(999_999);
    assert_eq!(timers.due(2_000_000), [late]);
    assert!(timers.wheel.len() == 0);
}

/// A node that sleeps until `next_wake` and counts how often it woke.
#[test]
fn few_wake_ups_lead_to_a_job() {
    let mut timers = Timers::new(123_456_789);
    let mut left = 50;
    for i in 0..left {
        timers.add(123_456_789 + 3_600_000 + i * 71_993);
    }
    let mut wakes = 0;
    let mut now = 0;
    while left > 0 {
        let wake = timers.wheel.next_wake().unwrap();
        assert!(wake > now, "woke for nothing at {now}");
        now = wake;
        wakes += 1;
        for key in timers.due(now) {
            assert_eq!(timers.items[key].deadline, now);
            left -= 1;
        }
    }
    assert!(wakes <= 200, "{wakes}");
}

#[test]
fn a_poll_makes_the_wake_exact() {
    let mut timers = Timers::new(0);
    assert_eq!(timers.poll(10_000_000, &mut 1), Poll::Idle);
    timers.add(10_000_005);
    assert_eq!(timers.wheel.next_wake(), Some(10_000_005));
}

#[derive(Debug, Clone)]
enum Step {
    Insert {
        far: u32,
        offset: u64,
    },
    Remove(usize),
    Reschedule(usize, u64),
    Poll {
        jump: u64,
        budget: u32,
        times: usize,
        /// By a clock that is far behind.
        back: bool,
    },
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..200,
        0u64..10_000,
        0u64..100_000_000,
        Just(0),
        Just(4096)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let jump = prop_oneof![
        3 => Just(0),
        4 => 0u64..100,
        3 => 0u64..10_000,
        1 => 0u64..200_000_000,
        1 => Just(40 * 365 * 86_400_000),
    ];
    prop_oneof![
        6 => (0u32..60, offset()).prop_map(|(far, offset)| Step::Insert { far, offset }),
        2 => any::<usize>().prop_map(Step::Remove),
        2 => (any::<usize>(), offset()).prop_map(|(which, offset)| Step::Reschedule(which, offset)),
        6 => (jump, 0u32..6, 0usize..6, prop::bool::weighted(0.15))
            .prop_map(|(jump, budget, times, back)| Step::Poll { jump, budget, times, back }),
    ]
}

/// What the wheel promises: items by due tick, then by insertion.
#[derive(Default)]
struct Model {
    order: BTreeMap<(u64, u64), u32>,
    place: BTreeMap<u32, (u64, u64)>,
    serial: u64,
}

impl Model {
    fn insert(&mut self, key: u32, tick: u64) {
        self.serial += 1;
        self.order.insert((tick, self.serial), key);
        self.place.insert(key, (tick, self.serial));
    }

    fn remove(&mut self, key: u32) {
        let place = self.place.remove(&key).unwrap();
        self.order.remove(&place);
    }

    fn nth(&self, which: usize) -> Option<u32> {
        let count = self.place.len();
        self.place.keys().nth(which.checked_rem(count)?).copied()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn agrees_with_an_ordered_map(
        start in prop_oneof![Just(0), 0u64..10_000_000],
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut timers = Timers::new(start);
        let mut model = Model::default();
        let (mut now, mut told) = (start, start);
        for step in steps {
            match step {
                Step::Insert { far, offset } => {
                    // Mostly near, sometimes at any height, sometimes late.
                    let deadline = match far {
                        0..48 => (now + offset).saturating_sub(50),
                        _ => now.saturating_add(1 << far),
                    };
                    let key = timers.add(deadline);
                    model.insert(key, deadline.max(timers.wheel.reached));
                }
                Step::Remove(which) => if let Some(key) = model.nth(which) {
                    model.remove(key);
                    prop_assert!(timers.wheel.remove(&mut timers.items, key));
                    timers.items.remove(key);
                },
                Step::Reschedule(which, offset) => if let Some(key) = model.nth(which) {
                    model.remove(key);
                    timers.wheel.remove(&mut timers.items, key);
                    timers.items[key].deadline = now + offset;
                    timers.wheel.insert(&mut timers.items, key);
                    model.insert(key, (now + offset).max(timers.wheel.reached));
                },
                Step::Poll { jump, budget, times, back } => {
                    now = now.saturating_add(jump);
                    let at = if back { now / 2 } else { now };
                    for _ in 0..times {
                        told = told.max(at);
                        let mut rest = budget;
                        let next = model.order.first_key_value().map(|(at, key)| (at.0, *key));
                        match timers.poll(at, &mut rest) {
                            Poll::Due(key) => {
                                prop_assert_eq!(next.map(|next| next.1), Some(key));
                                prop_assert!(next.unwrap().0 <= told);
                                model.remove(key);
                                timers.items.remove(key);
                            }
                            Poll::Idle => {
                                prop_assert!(next.is_none_or(|next| next.0 > told));
                                let wake = timers.wheel.next_wake();
                                prop_assert!(wake.is_none_or(|wake| wake > told));
                                break;
                            }
                            Poll::OutOfBudget => prop_assert_eq!(rest, 0),
                        }
                    }
                }
            }
            prop_assert_eq!(timers.wheel.len(), model.order.len());
            // Never late: a sleeper on `next_wake` misses nothing.
            let first = model.order.first_key_value().map(|(at, _)| at.0);
            match (timers.wheel.next_wake(), first) {
                (Some(wake), Some(first)) => prop_assert!(wake <= first),
                (None, first) => prop_assert_eq!(first, None),
                (Some(_), None) => prop_assert!(timers.wheel.spreading.is_some()),
            }
        }
        let rest: Vec<u32> = model.order.into_values().collect();
        prop_assert_eq!(timers.due(u64::MAX), rest);
    }
}

//! What is written down is what is read back.

use super::*;
use crate::node::get::Receipt;
use crate::node::load::Completeness;
use proptest::prelude::*;

/// A node that has read these batches.
fn loaded(batches: &[Vec<u8>], now: Now) -> Kit {
    let mut kit = Kit::new();
    kit.now = now;
    kit.node = Node::new(IDENTITY, Settings::default(), [4; 32], now);
    for batch in batches {
        kit.node.apply(now, batch).expect("the batch is sound");
        kit.check();
    }
    kit
}

fn snapshot(kit: &Kit) -> Vec<Vec<u8>> {
    let mut batches = Vec::new();
    let written = kit.node.snapshot(kit.now, &mut |batch| {
        batches.push(batch.to_vec());
        Ok::<_, ()>(())
    });
    assert_eq!(written, Ok(()));
    batches
}

#[test]
fn a_snapshot_stops_at_the_first_error() {
    let mut kit = Kit::new();
    let body = vec![b'x'; 10_000];
    for _ in 0..100 {
        kit.add(&AddJob {
            bodies: &[&body],
            ..job()
        });
    }
    assert!(snapshot(&kit).len() > 10, "it comes in pieces");
    let mut left = 3;
    let result = kit.node.snapshot(kit.now, &mut |_| {
        left -= 1;
        if left == 0 {
            return Err("disk full");
        }
        Ok(())
    });
    assert_eq!((result, left), (Err("disk full"), 0));
}

#[test]
fn active_jobs_keep_what_was_left_of_their_retry() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.take();
    kit.skip(4_000);
    let batches = snapshot(&kit);
    // Another process, a second later: its monotonic clock is another.
    let later = Now {
        mono_ms: 5,
        wall_ms: kit.now.wall_ms + 1_000,
    };
    let mut kit = loaded(&batches, later);
    kit.pass(4_999);
    assert_eq!(kit.take(), None);
    kit.pass(501);
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn creation_times_go_on_above_those_that_were_read() {
    let mut kit = Kit::new();
    let old = kit.add(&job());
    let earlier = Now {
        mono_ms: 0,
        wall_ms: kit.now.wall_ms - 3_600_000,
    };
    let mut kit = loaded(&snapshot(&kit), earlier);
    let new = kit.add(&job());
    assert_eq!(kit.get(&["q"], 2), [old, new]);
}

#[test]
fn undelivered_at_most_once_jobs_are_withheld_after_a_crash() {
    let once = AddJob {
        retry: Some(Span::ZERO),
        ..job()
    };
    let mut kit = Kit::new();
    kit.add(&once);
    kit.add(&AddJob {
        delay: Span::from_secs(1),
        ..once.clone()
    });
    let retried = kit.add(&job());
    let batches = snapshot(&kit);

    let mut clean = loaded(&batches, START);
    clean.call(|node, now, fx| node.finish_load(now, Completeness::Complete, fx));
    assert_eq!(clean.node.queue_len(b"q"), 2);

    let mut crashed = loaded(&batches, START);
    crashed.call(|node, now, fx| node.finish_load(now, Completeness::MayLackDeliveries, fx));
    let withheld = crashed.fx.records.bytes().to_vec();
    crashed.pass(500_000);
    assert_eq!(crashed.get(&["q"], 9), [retried]);
    assert_eq!(crashed.node.totals().stats.withheld, 2);

    // It was written down: a clean restart changes nothing.
    let mut again = loaded(&[batches.concat(), withheld], START);
    again.call(|node, now, fx| node.finish_load(now, Completeness::Complete, fx));
    assert_eq!(again.get(&["q"], 9), [retried]);

    let mut set = loaded(&batches, START);
    set.node.set_settings(Settings {
        deliver_after_crash: true,
        ..Settings::default()
    });
    set.call(|node, now, fx| node.finish_load(now, Completeness::MayLackDeliveries, fx));
    assert_eq!(set.node.queue_len(b"q"), 2);
}

#[test]
fn begin_load_forgets_all_and_answers_who_waits() {
    let mut kit = Kit::new();
    kit.add(&job());
    let waiter = kit.block(&get_from(&["other"], 1)).unwrap();
    kit.call(|node, now, fx| node.begin_load(now, fx));
    assert_eq!(kit.fx.answers, [(waiter, Answer::Null)]);
    assert!(kit.fx.records.is_empty());
    assert_eq!(kit.node.job_count(), 0);
}

/// What the tests below do to a node, at random.
#[derive(Clone, Debug)]
enum Step {
    Add {
        queue: u8,
        once: bool,
        delay: u64,
        body: Vec<u8>,
    },
    Get {
        queue: u8,
        count: u64,
    },
    Undo,
    Requeue {
        job: usize,
        nack: bool,
    },
    Dequeue(usize),
    Working(usize),
    Ack(usize),
    Pause {
        queue: u8,
        bits: u8,
    },
    Flush,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let body = proptest::collection::vec(any::<u8>(), 0..20);
    let delay = prop_oneof![Just(0u64), 1..5_000u64];
    prop_oneof![
        8 => (0..3u8, any::<bool>(), delay, body)
            .prop_map(|(queue, once, delay, body)| Step::Add { queue, once, delay, body }),
        5 => (0..3u8, 1..4u64).prop_map(|(queue, count)| Step::Get { queue, count }),
        1 => Just(Step::Undo),
        2 => (any::<usize>(), any::<bool>())
            .prop_map(|(job, nack)| Step::Requeue { job, nack }),
        1 => any::<usize>().prop_map(Step::Dequeue),
        1 => any::<usize>().prop_map(Step::Working),
        2 => any::<usize>().prop_map(Step::Ack),
        1 => (0..3u8, 0..4u8).prop_map(|(queue, bits)| Step::Pause { queue, bits }),
        1 => (0..20u8).prop_map(|rare| if rare == 0 { Step::Flush } else { Step::Undo }),
        3 => (0..20_000u64).prop_map(Step::Pass),
    ]
}

/// Does these steps; returns the node and all that it recorded.
fn run(steps: &[Step], time_passes: bool) -> (Kit, Vec<Vec<u8>>) {
    let mut kit = Kit::new();
    let mut log = snapshot(&kit);
    let mut known = vec![unknown_id()];
    let mut receipts: Vec<Receipt> = Vec::new();
    for step in steps {
        let known_one = |n: &usize| known[n % known.len()];
        match step {
            Step::Add {
                queue,
                once,
                delay,
                body,
            } => {
                let add = AddJob {
                    queue: &[*queue],
                    bodies: &[body],
                    delay: Span::from_ms(*delay),
                    retry: once.then_some(Span::ZERO),
                    ttl: Span::from_secs(20),
                    ..job()
                };
                known.extend(kit.try_add(&add));
            }
            Step::Get { queue, count } => {
                let name = [*queue];
                let mut get = get_from(&[], *count);
                get.queues.push(&name);
                receipts = kit.call(|node, now, fx| {
                    let delivered = node.get_jobs(now, &get, fx);
                    delivered.map_or(Vec::new(), |d| node.receipts(d, fx).to_vec())
                });
            }
            Step::Undo => kit.call(|node, _, fx| node.undeliver(&receipts, fx)),
            Step::Requeue { job, nack } => {
                let (id, counter) = (known_one(job), Counter::of(*nack));
                kit.call(|node, now, fx| node.requeue_jobs(now, &[id], counter, fx));
            }
            Step::Dequeue(job) => {
                kit.dequeue(known_one(job));
            }
            Step::Working(job) => {
                let _ = kit.working(known_one(job));
            }
            Step::Ack(job) => {
                kit.ack(known_one(job));
            }
            Step::Pause { queue, bits } => {
                let pause = Pause::from_bits(*bits);
                let done = kit.call(|node, now, fx| node.pause(now, &[*queue], pause, fx));
                assert_eq!(done, Ok(()));
            }
            Step::Flush => kit.call(|node, now, fx| node.flush(now, fx)),
            Step::Pass(ms) if time_passes => kit.pass(*ms),
            Step::Pass(_) => continue,
        }
        if !kit.fx.records.is_empty() {
            log.push(kit.fx.records.bytes().to_vec());
        }
    }
    (kit, log)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 0..120)
}

proptest! {
    #[test]
    fn a_snapshot_makes_an_equal_node(steps in steps()) {
        let (kit, _) = run(&steps, true);
        let copy = loaded(&snapshot(&kit), kit.now);
        prop_assert_eq!(dump_data(&copy.node, kit.now), dump_data(&kit.node, kit.now));
        // And that one the same snapshot, up to the numbers of the slots.
        let again = loaded(&snapshot(&copy), kit.now);
        prop_assert_eq!(dump_data(&again.node, kit.now), dump_data(&kit.node, kit.now));
    }

    /// While no deadline passes, the records say all that was done.
    #[test]
    fn the_log_makes_an_equal_node(steps in steps()) {
        let (kit, log) = run(&steps, false);
        let copy = loaded(&log, kit.now);
        prop_assert_eq!(dump_data(&copy.node, kit.now), dump_data(&kit.node, kit.now));
    }

    /// With them too it holds the same jobs.
    #[test]
    fn the_log_keeps_every_job(steps in steps()) {
        let (kit, log) = run(&steps, true);
        let copy = loaded(&log, kit.now);
        prop_assert_eq!(copy.node.job_count(), kit.node.job_count());
    }

    #[test]
    fn any_part_of_a_log_leaves_a_sound_node(
        steps in steps(),
        cut in any::<usize>(),
        skip in any::<usize>(),
    ) {
        let (kit, mut log) = run(&steps, true);
        log.truncate(cut % (log.len() + 1));
        if !log.is_empty() {
            log.remove(skip % log.len());
        }
        let mut copy = loaded(&log, kit.now);
        copy.call(|node, now, fx| node.finish_load(now, Completeness::MayLackDeliveries, fx));
        copy.pass(100_000);
        prop_assert_eq!(copy.node.job_count(), 0);
    }
}

//! GETJOB, and deliveries that are undone.

use super::*;
use crate::node::get::Receipt;

#[test]
fn jobs_come_in_the_order_of_their_creation() {
    let mut kit = Kit::new();
    let added: Vec<_> = (0..500).map(|_| kit.add(&job())).collect();
    let mut taken = kit.get(&["q"], 200);
    taken.extend(kit.get(&["q"], 1_000));
    assert_eq!(taken, added);
}

#[test]
fn a_job_that_comes_back_goes_before_younger_ones() {
    let mut kit = Kit::new();
    let [first, second, third] = [0; 3].map(|_| kit.add(&job()));
    assert_eq!(kit.get(&["q"], 2), [first, second]);
    kit.nack(second);
    kit.nack(first);
    assert_eq!(kit.get(&["q"], 9), [first, second, third]);
}

#[test]
fn count_goes_round_the_queues() {
    let mut kit = Kit::new();
    let a: Vec<_> = (0..3).map(|_| kit.add_to("a")).collect();
    let b: Vec<_> = (0..2).map(|_| kit.add_to("b")).collect();
    assert_eq!(kit.get(&["nosuch", "a", "b"], 4), [a[0], b[0], a[1], b[1]]);
    assert_eq!(kit.get(&["b", "a"], 4), [a[2]]);
    assert!(kit.get(&["a", "b"], 4).is_empty());
}

#[test]
fn a_reply_holds_no_more_than_the_most_ids() {
    let mut kit = Kit::with(Settings {
        max_ids: 3,
        ..Settings::default()
    });
    for _ in 0..5 {
        kit.add(&job());
    }
    assert_eq!(kit.get(&["q"], u64::MAX).len(), 3);
    assert_eq!(kit.node.queue_len(b"q"), 2);
}

#[test]
fn looking_for_jobs_makes_no_queues() {
    let mut kit = Kit::new();
    let before = dump_all(&kit.node, kit.now);
    assert!(kit.take().is_none());
    assert_eq!(dump_all(&kit.node, kit.now), before);
}

/// Takes the next job and returns it with its receipt.
fn take_with_receipt(kit: &mut Kit) -> (JobId, Vec<Receipt>) {
    let get = get_from(&["q"], 1);
    kit.call(|node, now, fx| {
        let delivered = node.get_jobs(now, &get, fx).expect("there is a job");
        let receipts = node.receipts(delivered, fx).to_vec();
        (receipts[0].id, receipts)
    })
}

#[test]
fn an_undone_delivery_never_happened() {
    for retry in [Span::ZERO, Span::from_secs(10)] {
        let mut kit = Kit::new();
        let id = kit.add(&AddJob {
            retry: Some(retry),
            ..job()
        });
        let before = dump_data(&kit.node, kit.now);
        let (_, receipts) = take_with_receipt(&mut kit);
        kit.call(|node, _, fx| node.undeliver(&receipts, fx));
        assert_eq!(dump_data(&kit.node, kit.now), before);
        assert_eq!(kit.take(), Some(id));
        // A second time it is an old story: nothing is undone.
        kit.call(|node, _, fx| node.undeliver(&[], fx));
        assert_eq!(kit.take(), None);
    }
}

#[test]
fn a_job_that_moved_on_is_not_undelivered() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    let (_, receipts) = take_with_receipt(&mut kit);
    kit.nack(id);
    kit.call(|node, _, fx| node.undeliver(&receipts, fx));
    assert_eq!(kit.node.queue_len(b"q"), 1);
    take_with_receipt(&mut kit);
    kit.call(|node, _, fx| node.undeliver(&receipts, fx));
    assert_eq!(kit.state(id), Some(State::Active));
    kit.ack(id);
    kit.call(|node, _, fx| node.undeliver(&receipts, fx));
    assert_eq!(kit.node.job_count(), 0);
    assert_eq!(kit.node.totals().stats.returned, 0);
}

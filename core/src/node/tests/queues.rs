//! PAUSE, and queues that come and go.

use super::*;

#[test]
fn paused_in_takes_nothing_and_gives() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.pause("in");
    assert_eq!(kit.node.pause_state(b"q").name(), "in");
    assert_eq!(kit.try_add(&job()), Err(Error::Paused));
    assert_eq!(kit.take(), Some(id));
    assert_eq!((kit.nack(id), kit.enqueue(id)), (0, 0));
    assert_eq!(kit.counters(id), (0, 0));
}

#[test]
fn a_retry_that_passes_while_paused_in_is_put_off_by_another() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.take();
    kit.pause("in");
    kit.pass(11_000);
    assert_eq!(kit.state(id), Some(State::Active));
    kit.pause("none");
    kit.run();
    assert_eq!(kit.take(), None);
    kit.pass(10_500);
    assert_eq!(kit.take(), Some(id));
    assert_eq!(kit.counters(id), (0, 1));
}

#[test]
fn a_first_queueing_ignores_paused_in() {
    let mut kit = Kit::new();
    let id = kit.add(&AddJob {
        delay: Span::from_secs(5),
        ..job()
    });
    kit.pause("in");
    kit.pass(5_000);
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn paused_out_looks_empty() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.pause("out");
    assert_eq!(kit.take(), None);
    kit.add(&job());
    assert_eq!(kit.node.queue_len(b"q"), 2);
    let waiter = kit.block(&get_from(&["q"], 1)).unwrap();
    kit.serve();
    assert!(kit.answers().is_empty());
    kit.pause("none");
    kit.serve();
    assert_eq!(kit.answers(), [(waiter, vec![id])]);
}

#[test]
fn paused_all_is_both_and_each_word_replaces_the_last() {
    let mut kit = Kit::new();
    for word in ["all", "in", "out", "none"] {
        kit.pause(word);
        assert_eq!(kit.node.pause_state(b"q").name(), word);
        let refused = kit.try_add(&job()) == Err(Error::Paused);
        assert_eq!(refused, ["all", "in"].contains(&word), "{word}");
    }
    let before = kit.fx.records.len();
    kit.pause("none");
    assert!(kit.fx.is_empty(), "no change, no record: {before}");
}

#[test]
fn an_unused_queue_is_dropped_when_idle() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.ack(id);
    kit.pass(299_999);
    assert!(kit.node.queue_stat(kit.now, b"q").is_some());
    kit.pass(1);
    assert!(kit.node.queue_stat(kit.now, b"q").is_none());
    assert_eq!(kit.node.totals().queues, 0);
    assert_eq!(kit.node.next_wake(), None);
}

#[test]
fn use_keeps_a_queue() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.ack(id);
    kit.pass(200_000);
    let id = kit.add(&job());
    kit.ack(id);
    kit.pass(299_999);
    assert!(kit.node.queue_stat(kit.now, b"q").is_some());
    kit.pass(1);
    assert!(kit.node.queue_stat(kit.now, b"q").is_none());
}

#[test]
fn jobs_waiters_and_pauses_keep_a_queue() {
    let mut kit = Kit::new();
    kit.add_to("held");
    kit.get(&["held"], 1);
    kit.block(&get_from(&["waited-for"], 1)).unwrap();
    kit.pause("out");
    kit.pass(900_000);
    for queue in ["held", "waited-for", "q"] {
        let there = kit.node.queue_stat(kit.now, queue.as_bytes()).is_some();
        assert!(there, "{queue}");
    }
    assert_eq!(kit.node.pause_state(b"q").name(), "out");
    kit.pause("none");
    kit.pass(300_000);
    assert!(kit.node.queue_stat(kit.now, b"q").is_none());
}

#[test]
fn qstat_counts_ins_and_outs() {
    let mut kit = Kit::new();
    assert!(kit.node.queue_stat(kit.now, b"q").is_none());
    let id = kit.add(&job());
    kit.take();
    kit.nack(id);
    kit.skip(1_000);
    let stat = kit.node.queue_stat(kit.now, b"q").unwrap();
    assert_eq!((stat.len, stat.jobs_in, stat.jobs_out), (1, 2, 1));
    assert_eq!((stat.age_ms, stat.idle_ms, stat.blocked), (1_000, 1_000, 0));
}

#[test]
fn peek_shows_either_end_and_consumes_nothing() {
    let mut kit = Kit::new();
    let added: Vec<_> = (0..5).map(|_| kit.add(&job())).collect();
    let peek = |count, newest| ids(&kit.node, &kit.node.peek(b"q", count, newest));
    assert_eq!(peek(2, false), added[..2]);
    assert_eq!(peek(2, true), [added[4], added[3]]);
    assert_eq!(peek(9, false), added);
    assert!(kit.node.peek(b"nosuch", 9, false).is_empty());
    assert_eq!(kit.node.queue_len(b"q"), 5);
}

#[test]
fn the_queues_of_many_jobs_are_named_without_repetition() {
    let mut kit = Kit::new();
    // More than are looked up together, and more than lie outside of the pages.
    let mut known: Vec<_> = (0..200).map(|_| kit.add_to("a")).collect();
    let (b, lost) = (kit.add_to("b"), kit.add_to("c"));
    kit.ack(lost);
    known.insert(150, b);
    known.insert(70, lost);
    let names: Vec<_> = kit.node.queue_names(&known).collect();
    assert_eq!(names, [&b"a"[..], b"b", b"a"]);
    assert_eq!(kit.node.queue_names(&[lost]).count(), 0);
}

//! What the passing of time does.

use super::*;
use crate::record::RecordBatch;

#[test]
fn retry_runs_from_the_delivery() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.pass(8_000);
    assert_eq!(kit.take(), Some(id));
    kit.pass(9_999);
    assert_eq!(kit.take(), None);
    kit.pass(501);
    assert_eq!(kit.take(), Some(id));
    assert_eq!(kit.counters(id), (0, 1));
}

#[test]
fn a_delayed_job_is_queued_at_the_end_of_its_delay() {
    let mut kit = Kit::new();
    let id = kit.add(&AddJob {
        delay: Span::from_secs(12),
        ..job()
    });
    assert_eq!(kit.state(id), Some(State::Delayed));
    kit.pass(11_999);
    assert_eq!(kit.take(), None);
    kit.pass(1);
    assert_eq!(kit.take(), Some(id));
    assert_eq!(kit.counters(id), (0, 0));
    kit.pass(9_999);
    assert_eq!(kit.take(), None);
}

#[test]
fn jobs_expire_wherever_they_are() {
    let mut kit = Kit::new();
    let queued = kit.add(&job());
    let delayed = kit.add(&AddJob {
        delay: Span::from_secs(999),
        ..job()
    });
    let active = kit.add(&AddJob {
        queue: b"other",
        retry: Some(Span::from_secs(5_000)),
        ..job()
    });
    kit.get(&["other"], 1);
    kit.skip(999_999);
    kit.run();
    assert_eq!(kit.node.job_count(), 3);
    kit.pass(1);
    for id in [queued, delayed, active] {
        assert_eq!(kit.state(id), None);
    }
    let totals = kit.node.totals();
    assert_eq!((totals.stats.expired, totals.job_bytes), (3, 0));
}

#[test]
fn a_stepped_wall_clock_neither_requeues_nor_expires() {
    for step in [3_600_000_i64, -3_600_000] {
        let mut kit = Kit::new();
        let id = kit.add(&job());
        kit.take();
        let before = kit.node.next_wake();
        kit.now.wall_ms = kit.now.wall_ms.saturating_add_signed(step);
        kit.pass(9_999);
        assert_eq!(kit.state(id), Some(State::Active));
        assert_eq!(kit.node.totals().stats.expired, 0);
        kit.pass(501);
        assert_eq!(kit.state(id), Some(State::Queued));
        assert!(before.is_some());
    }
}

#[test]
fn an_idle_node_sleeps() {
    let mut kit = Kit::new();
    assert_eq!(kit.node.next_wake(), None);
    let id = kit.add(&AddJob {
        ttl: Span::from_secs(86_400),
        ..job()
    });
    let wake = kit.node.next_wake().expect("the job will expire");
    assert!(wake > kit.now.mono_ms + 3_600_000, "sleeps for hours");
    kit.ack(id);
    let mut wakes = 0;
    while let Some(wake) = kit.node.next_wake() {
        kit.now.mono_ms = wake.max(kit.now.mono_ms);
        kit.run();
        wakes += 1;
    }
    assert!(wakes < 10, "{wakes} wake-ups until the queue is dropped");
}

/// 100,000 deadlines at one moment are worked off in slices.
#[test]
fn due_jobs_are_done_in_slices() {
    const JOBS: usize = 100_000;
    for (ttl, delay) in [(5, 0), (100, 5)] {
        let mut kit = Kit::new();
        let add = AddJob {
            ttl: Span::from_secs(ttl),
            delay: Span::from_secs(delay),
            ..job()
        };
        for _ in 0..JOBS {
            kit.node.add_job(kit.now, &add, true, &mut kit.fx).unwrap();
            kit.fx.clear();
        }
        kit.skip(5_000);
        let done = |kit: &Kit| {
            let totals = kit.node.totals();
            totals.stats.expired as usize + totals.jobs[State::Queued as usize] as usize
        };
        let at_first = if delay == 0 { JOBS } else { 0 };
        let mut calls = 0;
        while kit
            .node
            .next_wake()
            .is_some_and(|wake| wake <= kit.now.mono_ms)
        {
            let before = (kit.node.job_count(), done(&kit));
            kit.node.run_due(kit.now, 1_000, &mut kit.fx);
            let gone = before.0 - kit.node.job_count();
            assert!(gone <= 1_000, "{gone} expired at once");
            if delay > 0 {
                assert!(done(&kit) - before.1 <= 1_000);
            }
            kit.fx.clear();
            calls += 1;
        }
        // Each job is moved a few times on its way through the wheel.
        assert!((100..=500).contains(&calls), "{calls} calls");
        assert_eq!(done(&kit), JOBS, "of {at_first} queued at first");
        kit.check();
    }
}

#[test]
fn a_flush_is_over_at_once_and_freed_in_slices() {
    let mut kit = Kit::new();
    for _ in 0..10_000 {
        kit.node
            .add_job(kit.now, &job(), true, &mut kit.fx)
            .unwrap();
    }
    kit.pause("out");
    let waiter = kit.block(&get_from(&["q"], 1)).unwrap();
    kit.call(|node, now, fx| node.flush(now, fx));
    assert_eq!(kit.answers(), [(waiter, vec![])]);
    assert_eq!((kit.node.job_count(), kit.node.queue_len(b"q")), (0, 0));
    assert!(kit.node.pause_state(b"q").is_none());

    // New jobs are not in the way of the old.
    let id = kit.add(&job());
    let mut calls = 0;
    while kit.node.next_wake() == Some(0) {
        kit.call(|node, now, fx| node.run_due(now, 1_000, fx));
        calls += 1;
    }
    assert!((10..=12).contains(&calls), "{calls} calls");
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn acknowledgements_of_before_a_flush_are_freed_in_slices() {
    let mut kit = Kit::new();
    let mut batch = RecordBatch::default();
    let mut ids = IdGenerator::new([1; 4], [1; 32]);
    for _ in 0..5_000 {
        let id = ids.next(Span::from_secs(60), true);
        batch.push(&Record::DummyAck { id, until: 0 });
    }
    kit.node
        .apply(kit.now, batch.bytes())
        .expect("good records");
    assert_eq!(kit.node.ack_count(), 5_000);
    kit.call(|node, now, fx| node.flush(now, fx));
    assert_eq!(kit.node.ack_count(), 0);
    let mut calls = 0;
    while kit.node.next_wake() == Some(0) {
        kit.call(|node, now, fx| node.run_due(now, 1_000, fx));
        calls += 1;
    }
    assert!((5..=6).contains(&calls), "{calls} calls");
}

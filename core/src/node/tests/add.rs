//! ADDJOB.

use super::*;
use crate::job::Job;
use crate::memory::Pressure;
use crate::node::add::Sync;

#[test]
fn retry_defaults_to_a_tenth_of_the_ttl_within_limits() {
    for (ttl_ms, retry_ms) in [
        (86_400_000, 300_000),
        (3_000_000, 300_000),
        (100_000, 10_000),
        (10_000, 1_000),
        (500, 1_000),
    ] {
        let mut kit = Kit::new();
        let id = kit.add(&AddJob {
            retry: None,
            ttl: Span::from_ms(ttl_ms),
            ..job()
        });
        let retry = kit.view(id).job.options.retry;
        assert_eq!(retry.ms(), retry_ms, "TTL {ttl_ms}");
    }
}

#[test]
fn replicate_defaults_to_the_nodes_that_there_are() {
    let mut kit = Kit::new();
    let default = AddJob {
        replicate: None,
        ..job()
    };
    let id = kit.add(&default);
    let options = kit.view(id).job.options;
    assert_eq!((options.replicate, options.sync), (1, 1));
    assert_eq!(kit.node.totals().stats.added_below_default, 1);

    kit.node.set_settings(Settings {
        default_replicate_min: 2,
        ..Settings::default()
    });
    assert_eq!(kit.try_add(&default), Err(Error::NoRepl));
}

#[test]
fn sync_is_bounded_by_replicate() {
    for (sync, outcome) in [
        (None, Ok(1)),
        (Some(Sync::Copies(0)), Ok(0)),
        (Some(Sync::Copies(1)), Ok(1)),
        (Some(Sync::Copies(2)), Err(Error::SyncAboveReplicate)),
        (Some(Sync::AllBut(1)), Ok(0)),
        (Some(Sync::AllBut(2)), Err(Error::SyncAboveReplicate)),
    ] {
        let mut kit = Kit::new();
        let added = kit.try_add(&AddJob { sync, ..job() });
        let synced = added.map(|id| kit.view(id).job.options.sync);
        assert_eq!(synced, outcome, "{sync:?}");
    }
}

#[test]
fn maxlen_refuses_at_the_length_and_takes_below() {
    let mut kit = Kit::new();
    let one = AddJob {
        max_len: Some(1),
        ..job()
    };
    let two = AddJob {
        max_len: Some(2),
        ..job()
    };
    kit.add(&one);
    assert_eq!(kit.try_add(&one), Err(Error::MaxLen));
    kit.add(&two);
    assert_eq!(kit.try_add(&two), Err(Error::MaxLen));
    // Delivered jobs do not count.
    kit.take();
    kit.add(&two);
    kit.take();
    kit.take();
    kit.add(&one);
}

#[test]
fn creation_times_rise_although_the_clock_does_not() {
    let mut kit = Kit::new();
    let first = kit.add(&job());
    let second = kit.add(&job());
    kit.now.wall_ms -= 3_600_000;
    let third = kit.add(&job());
    let ctime = |id| kit.view(id).job.ctime;
    let start = START.wall_ms * 1_000_000;
    assert_eq!(
        [ctime(first), ctime(second), ctime(third)],
        [start, start + 1, start + 2]
    );
}

/// Each refusal, and a body and a name at their limits.
#[test]
fn an_error_leaves_no_trace() {
    let settings = Settings {
        max_body: 10,
        max_queue_name: 5,
        ..Settings::default()
    };
    let mut kit = Kit::with(settings);
    kit.pause("in");
    kit.add(&AddJob {
        queue: b"full",
        ..job()
    });
    let refused = [
        AddJob {
            delay: Span::from_secs(1_000),
            ..job()
        },
        AddJob {
            replicate: Some(2),
            ..job()
        },
        AddJob {
            retry: Some(Span::ZERO),
            replicate: Some(2),
            ..job()
        },
        AddJob {
            sync: Some(Sync::Copies(2)),
            ..job()
        },
        AddJob {
            bodies: &[b"12345678901"],
            queue: b"new",
            ..job()
        },
        AddJob {
            queue: b"123456",
            ..job()
        },
        AddJob {
            queue: b"full",
            max_len: Some(1),
            ..job()
        },
        job(), // The queue is paused in.
    ];
    let before = dump_all(&kit.node, kit.now);
    for add in refused {
        assert!(kit.try_add(&add).is_err(), "{add:?}");
        assert_eq!(dump_all(&kit.node, kit.now), before, "{add:?}");
        assert!(kit.fx.is_empty(), "{add:?}");
    }
    kit.add(&AddJob {
        bodies: &[b"1234567890"],
        queue: b"12345",
        ..job()
    });
}

#[test]
fn a_leaving_node_takes_no_jobs() {
    let mut kit = Kit::new();
    kit.call(|node, now, fx| node.set_leaving(true, now, fx));
    let before = dump_all(&kit.node, kit.now);
    assert_eq!(kit.try_add(&job()), Err(Error::Leaving));
    assert_eq!(dump_all(&kit.node, kit.now), before);
    kit.call(|node, now, fx| node.set_leaving(false, now, fx));
    kit.add(&job());
}

#[test]
fn full_memory_refuses_and_counts() {
    let mut kit = Kit::with(Settings {
        max_memory: 3 * (Job::OVERHEAD as u64 + 4),
        ..Settings::default()
    });
    for _ in 0..3 {
        kit.add(&job());
    }
    let before = dump_data(&kit.node, kit.now);
    assert_eq!(kit.try_add(&job()), Err(Error::OutOfMemory));
    assert_eq!(dump_data(&kit.node, kit.now), before);
    assert_eq!(kit.node.totals().stats.refused_for_memory, 1);

    kit.node.set_settings(Settings::default());
    kit.node.set_server_pressure(Pressure::Full);
    assert_eq!(kit.try_add(&job()), Err(Error::OutOfMemory));
    kit.node.set_server_pressure(Pressure::Critical);
    kit.add(&job());
}

#[test]
fn only_delivered_at_most_once_jobs_are_dropped_for_memory_oldest_first() {
    let mut kit = Kit::with(Settings {
        max_memory: 4 * (Job::OVERHEAD as u64 + 4),
        ..Settings::default()
    });
    let once = AddJob {
        retry: Some(Span::ZERO),
        ..job()
    };
    let first = kit.add(&once);
    let second = kit.add(&once);
    let retried = kit.add(&job());
    kit.get(&["q"], 3);
    let waiting = kit.add(&once);
    kit.add(&job());
    assert_eq!(kit.state(first), None);
    kit.add(&job());
    assert_eq!(kit.state(second), None);
    assert_eq!(kit.try_add(&job()), Err(Error::OutOfMemory));
    assert!(kit.state(retried).is_some() && kit.state(waiting).is_some());
    assert_eq!(kit.node.totals().stats.dropped_for_memory, 2);
}

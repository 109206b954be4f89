//! ADDJOBS.

use super::net::Net;
use super::*;
use crate::job::Job;
use crate::memory::Pressure;
use crate::record::Records;
use proptest::prelude::*;

const THREE: &[&[u8]] = &[b"first", b"second", b"third"];

/// Three jobs.
fn batch() -> AddJob<'static> {
    AddJob {
        bodies: THREE,
        ..job()
    }
}

fn bodies(kit: &Kit, ids: &[JobId]) -> Vec<Vec<u8>> {
    ids.iter()
        .map(|id| kit.view(*id).job.body.to_vec())
        .collect()
}

#[test]
fn ids_and_queue_are_in_the_order_of_the_bodies() {
    let mut kit = Kit::new();
    let before = kit.add(&job());
    let ids = kit.try_to_add_all(&batch()).unwrap();
    assert_eq!(bodies(&kit, &ids), THREE);
    assert_eq!(kit.node.totals().stats.added, 4);
    let all = [&[before], &ids[..]].concat();
    assert_eq!(kit.get(&["q"], 10), all);
}

#[test]
fn all_jobs_of_a_batch_are_in_one_record() {
    let mut kit = Kit::new();
    let ids = kit.try_to_add_all(&batch()).unwrap();
    let written = kit.fx.records.bytes().to_vec();
    let records: Vec<_> = Records::read(&written).unwrap().collect();
    assert_eq!(records.len(), 3);
    for (record, id) in records.into_iter().zip(ids) {
        assert!(matches!(record, Ok(Record::Job(image)) if image.id == id));
    }
}

#[test]
fn consumers_that_wait_get_the_jobs_when_the_command_is_over() {
    let mut kit = Kit::new();
    let waiter = kit.block(&get_from(&["q"], 2)).unwrap();
    let ids = kit.try_to_add_all(&batch()).unwrap();
    assert_eq!(kit.answers(), []);
    kit.serve();
    assert_eq!(kit.answers(), [(waiter, ids[..2].to_vec())]);
}

#[test]
fn maxlen_is_for_the_whole_batch() {
    let limited = |max| AddJob {
        max_len: Some(max),
        ..batch()
    };
    let mut kit = Kit::new();
    assert_eq!(kit.try_to_add_all(&limited(2)), Err(Error::MaxLen));
    assert!(kit.try_to_add_all(&limited(3)).is_ok());
    assert_eq!(kit.try_to_add_all(&limited(5)), Err(Error::MaxLen));
    assert!(kit.try_to_add_all(&limited(6)).is_ok());
    assert_eq!(kit.node.queue_len(b"q"), 6);
}

#[test]
fn limits_hold_at_their_ends_and_an_error_leaves_no_trace() {
    let mut kit = Kit::with(Settings {
        max_body: 6,
        max_batch: 16,
        max_ids: 3,
        ..Settings::default()
    });
    assert_eq!(THREE.concat().len(), 16);
    kit.try_to_add_all(&batch()).expect("at the limits");
    let four: &[&[u8]] = &[b"", b"", b"", b""];
    let long: &[&[u8]] = &[b"", b"", b"longest"];
    let many: &[&[u8]] = &[b"second", b"second", b"third"];
    let before = dump_all(&kit.node, kit.now);
    for (bodies, error) in [
        (four, "ERR the number of bodies must be from 1 to 3 bodies"),
        (long, "ERR a job's body must be from 0 to 6 bytes"),
        (many, "ERR all bodies together must be from 0 to 16 bytes"),
    ] {
        let refused = kit.try_to_add_all(&AddJob { bodies, ..job() });
        assert_eq!(refused.unwrap_err().to_string(), error);
        assert_eq!(dump_all(&kit.node, kit.now), before, "{error}");
        assert!(kit.fx.is_empty());
    }
    // One body is no batch.
    kit.node.set_settings(Settings {
        max_batch: 1,
        ..Settings::default()
    });
    kit.add(&job());
}

proptest! {
    /// A batch finds room where its jobs would, one by one.
    #[test]
    fn memory_is_enough_for_all_or_for_none(
        sizes in proptest::collection::vec(0..300usize, 1..8),
        limit in 0..4_000u64,
    ) {
        let all: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![b'x'; size]).collect();
        let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let limited = || Kit::with(Settings { max_memory: limit, ..Settings::default() });
        let (mut one_by_one, mut at_once) = (limited(), limited());
        let add = |bodies| AddJob { bodies, ..job() };
        let taken = all.chunks(1).all(|one| one_by_one.try_add(&add(one)).is_ok());
        let added = at_once.try_to_add_all(&add(&all));
        prop_assert_eq!(added.is_ok(), taken);
        if !taken {
            prop_assert_eq!(added, Err(Error::OutOfMemory));
            prop_assert_eq!(at_once.node.job_count(), 0);
            prop_assert_eq!(at_once.node.totals().stats.refused_for_memory, 1);
        }
    }
}

#[test]
fn delivered_at_most_once_jobs_make_room_for_all_of_a_batch() {
    const JOBS: usize = 40;
    let mut kit = Kit::with(Settings {
        max_memory: JOBS as u64 * (Job::OVERHEAD as u64 + 4),
        ..Settings::default()
    });
    let all = [&b"body"[..]; JOBS];
    let once = AddJob {
        retry: Some(Span::ZERO),
        bodies: &all,
        ..job()
    };
    kit.try_to_add_all(&once).expect("there is room");
    assert_eq!(kit.get(&["q"], JOBS as u64).len(), JOBS);
    kit.try_to_add_all(&once).expect("there is room again");
}

/// Three nodes, and a batch added at the first one.
struct Waiting {
    net: Net,
    ids: Ids,
    waiter: WaiterId,
}

fn copied() -> AddJob<'static> {
    AddJob {
        replicate: Some(3),
        timeout_ms: 5_000,
        ..batch()
    }
}

/// Of the messages that go out for the batch only so many arrive. Each job has two: the
/// first for the one of the two other nodes, the second for the other one.
fn waiting(add: &AddJob<'_>, messages: usize) -> Waiting {
    let mut batch = begin(Net::new(3), add);
    batch.net.lose_all_but(0, messages);
    batch.net.pass(100);
    batch
}

/// A batch is added at the first node, whose producer has to wait. Nothing has gone out.
#[track_caller]
fn begin(mut net: Net, add: &AddJob<'_>) -> Waiting {
    let added = net.on(0, |node, now, fx| node.add_job(now, add, true, fx));
    let Ok(Added::Waits { ids, waiter }) = added else {
        panic!("it does not wait: {added:?}");
    };
    Waiting { net, ids, waiter }
}

impl Waiting {
    fn states(&self, at: usize) -> Vec<Option<State>> {
        let kit = &self.net.servers[at].kit;
        self.ids.iter().map(|id| kit.state(*id)).collect()
    }

    fn answers(&self) -> &[(WaiterId, Answer)] {
        &self.net.servers[0].answers
    }

    fn producers(&self) -> usize {
        self.net.servers[0].kit.node.totals().waiting_producers
    }

    #[track_caller]
    fn expect_refused(&self, error: Error) {
        assert_eq!(self.answers(), [(self.waiter, Answer::Error(error))]);
        assert_eq!(self.producers(), 0);
    }

    #[track_caller]
    fn expect_added(&self) {
        let added = Answer::Added(self.ids.clone());
        assert_eq!(self.answers(), [(self.waiter, added)]);
        assert_eq!(self.producers(), 0);
    }
}

const WAIT_REPL: Option<State> = Some(State::WaitRepl);
const QUEUED: Option<State> = Some(State::Queued);

#[test]
fn nothing_is_queued_before_the_last_copy_is_there() {
    // The first two jobs are everywhere, the third one is not.
    let mut batch = waiting(&copied(), 5);
    assert_eq!(batch.states(0), [WAIT_REPL; 3]);
    assert_eq!(batch.answers(), []);
    let written = batch.net.written(0);
    // It is sent again.
    batch.net.pass(2_000);
    batch.expect_added();
    assert_eq!(batch.states(0), [QUEUED; 3]);
    assert_eq!(batch.net.written(0), written + 1);
}

#[test]
fn the_copies_of_a_batch_are_on_the_same_nodes() {
    let two = AddJob {
        replicate: Some(2),
        ..copied()
    };
    for _ in 0..20 {
        let batch = waiting(&two, 3);
        batch.expect_added();
        let there = |at| batch.states(at).iter().flatten().count();
        assert_eq!(there(1).max(there(2)), 3);
    }
}

#[test]
fn a_time_that_is_over_is_over_for_all_of_them() {
    let mut batch = waiting(&copied(), 5);
    batch.net.servers[2].is_cut_off = true;
    batch.net.servers[1].is_cut_off = true;
    batch.net.pass(6_000);
    batch.expect_refused(Error::NoRepl);
    assert_eq!(batch.states(0), [Some(State::Acked); 3]);
    batch.net.servers[2].is_cut_off = false;
    batch.net.servers[1].is_cut_off = false;
    batch.net.pass(20_000);
    for at in 0..3 {
        assert_eq!(batch.states(at), [None; 3]);
        assert_eq!(batch.net.servers[at].kit.node.queue_len(b"q"), 0);
    }
}

#[test]
fn one_that_expires_or_is_deleted_fails_the_batch() {
    let short = AddJob {
        ttl: Span::from_secs(1),
        retry: Some(Span::from_ms(900)),
        ..copied()
    };
    let mut batch = waiting(&short, 5);
    batch.net.pass(950);
    batch.expect_refused(Error::NoRepl);

    for which in 0..3 {
        let mut batch = waiting(&copied(), 5);
        let id = batch.ids[which];
        let deleted = batch
            .net
            .on(0, |node, now, fx| node.delete_jobs(now, &[id], fx));
        assert_eq!(deleted, 1);
        batch.expect_refused(Error::NoRepl);
        batch.net.pass(20_000);
        let kit = &batch.net.servers[0].kit;
        assert_eq!(kit.node.queue_len(b"q"), 0);
    }
}

#[test]
fn one_that_is_settled_meanwhile_is_waited_for_no_longer() {
    for which in 0..3 {
        for is_fast in [false, true] {
            let mut batch = waiting(&copied(), 5);
            let id = batch.ids[which];
            batch.net.on(0, |node, now, fx| match is_fast {
                true => node.fast_ack(now, &[id], fx),
                false => node.ack_jobs(now, &[id], fx),
            });
            // The third one is the one that was waited for.
            if which == 2 {
                batch.expect_added();
            } else {
                assert_eq!(batch.answers(), []);
                batch.net.pass(2_000);
                batch.expect_added();
            }
            let queued = batch.states(0).iter().filter(|one| **one == QUEUED).count();
            assert_eq!(queued, 2);
        }
    }
}

#[test]
fn the_jobs_of_a_client_that_has_gone_go_on_their_way() {
    let mut batch = waiting(&copied(), 5);
    let waiter = batch.waiter;
    batch
        .net
        .on(0, |node, now, fx| node.forget_waiter(waiter, now, fx));
    assert_eq!(batch.states(0), [QUEUED, QUEUED, WAIT_REPL]);
    batch.net.pass(2_000);
    assert_eq!(batch.states(0), [QUEUED; 3]);
    assert_eq!((batch.answers(), batch.producers()), (&[][..], 0));
}

#[test]
fn a_copy_that_is_lost_meanwhile_is_waited_for_again() {
    let mut batch = waiting(&copied(), 5);
    // The second node says that it does not have the first job after all.
    let id = batch.ids[0];
    batch
        .net
        .on(1, |node, now, fx| node.delete_jobs(now, &[id], fx));
    batch.net.pass(2_000);
    batch.expect_added();
    assert_eq!(batch.states(1), [Some(State::Active); 3]);
}

#[test]
fn a_batch_that_all_nodes_refuse_fails_at_once() {
    for (pressure, error) in [
        (Pressure::High, Error::OutOfMemory),
        (Pressure::None, Error::NoRepl),
    ] {
        let mut net = Net::new(3);
        for at in 1..3 {
            net.on(at, |node, now, fx| {
                node.set_server_pressure(pressure);
                if pressure == Pressure::None {
                    let pause = Pause {
                        input: true,
                        output: false,
                    };
                    node.pause(now, b"q", pause, fx).expect("it is paused");
                }
            });
        }
        let mut batch = begin(net, &copied());
        batch.net.pass(100);
        batch.expect_refused(error);
        assert!(batch.states(0).iter().all(|one| *one != QUEUED));
    }
}

/// The answer OOM says that nobody can have got one of the jobs.
#[test]
fn where_some_jobs_have_found_a_place_the_answer_is_norepl() {
    for retry in [Span::from_secs(10), Span::ZERO] {
        let mut net = Net::new(2);
        let at_most_once = retry.is_zero();
        if at_most_once {
            net.on(0, |node, _, _| node.set_server_pressure(Pressure::High));
        }
        // Room for the first one.
        let settings = Settings {
            max_memory: Job::OVERHEAD as u64 + 100,
            ..net.servers[1].kit.node.settings().clone()
        };
        net.on(1, |node, _, _| node.set_settings(settings));
        let add = AddJob {
            retry: Some(retry),
            replicate: Some(if at_most_once { 1 } else { 2 }),
            ..batch()
        };
        let mut batch = begin(net, &add);
        batch.net.pass(1_000);
        batch.expect_refused(Error::NoRepl);
        let queued = |at| batch.states(at).contains(&QUEUED);
        assert!(!queued(0) && !queued(1), "{retry:?}");
    }
}

#[test]
fn a_node_without_room_has_the_others_keep_the_whole_batch() {
    for retry in [Span::ZERO, Span::from_secs(10)] {
        let mut net = Net::new(3);
        net.on(0, |node, _, _| node.set_server_pressure(Pressure::High));
        let add = AddJob {
            retry: Some(retry),
            ..batch()
        };
        let mut batch = begin(net, &add);
        batch.net.pass(1_000);
        batch.expect_added();
        assert_eq!(batch.states(0), [None; 3]);
        let queued = |at| {
            batch
                .states(at)
                .iter()
                .filter(|one| **one == QUEUED)
                .count()
        };
        assert_eq!(queued(1) + queued(2), 3);
    }
}

#[test]
fn at_most_once_jobs_that_have_moved_are_taken_back_when_the_batch_fails() {
    let mut net = Net::new(2);
    net.on(0, |node, _, _| node.set_server_pressure(Pressure::High));
    let add = AddJob {
        retry: Some(Span::ZERO),
        timeout_ms: 500,
        ..batch()
    };
    let mut batch = begin(net, &add);
    // One arrives, the others are lost.
    batch.net.lose_all_but(0, 1);
    batch.net.pass(200);
    assert_eq!(batch.states(1), [QUEUED, None, None]);
    batch.net.pass(1_000);
    batch.expect_refused(Error::NoRepl);
    assert_eq!(batch.states(1), [None; 3]);
}

#[test]
fn after_a_restart_all_of_a_batch_are_there_or_none() {
    let batch = waiting(&copied(), 5);
    let mut net = batch.net;
    // The records end before the batch, or with it.
    let all = net.written(0);
    for (count, left) in [(all - 1, 0), (all, 3)] {
        let again = net.promote(0, Some(count));
        let kit = &net.servers[again].kit;
        let there = batch.ids.iter().filter_map(|id| kit.state(*id));
        let states: Vec<State> = there.collect();
        assert_eq!(states, vec![State::Active; left]);
    }
}

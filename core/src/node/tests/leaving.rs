//! A node that leaves, and nodes that take no jobs.

use super::net::Net;
use super::*;
use crate::memory::Pressure;
use crate::node::add::Sync;

fn at_most_once() -> AddJob<'static> {
    AddJob {
        retry: Some(Span::ZERO),
        ..job()
    }
}

fn press(net: &mut Net, at: usize, pressure: Pressure) {
    net.on(at, |node, _, _| node.set_server_pressure(pressure));
}

fn leave(net: &mut Net, at: usize) {
    net.on(at, |node, now, fx| node.set_leaving(true, now, fx));
}

fn stay(net: &mut Net, at: usize) {
    net.on(at, |node, now, fx| node.set_leaving(false, now, fx));
}

/// Two nodes and a job of the first, of which the second has no room for a copy.
fn with_refused_copy() -> (Net, JobId) {
    let mut net = Net::new(2);
    press(&mut net, 1, Pressure::Full);
    let add = AddJob {
        replicate: Some(2),
        sync: Some(Sync::Copies(1)),
        ..job()
    };
    let id = net.add(0, &add);
    (net, id)
}

fn jobs(net: &Net, at: usize) -> usize {
    net.servers[at].kit.node.job_count()
}

fn no_target(net: &Net, at: usize) -> u64 {
    net.servers[at].kit.node.no_target()
}

#[test]
fn what_all_nodes_refuse_counts_as_without_a_target_and_is_tried_a_job_at_a_time() {
    for add in [job(), at_most_once()] {
        let mut net = Net::new(3);
        for _ in 0..20 {
            net.add(0, &add);
        }
        press(&mut net, 1, Pressure::Full);
        press(&mut net, 2, Pressure::Full);
        leave(&mut net, 0);
        net.pass(20_000);
        assert_eq!((jobs(&net, 0), no_target(&net, 0)), (20, 20));
        let before = net.written(0);
        net.pass(10_000);
        // It is sent, and refused, by each of the two.
        let written = net.written(0) - before;
        assert!(written <= 60, "{written} batches");
        press(&mut net, 2, Pressure::None);
        net.pass(40_000);
        assert_eq!((jobs(&net, 0), jobs(&net, 2)), (0, 20));
        assert_eq!(no_target(&net, 0), 0);
    }
}

#[test]
fn a_queue_that_is_paused_in_elsewhere_holds_up_its_own_jobs_only() {
    let mut net = Net::new(2);
    for queue in [&b"q"[..], b"other"] {
        for _ in 0..20 {
            net.add(0, &AddJob { queue, ..job() });
        }
    }
    net.servers[1].kit.pause("in");
    leave(&mut net, 0);
    net.pass(5_000);
    assert_eq!((jobs(&net, 0), jobs(&net, 1)), (20, 20));
    assert_eq!(no_target(&net, 0), 20);
    net.servers[1].kit.pause("none");
    net.pass(40_000);
    assert_eq!((jobs(&net, 0), jobs(&net, 1)), (0, 40));
}

#[test]
fn a_copy_that_is_refused_again_and_again_is_not_written_down_again() {
    let (mut net, id) = with_refused_copy();
    net.pass(100_000);
    let before = net.written(0);
    net.pass(65_000);
    assert_eq!(net.written(0), before);
    assert_eq!(net.servers[0].kit.node.under_replicated(), 1);
    press(&mut net, 1, Pressure::None);
    net.pass(40_000);
    assert!(net.servers[1].kit.state(id).is_some());
    assert_eq!(net.servers[0].kit.node.under_replicated(), 0);
}

#[test]
fn a_node_that_stays_after_all_gets_the_copies_that_found_no_place() {
    let (mut net, id) = with_refused_copy();
    leave(&mut net, 1);
    press(&mut net, 1, Pressure::None);
    net.pass(100_000);
    assert_eq!(net.servers[1].kit.state(id), None);
    stay(&mut net, 1);
    net.pass(3_000);
    assert!(net.servers[1].kit.state(id).is_some());
    assert_eq!(net.servers[0].kit.node.under_replicated(), 0);
}

#[test]
fn a_producer_is_told_of_memory_only_where_no_other_node_has_its_job() {
    for (full, error) in [(&[1, 2][..], Error::OutOfMemory), (&[2], Error::NoRepl)] {
        let mut net = Net::new(3);
        for at in full {
            press(&mut net, *at, Pressure::Full);
        }
        let add = AddJob {
            replicate: Some(3),
            timeout_ms: 60_000,
            ..job()
        };
        net.add(0, &add);
        net.pass(1_000);
        let answers = &net.servers[0].answers;
        assert!(
            matches!(&answers[..], [(_, Answer::Error(told))] if *told == error),
            "{answers:?}"
        );
        net.pass(1_000);
        assert_eq!([0, 1, 2].map(|at| jobs(&net, at)), [0, 0, 0]);
    }
}

#[test]
fn what_a_copy_took_once_is_not_waited_for_ever_after() {
    let mut net = Net::new(2);
    let key = net.servers[0]
        .kit
        .node
        .cluster
        .peers()
        .next()
        .map(|peer| peer.key);
    let key = key.expect("a peer");
    net.on(0, |node, _, _| {
        node.cluster.by_key_mut(key).expect("a peer").copy_ms = 20_000;
    });
    net.pass(10_000);
    let left = net.on(0, |node, _, _| {
        node.cluster.by_key(key).expect("a peer").copy_ms
    });
    assert!(left < 100, "{left} ms");
}

/// Three nodes, a job of the first with a copy at another one, and the first leaves
/// while that one is cut off: so the third has got a copy. Who that leaves.
fn leaving_behind_a_cut() -> (Net, JobId, [usize; 2]) {
    let mut net = Net::new(3);
    let add = AddJob {
        replicate: Some(2),
        ..job()
    };
    let id = net.add(0, &add);
    let holds = |at: &usize| net.servers[*at].kit.state(id).is_some();
    let (far, near) = if holds(&1) { (1, 2) } else { (2, 1) };
    net.servers[far].is_cut_off = true;
    net.pass(2_000);
    leave(&mut net, 0);
    net.pass(20_000);
    assert!(net.servers[near].kit.state(id).is_some());
    (net, id, [far, near])
}

#[test]
fn a_copy_is_given_up_when_the_other_holders_know_of_each_other() {
    let (mut net, id, [far, near]) = leaving_behind_a_cut();
    assert_eq!((jobs(&net, 0), no_target(&net, 0)), (1, 1));
    net.servers[far].is_cut_off = false;
    net.pass(3_000);
    assert_eq!((jobs(&net, 0), no_target(&net, 0)), (0, 0));
    net.on(far, |node, now, fx| node.ack_jobs(now, &[id], fx));
    net.pass(1_000);
    assert_eq!((jobs(&net, far), jobs(&net, near)), (0, 0));
}

#[test]
fn a_holder_that_was_forgotten_is_not_waited_for() {
    let (mut net, _, [far, _]) = leaving_behind_a_cut();
    let id = net.servers[far].kit.node.identity().hex();
    net.on(0, |node, now, fx| node.forget_node(now, id.as_bytes(), fx))
        .expect("it is in the table");
    net.pass(3_000);
    assert_eq!(jobs(&net, 0), 0);
}

#[test]
fn holders_that_know_of_each_other_from_the_job_are_not_asked() {
    let mut net = Net::new(3);
    let add = AddJob {
        replicate: Some(3),
        ..job()
    };
    net.add(0, &add);
    net.servers[1].is_cut_off = true;
    net.pass(2_000);
    leave(&mut net, 0);
    net.pass(2_000);
    assert_eq!((jobs(&net, 0), jobs(&net, 2)), (0, 1));
}

#[test]
fn a_node_without_room_keeps_a_job_until_its_holders_know_of_each_other() {
    let mut net = Net::new(4);
    press(&mut net, 0, Pressure::High);
    press(&mut net, 1, Pressure::Full);
    let add = AddJob {
        replicate: Some(2),
        sync: Some(Sync::Copies(1)),
        ..job()
    };
    let ids: Vec<JobId> = (0..20)
        .map(|_| {
            let added = net.on(0, |node, now, fx| node.add_job(now, &add, true, fx));
            match added.expect("the job is accepted") {
                Added::Done(ids) | Added::Waits { ids, .. } => ids[0],
            }
        })
        .collect();
    // Whom the first node names in place of the full one, the third does not hear.
    net.pass(10);
    net.servers[2].is_cut_off = true;
    net.pass(10_000);
    assert!(jobs(&net, 0) > 0);
    net.servers[2].is_cut_off = false;
    net.pass(3_000);
    assert_eq!(jobs(&net, 0), 0);
    net.on(2, |node, now, fx| node.ack_jobs(now, &ids, fx));
    net.pass(5_000);
    assert_eq!([1, 2, 3].map(|at| jobs(&net, at)), [0, 0, 0]);
}

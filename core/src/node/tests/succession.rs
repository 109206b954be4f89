//! A replica is promoted, and what its peers and its old primary make of it.

use super::net::Net;
use super::*;
use crate::cluster::{Comparison, Contact, LinkState};
use crate::effects::News;
use crate::node::get::Receipt;
use crate::nodes_file::NodesFile;

fn copied(replicate: u16) -> AddJob<'static> {
    AddJob {
        replicate: Some(replicate),
        timeout_ms: 1_000,
        ..job()
    }
}

fn take(net: &mut Net, at: usize) -> Option<JobId> {
    let get = get_from(&["q"], 1);
    net.on(at, |node, now, fx| {
        let delivered = node.get_jobs(now, &get, fx)?;
        ids(node, fx.jobs(delivered)).pop()
    })
}

fn state(net: &Net, at: usize, id: JobId) -> Option<State> {
    net.servers[at].kit.state(id)
}

fn holders(net: &Net, at: usize, id: JobId) -> Vec<String> {
    let kit = &net.servers[at].kit;
    let mut names = kit.node.holders(kit.view(id).job, true);
    names.sort();
    names
}

fn name(net: &Net, at: usize) -> String {
    net.servers[at].kit.node.identity().hex()
}

fn under_replicated(net: &Net, at: usize) -> u64 {
    net.servers[at].kit.node.under_replicated()
}

#[test]
fn it_keeps_the_id_has_a_term_more_and_peers_find_it_where_it_is() {
    let mut net = Net::new(3);
    let before = *net.servers[0].kit.node.identity();
    net.servers[0].is_cut_off = true;
    let promoted = net.promote(0, None);
    let after = *net.servers[promoted].kit.node.identity();
    assert_eq!(after, before.promoted());
    net.pass(2_000);
    for at in [1, 2] {
        let cluster = net.servers[at].kit.node.cluster();
        let peer = cluster.peer(&before.id).expect("it is known");
        assert_eq!((peer.term, peer.epoch), (after.term, after.epoch));
        assert_eq!(peer.contact.host, format!("host-{promoted}"));
        let now = net.servers[at].kit.now;
        assert_eq!(net.servers[at].kit.node.reachable_peers(now).count(), 2);
    }
}

#[test]
fn its_copies_stand_for_those_of_its_primary_and_none_is_made_anew() {
    let mut net = Net::new(3);
    let id = net.add(0, &copied(2));
    let other = [1, 2]
        .into_iter()
        .find(|at| state(&net, *at, id).is_some())
        .expect("a copy");
    net.servers[0].is_cut_off = true;
    let promoted = net.promote(0, None);
    net.pass(5_000);
    let both = [name(&net, promoted), name(&net, other)];
    let mut both = both.to_vec();
    both.sort();
    assert_eq!(holders(&net, other, id), both);
    assert_eq!(holders(&net, promoted, id), both);
    assert_eq!(state(&net, 3 - other, id), None, "a copy too many");
    assert_eq!(under_replicated(&net, other), 0);
    // It asks before it hands out.
    let taken = take(&mut net, promoted).or_else(|| {
        net.pass(100);
        take(&mut net, promoted)
    });
    assert_eq!(taken, Some(id));
    // One acknowledgement is enough, and nothing is left of it.
    net.on(promoted, |node, now, fx| node.ack_jobs(now, &[id], fx));
    net.pass(1_000);
    assert_eq!([promoted, 1, 2].map(|at| state(&net, at, id)), [None; 3]);
}

#[test]
fn what_it_had_not_received_is_made_up_for() {
    let mut net = Net::new(3);
    let received = net.written(0);
    let id = net.add(1, &copied(3));
    assert!(state(&net, 0, id).is_some());
    net.servers[0].is_cut_off = true;
    let promoted = net.promote(0, Some(received));
    assert_eq!(state(&net, promoted, id), None);
    net.pass(5_000);
    assert!(state(&net, promoted, id).is_some(), "no copy is made again");
    assert_eq!(holders(&net, 1, id).len(), 3);
    assert_eq!(under_replicated(&net, 1), 0);
}

#[test]
fn a_question_about_its_copies_that_is_lost_with_the_link_is_asked_again() {
    const JOBS: usize = 30;
    let mut net = Net::new(2);
    let received = net.written(0);
    let ids: Vec<_> = (0..JOBS).map(|_| net.add(1, &copied(2))).collect();
    let id = net.servers[0].kit.node.identity().id;
    net.servers[0].is_cut_off = true;
    let promoted = net.promote(0, Some(received));
    let peer = |net: &Net| {
        let peer = net.servers[1].kit.node.cluster().peer(&id);
        let peer = peer.expect("it is known");
        (peer.key, peer.comparison)
    };
    while peer(&net).1 != Comparison::Asked {
        net.pass(10);
        net.on(1, |node, now, fx| node.run_due(now, 1_000, fx));
    }
    net.lose_all_but(1, 0);
    let key = peer(&net).0;
    net.on(1, |node, _, fx| node.link_down(key, "reset", fx));
    net.pass(2_000);
    let made = ids
        .iter()
        .filter(|id| state(&net, promoted, **id).is_some());
    assert_eq!(made.count(), JOBS);
    assert_eq!(peer(&net).1, Comparison::Done);
}

#[test]
fn an_acknowledgement_that_it_had_not_received_is_heard_of() {
    let mut net = Net::new(2);
    let id = net.add(0, &copied(2));
    let received = net.written(0);
    net.on(1, |node, now, fx| node.ack_jobs(now, &[id], fx));
    net.pass(1_000);
    assert_eq!([0, 1].map(|at| state(&net, at, id)), [None; 2]);
    net.servers[0].is_cut_off = true;
    let promoted = net.promote(0, Some(received));
    net.pass(3_000);
    assert_eq!(take(&mut net, promoted), None, "it is delivered again");
    assert_eq!(state(&net, promoted, id), None);
}

#[test]
fn its_primary_is_told_answers_who_waits_and_serves_no_more() {
    let mut net = Net::new(3);
    let get = get_from(&["empty"], 1);
    let waiter = net.on(0, |node, now, _| node.block(now, &get)).unwrap();
    // One of three is away without the others knowing it: a producer waits.
    net.servers[2].is_cut_off = true;
    let sync = AddJob {
        timeout_ms: 0,
        ..copied(3)
    };
    let added = net.on(0, |node, now, fx| node.add_job(now, &sync, true, fx));
    let Ok(Added::Waits { waiter: adder, .. }) = added else {
        panic!("it does not wait for copies: {added:?}");
    };
    net.pass(500);
    assert_eq!(net.servers[0].answers, []);
    let promoted = net.promote(0, None);
    net.pass(100);
    net.servers[2].is_cut_off = false;
    net.pass(2_000);
    let old = &net.servers[0];
    for waiter in [waiter, adder] {
        let answer = old.answers.iter().find(|(id, _)| *id == waiter);
        let wanted = Answer::Error(Error::Superseded);
        assert_eq!(answer.map(|(_, answer)| answer), Some(&wanted));
    }
    assert_eq!(old.kit.node.check_serving(), Err(Error::Superseded));
    let successor = old.kit.node.successor().expect("it is told of it");
    assert_eq!(successor.term, 1);
    assert_eq!(successor.contact.host, format!("host-{promoted}"));
    let told = |news: &&News| matches!(news, News::WasSuperseded(_));
    assert_eq!(old.news.iter().filter(told).count(), 1);
    // Others refuse it, and it refuses them, without taking itself for the node.
    for at in [1, 2] {
        let kit = &net.servers[at].kit;
        assert_eq!(kit.node.check_serving(), Ok(()));
        assert_eq!(kit.node.reachable_peers(kit.now).count(), 2);
    }
    assert_eq!(net.servers[promoted].kit.node.check_serving(), Ok(()));
}

#[test]
fn its_primary_sleeps_until_something_can_change() {
    let mut net = Net::new(2);
    net.add(0, &job());
    net.promote(0, None);
    net.pass(2_000);
    let kit = &net.servers[0].kit;
    assert_eq!(kit.node.check_serving(), Err(Error::Superseded));
    let wake = kit.node.next_wake().expect("heartbeats");
    assert!(wake > kit.now.mono_ms, "it is busy with nothing");
}

#[test]
fn a_superseded_one_knows_it_after_a_restart_from_its_data_or_its_nodes_file() {
    let mut net = Net::new(2);
    net.promote(0, None);
    net.pass(2_000);
    let old = &net.servers[0].kit;
    let text = old.node.nodes_file(true).to_text();
    let file = NodesFile::parse(text.as_bytes()).expect("a good file");
    let mut empty = Node::new(file.identity, Settings::default(), [8; 32], old.now);
    empty.restore_nodes(&file);
    assert_eq!(empty.successor(), old.node.successor());
    assert_eq!(empty.cluster().size(), 2);
    empty.check_invariants(old.now).expect("a sound node");

    let mut loaded = Node::new(IDENTITY, Settings::default(), [9; 32], old.now);
    old.node
        .snapshot(old.now, &mut |batch| loaded.apply(old.now, batch))
        .expect("good records");
    assert_eq!(loaded.successor(), old.node.successor());

    // As a replica of the new one, and promoted in turn, it is the node again.
    let new = &net.servers[2].kit;
    new.node
        .snapshot(old.now, &mut |batch| loaded.apply(old.now, batch))
        .expect("good records");
    assert_eq!(loaded.check_serving(), Ok(()));
    loaded.promote(old.now, &mut Effects::new());
    assert_eq!(loaded.identity().term, 2);
    let reset = &mut empty;
    reset.reset(old.now, &mut Effects::new());
    assert_eq!(reset.check_serving(), Ok(()));
}

#[test]
fn whoever_missed_some_promotions_takes_the_last_for_the_node() {
    let mut net = Net::new(2);
    let id = net.add(0, &copied(2));
    net.servers[0].is_cut_off = true;
    net.servers[1].is_cut_off = true;
    let first = net.promote(0, None);
    net.servers[first].is_cut_off = true;
    let second = net.promote(0, None);
    for _ in 0..3 {
        net.on(second, |node, now, fx| node.promote(now, fx));
    }
    net.servers[1].is_cut_off = false;
    net.pass(5_000);
    assert_eq!(net.servers[second].kit.node.identity().term, 4);
    let mut both = vec![name(&net, 1), name(&net, second)];
    both.sort();
    assert_eq!(holders(&net, 1, id), both);
    // The one between is superseded as well.
    net.servers[first].is_cut_off = false;
    net.pass(5_000);
    let between = &net.servers[first].kit.node;
    assert_eq!(between.check_serving(), Err(Error::Superseded));
}

#[test]
fn at_most_once_jobs_are_withheld() {
    let mut net = Net::new(2);
    let once = AddJob {
        retry: Some(Span::ZERO),
        ..job()
    };
    let later = AddJob {
        delay: Span::from_secs(1),
        ..once.clone()
    };
    let all = [net.add(0, &once), net.add(0, &later)];
    net.servers[0].is_cut_off = true;
    let at = net.promote(0, None);
    net.pass(3_000);
    assert_eq!(take(&mut net, at), None);
    assert_eq!(all.map(|id| state(&net, at, id)), [Some(State::Active); 2]);
    assert_eq!(net.servers[at].kit.node.totals().stats.withheld, 2);
}

#[test]
fn an_at_most_once_job_that_its_primary_gave_away_since_comes_once() {
    let mut net = Net::new(3);
    let once = AddJob {
        retry: Some(Span::ZERO),
        ..job()
    };
    let id = net.add(0, &once);
    let received = net.written(0);
    let get = get_from(&["q"], 1);
    net.on(1, |node, now, _| node.block(now, &get)).unwrap();
    net.pass(500);
    assert_eq!(
        [0, 1].map(|at| state(&net, at, id)),
        [None, Some(State::Active)]
    );
    // Its client was gone.
    let receipt = Receipt { id, attempt: 1 };
    net.on(1, |node, _, fx| node.undeliver(&[receipt], fx));
    assert_eq!(state(&net, 1, id), Some(State::Queued));
    let promoted = net.promote(0, Some(received));
    net.pass(2_000);
    // It has the job too, and keeps it back until it is given the only one that counts.
    assert_eq!(take(&mut net, promoted), None);
    net.on(promoted, |node, now, _| node.block(now, &get))
        .unwrap();
    net.pass(500);
    assert_eq!(state(&net, 1, id), None);
    let job = net.servers[promoted].kit.view(id).job;
    assert_eq!((job.state, job.attempt), (State::Active, 1));
    assert_eq!(net.servers[promoted].answers.len(), 1);
}

#[test]
fn a_link_that_still_leads_to_the_primary_is_closed() {
    let mut net = Net::new(3);
    let old = net.servers[0].kit.node.speaker();
    let key = |net: &Net| {
        let cluster = net.servers[1].kit.node.cluster();
        cluster.peer(&old.id).expect("it is known").key
    };
    net.promote(0, None);
    net.pass(2_000);
    let key = key(&net);
    let answer = crate::message::encode_answer(&old);
    let taken = net.on(1, |node, now, fx| node.handle_answer(now, key, &answer, fx));
    assert!(taken.is_err(), "an answer of before is taken");
    let peer = net.servers[1].kit.node.cluster().by_key(key).unwrap();
    assert_eq!(peer.term, 1);
    assert!(matches!(peer.link, LinkState::Up(_)));
}

#[test]
fn two_servers_of_one_node_and_term_are_noticed_and_neither_serves_before_one_is_gone() {
    let mut net = Net::new(3);
    let identity = *net.servers[0].kit.node.identity();
    let copy = net.copy(0);
    net.pass(20_000);
    for (at, other) in [(0, copy), (copy, 0)] {
        let server = &net.servers[at];
        assert_eq!(server.kit.node.check_serving(), Err(Error::Doubled));
        let known = server.kit.node.double().expect("it is told where");
        assert_eq!(known.host, format!("host-{other}"));
        let told = |news: &&News| matches!(news, News::IsDoubled(_));
        assert_eq!(server.news.iter().filter(told).count(), 1);
    }
    for at in [1, 2] {
        assert_eq!(net.servers[at].kit.node.check_serving(), Ok(()));
    }
    net.on(copy, |node, now, fx| node.reset(now, fx));
    net.pass(40_000);
    for at in [0, copy] {
        assert_eq!(net.servers[at].kit.node.check_serving(), Ok(()));
    }
    assert_eq!(*net.servers[0].kit.node.identity(), identity);
    for at in [0, 1, 2] {
        let kit = &net.servers[at].kit;
        assert_eq!(kit.node.reachable_peers(kit.now).count(), 2, "node {at}");
    }
}

#[test]
fn a_server_that_starts_again_elsewhere_is_no_double() {
    let mut net = Net::new(3);
    net.servers[0].is_cut_off = true;
    let again = net.copy(0);
    net.pass(20_000);
    assert_eq!(net.servers[again].kit.node.check_serving(), Ok(()));
    for at in [1, 2] {
        let kit = &net.servers[at].kit;
        assert_eq!(kit.node.reachable_peers(kit.now).count(), 2);
    }
}

/// The node of a server is forgotten by the other one, and a replica of it, which has not
/// heard of that, is promoted.
fn promoted_after_it_was_forgotten(net: &mut Net) -> usize {
    // Its link is made anew, and is a late one of many.
    net.servers[0].connections = 10;
    net.servers[0].is_cut_off = true;
    net.pass(5_000);
    net.servers[0].is_cut_off = false;
    net.pass(5_000);
    net.servers[0].is_cut_off = true;
    let forgotten = name(net, 0);
    net.on(1, |node, now, fx| {
        node.forget_node(now, forgotten.as_bytes(), fx)
    })
    .expect("it is known");
    net.promote(0, None)
}

#[test]
fn one_that_was_forgotten_counts_anew_when_its_promoted_replica_is_met() {
    let mut net = Net::new(2);
    let promoted = promoted_after_it_was_forgotten(&mut net);
    let speaker = net.servers[promoted].kit.node.speaker();
    let contact = Contact {
        host: format!("host-{promoted}"),
        port: speaker.port,
    };
    net.on(1, |node, _, fx| node.met(&speaker, contact, fx))
        .expect("it has other data");
    net.pass(3_000);
    for at in [1, promoted] {
        let kit = &net.servers[at].kit;
        assert_eq!(kit.node.reachable_peers(kit.now).count(), 1, "at {at}");
    }
}

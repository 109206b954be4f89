//! What a node makes of messages about jobs that others may hold.

use super::*;
use crate::body::Carried;
use crate::effects::BusAction;
use crate::holders::{Pair, Pairs};
use crate::job::Options;
use crate::memory::Pressure;
use crate::message::{
    encode_header, encode_message, read_answer, Bump, Claim, CopyImage, Header, Heartbeat, JobIds,
    Listing, Message, Speaker,
};
use crate::node::load::Completeness;
use crate::record::{CopiesImage, JobImage, Record, RecordBatch};

const OTHER: Pair = Pair {
    id: [7; 20],
    epoch: 7,
};

fn pairs(pairs: &[Pair]) -> Vec<u8> {
    let bytes = |pair: &Pair| [&pair.id[..], &pair.epoch.to_le_bytes()].concat();
    pairs.iter().flat_map(bytes).collect()
}

/// What the producer of a job with two copies asked for.
fn retried() -> Options {
    Options {
        replicate: 2,
        sync: 2,
        ttl: Span::from_secs(86_400),
        delay: Span::ZERO,
        retry: Span::from_secs(1),
    }
}

fn at_most_once() -> Options {
    Options {
        replicate: 1,
        sync: 1,
        retry: Span::ZERO,
        ..retried()
    }
}

/// A node that has a job, or its acknowledgement, of which `OTHER` has a copy too.
fn with_job(id: JobId, state: State) -> Kit {
    with_changed_job(id, state, |_| ())
}

/// The same with a job that differs.
fn with_changed_job(id: JobId, state: State, change: impl FnOnce(&mut JobImage<'_>)) -> Kit {
    let mut kit = Kit::new();
    let own = Pair::from(kit.node.identity());
    let list = pairs(&[own, OTHER]);
    let mut batch = RecordBatch::default();
    let mut image = JobImage {
        id,
        queue: b"q",
        body: Carried::Within(b""),
        ctime: 1,
        expire_at: START.wall_ms + 86_400_000,
        requeue_at: 0,
        options: retried(),
        state,
        attempt: 1,
        nacks: 0,
        additional_deliveries: 0,
        withheld: false,
        copies: Some(CopiesImage {
            holders: Pairs::new(&list, 1),
            turn: 1,
            responsible: Some(own),
        }),
    };
    change(&mut image);
    batch.push(&Record::Job(image));
    kit.node.apply(START, batch.bytes()).expect("a good record");
    kit
}

/// What `OTHER` is answered.
fn say(kit: &mut Kit, message: &Message<'_>) -> Vec<u8> {
    say_as(OTHER, kit, message)
}

/// What a node is answered.
fn say_as(speaker: Pair, kit: &mut Kit, message: &Message<'_>) -> Vec<u8> {
    let me = kit.node.identity().id;
    let mut frame = encode_header(&Header {
        from: Speaker {
            id: speaker.id,
            epoch: speaker.epoch,
            term: 0,
            incarnation: 1,
            process: 1,
            port: 7711,
        },
        to: Some(me),
        connection: 1,
    });
    frame.extend(encode_message(message));
    let answer = kit.call(|node, now, fx| node.handle_frame(now, &frame, "other", fx));
    answer.expect("the frame is taken")
}

fn confirmed(kit: &Kit, id: JobId) -> Vec<String> {
    let view = kit.view(id);
    kit.node.holders(view.job, true)
}

#[test]
fn one_that_asks_about_its_copy_has_not_confirmed_the_acknowledgement() {
    let id = unknown_id();
    let mut kit = with_job(id, State::Acked);
    let (ids, none) = (JobIds::encode(&[id]), JobIds::encode(&[]));
    let answer = say(
        &mut kit,
        &Message::Have {
            ids: ids.ids(),
            mine: none.ids(),
        },
    );
    let (_, mut messages) = read_answer(&answer).expect("an answer");
    let told = messages.next().expect("a message").expect("a good one");
    assert!(matches!(told, Message::SetAck { id: about, .. } if about == id));
    assert_eq!(confirmed(&kit, id), [kit.node.identity().hex()]);
    // One that says that it lacks the job has nothing to confirm any more.
    say(&mut kit, &Message::Unknown { id });
    assert_eq!(confirmed(&kit, id).len(), 2);
}

#[test]
fn an_acknowledged_job_stays_so_after_a_crash() {
    let id = unknown_id();
    // At most once, and acknowledged before it was delivered.
    let mut kit = with_changed_job(id, State::Acked, |image| {
        image.options = at_most_once();
        image.attempt = 0;
    });
    kit.call(|node, now, fx| node.finish_load(now, Completeness::MayLackDeliveries, fx));
    assert!(kit.view(id).job.is_acked());
    assert_eq!(kit.node.totals().stats.withheld, 0);
}

/// `OTHER` is there, and hears the node.
fn greet(kit: &mut Kit) {
    greet_as(OTHER, kit);
}

fn greet_as(speaker: Pair, kit: &mut Kit) {
    let beat = Message::Heartbeat(Heartbeat {
        leaving: false,
        answered: true,
        unclean_start: 0,
        table: 0,
    });
    say_as(speaker, kit, &beat);
}

#[test]
fn a_node_that_lost_its_data_and_was_forgotten_is_waited_for_with_neither() {
    let id = unknown_id();
    let mut kit = with_job(id, State::Acked);
    let newer = Pair {
        epoch: OTHER.epoch + 1,
        ..OTHER
    };
    greet_as(newer, &mut kit);
    let hex = crate::node::hex(&OTHER.id);
    let forgotten = kit.call(|node, now, fx| node.forget_node(now, hex.as_bytes(), fx));
    forgotten.expect("it was known");
    assert_eq!(kit.state(id), Some(State::Acked));
    // Its collection begins, and there is nobody left to confirm.
    kit.pass(7_000);
    assert_eq!(kit.state(id), None);
}

/// A node that has delivered a job, and has come to the end of its RETRY standing
/// still.
fn after_standing_still(id: JobId) -> Kit {
    let mut kit = with_job(id, State::Active);
    greet(&mut kit);
    kit.pass(kit.node.settings().node_timeout_ms);
    // It was loaded: OTHER is asked, and has nothing against it.
    kit.enqueue(id);
    assert_eq!(kit.take(), Some(id));
    kit.run();
    for _ in 0..9 {
        kit.pass(100);
    }
    kit.pass(3_000);
    kit
}

#[test]
fn a_node_that_stood_still_reads_what_it_was_told_before_it_queues() {
    let id = unknown_id();
    let mut kit = after_standing_still(id);
    assert_eq!(kit.state(id), Some(State::Active));
    say(
        &mut kit,
        &Message::SetAck {
            id,
            attempt: 1,
            dummy: true,
            holders: Pairs::NONE,
        },
    );
    kit.pass(1_000);
    assert_eq!(kit.state(id), None);
}

#[test]
fn a_node_that_stood_still_queues_what_nobody_told_of_a_moment_later() {
    let id = unknown_id();
    let mut kit = after_standing_still(id);
    kit.pass(150);
    assert_eq!(kit.state(id), Some(State::Active));
    // However late it is again.
    kit.pass(3_000);
    assert_eq!(kit.state(id), Some(State::Queued));
}

#[test]
fn a_delivery_ends_for_the_node_at_which_the_job_was_given_back_not_for_who_passes_it_on() {
    const THIRD: Pair = Pair {
        id: [9; 20],
        epoch: 9,
    };
    let id = unknown_id();
    let mut kit = with_changed_job(id, State::Active, |image| {
        let copies = image.copies.as_mut().expect("there are copies");
        copies.turn = 7;
    });
    greet(&mut kit);
    greet_as(THIRD, &mut kit);
    let third = kit.node.cluster().peer(&THIRD.id).expect("it is known").key;
    kit.call(|node, now, fx| node.link_up(now, third, 1, fx));
    // THIRD did not know that this node has the job; OTHER does.
    let list = pairs(&[OTHER, THIRD]);
    let answer = say(
        &mut kit,
        &Message::Queued {
            id,
            counter: Bump::Nack,
            ms: 0,
            claim: Claim {
                turn: 2,
                responsible: Some(THIRD),
                attempt: 1,
            },
            holders: Pairs::new(&list, 2),
        },
    );
    let (_, mut messages) = read_answer(&answer).expect("an answer");
    let told = messages.next().expect("a message").expect("a good one");
    let Message::Queued { claim, .. } = told else {
        panic!("not who has the job: {told:?}");
    };
    assert_eq!((claim.turn, claim.responsible), (7, Some(THIRD)));
    // So that it sets its turn above.
    let is_told = |action: &BusAction| matches!(action, BusAction::Send { to, .. } if *to == third);
    assert!(kit.fx.bus.iter().any(is_told), "{:?}", kit.fx.bus);
}

#[test]
fn when_memory_is_nearly_full_settled_jobs_are_forgotten_first() {
    let mut kit = with_job(unknown_id(), State::Active);
    say(&mut kit, &Message::Unknown { id: unknown_id() });
    for _ in 0..3 {
        let id = kit.add(&job());
        kit.call(|node, now, fx| node.fast_ack(now, &[id], fx));
    }
    assert_eq!(kit.node.settled.len(), 3);
    kit.node.set_server_pressure(Pressure::Critical);
    kit.call(|node, now, fx| assert!(node.relieve_memory(now, fx)));
    assert_eq!(kit.node.settled.len(), 2);
}

#[test]
fn an_acknowledgement_that_nobody_knows_goes_sooner_when_memory_is_nearly_full() {
    for (pressure, left) in [(Pressure::None, 1), (Pressure::Critical, 0)] {
        let mut kit = with_job(unknown_id(), State::Active);
        greet(&mut kit);
        let key = kit.node.cluster().peer(&OTHER.id).expect("a peer").key;
        kit.call(|node, now, fx| node.link_up(now, key, 1, fx));
        // Another node of the table is never reached.
        say(
            &mut kit,
            &Message::Known(Listing {
                id: [9; 20],
                epoch: 9,
                term: 0,
                host: "away",
                port: 7711,
            }),
        );
        kit.node.set_server_pressure(pressure);
        let id = IdGenerator::new([2; 4], [2; 32]).next(Span::from_secs(60), true);
        kit.ack(id);
        let denied = Message::GotAck {
            id,
            known: false,
            holders: Pairs::NONE,
        };
        say(&mut kit, &denied);
        assert_eq!(kit.node.acks.len(), left, "{pressure:?}");
    }
}

#[test]
fn what_another_node_says_of_a_successor_that_was_forgotten_is_no_news() {
    let mut kit = Kit::new();
    greet(&mut kit);
    let known = |epoch, term| {
        Message::Known(Listing {
            id: [9; 20],
            epoch,
            term,
            host: "away",
            port: 7711,
        })
    };
    say(&mut kit, &known(1, 0));
    let forgotten = Message::Forgotten {
        id: [9; 20],
        epoch: 2,
        until: kit.now.wall_ms + 60_000,
    };
    say(&mut kit, &forgotten);
    say(&mut kit, &known(2, 1));
    let peer = kit.node.cluster().peer(&[9; 20]).expect("it is known");
    assert_eq!((peer.epoch, peer.term), (1, 0));
}

/// A copy of a job of which `OTHER` says that it is responsible.
fn copy(id: JobId, list: &[u8], turn: u32) -> CopyImage<'_> {
    CopyImage {
        id,
        queue: b"q",
        body: None,
        ctime: 1,
        ttl_left_ms: 86_400_000,
        delay_left_ms: 0,
        options: retried(),
        nacks: 0,
        additional_deliveries: 0,
        claim: Claim {
            turn,
            responsible: Some(OTHER),
            attempt: 0,
        },
        holders: Pairs::new(list, 1),
    }
}

#[test]
fn an_at_most_once_job_that_comes_back_after_a_restart_is_queued_here() {
    let id = unknown_id();
    let mut kit = with_changed_job(id, State::WaitRepl, |image| {
        image.options = at_most_once();
        (image.attempt, image.withheld) = (0, true);
        image.copies.as_mut().expect("they are known").responsible = None;
    });
    greet(&mut kit);
    let list = pairs(&[OTHER]);
    let copy = CopyImage {
        options: at_most_once(),
        ..copy(id, &list, 0)
    };
    say(&mut kit, &Message::YourJob { serial: 1, copy });
    assert_eq!(kit.state(id), Some(State::Queued));
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn a_job_is_not_taken_from_a_node_that_gives_what_is_not_its_own_any_more() {
    let id = unknown_id();
    let mut kit = with_job(id, State::Active);
    greet(&mut kit);
    let own = Pair::from(kit.node.identity());
    let list = pairs(&[own, OTHER]);
    let given = |serial, turn| Message::YourJob {
        serial,
        copy: copy(id, &list, turn),
    };
    let answer = say(&mut kit, &given(1, 0));
    let (_, mut messages) = read_answer(&answer).expect("an answer");
    let told = messages.next().expect("a message").expect("a good one");
    let Message::Queued { claim, .. } = told else {
        panic!("{told:?}");
    };
    assert_eq!((claim.turn, claim.responsible), (1, Some(own)));
    assert_eq!(kit.state(id), Some(State::Active));
    say(&mut kit, &given(2, 2));
    assert_eq!(kit.state(id), Some(State::Queued));
}

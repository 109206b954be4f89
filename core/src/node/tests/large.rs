//! Large bodies: one allocation on each node, shared by job, record and messages.

use super::net::{Net, Server};
use super::*;
use crate::body::{LargeBody, Packet, Parts, LARGE};
use crate::effects::BusAction;
use crate::message::{read_answer, Message};
use crate::node::load::Completeness;

fn large(byte: u8) -> Vec<u8> {
    vec![byte; LARGE]
}

fn with_copies<'a>(bodies: &'a [&'a [u8]], replicate: u16) -> AddJob<'a> {
    AddJob {
        bodies,
        replicate: Some(replicate),
        timeout_ms: 1_000,
        ..job()
    }
}

/// Where the bodies are of the messages that a call wants sent.
fn sent(fx: &Effects) -> Vec<*const u8> {
    let sends = fx.bus.iter().filter_map(|action| match action {
        BusAction::Send { message, .. } => Some(message),
        _ => None,
    });
    let bodies = sends.flat_map(|message| {
        assert!(message.bytes.len() < 1_000);
        message.bodies.iter().map(LargeBody::as_ref)
    });
    bodies.map(<[u8]>::as_ptr).collect()
}

fn recorded(fx: &Effects) -> Vec<(*const u8, Option<usize>)> {
    let bodies = fx.records.bodies();
    bodies
        .map(|(body, number)| (body.as_ptr(), number))
        .collect()
}

/// A frame from the first node to the other one.
fn frame_of(net: &Net, messages: &Packet) -> Packet {
    let Server {
        kit, connections, ..
    } = &net.servers[0];
    let to = kit.node.reachable_peers(kit.now).next();
    let mut frame = Packet::from(encode_header(&kit.node.header(to, *connections)));
    frame.append(messages);
    frame
}

#[test]
fn job_record_and_messages_to_all_peers_share_one_allocation() {
    let mut net = Net::new(3);
    let body = large(7);
    let (sent, recorded, id) = net.on(0, |node, now, fx| {
        let added = node.add_job(now, &with_copies(&[&body], 3), true, fx);
        let Ok(Added::Waits { ids, .. }) = added else {
            panic!("{added:?}");
        };
        (sent(fx), recorded(fx), ids[0])
    });
    let place = net.servers[0].kit.view(id).job.body.as_ptr();
    assert_ne!(place, body.as_ptr());
    assert_eq!(sent, [place, place]);
    assert_eq!(recorded, [(place, Some(0))]);
    net.pass(50);
    for at in 0..3 {
        assert_eq!(net.servers[at].kit.view(id).job.body[..], body);
    }
}

/// A record says which of the bodies of the call it needs, small ones counted.
#[test]
fn the_bodies_of_a_batch_are_known_by_their_numbers() {
    let mut kit = Kit::new();
    let (first, second) = (large(1), large(2));
    let bodies: [&[u8]; 4] = [b"small", &first, b"", &second];
    let ids = kit.try_to_add_all(&with_copies(&bodies, 1)).unwrap();
    let numbers = kit.fx.records.bodies().map(|(_, number)| number);
    assert_eq!(numbers.collect::<Vec<_>>(), [Some(1), Some(3)]);
    let mut copy = Kit::new();
    copy.node = Node::new(IDENTITY, Settings::default(), [4; 32], START);
    copy.node.apply(START, kit.fx.records.packet()).unwrap();
    for (id, body) in ids.iter().zip(bodies) {
        assert_eq!(&copy.view(*id).job.body[..], body);
    }
}

/// The body of a frame is the receiver's to name, as that of a command is.
#[test]
fn a_copy_is_recorded_with_the_body_of_its_frame() {
    let mut net = Net::new(2);
    let body = large(7);
    let bodies: [&[u8]; 2] = [b"small", &body];
    let batch = net.on(0, |node, now, fx| {
        node.add_job(now, &with_copies(&bodies, 2), true, fx)
            .expect("they are added");
        let messages = fx.bus.drain(..).filter_map(|action| match action {
            BusAction::Send { message, .. } => Some(message),
            _ => None,
        });
        let mut all = Packet::default();
        messages.for_each(|message| all.append(&message));
        all
    });
    let frame = frame_of(&net, &batch);
    net.on(1, |node, now, fx| {
        node.handle_frame(now, &frame, "host-0", fx)
            .expect("it is taken");
        let numbers = fx.records.bodies().map(|(_, number)| number);
        assert_eq!(numbers.collect::<Vec<_>>(), [Some(0)]);
    });
}

#[test]
fn frames_with_missing_surplus_or_wrong_bodies_are_taken_up_to_there() {
    let (body, other) = (large(7), large(8));
    let cases: [(&[&[u8]], _, _); 3] = [
        (&[], 0, "its body is missing"),
        (&[&other], 0, "wrong checksum of its body"),
        (&[&body, &other], 1, "1 bodies that belong to no message"),
    ];
    for (given, kept, reason) in cases {
        let mut net = Net::new(2);
        let message = net.on(0, |node, now, fx| {
            node.add_job(now, &with_copies(&[&body], 2), true, fx)
                .expect("it is added");
            match fx.bus.pop() {
                Some(BusAction::Send { message, .. }) => message,
                other => panic!("{other:?}"),
            }
        });
        let frame = frame_of(&net, &message);
        let parts = Parts {
            bytes: &frame.bytes,
            bodies: given.iter().copied().collect(),
        };
        let answer = net.on(1, |node, now, fx| {
            node.handle_frame(now, parts, "host-0", fx)
        });
        assert_eq!(net.servers[1].kit.node.job_count(), kept);
        let answer = answer.expect("its header is good");
        let (_, messages) = read_answer(&answer).expect("an answer");
        match messages.last() {
            Some(Ok(Message::Stopped { reason: said })) => assert!(said.contains(reason)),
            last => panic!("{last:?}"),
        }
    }
}

#[test]
fn a_worker_elsewhere_gets_a_large_body() {
    let mut net = Net::new(2);
    let body = large(9);
    let waiter = net
        .on(1, |node, now, _| node.block(now, &get_from(&["q"], 1)))
        .expect("it may wait");
    net.pass(1_000);
    let id = net.add(0, &with_copies(&[&body], 1));
    net.pass(1_000);
    let told = net.servers[1].answers.iter();
    assert_eq!(told.filter(|(to, _)| *to == waiter).count(), 1);
    assert_eq!(net.servers[1].kit.view(id).job.body[..], body);
}

#[test]
fn what_was_written_down_makes_the_same_jobs_again() {
    let mut net = Net::new(2);
    let body = large(9);
    let id = net.add(0, &with_copies(&[&body, b"small"], 2));
    let promoted = net.promote(0, None);
    assert_eq!(net.servers[promoted].kit.view(id).job.body[..], body);
    // In a snapshot bodies stand in their records.
    let kit = &net.servers[0].kit;
    let mut copy = Kit::new();
    copy.node = Node::new(IDENTITY, Settings::default(), [4; 32], kit.now);
    let taken = kit
        .node
        .snapshot(kit.now, &mut |batch| copy.node.apply(kit.now, batch));
    assert_eq!(taken, Ok(()));
    copy.call(|node, now, fx| node.finish_load(now, Completeness::Complete, fx));
    assert_eq!(copy.view(id).job.body[..], body);
}

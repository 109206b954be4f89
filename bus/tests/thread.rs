//! The thread, against peers that the test scripts.

mod support;

use disque_bus::{
    Address, Credentials, DownReason, Event, Message, PeerKey, ProbeKey, RefusalKind, SendError,
    Settings, TimedOut,
};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use support::{Fake, Mode, Node, LIMIT};

const MS: Duration = Duration::from_millis(1);

/// Waits until something outside of the node has happened.
#[track_caller]
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !happened() {
        assert!(Instant::now() < end, "it did not happen: {what}");
        std::thread::sleep(MS);
    }
}

/// Waits for the answer to one message.
#[track_caller]
fn answer(node: &mut Node, serial: u64) -> Vec<u8> {
    node.wait_for(|event| match event {
        Event::Answer {
            serials: Some(serials),
            bytes,
            ..
        } if serials.last >= serial => Some(bytes.to_vec()),
        _ => None,
    })
}

#[test]
fn what_is_sent_before_a_flush_shares_a_frame() {
    let fake = Fake::new();
    let (mut node, peer, connection) = Node::with_peer(Settings::default(), fake.port());
    // The thread may look by itself in between: then there are more frames.
    let last = ["a", "b", "c"].map(|text| node.put(peer, connection, text))[2];
    node.bus.flush();
    assert!(answer(&mut node, last).ends_with(b"c"));
    let text: Vec<u8> = fake
        .frames()
        .iter()
        .flat_map(|f| f[0][1..].to_vec())
        .collect();
    assert_eq!(text, b"abc");
    let stats = node.bus.stats(peer).unwrap();
    assert_eq!((stats.messages, stats.connections), (3, 1));
    assert_eq!((stats.queued_bytes, stats.dropped), (0, 0));
    assert!(stats.round_trip_us > 0 && stats.bytes_in > 0 && stats.bytes_out > 0);
}

#[test]
fn large_bodies_travel_as_arguments() {
    let fake = Fake::new();
    let (mut node, peer, connection) = Node::with_peer(Settings::default(), fake.port());
    let body: Vec<u8> = (0..10_000_000u32).map(|n| (n % 251) as u8).collect();
    let message = Message::new(1, "one")
        .with_body(body.clone())
        .with_body("small");
    node.bus.send(peer, connection, message).unwrap();
    node.bus.flush();
    answer(&mut node, 1);
    let frames = fake.frames();
    assert_eq!(frames.len(), 1);
    assert!(frames[0] == [b"|one".to_vec(), body, b"small".to_vec()]);
}

#[test]
fn a_broken_connection_is_made_again() {
    let fake = Fake::new();
    let (mut node, peer, first) = Node::with_peer(Settings::default(), fake.port());
    node.round_trip(peer, first);
    fake.hang_up();
    let connection = node.wait_for(|event| match event {
        Event::Down { connection, .. } => *connection,
        _ => None,
    });
    assert_eq!(connection, first);
    let second = node.up(peer);
    assert!(second > first);
    node.put(peer, first, "for the first connection");
    node.round_trip(peer, second);
    assert!(fake.frames().iter().all(|frame| frame[0] == b"|x"));
    assert_eq!(node.bus.stats(peer).unwrap().dropped, 1);
}

#[test]
fn attempts_at_a_closed_port_come_less_and_less_often() {
    let fake = Fake::new();
    let port = fake.port();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = unused.local_addr().unwrap().port();
    drop(unused);
    let mut node = Node::new(Settings::default());
    node.bus
        .set_peer(PeerKey(1), Address::new("127.0.0.1", closed));
    let mut times = Vec::new();
    for _ in 0..4 {
        assert!(matches!(node.down(), DownReason::Connect(_)));
        times.push(Instant::now());
    }
    for (nth, pair) in times.windows(2).enumerate() {
        let least = Duration::from_millis(50 << nth);
        assert!(pair[1] - pair[0] + 5 * MS >= least, "{nth}");
    }
    // The peer is back, under another address.
    node.bus
        .set_peer(PeerKey(1), Address::new("127.0.0.1", port));
    node.up(PeerKey(1));
}

#[test]
fn hearing_of_a_peer_ends_the_pause() {
    let settings = Settings {
        backoff_min: Duration::from_secs(1000),
        backoff_max: Duration::from_secs(1000),
        ..Settings::default()
    };
    let fake = Fake::new();
    let (mut node, peer, _) = Node::with_peer(settings, fake.port());
    fake.hang_up();
    node.down();
    node.bus.hurry(peer);
    node.up(peer);
}

#[test]
fn a_stopped_peer_costs_the_others_nothing() {
    let settings = Settings {
        queue_limit: 1 << 20,
        ..Settings::default()
    };
    let (stopped, fine) = (Fake::new(), Fake::new());
    let mut node = Node::new(settings);
    let [bad, good] = [PeerKey(1), PeerKey(2)];
    node.bus
        .set_peer(bad, Address::new("127.0.0.1", stopped.port()));
    let bad_connection = node.up(bad);
    node.bus
        .set_peer(good, Address::new("127.0.0.1", fine.port()));
    let connection = node.up(good);
    stopped.set_mode(Mode::Stopped);
    // Fill the sockets, then the queue.
    let text = vec![b'x'; 100_000];
    let mut refused = 0;
    eventually("the queue is full", || {
        let message = Message::new(1_000_000, text.clone());
        refused += u64::from(node.bus.send(bad, bad_connection, message).is_err());
        node.bus.flush();
        refused > 100
    });
    assert!(node.bus.stats(bad).unwrap().queued_bytes <= 1 << 20);
    assert!(node.bus.stats(bad).unwrap().dropped >= refused);
    let mut times: Vec<Duration> = (0..300)
        .map(|_| node.round_trip(good, connection))
        .collect();
    times.sort();
    assert!(times[150] < 20 * MS, "{:?}", times[150]);
    // When the time-out has passed, all is dropped.
    let silent = node.wait_for(|event| match event {
        Event::Down { peer, reason, .. } if *peer == bad => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(silent, DownReason::TimedOut(TimedOut::Answer));
    assert_eq!(node.bus.stats(bad).unwrap().queued_bytes, 0);
    stopped.set_mode(Mode::Echo);
    node.up(bad);
}

#[test]
fn a_peer_that_cannot_be_reached_costs_the_others_nothing() {
    let settings = Settings {
        node_timeout: 300 * MS,
        ..Settings::default()
    };
    let fake = Fake::new();
    let mut node = Node::new(settings);
    // Reserved for documentation: nobody answers there, or there is no way.
    node.bus.set_peer(PeerKey(1), Address::new("192.0.2.1", 6));
    node.bus
        .set_peer(PeerKey(2), Address::new("127.0.0.1", fake.port()));
    let connection = node.up(PeerKey(2));
    for _ in 0..100 {
        assert!(node.round_trip(PeerKey(2), connection) < LIMIT / 10);
    }
    let reason = node.down();
    assert!(
        matches!(
            reason,
            DownReason::TimedOut(TimedOut::Connect) | DownReason::Connect(_)
        ),
        "{reason:?}"
    );
}

#[test]
fn names_are_looked_up() {
    let fake = Fake::new();
    let mut node = Node::new(Settings::default());
    node.bus
        .set_peer(PeerKey(1), Address::new("localhost", fake.port()));
    // It may stand for ::1 first, where nobody listens.
    let connection = node.up(PeerKey(1));
    node.round_trip(PeerKey(1), connection);
    node.bus
        .set_peer(PeerKey(2), Address::new("name.invalid", 1));
    assert!(matches!(node.down(), DownReason::Lookup(_)));
}

#[test]
fn a_silent_peer_is_not_reachable() {
    let settings = Settings {
        node_timeout: 200 * MS,
        ..Settings::default()
    };
    let fake = Fake::new();
    let (mut node, peer, connection) = Node::with_peer(settings, fake.port());
    fake.set_mode(Mode::Silent);
    let sent = node.put(peer, connection, "x");
    node.bus.flush();
    let written = node.wait_for(|event| match event {
        Event::Down {
            reason: DownReason::TimedOut(TimedOut::Answer),
            written,
            dropped: 1,
            ..
        } => *written,
        _ => None,
    });
    assert_eq!(written, sent);
    let handshake = DownReason::TimedOut(TimedOut::Handshake);
    assert_eq!(node.down(), handshake);
}

#[test]
fn an_idle_connection_is_kept_by_pings() {
    let settings = Settings {
        node_timeout: 300 * MS,
        ..Settings::default()
    };
    let fake = Fake::new();
    let (mut node, peer, _) = Node::with_peer(settings, fake.port());
    for n in 1..=10 {
        match node.event() {
            Event::Answer {
                frame,
                serials: None,
                ..
            } => assert_eq!(frame, n),
            event => panic!("{event:?}"),
        }
    }
    assert_eq!(node.bus.stats(peer).unwrap().messages, 0);
    assert_eq!(fake.accepted(), 1);
}

#[test]
fn a_refusing_peer_keeps_its_connection() {
    let fake = Fake::new();
    let (mut node, peer, connection) = Node::with_peer(Settings::default(), fake.port());
    fake.set_mode(Mode::Reply(b"-LOADING busy with that\r\n".to_vec()));
    node.put(peer, connection, "x");
    node.bus.flush();
    let kind = node.wait_for(|event| match event {
        Event::Refused {
            refusal,
            serials: Some(_),
            ..
        } => Some(refusal.kind),
        _ => None,
    });
    assert_eq!(kind, RefusalKind::Loading);
    assert!(matches!(node.down(), DownReason::Refused(_)));
    fake.set_mode(Mode::Echo);
    let connection = node.up(peer);
    node.round_trip(peer, connection);
    assert_eq!(fake.accepted(), 1);
}

#[test]
fn a_peer_that_talks_nonsense_is_left() {
    let fake = Fake::new();
    let (mut node, peer, connection) = Node::with_peer(Settings::default(), fake.port());
    fake.set_mode(Mode::Reply(b"*3\r\n:1\r\n:2\r\n:3\r\n".to_vec()));
    node.put(peer, connection, "x");
    node.bus.flush();
    assert!(matches!(node.down(), DownReason::Protocol(_)));
    eventually("the connection is closed", || fake.ended() == 1);
}

#[test]
fn a_probe_tells_who_is_there_and_goes() {
    let fake = Fake::new();
    let settings = Settings {
        credentials: Some(Credentials {
            user: Some("bus".into()),
            password: "pw".into(),
        }),
        client_name: "disque:01234567".into(),
        node_timeout: 500 * MS,
        ..Settings::default()
    };
    let mut node = Node::new(settings);
    let mut probe = |mode: Mode, host: &str, port: u16| {
        fake.set_mode(mode);
        node.bus.probe(ProbeKey(7), Address::new(host, port));
        match node.event() {
            Event::Probed {
                probe: ProbeKey(7),
                result,
            } => result,
            event => panic!("{event:?}"),
        }
    };
    let port = fake.port();
    assert_eq!(probe(Mode::Echo, "127.0.0.1", port).unwrap(), "hello");
    let refused = |text: &[u8]| Mode::Reply(text.to_vec());
    for (text, kind) in [
        (&b"-ERR unknown command\r\n"[..], RefusalKind::NotANode),
        (b"-LOADING\r\n", RefusalKind::Loading),
    ] {
        match probe(refused(text), "127.0.0.1", port) {
            Err(DownReason::Refused(refusal)) => assert_eq!(refusal.kind, kind),
            other => panic!("{other:?}"),
        }
    }
    let silent = probe(Mode::Silent, "127.0.0.1", port).unwrap_err();
    assert_eq!(silent, DownReason::TimedOut(TimedOut::Handshake));
    let lost = probe(Mode::Echo, "name.invalid", 1).unwrap_err();
    assert!(matches!(lost, DownReason::Lookup(_)));
    assert!(
        node.event_within(300 * MS).is_none(),
        "a probe is not repeated"
    );
    eventually("all connections are closed", || fake.ended() == 4);
}

#[test]
fn nothing_is_heard_of_a_removed_peer() {
    let fake = Fake::new();
    let (mut node, peer, connection) = Node::with_peer(Settings::default(), fake.port());
    node.put(peer, connection, "x");
    node.bus.flush();
    eventually("it arrived", || !fake.frames().is_empty());
    node.bus.remove_peer(peer);
    eventually("the connection is closed", || fake.ended() == 1);
    assert_eq!(node.bus.poll_event(), None);
    let message = Message::new(9, "x");
    let error = node.bus.send(peer, connection, message).unwrap_err();
    assert_eq!(error, SendError::UnknownPeer);
    assert_eq!(node.bus.stats(peer), None);
    node.bus
        .set_peer(peer, Address::new("127.0.0.1", fake.port()));
    assert!(node.up(peer) > connection);
}

#[test]
fn a_new_greeting_makes_a_new_connection() {
    let fake = Fake::new();
    let (mut node, peer, connection) = Node::with_peer(Settings::default(), fake.port());
    node.bus.reconnect(peer);
    assert_eq!(node.down(), DownReason::Requested);
    assert!(node.up(peer) > connection);
    eventually("the old one is closed", || fake.ended() == 1);
}

#[test]
fn an_owner_that_does_not_listen_holds_reading_back() {
    const ANSWER: usize = 100_000;
    let settings = Settings {
        unread_limit: 1 << 20,
        node_timeout: 300 * MS,
        ..Settings::default()
    };
    let fake = Fake::new();
    let mut reply = format!("${ANSWER}\r\n").into_bytes();
    reply.extend(vec![b'x'; ANSWER]);
    reply.extend(b"\r\n");
    let (mut node, peer, connection) = Node::with_peer(settings, fake.port());
    fake.set_mode(Mode::Reply(reply));
    for _ in 0..100 * 512 {
        node.put(peer, connection, "x");
    }
    node.bus.flush();
    eventually("the limit is reached", || {
        node.bus.stats(peer).unwrap().unread_bytes > 1 << 20
    });
    // Longer than the peer has time to answer: it is not to blame.
    std::thread::sleep(2 * 300 * MS);
    let unread = node.bus.stats(peer).unwrap().unread_bytes;
    // One turn's reading may go beyond the limit, by what was read and then
    // by the answer that it completed.
    assert!(unread < (1 << 20) + 1_000_000, "{unread}");
    let mut last = 0;
    while last < 100 * 512 {
        match node.event() {
            Event::Answer {
                serials: Some(serials),
                ..
            } => {
                assert_eq!(serials.first, last + 1);
                last = serials.last;
            }
            Event::Answer { .. } => {}
            event => panic!("{event:?}"),
        }
    }
    assert_eq!(node.bus.stats(peer).unwrap().dropped, 0);
}

#[test]
fn a_defect_is_logged_and_costs_the_connections_only() {
    let fake = Fake::new();
    let (mut node, peer, _) = Node::with_peer(Settings::default(), fake.port());
    node.owner.panic.store(true, SeqCst);
    node.bus
        .probe(ProbeKey(1), Address::new("127.0.0.1", fake.port()));
    let (mut fell, mut probed) = (false, false);
    while !(fell && probed) {
        match node.event() {
            Event::Down { reason, .. } => {
                assert_eq!(reason, DownReason::Panicked);
                fell = true;
            }
            Event::Probed { result, .. } => {
                assert_eq!(result, Err(DownReason::Panicked));
                probed = true;
            }
            event => panic!("{event:?}"),
        }
    }
    let connection = node.up(peer);
    node.round_trip(peer, connection);
    let lines = node.owner.lines.lock().unwrap();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("as the test wants it"), "{lines:?}");
}

#[test]
fn the_end_closes_all_connections() {
    let fake = Fake::new();
    let (node, ..) = Node::with_peer(Settings::default(), fake.port());
    node.bus.shutdown();
    eventually("the connection is closed", || fake.ended() == 1);
}

#[test]
fn settings_can_be_changed() {
    let fake = Fake::new();
    let (mut node, peer, connection) = Node::with_peer(Settings::default(), fake.port());
    fake.set_mode(Mode::Silent);
    node.put(peer, connection, "x");
    node.bus.flush();
    node.bus.set_settings(Settings {
        node_timeout: 100 * MS,
        queue_limit: 10,
        ..Settings::default()
    });
    assert_eq!(node.down(), DownReason::TimedOut(TimedOut::Answer));
    // The thread drops what is sent to a peer that is down whenever it looks.
    eventually("two messages are too many", || {
        let message = Message::new(9, "0123456789");
        let _ = node.bus.send(peer, 9, message.clone());
        node.bus.send(peer, 9, message) == Err(SendError::QueueFull)
    });
}

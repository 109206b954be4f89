//! Peers that do not keep to the protocol. What a link goes through in any order, with
//! an account of every message, stands in `tests/fuzz`.

use super::*;
use proptest::prelude::*;

fn protocol_error(events: &[LinkEvent]) -> Option<ProtocolError> {
    events.iter().find_map(|event| match event {
        LinkEvent::Down {
            reason: DownReason::Protocol(error),
            ..
        } => Some(*error),
        _ => None,
    })
}

#[test]
fn what_is_no_answer_to_a_frame_ends_the_connection() {
    use ProtocolError::*;
    for (reply, error) in [
        (&b"+OK\r\n"[..], WrongType),
        (b":1\r\n", UnknownType(b':')),
        (b"*1\r\n*1\r\n*1\r\n", UnknownType(b'*')),
        (b"$-1\r\n", BadLength),
        (b"$10001\r\n", TooLong),
        (b"$9999999999999999999\r\n", TooLong),
        (b"$1\r\nabc", BadEnd),
        (b"\x16\x03\x01", UnknownType(0x16)),
        (b"$0\r\n\r\n$0\r\n\r\n", Unsolicited),
        (b"$0\r\n\r\n$", Unsolicited),
        (b"$0\r\n\r\n-ERR again\r\n", Unsolicited),
    ] {
        let mut link = Driven::up();
        link.send("x");
        link.output();
        link.input(reply);
        let events = link.events();
        assert_eq!(protocol_error(&events), Some(error));
        assert_eq!(events.last(), Some(&LinkEvent::Close));
        link.input(b"$0\r\n\r\n");
        assert_eq!(link.events(), [], "nothing is heard of it any more");
        assert_eq!(link.link.memory(), 0);
    }
}

#[test]
fn what_is_no_answer_to_a_step_ends_the_connection() {
    let with_password = Settings {
        credentials: Some(Credentials {
            user: None,
            password: "pw".into(),
        }),
        ..settings()
    };
    let with_name = Settings {
        client_name: "me".into(),
        ..settings()
    };
    for (settings, reply) in [
        (with_password, &b"$2\r\nOK\r\n"[..]),
        (with_name, b"$2\r\nOK\r\n"),
        (settings(), b"+OK\r\n"),
    ] {
        let mut link = Driven::connected(settings);
        link.events();
        link.output();
        link.input(reply);
        let error = protocol_error(&link.events());
        assert_eq!(error, Some(ProtocolError::WrongType));
    }
}

#[test]
fn an_answer_before_its_frame_is_none() {
    let mut link = Driven::up();
    link.send("x");
    link.output_of(5);
    link.input(b"$0\r\n\r\n");
    let error = protocol_error(&link.events());
    assert_eq!(error, Some(ProtocolError::Unsolicited));
}

#[test]
fn the_largest_answer_is_as_large_as_allowed() {
    let mut link = Driven::up();
    link.send("x");
    link.output();
    link.input(b"$10000\r\n");
    link.input(&[b'x'; 10_000]);
    link.input(b"\r\n");
    assert_eq!(link.events().len(), 1);
    assert_eq!(link.link.connection(), Some(1));
}

#[test]
fn a_cut_answer_is_no_answer() {
    let reply = b"$3\r\nabc\r\n";
    for len in 0..reply.len() {
        let mut link = Driven::up();
        link.send("x");
        link.output();
        link.input(&reply[..len]);
        link.link.handle_closed(link.now, DownReason::Closed);
        assert_eq!(
            link.events(),
            [down(DownReason::Closed, Some(1), 1), LinkEvent::Close]
        );
    }
}

proptest! {
    #[test]
    fn arbitrary_replies_neither_panic_nor_grow(
        pieces in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..300), 0..20),
        up in any::<bool>(),
    ) {
        let mut link = if up { Driven::up() } else { Driven::connected(settings()) };
        for _ in 0..4 {
            link.send("x");
            link.output();
        }
        for piece in pieces {
            link.input(&piece);
            link.events();
            prop_assert!(link.link.memory() <= 100_000);
        }
    }
}

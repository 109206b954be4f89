//! Peers that do not keep to the protocol.

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

/// What can happen to a link.
#[derive(Clone, Debug)]
enum Step {
    Input(Vec<u8>),
    Send(usize),
    Write(usize),
    Pass(u64),
    Connected,
    Closed,
    Reconnect,
    Hurry,
    HeldBack,
}

fn step() -> impl Strategy<Value = Step> {
    let reply = prop_oneof![
        4 => Just(b"$2\r\nyo\r\n".to_vec()),
        2 => Just(b"+OK\r\n".to_vec()),
        1 => Just(b"-OOM x\r\n".to_vec()),
        1 => Just(b"-NOAUTH x\r\n".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ];
    prop_oneof![
        6 => reply.prop_map(Step::Input),
        6 => (0..2000usize).prop_map(Step::Send),
        6 => (0..3000usize).prop_map(Step::Write),
        3 => (0..2000u64).prop_map(Step::Pass),
        4 => Just(Step::Connected),
        1 => Just(Step::Closed),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Hurry),
        1 => Just(Step::HeldBack),
    ]
}

fn take(link: &mut Driven, step: Step) {
    match step {
        Step::Input(bytes) => link.input(&bytes),
        Step::Send(len) => {
            link.send(&"x".repeat(len));
        }
        Step::Write(len) => {
            link.output_of(len);
        }
        Step::Pass(ms) => link.pass(Duration::from_millis(ms)),
        Step::Connected => link.link.handle_connected(link.now),
        Step::Closed => link.link.handle_closed(link.now, DownReason::Closed),
        Step::Reconnect => link.link.reconnect(link.now),
        Step::Hurry => link.link.hurry(link.now),
        Step::HeldBack => link.link.handle_held_back(link.now),
    }
}

/// Watches the events of a link: each message has one end.
#[derive(Default)]
struct Ledger {
    up: Option<u64>,
    answered: u64,
    refused: u64,
    last: u64,
}

impl Ledger {
    fn note(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up { connection, .. } => {
                assert_eq!(self.up.replace(connection), None);
            }
            LinkEvent::Answer {
                connection,
                serials,
                ..
            } => {
                assert_eq!(self.up, Some(connection));
                self.answered += self.frame(serials);
            }
            LinkEvent::Refused {
                connection,
                serials,
                ..
            } => {
                assert_eq!(self.up, connection);
                self.refused += self.frame(serials);
            }
            LinkEvent::Down {
                connection,
                written,
                ..
            } => {
                assert_eq!(self.up.take(), connection);
                assert!(written.is_none_or(|written| written >= self.last));
            }
            LinkEvent::Open | LinkEvent::Close | LinkEvent::Greet => {}
        }
    }

    fn frame(&mut self, serials: Option<Serials>) -> u64 {
        let Some(serials) = serials else { return 0 };
        assert!(serials.first > self.last && serials.last >= serials.first);
        self.last = serials.last;
        serials.count as u64
    }
}

proptest! {
    #[test]
    fn whatever_comes_every_message_has_one_end(
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut link = Driven::new(settings());
        let mut ledger = Ledger::default();
        for step in steps {
            take(&mut link, step);
            link.events().into_iter().for_each(|event| ledger.note(event));
            prop_assert!(link.link.memory() <= 100_000);
            prop_assert!(link.link.poll_timeout().is_some());
        }
        link.link.handle_closed(link.now, DownReason::Closed);
        link.events().into_iter().for_each(|event| ledger.note(event));
        let stats = link.counters.read();
        prop_assert_eq!(stats.dropped + ledger.answered, link.serial);
        prop_assert!(ledger.refused <= stats.dropped);
        prop_assert_eq!(stats.queued_bytes, 0);
    }

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

//! Error replies.

use super::*;
use crate::refusal::RefusalKind;

const KEPT: &[&str] = &[
    "LOADING Redis is loading",
    "BUSY a script",
    "READONLY a replica",
    "MISCONF disk",
    "NOREPLICAS few",
    "OOM full",
];

const CLOSED: &[&str] = &[
    "NOAUTH Authentication required.",
    "WRONGPASS wrong",
    "NOPERM no",
    "DENIED protected",
    "ERR max number of clients reached",
    "ERR unknown command 'DISQUE.BUS'",
    "SUPERSEDED newer",
    "FORGOTTEN",
    "ERR what",
];

fn refusal(error: &str) -> Refusal {
    Refusal::classify(error.as_bytes())
}

fn refused(error: &str, connection: Option<u64>, serials: Option<Serials>) -> LinkEvent {
    LinkEvent::Refused {
        connection,
        serials,
        refusal: refusal(error),
    }
}

fn error(text: &str) -> Vec<u8> {
    format!("-{text}\r\n").into_bytes()
}

#[test]
fn a_passing_refusal_keeps_the_connection() {
    for text in KEPT {
        let mut link = Driven::up();
        link.send("1");
        link.output();
        link.send("2");
        link.input(&error(text));
        assert_eq!(
            link.events(),
            [
                refused(text, Some(1), serials(1, 1)),
                down(DownReason::Refused(refusal(text)), Some(1), 1),
            ]
        );
        assert_eq!(link.link.connection(), None);
        assert_eq!(link.counters.read().dropped, 2);
        link.send("lost");
        assert_eq!(link.output(), b"");
        // Asked again on the same connection, with a new greeting.
        link.pass(Duration::from_millis(100));
        assert_eq!(link.events(), []);
        assert_eq!(link.output(), HELLO);
        link.input(b"$2\r\nyo\r\n");
        assert_eq!(link.events(), [up(2)]);
        link.send("3");
        assert_eq!(link.output(), frame("3"));
    }
}

#[test]
fn a_lasting_refusal_ends_the_connection() {
    for text in CLOSED {
        let mut link = Driven::up();
        link.send("1");
        link.output();
        link.input(&error(text));
        let reason = DownReason::Refused(refusal(text));
        assert_eq!(
            link.events(),
            [
                refused(text, Some(1), serials(1, 1)),
                down(reason, Some(1), 0),
                LinkEvent::Close,
            ]
        );
    }
}

#[test]
fn what_is_under_way_is_still_answered() {
    let mut link = Driven::up();
    for text in ["1", "2", "3", "4", "5"] {
        link.send(text);
        link.output();
    }
    let oom = "OOM full";
    link.input(&error(oom));
    assert_eq!(link.events(), [refused(oom, Some(1), serials(1, 1))]);
    assert_eq!(link.link.connection(), Some(1), "answers may still come");
    link.send("6");
    assert_eq!(link.output(), b"", "but nothing more is sent");
    link.input(b"$2\r\nok\r\n");
    assert_eq!(link.events(), [answer(2, serials(2, 2), "ok")]);
    link.input(&[error(oom), b"$2\r\nok\r\n".to_vec()].concat());
    assert_eq!(
        link.events(),
        [
            refused(oom, Some(1), serials(3, 3)),
            answer(4, serials(4, 4), "ok"),
            down(DownReason::Refused(refusal(oom)), Some(4), 1),
        ]
    );
}

#[test]
fn a_peer_that_goes_silent_while_it_refuses_is_left() {
    let mut link = Driven::up();
    link.send("1");
    link.output();
    link.send("2");
    link.output();
    link.input(b"-OOM full\r\n");
    link.pass(settings().node_timeout);
    let events = link.events();
    let reason = DownReason::TimedOut(TimedOut::Answer);
    assert_eq!(events[1..], [down(reason, Some(2), 1), LinkEvent::Close]);
}

#[test]
fn a_handshake_is_repeated_and_the_refusal_told_once() {
    for text in KEPT {
        let mut link = Driven::connected(settings());
        link.events();
        assert_eq!(link.output(), HELLO);
        link.input(&error(text));
        assert_eq!(link.events(), [refused(text, None, None)]);
        for _ in 0..20 {
            link.pass(LONGEST_PAUSE);
            assert_eq!(link.events(), []);
            assert_eq!(link.output(), HELLO);
            link.input(&error(text));
        }
        link.input(b"");
        let other = "MISCONF other";
        link.pass(LONGEST_PAUSE);
        link.events();
        link.output();
        link.input(&error(other));
        let told = link.events().len();
        assert_eq!(told, usize::from(!text.starts_with("MISCONF")));
        link.pass(LONGEST_PAUSE);
        link.events();
        link.output();
        link.input(b"$2\r\nyo\r\n");
        assert_eq!(link.events(), [up(link.connection)]);
    }
}

#[test]
fn a_refused_handshake_ends_the_connection() {
    for text in CLOSED {
        let mut link = Driven::connected(settings());
        link.events();
        link.output();
        link.input(&error(text));
        let reason = DownReason::Refused(refusal(text));
        assert_eq!(link.events(), [failed(reason), LinkEvent::Close]);
    }
}

#[test]
fn a_refused_password_ends_the_connection_and_is_never_shown() {
    let mut link = Driven::connected(Settings {
        credentials: Some(Credentials {
            user: None,
            password: "secret".into(),
        }),
        ..settings()
    });
    link.output();
    link.input(b"-WRONGPASS invalid username-password pair\r\n");
    let events = link.events();
    let [LinkEvent::Down {
        reason: DownReason::Refused(refusal),
        ..
    }, LinkEvent::Close] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(refusal.kind, RefusalKind::WrongPassword);
    assert!(!format!("{events:?}").contains("secret"));
}

#[test]
fn a_name_may_be_missing_but_a_busy_peer_is_asked_again() {
    let named = || {
        let mut link = Driven::connected(Settings {
            client_name: "me".into(),
            ..settings()
        });
        assert!(link.output().ends_with(b"me\r\n"));
        link
    };
    for text in ["NOPERM no", "ERR unknown command 'CLIENT'", "ERR bad name"] {
        let mut link = named();
        link.input(&error(text));
        link.shake_hands();
    }
    let mut link = named();
    link.input(b"-BUSY script\r\n");
    assert_eq!(link.events(), [refused("BUSY script", None, None)]);
    link.pass(Duration::from_millis(100));
    assert!(link.output().ends_with(b"me\r\n"));
    let mut link = named();
    link.input(b"-NOAUTH no\r\n");
    assert_eq!(link.events().len(), 2);
}

#[test]
fn a_refused_ping_takes_the_link_down() {
    let mut link = Driven::up();
    link.pass(settings().node_timeout / 3);
    assert_eq!(link.output(), PING);
    link.input(b"-MISCONF disk\r\n");
    let reason = DownReason::Refused(refusal("MISCONF disk"));
    assert_eq!(
        link.events(),
        [
            refused("MISCONF disk", Some(1), None),
            down(reason, None, 0)
        ]
    );
}

#[test]
fn a_server_may_break_in_with_an_error() {
    // It refuses an argument before it has read it, and hangs up.
    let mut link = Driven::up();
    link.send(&"x".repeat(1000));
    link.output_of(100);
    link.input(b"-ERR Protocol error: invalid bulk length\r\n");
    let events = link.events();
    assert_eq!(events.len(), 3);
    assert_eq!(events[2], LinkEvent::Close);
    // Even an error that passes ends the connection: the stream is cut.
    let mut link = Driven::up();
    link.send(&"x".repeat(1000));
    link.output_of(100);
    link.input(b"-OOM full\r\n");
    assert_eq!(link.events().last(), Some(&LinkEvent::Close));
}

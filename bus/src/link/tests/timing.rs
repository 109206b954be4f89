//! PING, time-outs, pauses.

use super::*;

const TIMEOUT: Duration = Duration::from_secs(3);
const MS: Duration = Duration::from_millis(1);

fn timed_out(what: TimedOut) -> DownReason {
    DownReason::TimedOut(what)
}

#[test]
fn an_idle_link_pings() {
    let mut link = Driven::up();
    for frame in 1..5 {
        link.pass(TIMEOUT / 3 - MS);
        assert_eq!(link.output(), b"");
        link.pass(MS);
        assert_eq!(link.output(), PING);
        link.input(b"$1\r\n.\r\n");
        assert_eq!(link.events(), [answer(frame, None, ".")]);
    }
    assert_eq!(link.counters.read().messages, 0);
}

#[test]
fn a_busy_link_does_not_ping() {
    let mut link = Driven::up();
    for _ in 0..10 {
        link.pass(TIMEOUT / 4);
        link.send("x");
        assert_eq!(link.output(), frame("x"));
        link.input(b"$0\r\n\r\n");
    }
}

#[test]
fn silence_ends_the_connection() {
    let mut link = Driven::up();
    link.send("x");
    link.output();
    link.pass(TIMEOUT - MS);
    assert_eq!(link.events(), []);
    link.pass(MS);
    let reason = timed_out(TimedOut::Answer);
    assert_eq!(link.events(), [down(reason, Some(1), 1), LinkEvent::Close]);
}

#[test]
fn an_unanswered_ping_ends_the_connection() {
    let mut link = Driven::up();
    link.pass(TIMEOUT / 3 + TIMEOUT);
    let reason = timed_out(TimedOut::Answer);
    assert_eq!(link.events(), [down(reason, None, 0), LinkEvent::Close]);
}

#[test]
fn each_answer_gives_the_next_one_time() {
    let mut link = Driven::up();
    for text in ["1", "2", "3"] {
        link.send(text);
        link.output();
    }
    for _ in 0..3 {
        link.pass(TIMEOUT - MS);
        link.input(b"$0\r\n\r\n");
    }
    assert_eq!(link.events().len(), 3);
    assert_eq!(link.link.connection(), Some(1));
}

#[test]
fn further_messages_give_a_silent_peer_no_time() {
    let mut link = Driven::up();
    for _ in 0..30 {
        link.send("x");
        link.output();
        link.pass(TIMEOUT / 30);
    }
    let reason = timed_out(TimedOut::Answer);
    assert_eq!(link.events()[0], down(reason, Some(4), 30));
}

#[test]
fn a_large_answer_may_take_its_time_but_not_for_ever() {
    let answer_of = |len: usize| [format!("${len}\r\n").as_bytes(), &vec![b'x'; len]].concat();
    let mut link = Driven::connected(Settings {
        max_answer: 1 << 20,
        ..settings()
    });
    link.shake_hands();
    link.send("x");
    link.output();
    let answer = answer_of(1 << 20);
    for piece in answer.chunks(SLOWEST as usize) {
        link.pass(Duration::from_millis(999));
        link.input(piece);
    }
    assert_eq!(link.events(), [], "15 s at the lowest speed");
    for _ in 0..3 {
        link.pass(Duration::from_secs(1));
        link.input(b"\r");
    }
    assert!(link.events().contains(&LinkEvent::Close), "trickling on");
}

#[test]
fn a_large_frame_may_take_its_time() {
    let mut link = Driven::up();
    link.send(&"x".repeat(1 << 20));
    for _ in 0..16 {
        assert_eq!(link.output_of(SLOWEST as usize).len(), SLOWEST as usize);
        link.pass(Duration::from_millis(999));
    }
    assert!(!link.output().is_empty());
    assert_eq!(link.events(), []);
    link.pass(TIMEOUT);
    assert!(link.events().contains(&LinkEvent::Close));
}

#[test]
fn a_stuck_frame_ends_the_connection() {
    let mut link = Driven::up();
    link.send(&"x".repeat(1 << 20));
    link.output_of(100_000);
    link.pass(TIMEOUT);
    let reason = timed_out(TimedOut::Answer);
    assert_eq!(link.events(), [down(reason, Some(1), 1), LinkEvent::Close]);
}

#[test]
fn time_in_which_the_owner_does_not_read_is_not_the_peers() {
    let mut link = Driven::up();
    link.send("x");
    link.output();
    for _ in 0..10 {
        link.pass(TIMEOUT - MS);
        link.link.handle_held_back(link.now);
    }
    assert_eq!(link.events(), []);
    link.pass(TIMEOUT);
    assert_eq!(link.events().len(), 2);
}

#[test]
fn connecting_and_each_step_have_so_much_time() {
    let mut link = Driven::new(settings());
    link.link.handle_timeout(link.now);
    link.pass(TIMEOUT);
    let reason = timed_out(TimedOut::Connect);
    assert_eq!(
        link.events(),
        [LinkEvent::Open, failed(reason), LinkEvent::Close]
    );
    let mut link = Driven::connected(settings());
    link.events();
    link.output();
    link.pass(TIMEOUT);
    let reason = timed_out(TimedOut::Handshake);
    assert_eq!(link.events(), [failed(reason), LinkEvent::Close]);
}

/// Milliseconds until the link connects again.
fn pause(link: &mut Driven) -> u128 {
    let start = link.now;
    link.now = link.link.poll_timeout().unwrap();
    let pause = (link.now - start).as_millis();
    link.link.handle_timeout(link.now);
    let events = link.events();
    assert_eq!(events.last(), Some(&LinkEvent::Open));
    pause
}

#[test]
fn pauses_grow_until_a_frame_is_answered() {
    let mut link = Driven::new(settings());
    assert_eq!(pause(&mut link), 0);
    for longest in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
        link.link.handle_closed(link.now, DownReason::Closed);
        let pause = pause(&mut link);
        assert!((longest / 2..=longest).contains(&pause), "{pause}");
    }
    // The handshake alone proves little.
    link.link.handle_connected(link.now);
    link.shake_hands();
    link.link.handle_closed(link.now, DownReason::Closed);
    assert!(pause(&mut link) >= 5000);
    link.link.handle_connected(link.now);
    link.shake_hands();
    link.send("x");
    link.output();
    link.input(b"$0\r\n\r\n");
    link.link.handle_closed(link.now, DownReason::Closed);
    assert!(pause(&mut link) <= 100);
}

#[test]
fn hearing_of_a_peer_ends_the_pause() {
    let mut link = Driven::new(settings());
    for _ in 0..10 {
        pause(&mut link);
        link.link.handle_closed(link.now, DownReason::Closed);
        link.events();
    }
    link.link.hurry(link.now);
    assert_eq!(pause(&mut link), 0);
    link.link.hurry(link.now);
    assert_eq!(link.events(), [], "it is connecting already");
}

#[test]
fn a_new_timeout_counts_at_once() {
    let mut link = Driven::up();
    link.link.set_settings(Arc::new(Settings {
        node_timeout: Duration::from_millis(300),
        ..settings()
    }));
    link.pass(Duration::from_millis(100));
    assert_eq!(link.output(), PING);
    link.pass(Duration::from_millis(300));
    assert_eq!(link.events().len(), 2);
}

#[test]
fn a_timeout_of_nothing_does_not_spin() {
    let mut link = Driven::connected(Settings {
        node_timeout: Duration::ZERO,
        ..settings()
    });
    link.shake_hands();
    let wait = link.link.poll_timeout().unwrap() - link.now;
    assert!(wait > Duration::from_millis(3));
}

use super::*;
use crate::message::FRAME_MESSAGES;
use crate::settings::Credentials;

mod hostile;
mod refusals;
mod timing;

const HELLO: &[u8] = b"*2\r\n$10\r\nDISQUE.BUS\r\n$2\r\nhi\r\n";
const PING: &[u8] = b"*2\r\n$10\r\nDISQUE.BUS\r\n$1\r\n|\r\n";

/// A link, its clock, and what its driver has seen.
struct Driven {
    link: Link,
    counters: Arc<Counters>,
    now: Instant,
    connection: u64,
    serial: u64,
}

fn settings() -> Settings {
    Settings {
        node_timeout: Duration::from_secs(3),
        max_answer: 10_000,
        ..Settings::default()
    }
}

impl Driven {
    fn new(settings: Settings) -> Driven {
        let (now, counters) = (Instant::now(), Counters::new());
        let link = Link::new(Arc::new(settings), counters.clone(), 1, now);
        let connection = 0;
        Driven {
            link,
            counters,
            now,
            connection,
            serial: 0,
        }
    }

    /// Connected, the first request not yet written.
    fn connected(settings: Settings) -> Driven {
        let mut driven = Driven::new(settings);
        driven.connect();
        driven
    }

    fn up() -> Driven {
        let mut driven = Driven::connected(settings());
        driven.shake_hands();
        driven
    }

    fn connect(&mut self) {
        self.link.handle_timeout(self.now);
        assert_eq!(self.events(), [LinkEvent::Open]);
        self.link.handle_connected(self.now);
    }

    fn shake_hands(&mut self) {
        assert_eq!(self.events(), []);
        assert_eq!(self.output(), HELLO);
        self.input(b"$2\r\nyo\r\n");
        assert_eq!(self.events(), [up(self.connection)]);
    }

    /// All events; greets when asked.
    fn events(&mut self) -> Vec<LinkEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.link.poll_event() {
            if event == LinkEvent::Greet {
                self.connection += 1;
                let greeting = Greeting {
                    connection: self.connection,
                    hello: "hi".into(),
                    prefix: "|".into(),
                };
                self.link.greet(self.now, greeting);
            } else {
                events.push(event);
            }
        }
        events
    }

    /// All bytes that the link wants to write.
    fn output(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let more = self.output_of(usize::MAX);
            if more.is_empty() {
                return bytes;
            }
            bytes.extend(more);
        }
    }

    /// At most so many of them.
    fn output_of(&mut self, most: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 4];
        let filled = self.link.poll_output(self.now, &mut slices);
        let mut bytes: Vec<u8> = slices[..filled].iter().flat_map(|s| s.to_vec()).collect();
        bytes.truncate(most);
        self.link.handle_written(self.now, bytes.len());
        bytes
    }

    fn input(&mut self, bytes: &[u8]) {
        self.link.handle_input(self.now, bytes);
    }

    fn send(&mut self, text: &str) -> u64 {
        self.serial += 1;
        let message = Message::new(self.serial, text.to_owned());
        let charge = self.counters.admit(message.size(), usize::MAX).unwrap();
        self.link.send(self.connection, message, charge);
        self.serial
    }

    /// Lets time pass, with every timer in it.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.link.poll_timeout().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            let before = self.link.poll_timeout();
            self.link.handle_timeout(self.now);
            if before == self.link.poll_timeout() {
                break;
            }
        }
        self.now = end;
    }
}

fn up(connection: u64) -> LinkEvent {
    let hello = "yo".into();
    LinkEvent::Up { connection, hello }
}

fn serials(first: u64, last: u64) -> Option<Serials> {
    Some(Serials {
        first,
        last,
        count: (last - first + 1) as usize,
    })
}

fn answer(frame: u64, serials: Option<Serials>, bytes: &'static str) -> LinkEvent {
    LinkEvent::Answer {
        connection: 1,
        frame,
        serials,
        bytes: bytes.into(),
    }
}

fn down(reason: DownReason, written: Option<u64>, dropped: usize) -> LinkEvent {
    LinkEvent::Down {
        connection: Some(1),
        reason,
        written,
        dropped,
    }
}

fn failed(reason: DownReason) -> LinkEvent {
    LinkEvent::Down {
        connection: None,
        reason,
        written: None,
        dropped: 0,
    }
}

fn frame(messages: &str) -> Vec<u8> {
    let header = format!("|{messages}");
    let len = header.len();
    format!("*2\r\n$10\r\nDISQUE.BUS\r\n${len}\r\n{header}\r\n").into_bytes()
}

#[test]
fn a_handshake_logs_in_names_itself_and_greets() {
    let mut link = Driven::connected(Settings {
        credentials: Some(Credentials {
            user: Some("bus".into()),
            password: "pw".into(),
        }),
        client_name: "disque:0123".into(),
        ..settings()
    });
    assert_eq!(
        link.output(),
        b"*3\r\n$4\r\nAUTH\r\n$3\r\nbus\r\n$2\r\npw\r\n"
    );
    link.input(b"+OK\r\n");
    assert_eq!(
        link.output(),
        b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$11\r\ndisque:0123\r\n"
    );
    link.input(b"+OK\r\n");
    link.shake_hands();
    assert_eq!(link.link.connection(), Some(1));
    assert_eq!(link.counters.read().connections, 1);
}

#[test]
fn a_password_alone_is_for_the_default_user() {
    let mut link = Driven::connected(Settings {
        credentials: Some(Credentials {
            user: None,
            password: "pw".into(),
        }),
        ..settings()
    });
    assert_eq!(link.output(), b"*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n");
}

#[test]
fn replies_may_come_in_any_pieces() {
    let replies = b"$2\r\nab\r\n-OOM full\r\n$0\r\n\r\n";
    let mut expected = None;
    for first in 0..=replies.len() {
        for second in first..=replies.len() {
            let mut link = Driven::up();
            for text in ["a", "b", "c"] {
                link.send(text);
                link.output();
            }
            let pieces = [
                &replies[..first],
                &replies[first..second],
                &replies[second..],
            ];
            pieces.iter().for_each(|piece| link.input(piece));
            let events = link.events();
            assert_eq!(events.len(), 4);
            assert_eq!(*expected.get_or_insert(events.clone()), events);
        }
    }
}

#[test]
fn a_lone_message_leaves_at_once_and_is_answered() {
    let mut link = Driven::up();
    assert_eq!(link.output(), b"");
    link.send("A");
    assert_eq!(link.output(), frame("A"));
    link.now += Duration::from_micros(700);
    link.input(b"$2\r\nok\r\n");
    assert_eq!(link.events(), [answer(1, serials(1, 1), "ok")]);
    let stats = link.counters.read();
    assert_eq!((stats.frames, stats.messages, stats.answers), (1, 1, 1));
    assert_eq!((stats.round_trip_us, stats.queued_bytes), (700, 0));
}

#[test]
fn what_is_sent_together_shares_a_frame() {
    let mut link = Driven::up();
    ["A", "B", "C"].iter().for_each(|text| {
        link.send(text);
    });
    assert_eq!(link.output(), frame("ABC"));
    link.input(b"$1\r\n.\r\n");
    assert_eq!(link.events(), [answer(1, serials(1, 3), ".")]);
}

#[test]
fn so_many_frames_are_under_way_and_the_rest_shares_the_next() {
    let mut link = Driven::up();
    for text in ["1", "2", "3", "4"] {
        link.send(text);
        assert_eq!(link.output(), frame(text));
    }
    for text in ["5", "6", "7"] {
        link.send(text);
        assert_eq!(link.output(), b"");
    }
    link.input(b"$0\r\n\r\n");
    assert_eq!(link.output(), frame("567"));
    link.send("8");
    assert_eq!(link.output(), b"");
    link.input(b"$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n");
    assert_eq!(link.output(), frame("8"));
    let answered: Vec<LinkEvent> = link.events();
    assert_eq!(answered[0], answer(1, serials(1, 1), ""));
    assert_eq!(answered[4], answer(5, serials(5, 7), ""));
}

#[test]
fn a_slow_socket_makes_frames_larger() {
    let mut link = Driven::up();
    link.send("1");
    assert_eq!(link.output_of(3), &frame("1")[..3]);
    link.send("2");
    link.send("3");
    assert_eq!(link.output_of(1000), &frame("1")[3..]);
    assert_eq!(link.output_of(1000), frame("23"));
}

#[test]
fn a_burst_is_cut_into_frames() {
    let mut link = Driven::up();
    for _ in 0..FRAME_MESSAGES + 3 {
        link.send("x");
    }
    assert_eq!(
        link.output(),
        [frame(&"x".repeat(FRAME_MESSAGES)), frame("xxx")].concat()
    );
}

#[test]
fn an_ended_connection_tells_what_was_dropped_and_what_was_written() {
    let mut link = Driven::up();
    for text in ["1", "2", "3", "4", "5", "6"] {
        link.send(text);
        link.output();
    }
    link.input(b"$0\r\n\r\n");
    link.events();
    link.link.handle_closed(link.now, DownReason::Closed);
    // 1 was answered, 2 to 4 in flight, 5 and 6 never left.
    assert_eq!(
        link.events(),
        [down(DownReason::Closed, Some(4), 5), LinkEvent::Close]
    );
    let stats = link.counters.read();
    assert_eq!((stats.dropped, stats.queued_bytes), (5, 0));
    assert_eq!(link.link.connection(), None);
}

#[test]
fn a_frame_half_written_counts_as_written() {
    let mut link = Driven::up();
    link.send("1");
    link.output_of(1);
    link.send("2");
    link.link.handle_closed(link.now, DownReason::Closed);
    assert_eq!(link.events()[0], down(DownReason::Closed, Some(1), 2));
}

#[test]
fn nothing_is_sent_on_another_connection_than_it_was_meant_for() {
    let mut link = Driven::up();
    link.link.reconnect(link.now);
    link.send("late");
    link.link.handle_timeout(link.now);
    let events = link.events();
    assert_eq!(events[0], down(DownReason::Requested, None, 0));
    assert_eq!(events[1..], [LinkEvent::Close, LinkEvent::Open]);
    link.link.handle_connected(link.now);
    assert_eq!(link.events(), []);
    assert_eq!(link.output(), HELLO);
    link.input(b"$2\r\nyo\r\n");
    assert_eq!(link.events(), [up(2)]);
    link.connection = 1;
    link.send("late too");
    assert_eq!(link.output(), b"");
    link.connection = 2;
    link.send("in time");
    assert_eq!(link.output(), frame("in time"));
    let stats = link.counters.read();
    assert_eq!((stats.dropped, stats.queued_bytes), (2, 0));
}

#[test]
fn frames_are_counted_anew_on_each_connection() {
    let mut link = Driven::up();
    link.send("1");
    link.output();
    link.link.reconnect(link.now);
    link.events();
    link.connect();
    link.shake_hands();
    link.send("2");
    link.output();
    link.input(b"$0\r\n\r\n");
    let [LinkEvent::Answer {
        connection: 2,
        frame: 1,
        ..
    }] = link.events()[..]
    else {
        panic!("no answer to the first frame of the second connection");
    };
}

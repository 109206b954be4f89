//! The replies of a server that a link speaks with: whatever comes, in whatever
//! pieces, the link goes on or starts anew, holds little, and every message that it
//! was given has one end.

use crate::draw::Draw;
use disque_bus::link::{Link, LinkEvent};
use disque_bus::{Counters, Credentials, DownReason, Greeting, Message, Serials, Settings};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The largest answer that the link takes.
const MAX_ANSWER: usize = 10_000;
/// What it may hold: an answer, and the room that is taken ahead for one.
const MAX_MEMORY: usize = 100_000;

/// Gives the bytes to a link that is connecting and to one that is up, as they are
/// and cut by themselves; then takes them for two sequences of steps.
pub fn link(bytes: &[u8]) {
    for with_login in [false, true] {
        for up in [false, true] {
            let mut whole = Run::new(with_login);
            whole.start(up);
            whole.input(bytes);
            let mut pieces = Run::new(with_login);
            pieces.start(up);
            let mut rest = bytes;
            while let Some(&first) = rest.first() {
                let (piece, behind) = rest.split_at(usize::from(first % 5 + 1).min(rest.len()));
                pieces.input(piece);
                rest = behind;
            }
            // Replies mean the same however they are cut: as long as nothing is
            // sent in between, which would make room for more of them.
            assert_eq!(whole.link.connection(), pieces.link.connection());
            assert_eq!(whole.ledger.answered, pieces.ledger.answered);
            assert_eq!(whole.ledger.refused, pieces.ledger.refused);
            whole.end();
            pieces.end();
        }
    }
    // From a link that is up, too: by chance a handshake is seldom got through.
    for up in [false, true] {
        let mut draw = Draw::new(bytes);
        let mut run = Run::new(draw.flag());
        if up {
            run.start(up);
        }
        while !draw.is_empty() {
            run.step(&mut draw);
        }
        run.end();
    }
}

struct Run {
    link: Link,
    counters: Arc<Counters>,
    now: Instant,
    connection: u64,
    serial: u64,
    ledger: Ledger,
}

/// What became of the messages.
#[derive(Default)]
struct Ledger {
    up: Option<u64>,
    answered: u64,
    refused: u64,
    last: u64,
}

impl Run {
    fn new(with_login: bool) -> Run {
        let (now, counters) = (Instant::now(), Counters::new());
        let mut settings = Settings {
            node_timeout: Duration::from_secs(3),
            max_answer: MAX_ANSWER,
            ..Settings::default()
        };
        if with_login {
            settings.client_name = "disque:0123".into();
            settings.credentials = Some(Credentials {
                user: Some("bus".into()),
                password: "pw".into(),
            });
        }
        Run {
            link: Link::new(Arc::new(settings), counters.clone(), 1, now),
            counters,
            now,
            connection: 0,
            serial: 0,
            ledger: Ledger::default(),
        }
    }

    /// Connects; if `up` goes on until messages flow, and sends some.
    fn start(&mut self, up: bool) {
        self.link.handle_timeout(self.now);
        self.events();
        self.link.handle_connected(self.now);
        self.events();
        self.write(usize::MAX);
        if !up {
            return;
        }
        for _ in 0..3 {
            if self.link.connection().is_none() {
                let reply: &[u8] = if self.connection == 0 {
                    b"+OK\r\n"
                } else {
                    b"$2\r\nyo\r\n"
                };
                self.input(reply);
                self.write(usize::MAX);
            }
        }
        assert!(self.link.connection().is_some(), "the handshake fails");
        for _ in 0..3 {
            self.send(10);
            self.write(usize::MAX);
        }
    }

    fn step(&mut self, draw: &mut Draw<'_>) {
        match draw.byte() % 16 {
            0..=5 => {
                let reply = reply(draw);
                let cut = usize::from(draw.byte()).min(reply.len());
                self.input(&reply[..cut]);
                if draw.flag() {
                    self.input(&reply[cut..]);
                }
            }
            6..=8 => self.send(usize::from(draw.byte()) * 8),
            9 | 10 => self.write(usize::from(draw.byte()) * 16),
            11 => self.pass(Duration::from_millis(u64::from(draw.byte()) * 20)),
            12 => self.link.handle_connected(self.now),
            13 => self.link.handle_closed(self.now, DownReason::Closed),
            14 => self.link.reconnect(self.now),
            _ => {
                self.link.hurry(self.now);
                self.link.handle_held_back(self.now);
            }
        }
        self.events();
        assert!(self.link.poll_timeout().is_some(), "a link that sleeps on");
    }

    fn input(&mut self, bytes: &[u8]) {
        self.link.handle_input(self.now, bytes);
        self.events();
        let held = self.link.memory();
        assert!(held <= MAX_MEMORY, "{held} bytes held");
    }

    fn send(&mut self, len: usize) {
        self.serial += 1;
        let message = Message::new(self.serial, vec![b'x'; len]);
        let charge = self.counters.admit(message.size(), usize::MAX);
        if let Some(charge) = charge {
            self.link.send(self.connection, message, charge);
        }
    }

    /// Writes at most so many of the bytes that wait.
    fn write(&mut self, mut most: usize) {
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let filled = self.link.poll_output(self.now, &mut slices);
            let ready: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
            let written = ready.min(most);
            if written == 0 {
                return;
            }
            most -= written;
            self.link.handle_written(self.now, written);
        }
    }

    /// Lets time pass, with every timer in it.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.link.poll_timeout().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.link.handle_timeout(self.now);
            self.events();
            if self.link.poll_timeout() == Some(at) {
                break;
            }
        }
        self.now = end;
    }

    fn events(&mut self) {
        while let Some(event) = self.link.poll_event() {
            if event == LinkEvent::Greet {
                self.connection += 1;
                let greeting = Greeting {
                    connection: self.connection,
                    hello: "hi".into(),
                    prefix: "|".into(),
                };
                self.link.greet(self.now, greeting);
            }
            self.ledger.note(event);
        }
    }

    /// The connection ends, and the account is made up.
    fn end(mut self) {
        self.link.handle_closed(self.now, DownReason::Closed);
        self.events();
        let stats = self.counters.read();
        assert_eq!(stats.dropped + self.ledger.answered, self.serial);
        assert!(self.ledger.refused <= stats.dropped);
        assert_eq!((stats.queued_bytes, self.link.pending()), (0, 0));
    }
}

impl Ledger {
    fn note(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up { connection, .. } => assert_eq!(self.up.replace(connection), None),
            LinkEvent::Answer {
                connection,
                serials,
                bytes,
                ..
            } => {
                assert_eq!(self.up, Some(connection));
                assert!(bytes.len() <= MAX_ANSWER);
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

    /// Messages have their end in the order in which they were sent.
    fn frame(&mut self, serials: Option<Serials>) -> u64 {
        let Some(serials) = serials else { return 0 };
        assert!(serials.first > self.last && serials.last >= serials.first);
        self.last = serials.last;
        serials.count as u64
    }
}

/// What a server may say, and some things that it may not.
fn reply(draw: &mut Draw<'_>) -> Vec<u8> {
    const REPLIES: [&[u8]; 14] = [
        b"+OK\r\n",
        b"$2\r\nyo\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"$10001\r\n",
        b"$99999999999999999999\r\n",
        b"-LOADING x\r\n",
        b"-NOAUTH x\r\n",
        b"-OOM x\r\n",
        b"-FORGOTTEN the cluster\r\n",
        b"-ERR another node lives here: x\r\n",
        b"*1\r\n:1\r\n",
        b"$3\r\nyo\r\n\r\n",
        b"+a\rb\r\n",
    ];
    match draw.byte() % 4 {
        0..=2 => draw.one_of(&REPLIES).to_vec(),
        _ => (0..draw.byte() % 30).map(|_| draw.byte()).collect(),
    }
}

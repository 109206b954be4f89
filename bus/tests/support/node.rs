//! A bus and its owner.

use crossbeam_channel::{bounded, Receiver, Sender};
use disque_bus::{
    Address, Bus, DownReason, Event, Greeting, Message, Owner, PeerKey, Settings, Target,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Far more than anything here takes, so that a busy machine fails no test.
pub const LIMIT: Duration = Duration::from_secs(20);

pub struct TestOwner {
    connection: AtomicU64,
    bell: Sender<()>,
    pub lines: Mutex<Vec<String>>,
    /// The next greeting panics.
    pub panic: AtomicBool,
}

impl Owner for TestOwner {
    fn greet(&self, _: Target) -> Greeting {
        assert!(!self.panic.swap(false, SeqCst), "as the test wants it");
        Greeting {
            connection: self.connection.fetch_add(1, SeqCst) + 1,
            hello: "hello".into(),
            prefix: "|".into(),
        }
    }

    fn wake(&self) {
        let _ = self.bell.try_send(());
    }

    fn log(&self, line: &str) {
        self.lines.lock().unwrap().push(line.into());
    }
}

/// A node of a test, the owner of a bus.
pub struct Node {
    pub bus: Bus,
    pub owner: Arc<TestOwner>,
    bell: Receiver<()>,
    serial: u64,
    /// The last message known to be answered.
    pub answered: u64,
}

impl Node {
    pub fn new(settings: Settings) -> Node {
        let (ring, bell) = bounded(1);
        let owner = Arc::new(TestOwner {
            connection: AtomicU64::new(0),
            bell: ring,
            lines: Mutex::default(),
            panic: AtomicBool::new(false),
        });
        let bus = Bus::start(settings, 1, owner.clone()).expect("cannot start");
        let serial = 0;
        Node {
            bus,
            owner,
            bell,
            serial,
            answered: 0,
        }
    }

    /// A node with one peer, connected; the number of the connection.
    pub fn with_peer(settings: Settings, port: u16) -> (Node, PeerKey, u64) {
        let mut node = Node::new(settings);
        let peer = PeerKey(1);
        node.bus.set_peer(peer, Address::new("127.0.0.1", port));
        let connection = node.up(peer);
        (node, peer, connection)
    }

    /// The next event, if one comes in time.
    pub fn event_within(&mut self, limit: Duration) -> Option<Event> {
        let end = Instant::now() + limit;
        loop {
            if let Some(event) = self.bus.poll_event() {
                return Some(event);
            }
            let left = end.saturating_duration_since(Instant::now());
            self.bell.recv_timeout(left).ok()?;
        }
    }

    #[track_caller]
    pub fn event(&mut self) -> Event {
        self.event_within(LIMIT).expect("no event came")
    }

    /// The next event that `wanted` makes something of; others are skipped.
    #[track_caller]
    pub fn wait_for<T>(&mut self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let mut skipped = Vec::new();
        loop {
            let Some(event) = self.event_within(LIMIT) else {
                panic!("it did not come, but {skipped:?}");
            };
            if let Some(found) = wanted(&event) {
                return found;
            }
            skipped.push(event);
        }
    }

    /// Waits until a peer is up; the number of the connection.
    #[track_caller]
    pub fn up(&mut self, wanted: PeerKey) -> u64 {
        self.wait_for(|event| match event {
            Event::Up {
                peer, connection, ..
            } if *peer == wanted => Some(*connection),
            _ => None,
        })
    }

    /// Waits until a link goes down; why it did.
    #[track_caller]
    pub fn down(&mut self) -> DownReason {
        self.wait_for(|event| match event {
            Event::Down { reason, .. } => Some(reason.clone()),
            _ => None,
        })
    }

    /// Sends without [`Bus::flush`]; the serial.
    #[track_caller]
    pub fn put(&mut self, peer: PeerKey, connection: u64, text: &str) -> u64 {
        self.serial += 1;
        let message = Message::new(self.serial, text.to_owned());
        self.bus.send(peer, connection, message).unwrap();
        self.serial
    }

    /// Sends one message and waits for its answer: the time it took.
    #[track_caller]
    pub fn round_trip(&mut self, wanted: PeerKey, connection: u64) -> Duration {
        let start = Instant::now();
        let serial = self.put(wanted, connection, "x");
        self.bus.flush();
        self.wait_for(|event| match event {
            Event::Answer {
                peer,
                serials: Some(serials),
                ..
            } if *peer == wanted && serials.last == serial => Some(()),
            _ => None,
        });
        start.elapsed()
    }
}

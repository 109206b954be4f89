//! The links between nodes: what the module and its thread for connections do
//! on the [network](crate::net).
//!
//! Each node keeps one connection to each node of its table. The first frame of
//! a connection is a header alone, the handshake; its answer brings the link up.
//! Frames wait for their turn in one connection, never for another one. A
//! connection that its maker gave up may still bring frames, late or twice.

use crate::ghost::GHOST;
use crate::net::{Reply, SocketId, Way, LOST};
use crate::oracle::history::What;
use crate::world::{Event, World};
use disque_core::body::Packet;
use disque_core::cluster::{Contact, PeerKey};
use disque_core::effects::{BusAction, Gate, News};
use disque_core::message::{encode_header, read_frame, Header, MAX_FRAME, MAX_MESSAGES};
use std::collections::VecDeque;

/// Pauses between attempts, as the module sets them.
const BACKOFF_MIN: u64 = 100;
const BACKOFF_MAX: u64 = 10_000;
/// A node that joins more often in the life of a process comes and goes by itself.
const MOST_JOINS: u64 = 8;
/// Frames under way at a time, as the module sets it.
const MAX_IN_FLIGHT: usize = 4;

/// Where a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no connection until then.
    Waiting { until: u64 },
    /// The handshake is under way.
    Greeting,
    /// Messages flow.
    Up,
}

/// The link of a node to one of its table.
pub struct Link {
    peer: [u8; 20],
    contact: Contact,
    phase: Phase,
    /// The node knows that it is up, and sends.
    told_up: bool,
    pub socket: SocketId,
    /// The number of the newest connection.
    connection: u64,
    /// What each frame begins with.
    header: Vec<u8>,
    queue: VecDeque<Packet>,
    in_flight: usize,
    /// Since when the first frame under way is waited for.
    waiting_since: u64,
    /// When the last frame was answered.
    heard: u64,
    failures: u32,
    armed: Option<u64>,
    pub meter: Meter,
}

/// Counts what is sent.
#[derive(Default)]
pub struct Meter {
    second: u64,
    in_second: u64,
    /// Frames on the link so far.
    pub frames: u64,
}

impl World {
    /// Carries out what a node wants of its links, and saves its nodes file, as
    /// the module does after each call.
    pub fn carry_out(&mut self, node: usize) -> Result<(), String> {
        let site = self.site(node);
        let actions = std::mem::take(&mut site.fx.bus);
        let news = std::mem::take(&mut site.fx.news);
        site.save_nodes();
        for news in news {
            match news {
                News::BadMessage { reason, .. } => {
                    return Err(format!("a message of a sound node is refused: {reason}"));
                }
                News::Joined(id) => {
                    let name = disque_core::node::hex(&id);
                    self.trace.line(format!("{:>9}   {name} joined", ""));
                    let joined = self.site(node).guard.joined.entry(id).or_default();
                    *joined += 1;
                    if *joined > MOST_JOINS {
                        return Err("a node joins again and again".into());
                    }
                }
                News::WasForgotten => self.tell(node, What::WasForgotten)?,
                News::WasSuperseded(_) if node < GHOST => {
                    return Err("a node takes itself for superseded".into());
                }
                News::WasSuperseded(_) => self.end_stop(node),
                other => self.trace.line(format!("{:>9}   {other:?}", "")),
            }
        }
        for action in actions {
            match action {
                BusAction::Connect(key) => self.connect(node, key),
                BusAction::Introduce => self.introduce(node),
                BusAction::Disconnect(key) => {
                    if let Some(link) = self.site(node).links.remove(&key) {
                        self.give_up(link.socket, LOST);
                    }
                }
                BusAction::Send { to, message, gate } => match gate {
                    Gate::Open => self.send(node, to, message)?,
                    Gate::Written => {
                        self.site(node).gated.push((to, message));
                        let later = self.random.range(0, 2);
                        self.schedule(node, later, Event::OpenGate);
                    }
                },
            }
        }
        self.flush_links(node)
    }

    /// What was gated may leave: its records are written.
    pub fn open_gate(&mut self, node: usize) -> Result<(), String> {
        self.net.gate_opened = self.now;
        for (to, message) in std::mem::take(&mut self.site(node).gated) {
            self.send(node, to, message)?;
        }
        self.flush_links(node)
    }

    fn connect(&mut self, node: usize, key: PeerKey) {
        let at = self.now;
        let site = self.site(node);
        let inside = site.node.as_ref().expect("the node is up");
        let Some(peer) = inside.cluster().by_key(key) else {
            return;
        };
        let (id, contact) = (peer.id, peer.contact.clone());
        match site.links.get_mut(&key) {
            Some(link) if link.contact != contact => {
                link.contact = contact;
                self.reconnect(node, key, "the node is elsewhere");
            }
            Some(link) => {
                if let Phase::Waiting { until } = &mut link.phase {
                    *until = at.min(*until);
                    link.failures = 0;
                }
            }
            None => {
                let link = Link {
                    peer: id,
                    contact,
                    phase: Phase::Waiting { until: at },
                    told_up: false,
                    socket: 0,
                    connection: 0,
                    header: Vec::new(),
                    queue: VecDeque::new(),
                    in_flight: 0,
                    waiting_since: at,
                    heard: at,
                    failures: 0,
                    armed: None,
                    meter: Meter::default(),
                };
                site.links.insert(key, link);
            }
        }
        self.arm_link(node, key);
    }

    fn send(&mut self, node: usize, to: PeerKey, message: Packet) -> Result<(), String> {
        let at = self.now;
        let site = self.site(node);
        let Some(link) = site.links.get_mut(&to) else {
            return Ok(());
        };
        if link.up().is_none() {
            return Ok(());
        }
        let mut alone = Packet::from(link.header.clone());
        alone.append(&message);
        link.queue.push_back(message);
        let peer = link.peer;
        let (_, words) = read_frame(&alone).map_err(|error| error.to_string())?;
        site.check_words(&peer, words, at)
    }

    /// Puts what waits into frames.
    fn flush_links(&mut self, node: usize) -> Result<(), String> {
        let keys: Vec<PeerKey> = self.site(node).links.keys().copied().collect();
        for key in keys {
            while self.may_send(node, key) {
                self.send_frame(node, key)?;
            }
        }
        Ok(())
    }

    fn may_send(&mut self, node: usize, key: PeerKey) -> bool {
        self.site(node).links.get(&key).is_some_and(|link| {
            link.phase == Phase::Up && link.in_flight < MAX_IN_FLIGHT && !link.queue.is_empty()
        })
    }

    /// A frame of what waits; none of it is a PING.
    fn send_frame(&mut self, node: usize, key: PeerKey) -> Result<(), String> {
        let at = self.now;
        let Some(link) = self.site(node).links.get_mut(&key) else {
            return Ok(());
        };
        let mut frame = Packet::from(link.header.clone());
        for _ in 0..MAX_MESSAGES {
            match link.queue.front() {
                Some(next) if frame.size() + next.size() <= MAX_FRAME => {
                    frame.append(&link.queue.pop_front().expect("it is there"));
                }
                _ => break,
            }
        }
        if link.in_flight == 0 {
            link.waiting_since = at;
        }
        link.in_flight += 1;
        let socket = link.socket;
        self.count_frame(node, key)?;
        self.put(socket, Way::There, |socket| socket.there.push_back(frame));
        self.arm_link(node, key);
        Ok(())
    }

    fn count_frame(&mut self, node: usize, key: PeerKey) -> Result<(), String> {
        let (at, most) = (self.now, self.profile.frames_per_second());
        let link = self.site(node).links.get_mut(&key).expect("it is there");
        let meter = &mut link.meter;
        meter.frames += 1;
        if meter.second != at / 1_000 {
            (meter.second, meter.in_second) = (at / 1_000, 0);
        }
        meter.in_second += 1;
        if meter.in_second > most {
            return Err(format!(
                "node {node} sends more than {most} frames a second to one other"
            ));
        }
        Ok(())
    }

    pub fn arrive_back(&mut self, id: SocketId) -> Result<(), String> {
        let at = self.now;
        let socket = self.net.sockets.get_mut(&id).expect("it is there");
        let Some(reply) = socket.back.pop_front() else {
            return Ok(());
        };
        let (node, link) = (socket.from, socket.link);
        let Some(key) = link else {
            return self.end_meeting(id, reply);
        };
        let Some(link) = self.site(node).links.get_mut(&key) else {
            return Ok(());
        };
        if link.socket != id {
            return Ok(());
        }
        let greeting = link.phase == Phase::Greeting;
        match reply {
            Reply::Reset => self.fail(node, key, "it closed the connection"),
            Reply::Error(text) => {
                self.call(node, |node, now, fx| node.link_refused(now, key, &text, fx));
                self.drop_connection(node, key);
                self.call(node, |node, now, fx| node.link_refused(now, key, &text, fx));
            }
            Reply::Answer(answer) => {
                link.in_flight -= 1;
                link.waiting_since = at;
                link.heard = at;
                link.phase = Phase::Up;
                let (number, peer) = (link.connection, link.peer);
                if !greeting {
                    link.failures = 0;
                }
                let taken = self.call(node, |node, now, fx| {
                    node.handle_answer(now, key, &answer, fx)
                });
                if taken.is_ok() {
                    self.site(node).guard.answered.insert(peer, at);
                }
                match (taken, greeting) {
                    (Ok(()), true) => {
                        if let Some(link) = self.site(node).links.get_mut(&key) {
                            link.told_up = true;
                        }
                        self.call(node, |node, now, fx| node.link_up(now, key, number, fx));
                    }
                    (Ok(()), false) => {}
                    (Err(reason), true) => {
                        self.call(node, |node, _, fx| node.link_down(key, &reason, fx));
                    }
                    (Err(reason), false) => self.reconnect(node, key, &reason),
                }
            }
        }
        if self.dies_unwritten(node)? {
            return Ok(());
        }
        self.write(node);
        self.answer(node)?;
        self.arm_link(node, key);
        Ok(())
    }

    /// The timer of a link.
    pub fn link_due(&mut self, node: usize, key: PeerKey) -> Result<(), String> {
        let (at, timeout) = (self.now, self.profile.settings.node_timeout_ms);
        let Some(link) = self.site(node).links.get_mut(&key) else {
            return Ok(());
        };
        if link.armed.is_none_or(|armed| armed > at) {
            return Ok(());
        }
        link.armed = None;
        if link.due(timeout) <= at {
            match (link.phase, link.in_flight) {
                (Phase::Waiting { .. }, _) => self.greet(node, key)?,
                (Phase::Up, 0) => self.send_frame(node, key)?,
                _ => self.fail(node, key, "it does not answer in time"),
            }
        }
        self.arm_link(node, key);
        self.write(node);
        self.answer(node)
    }

    fn arm_link(&mut self, node: usize, key: PeerKey) {
        let (at, timeout) = (self.now, self.profile.settings.node_timeout_ms);
        let Some(link) = self.site(node).links.get_mut(&key) else {
            return;
        };
        let due = link.due(timeout).max(at);
        if link.armed.is_none_or(|armed| armed > due || armed < at) {
            link.armed = Some(due);
            self.schedule(node, due - at, Event::LinkDue(key));
        }
    }

    /// Connects and sends the handshake.
    fn greet(&mut self, node: usize, key: PeerKey) -> Result<(), String> {
        let at = self.now;
        let site = self.site(node);
        site.connections += 1;
        let connection = site.connections;
        let from = site.speaker;
        let link = site.links.get_mut(&key).expect("it is there");
        link.header = encode_header(&Header {
            from,
            to: Some(link.peer),
            connection,
        });
        link.phase = Phase::Greeting;
        link.connection = connection;
        link.waiting_since = at;
        link.in_flight = 1;
        let (hello, contact) = (link.header.clone(), link.contact.clone());
        match self.open(node, Some(key), contact, hello) {
            Some(socket) => {
                let link = self.site(node).links.get_mut(&key).expect("it is there");
                link.socket = socket;
                self.count_frame(node, key)
            }
            None => {
                self.fail(node, key, "nobody listens there");
                Ok(())
            }
        }
    }

    /// The connection is over, or could not be made.
    fn fail(&mut self, node: usize, key: PeerKey, reason: &str) {
        self.drop_connection(node, key);
        self.call(node, |node, _, fx| node.link_down(key, reason, fx));
    }

    /// Drops a connection and all that waits for it.
    fn drop_connection(&mut self, node: usize, key: PeerKey) {
        let at = self.now;
        let spread = self.random.range(500, 1_000);
        let Some(link) = self.site(node).links.get_mut(&key) else {
            return;
        };
        let pause = (BACKOFF_MIN << link.failures.min(20)).min(BACKOFF_MAX);
        link.failures += 1;
        link.phase = Phase::Waiting {
            until: at + pause * spread / 1_000,
        };
        link.told_up = false;
        link.in_flight = 0;
        link.queue.clear();
        let socket = std::mem::take(&mut link.socket);
        self.give_up(socket, LOST);
    }

    /// Ends a connection and makes a new one at once.
    fn reconnect(&mut self, node: usize, key: PeerKey, reason: &str) {
        let at = self.now;
        self.fail(node, key, reason);
        if let Some(link) = self.site(node).links.get_mut(&key) {
            link.phase = Phase::Waiting { until: at };
            link.failures = 0;
        }
        self.arm_link(node, key);
    }

    /// The node presents itself anew.
    pub fn introduce(&mut self, node: usize) {
        let site = self.site(node);
        site.speaker = site.node.as_ref().expect("the node is up").speaker();
        let keys: Vec<PeerKey> = site.links.keys().copied().collect();
        for key in keys {
            if self.site(node).links[&key].told_up {
                self.reconnect(node, key, "the node presents itself anew");
            }
        }
    }
}

impl Link {
    /// The connection on which the node can send.
    pub fn up(&self) -> Option<u64> {
        (self.told_up && self.phase == Phase::Up).then_some(self.connection)
    }

    fn due(&self, timeout: u64) -> u64 {
        match self.phase {
            Phase::Waiting { until } => until,
            Phase::Greeting => self.waiting_since + timeout,
            Phase::Up if self.in_flight > 0 => self.waiting_since + timeout,
            Phase::Up => self.heard + timeout / 3,
        }
    }
}

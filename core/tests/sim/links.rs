//! The links between nodes: what the module and its thread for connections do,
//! over a network that delays, cuts, loses and brings things late.
//!
//! Each node keeps one connection to each node of its table. The first frame of
//! a connection is a header alone, the handshake; its answer brings the link up.
//! Frames wait for their turn in one connection, never for another one. A
//! connection that its maker gave up may still bring frames, late or twice.

use crate::guard;
use crate::oracle::history::What;
use crate::site::{host_of, queue_number, Site, PORT};
use crate::world::{Event, World};
use disque_core::cluster::{Contact, PeerKey};
use disque_core::effects::{BusAction, News};
use disque_core::message::{
    encode_header, read_answer, read_frame, Header, Message, MAX_FRAME, MAX_MESSAGES,
};
use std::collections::{BTreeMap, VecDeque};

/// Pauses between attempts, as the module sets them.
const BACKOFF_MIN: u64 = 100;
const BACKOFF_MAX: u64 = 10_000;
/// A node that joins more often in the life of a process comes and goes by itself.
const MOST_JOINS: u64 = 8;
/// Frames under way at a time, as the module sets it.
const MAX_IN_FLIGHT: usize = 4;

/// A connection of this world. Never used twice.
pub type SocketId = u64;

/// Which way something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the node that was connected to.
    There,
    /// To the node that connected.
    Back,
}

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
    socket: SocketId,
    /// The number of the newest connection.
    connection: u64,
    /// What each frame begins with.
    header: Vec<u8>,
    queue: VecDeque<Vec<u8>>,
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

/// What comes back for a frame.
enum Reply {
    Answer(Vec<u8>),
    Error(String),
    /// The connection is gone.
    Reset,
}

/// A connection.
pub struct Socket {
    from: usize,
    to: usize,
    from_host: String,
    /// For which link; `None` asks who is there, for a MEET.
    link: Option<PeerKey>,
    contact: Contact,
    opened: u64,
    /// The process at the other end, once the first frame has reached it.
    accepted: Option<u64>,
    there: VecDeque<Vec<u8>>,
    back: VecDeque<Reply>,
    last_due: [u64; 2],
    /// The frame that arrived last.
    delivered: Option<Vec<u8>>,
}

/// A frame on a connection that its maker has given up.
pub struct Late {
    session: Option<u64>,
    from_host: String,
    frame: Vec<u8>,
}

/// What lies between the nodes.
#[derive(Default)]
pub struct Net {
    sockets: BTreeMap<SocketId, Socket>,
    late: BTreeMap<SocketId, Late>,
    next_socket: SocketId,
    /// Nothing passes from one node to another until then.
    pub cuts: BTreeMap<(usize, usize), u64>,
    /// Answers do not come back on connections from one node to another until
    /// then, whatever else passes.
    pub mutes: BTreeMap<(usize, usize), u64>,
    /// When something gated left last.
    pub gate_opened: u64,
    /// The longest that something takes, in ms.
    pub latency: u64,
}

impl Net {
    /// A sound network.
    pub fn new(latency: u64) -> Net {
        Net {
            latency,
            ..Net::default()
        }
    }
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
                other => self.trace.line(format!("{:>9}   {other:?}", "")),
            }
        }
        for action in actions {
            match action {
                BusAction::Connect(key) => self.connect(node, key),
                BusAction::Disconnect(key) => {
                    if let Some(link) = self.site(node).links.remove(&key) {
                        self.give_up(link.socket);
                    }
                }
                BusAction::Send { to, message, gated } => {
                    if gated {
                        self.site(node).gated.push((to, message));
                        let later = self.random.range(0, 2);
                        self.schedule(node, later, Event::OpenGate);
                    } else {
                        self.send(node, to, message);
                    }
                }
            }
        }
        self.flush_links(node)
    }

    /// What was gated may leave: its records are written.
    pub fn open_gate(&mut self, node: usize) -> Result<(), String> {
        self.net.gate_opened = self.now;
        for (to, message) in std::mem::take(&mut self.site(node).gated) {
            self.send(node, to, message);
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

    fn send(&mut self, node: usize, to: PeerKey, message: Vec<u8>) {
        if let Some(link) = self.site(node).links.get_mut(&to) {
            if link.told_up && link.phase == Phase::Up {
                link.queue.push_back(message);
            }
        }
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
        let mut frame = link.header.clone();
        for _ in 0..MAX_MESSAGES {
            match link.queue.front() {
                Some(next) if frame.len() + next.len() <= MAX_FRAME => {
                    frame.extend(link.queue.pop_front().expect("it is there"));
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

    /// Something goes over a connection, behind what went before.
    fn put(&mut self, id: SocketId, way: Way, what: impl FnOnce(&mut Socket)) {
        let latency = self.net.latency;
        let took = self.random.range(latency / 4, latency);
        let at = self.now;
        let Some(socket) = self.net.sockets.get_mut(&id) else {
            return;
        };
        what(socket);
        let last = &mut socket.last_due[way as usize];
        *last = (at + took).max(*last);
        let (due, node) = match way {
            Way::There => (*last, socket.to),
            Way::Back => (*last, socket.from),
        };
        self.schedule(node, due - at, Event::Arrive(id, way));
    }

    /// Something comes out of a connection, unless it is cut.
    pub fn arrive(&mut self, id: SocketId, way: Way) -> Result<(), String> {
        let at = self.now;
        let Some(socket) = self.net.sockets.get(&id) else {
            return Ok(());
        };
        let (from, to) = match way {
            Way::There => (socket.from, socket.to),
            Way::Back => (socket.to, socket.from),
        };
        let cut = self.net.cuts.get(&(from, to)).copied().unwrap_or(0);
        let mute = match way {
            Way::There => 0,
            Way::Back => self.net.mutes.get(&(to, from)).copied().unwrap_or(0),
        };
        let cut = cut.max(mute);
        if cut > at {
            let again = self.random.range(0, 50);
            self.schedule(to, cut - at + again, Event::Arrive(id, way));
            return Ok(());
        }
        match way {
            Way::There => self.arrive_there(id),
            Way::Back => self.arrive_back(id),
        }
    }

    fn arrive_there(&mut self, id: SocketId) -> Result<(), String> {
        let socket = self.net.sockets.get_mut(&id).expect("it is there");
        let Some(frame) = socket.there.pop_front() else {
            return Ok(());
        };
        let (to, accepted, host) = (socket.to, socket.accepted, socket.from_host.clone());
        let site = self.site(to);
        let session = site.session;
        if site.node.is_none() {
            if !site.is_silent {
                self.put(id, Way::Back, |socket| socket.back.push_back(Reply::Reset));
            }
            return Ok(());
        }
        if accepted.is_some_and(|accepted| accepted != session) {
            self.put(id, Way::Back, |socket| socket.back.push_back(Reply::Reset));
            return Ok(());
        }
        let reply = self.take_frame(to, &frame, &host)?;
        if let Some(socket) = self.net.sockets.get_mut(&id) {
            socket.accepted = Some(session);
            socket.delivered = Some(frame);
        }
        self.put(id, Way::Back, |socket| socket.back.push_back(reply));
        Ok(())
    }

    /// A frame on a connection that is no more.
    pub fn arrive_late(&mut self, node: usize, id: SocketId) -> Result<(), String> {
        let Some(late) = self.net.late.remove(&id) else {
            return Ok(());
        };
        let session = self.site(node).session;
        if late.session.is_none_or(|known| known == session) {
            self.take_frame(node, &late.frame, &late.from_host)?;
        }
        Ok(())
    }

    /// A server that runs reads a frame.
    fn take_frame(&mut self, node: usize, frame: &[u8], host: &str) -> Result<Reply, String> {
        self.trace.bytes(frame);
        if self.site(node).refuses_until > self.now {
            let text = "MISCONF Errors writing to the AOF file: No space left on device";
            return Ok(Reply::Error(text.into()));
        }
        let (header, messages) = read_frame(frame).map_err(|error| error.to_string())?;
        let mut paused = Vec::new();
        for message in messages {
            if let Message::Pause { queue, pause } = message.map_err(|error| error.to_string())? {
                if queue.starts_with(guard::NEVER_WRITTEN) {
                    return Err("a node was told what its teller never wrote down".into());
                }
                paused.push((queue_number(queue), pause));
            }
        }
        let taken = self.call(node, |node, now, fx| {
            node.handle_frame(now, frame, host, fx)
        });
        if let (Ok(_), Some(_)) = (&taken, header.to) {
            self.site(node).check_connection(&header)?;
        }
        let slice = self.profile.slice;
        self.call(node, |node, now, fx| node.serve(now, slice, fx));
        self.write(node);
        if taken.is_ok() {
            for (queue, bits) in paused {
                self.tell(node, What::paused(queue, bits))?;
            }
        }
        self.answer(node)?;
        match taken {
            Ok(answer) => Ok(Reply::Answer(answer)),
            Err(error) => {
                self.trace.line(format!("{:>9}   refused: {error}", ""));
                Ok(Reply::Error(error.to_string()))
            }
        }
    }

    fn arrive_back(&mut self, id: SocketId) -> Result<(), String> {
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
                let number = link.connection;
                if !greeting {
                    link.failures = 0;
                }
                let taken = self.call(node, |node, now, fx| {
                    node.handle_answer(now, key, &answer, fx)
                });
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

    /// Makes a connection to whoever is there now.
    fn open(
        &mut self,
        node: usize,
        link: Option<PeerKey>,
        contact: Contact,
        hello: Vec<u8>,
    ) -> Option<SocketId> {
        let there = |(_, site): &(&usize, &Site)| {
            (site.host.as_str(), PORT) == (contact.host.as_str(), contact.port)
        };
        let to = *self.sites.iter().find(there)?.0;
        self.net.next_socket += 1;
        let id = self.net.next_socket;
        let socket = Socket {
            from: node,
            to,
            from_host: self.site(node).host.clone(),
            link,
            contact,
            opened: self.now,
            accepted: None,
            there: VecDeque::new(),
            back: VecDeque::new(),
            last_due: [0; 2],
            delivered: None,
        };
        self.net.sockets.insert(id, socket);
        self.put(id, Way::There, |socket| socket.there.push_back(hello));
        Some(id)
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
        self.give_up(socket);
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

    /// A connection is given up by its maker. What was under way is lost, or
    /// comes late; what has come may come again.
    fn give_up(&mut self, id: SocketId) {
        let Some(socket) = self.net.sockets.remove(&id) else {
            return;
        };
        let again = socket.delivered.filter(|_| self.random.chance(100));
        for frame in again.into_iter().chain(socket.there) {
            if self.random.chance(500) {
                continue;
            }
            self.net.next_socket += 1;
            let id = self.net.next_socket;
            let late = Late {
                session: socket.accepted,
                from_host: socket.from_host.clone(),
                frame,
            };
            self.net.late.insert(id, late);
            let wait = self.random.pick(&[5, 500, 20_000]);
            let wait = self.random.range(0, wait);
            self.schedule(socket.to, wait, Event::ArriveLate(id));
        }
    }

    /// A process ends: its connections are given up, and others are told.
    pub fn end_connections(&mut self, node: usize) {
        self.site(node).gated.clear();
        for link in std::mem::take(&mut self.site(node).links).into_values() {
            self.give_up(link.socket);
        }
        let silent = self.site(node).is_silent;
        let sockets = self.net.sockets.iter();
        let ids: Vec<_> = sockets
            .filter(|(_, socket)| socket.to == node && socket.accepted.is_some())
            .map(|(&id, _)| id)
            .collect();
        for id in ids.into_iter().filter(|_| !silent) {
            self.put(id, Way::Back, |socket| socket.back.push_back(Reply::Reset));
        }
    }

    /// DISQUE MEET: asks who is at an address.
    pub fn meet(&mut self, node: usize, other: usize) {
        let site = self.site(node);
        site.connections += 1;
        let header = encode_header(&Header {
            from: site.speaker,
            to: None,
            connection: site.connections,
        });
        let contact = Contact {
            host: self.site(other).host.clone(),
            port: PORT,
        };
        self.open(node, None, contact, header);
    }

    fn end_meeting(&mut self, id: SocketId, reply: Reply) -> Result<(), String> {
        let Some(socket) = self.net.sockets.remove(&id) else {
            return Ok(());
        };
        let (node, timeout) = (socket.from, self.profile.settings.node_timeout_ms);
        let Reply::Answer(answer) = reply else {
            return Ok(());
        };
        let in_time = self.now - socket.opened <= timeout;
        if !in_time || self.site(node).node.is_none() || !self.is_serving(node) {
            return Ok(());
        }
        let (speaker, _) = read_answer(&answer).map_err(|error| error.to_string())?;
        let met = self.call(node, |node, _, fx| node.met(&speaker, socket.contact, fx));
        self.trace.line(format!("{:>9}   met: {met:?}", ""));
        self.write(node);
        self.answer(node)
    }

    /// Nothing that is late comes any more.
    pub fn lose_late(&mut self) {
        self.net.late.clear();
    }

    /// Nothing passes from one node to another for a while.
    pub fn cut(&mut self, from: usize, to: usize, ms: u64) {
        let until = self.now + ms;
        self.net.cuts.insert((from, to), until);
    }

    /// The links, as the node sees them and as they are.
    pub fn check_links(&mut self, node: usize) -> Result<(), String> {
        let site = self.site(node);
        let inside = site.node.as_ref().expect("the node is up");
        for peer in inside.cluster().peers() {
            let Some(link) = site.links.get(&peer.key) else {
                return Err(format!("there is no link to {:?}", peer.key));
            };
            let up = (link.told_up && link.phase == Phase::Up).then_some(link.connection);
            let seen = match peer.link {
                disque_core::cluster::LinkState::Up(connection) => Some(connection),
                _ => None,
            };
            if up != seen {
                return Err(format!("the link is {up:?}, the node believes {seen:?}"));
            }
        }
        if site.links.len() + 1 != inside.cluster().size() {
            return Err("there are more links than nodes of the table".into());
        }
        Ok(())
    }

    /// Whoever a node takes for reachable was answered by it not long ago. What
    /// was heard may be old when a network lets go what it had held: a while it
    /// may be wrong.
    pub fn check_reach(&mut self, node: usize) -> Result<(), String> {
        let (at, long) = (self.now, 2 * self.profile.settings.node_timeout_ms);
        let wrong = self.reached_wrongly(node, long);
        let guard = &mut self.site(node).guard;
        guard.wrong_since.retain(|key, _| wrong.contains(key));
        for key in wrong {
            let since = *guard.wrong_since.entry(key).or_insert(at);
            if since + long < at {
                return Err(format!(
                    "node {node} has reached for {long} ms one that it answers nothing"
                ));
            }
        }
        Ok(())
    }

    fn reached_wrongly(&self, node: usize, long: u64) -> Vec<PeerKey> {
        let timeout = self.profile.settings.node_timeout_ms;
        let site = &self.sites[&node];
        let inside = site.node.as_ref().expect("the node is up");
        let (me, now) = (inside.identity().id, site.clocks.now(self.now));
        let answered = |id: &[u8; 20]| {
            let nodes = self.sites.values().filter(|s| s.stalled_until <= self.now);
            let mut nodes = nodes.filter_map(|s| Some((s, s.node.as_ref()?)));
            let Some((other, there)) = nodes.find(|(_, there)| there.identity().id == *id) else {
                return true;
            };
            let then = other.clocks.now(self.now);
            let own = there.cluster().peer(&me);
            own.is_none_or(|own| own.answered_within(then, long))
        };
        let reached = inside.cluster().peers();
        let reached = reached.filter(|peer| peer.is_reachable(now, timeout));
        let wrong = reached.filter(|peer| !answered(&peer.id));
        wrong.map(|peer| peer.key).collect()
    }

    /// A server comes up again at another address.
    pub fn move_site(&mut self, node: usize) {
        let site = self.site(node);
        site.moves += 1;
        site.host = host_of(node, site.moves);
        if !site.settings.announce_host.is_empty() {
            site.settings.announce_host = site.host.clone();
        }
    }
}

impl Link {
    fn due(&self, timeout: u64) -> u64 {
        match self.phase {
            Phase::Waiting { until } => until,
            Phase::Greeting => self.waiting_since + timeout,
            Phase::Up if self.in_flight > 0 => self.waiting_since + timeout,
            Phase::Up => self.heard + timeout / 3,
        }
    }
}

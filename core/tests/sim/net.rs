//! The network between nodes: connections, what is under way on them, and what
//! comes late from those that were given up.

use crate::guard::NEVER_WRITTEN;
use crate::oracle::history::What;
use crate::site::{host_of, queue_number, Site, PORT};
use crate::world::{Event, World};
use disque_checker::FaultKind;
use disque_core::body::Packet;
use disque_core::cluster::{Contact, PeerKey};
use disque_core::message::{encode_header, read_answer, read_frame, Header, Message};
use std::collections::{BTreeMap, VecDeque};

/// Of a thousand frames under way on a connection that breaks, how many are lost.
pub const LOST: u64 = 500;

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

/// What comes back for a frame.
pub enum Reply {
    Answer(Vec<u8>),
    Error(String),
    /// The connection is gone.
    Reset,
}

/// A connection.
pub struct Socket {
    pub from: usize,
    to: usize,
    from_host: String,
    /// For which link; `None` asks who is there, for a MEET.
    pub link: Option<PeerKey>,
    contact: Contact,
    opened: u64,
    /// The process at the other end, once the first frame has reached it.
    accepted: Option<u64>,
    pub there: VecDeque<Packet>,
    pub back: VecDeque<Reply>,
    last_due: [u64; 2],
    /// The frame that arrived last.
    delivered: Option<Packet>,
}

/// A frame on a connection that its maker has given up.
pub struct Late {
    session: Option<u64>,
    from_host: String,
    frame: Packet,
}

/// What lies between the nodes.
#[derive(Default)]
pub struct Net {
    pub sockets: BTreeMap<SocketId, Socket>,
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

    /// What is under way to and from the process at a number is for another one, and so
    /// are the cuts.
    pub fn hand_process_over(&mut self, from: usize, to: usize) {
        let at = |number: usize| if number == from { to } else { number };
        for socket in self.sockets.values_mut() {
            (socket.from, socket.to) = (at(socket.from), at(socket.to));
        }
        for lines in [&mut self.cuts, &mut self.mutes] {
            let moved = std::mem::take(lines).into_iter();
            *lines = moved
                .map(|((a, b), until)| ((at(a), at(b)), until))
                .collect();
        }
    }
}

impl World {
    /// Something goes over a connection, behind what went before.
    pub fn put(&mut self, id: SocketId, way: Way, what: impl FnOnce(&mut Socket)) {
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
    fn take_frame(&mut self, node: usize, frame: &Packet, host: &str) -> Result<Reply, String> {
        self.trace.bytes(&frame.bytes);
        if self.site(node).refuses_until > self.now {
            let text = "MISCONF Errors writing to the AOF file: No space left on device";
            return Ok(Reply::Error(text.into()));
        }
        let (header, messages) = read_frame(frame).map_err(|error| error.to_string())?;
        let at = self.now;
        let (mut paused, mut about, mut settled) = (Vec::new(), Vec::new(), Vec::new());
        for message in messages {
            let message = message.map_err(|error| error.to_string())?;
            self.trace.message(&message);
            about.extend(message.job());
            match message {
                // A node that has something of the job does not need to remember.
                Message::SetAck { id, .. } if !self.site(node).has(at, &id) => {
                    settled.push(id);
                }
                Message::DelJob { id } => settled.push(id),
                _ => {}
            }
            if let Message::Pause { queue, pause } = message {
                if queue.starts_with(NEVER_WRITTEN) {
                    return Err("a node was told what its teller never wrote down".into());
                }
                paused.push((queue_number(queue), pause));
            }
        }
        about.retain(|id| self.site(node).is_settled(at, id));
        let taken = self.call(node, |node, now, fx| {
            node.handle_frame(now, frame, host, fx)
        });
        self.site(node).check_still_settled(at, &about)?;
        if taken.is_ok() && header.to.is_some() {
            // That of a FASTACK begins where a client says it.
            settled.retain(|id| !self.ledger.dropped.contains(id));
            for id in settled {
                self.site(node).note_settled(at, id);
            }
        }
        if let (Ok(answer), Some(_)) = (&taken, header.to) {
            self.site(node).check_connection(&header)?;
            let (_, words) = read_answer(answer).map_err(|error| error.to_string())?;
            self.site(node).check_words(&header.from.id, words, at)?;
            self.trace.answer(answer);
        }
        if self.dies_unwritten(node)? {
            return Ok(Reply::Reset);
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

    /// Makes a connection to whoever is there now.
    pub fn open(
        &mut self,
        node: usize,
        link: Option<PeerKey>,
        contact: Contact,
        hello: Vec<u8>,
    ) -> Option<SocketId> {
        let there = |(_, site): &(&usize, &Site)| {
            (site.host.as_str(), PORT) == (contact.host.as_str(), contact.port)
        };
        let to = *self.servers().find(there)?.0;
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
        self.put(id, Way::There, |socket| {
            socket.there.push_back(hello.into())
        });
        Some(id)
    }

    /// A connection is given up by its maker. Of a thousand frames under way so many
    /// are lost, and the others come late; what has come may come again.
    pub fn give_up(&mut self, id: SocketId, lost: u64) {
        let Some(socket) = self.net.sockets.remove(&id) else {
            return;
        };
        let again = socket.delivered.filter(|_| self.random.chance(100));
        for frame in again.into_iter().chain(socket.there) {
            if self.random.chance(lost) {
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
        let silent = self.site(node).is_silent;
        // The system sends what a process that was killed has said.
        let lost = if silent { LOST } else { LOST / 5 };
        for link in std::mem::take(&mut self.site(node).links).into_values() {
            self.give_up(link.socket, lost);
        }
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

    pub fn end_meeting(&mut self, id: SocketId, reply: Reply) -> Result<(), String> {
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

    /// Nothing passes from one node to another for a while.
    pub fn cut(&mut self, from: usize, to: usize, ms: u64) {
        let until = self.now + ms;
        self.net.cuts.insert((from, to), until);
        self.fault_for(from, FaultKind::Cut, Some(to), ms);
    }

    /// Nothing that is late comes any more.
    pub fn lose_late(&mut self) {
        self.net.late.clear();
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

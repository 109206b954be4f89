//! A few nodes that hear all that they tell each other, with the next step of time.

use super::*;
use crate::body::Packet;
use crate::cluster::{Contact, LinkState, PeerKey};
use crate::effects::{BusAction, News};
use crate::message::read_answer;
use crate::record::RecordBatch;

/// A server: its node, and where it is reached.
pub struct Server {
    pub kit: Kit,
    host: String,
    /// Nobody reaches it, and it reaches nobody.
    pub is_cut_off: bool,
    pub connections: u64,
    /// What it wants of its links.
    wanted: Vec<BusAction>,
    /// All that it has written down.
    written: Vec<Packet>,
    pub news: Vec<News>,
    pub answers: Vec<(WaiterId, Answer)>,
}

pub struct Net {
    pub servers: Vec<Server>,
}

const PORT: u16 = 7711;

fn settings() -> Settings {
    Settings {
        announce_port: PORT,
        node_timeout_ms: 1_000,
        ..Settings::default()
    }
}

impl Server {
    fn new(number: usize, identity: Identity) -> Server {
        let seed = [number as u8 + 1; 32];
        Server {
            kit: Kit {
                node: Node::new(identity, settings(), seed, START),
                now: START,
                fx: Effects::new(),
            },
            host: host(number),
            is_cut_off: false,
            connections: 0,
            wanted: Vec::new(),
            written: Vec::new(),
            news: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Keeps what the last call wants done.
    fn keep_effects(&mut self) {
        let fx = &mut self.kit.fx;
        if !fx.records.is_empty() {
            self.written.push(fx.records.packet().clone());
            self.kit.node.count_batch();
        }
        self.news.append(&mut fx.news);
        self.answers.append(&mut fx.answers);
        self.wanted.append(&mut fx.bus);
        fx.clear();
    }
}

fn host(number: usize) -> String {
    format!("host-{number}")
}

impl Net {
    /// So many nodes that know each other.
    pub fn new(count: usize) -> Net {
        let identity = |number: usize| Identity {
            id: [number as u8 + 1; 20],
            epoch: 100 + number as u64,
            term: 0,
        };
        let servers = (0..count).map(|number| Server::new(number, identity(number)));
        let mut net = Net {
            servers: servers.collect(),
        };
        for number in 1..count {
            let speaker = net.servers[number].kit.node.speaker();
            let contact = Contact {
                host: host(number),
                port: PORT,
            };
            net.on(0, |node, _, fx| node.met(&speaker, contact, fx))
                .expect("they meet");
        }
        net.pass(2_000);
        for server in &net.servers {
            let reachable = server.kit.node.reachable_peers(server.kit.now).count();
            assert_eq!(reachable, count - 1);
        }
        net
    }

    /// Calls a node.
    pub fn on<R>(&mut self, at: usize, call: impl FnOnce(&mut Node, Now, &mut Effects) -> R) -> R {
        let kit = &mut self.servers[at].kit;
        let result = call(&mut kit.node, kit.now, &mut kit.fx);
        kit.check();
        self.servers[at].keep_effects();
        result
    }

    /// Adds a job and lets its copies arrive.
    pub fn add(&mut self, at: usize, add: &AddJob<'_>) -> JobId {
        let added = self.on(at, |node, now, fx| node.add_job(now, add, true, fx));
        let id = match added.expect("the job is accepted") {
            Added::Done(ids) | Added::Waits { ids, .. } => ids[0],
        };
        self.pass(50);
        id
    }

    /// Lets time pass at all nodes.
    pub fn pass(&mut self, ms: u64) {
        const STEP: u64 = 10;
        for _ in 0..ms.div_ceil(STEP) {
            for at in 0..self.servers.len() {
                self.servers[at].kit.skip(STEP);
                self.on(at, |node, now, fx| node.run_due(now, 1_000, fx));
                self.carry_out(at);
                self.connect_all(at);
            }
        }
    }

    /// A server that has taken the first `count` batches of another one's records, and
    /// is promoted. All of them, where `count` is not given.
    pub fn promote(&mut self, primary: usize, count: Option<usize>) -> usize {
        let number = self.servers.len();
        let stranger = Identity {
            id: [0xee; 20],
            epoch: 1,
            term: 0,
        };
        let mut replica = Server::new(number, stranger);
        let now = self.servers[primary].kit.now;
        replica.kit.now = now;
        let from = &self.servers[primary];
        let mut first = RecordBatch::default();
        let identity = from.kit.node.identity();
        // What it was before it made its first record.
        first.push(&Record::Node(*identity));
        let batches = from.written.iter();
        let count = count.unwrap_or(from.written.len());
        for batch in std::iter::once(first.packet()).chain(batches.take(count)) {
            let taken = replica.kit.node.apply(now, batch);
            taken.expect("the record of a sound node");
            replica.kit.check();
        }
        self.servers.push(replica);
        self.on(number, |node, now, fx| node.promote(now, fx));
        self.on(number, |node, _, fx| node.connect_all(fx));
        number
    }

    /// A server that starts with a copy of another one's data and nodes file.
    pub fn copy(&mut self, of: usize) -> usize {
        let number = self.servers.len();
        let from = &self.servers[of].kit;
        let file = from.node.nodes_file(false);
        let mut copy = Server::new(number, file.identity);
        copy.kit.now = from.now;
        copy.kit.node.restore_nodes(&file);
        self.servers.push(copy);
        self.on(number, |node, _, fx| node.connect_all(fx));
        number
    }

    /// Of the messages that a server is about to send only the first ones arrive.
    pub fn lose_all_but(&mut self, at: usize, count: usize) {
        let mut sent = 0;
        self.servers[at].wanted.retain(|action| {
            sent += usize::from(matches!(action, BusAction::Send { .. }));
            sent <= count
        });
    }

    /// How many batches a server has written.
    pub fn written(&self, at: usize) -> usize {
        self.servers[at].written.len()
    }

    fn reach(&self, from: usize, contact: &Contact) -> Option<usize> {
        let is_there = |server: &Server| !server.is_cut_off && server.host == contact.host;
        let to = self.servers.iter().position(is_there)?;
        (!self.servers[from].is_cut_off).then_some(to)
    }

    fn carry_out(&mut self, at: usize) {
        for action in std::mem::take(&mut self.servers[at].wanted) {
            match action {
                BusAction::Connect(key) => self.connect(at, key),
                BusAction::Disconnect(_) | BusAction::Introduce => {}
                BusAction::Send { to, message, .. } => self.send(at, to, &message),
            }
        }
    }

    /// Every link that is not up is tried.
    fn connect_all(&mut self, at: usize) {
        let peers = self.servers[at].kit.node.cluster().peers();
        let down = peers.filter(|peer| !peer.link.is_up());
        let keys: Vec<PeerKey> = down.map(|peer| peer.key).collect();
        keys.into_iter().for_each(|key| self.connect(at, key));
    }

    fn connect(&mut self, at: usize, key: PeerKey) {
        self.servers[at].connections += 1;
        let connection = self.servers[at].connections;
        if let Some(answer) = self.frame(at, key, connection, &Packet::default()) {
            let taken = self.on(at, |node, now, fx| {
                node.handle_answer(now, key, &answer, fx)
            });
            match taken {
                Ok(()) => self.on(at, |node, now, fx| node.link_up(now, key, connection, fx)),
                Err(reason) => self.on(at, |node, _, fx| node.link_down(key, &reason, fx)),
            }
        }
    }

    fn send(&mut self, at: usize, key: PeerKey, message: &Packet) {
        let peer = self.servers[at].kit.node.cluster().by_key(key);
        let Some(LinkState::Up(connection)) = peer.map(|peer| peer.link.clone()) else {
            return;
        };
        if let Some(answer) = self.frame(at, key, connection, message) {
            let (_, messages) = read_answer(&answer).expect("the answer of a sound node");
            messages.for_each(|message| {
                message.expect("a good message");
            });
            let taken = self.on(at, |node, now, fx| {
                node.handle_answer(now, key, &answer, fx)
            });
            if let Err(reason) = taken {
                self.on(at, |node, _, fx| node.link_down(key, &reason, fx));
            }
        }
    }

    /// Has a frame answered; a refusal or a broken link is told at once.
    fn frame(
        &mut self,
        at: usize,
        key: PeerKey,
        connection: u64,
        rest: &Packet,
    ) -> Option<Vec<u8>> {
        let node = &self.servers[at].kit.node;
        let contact = node.cluster().by_key(key)?.contact.clone();
        let mut frame = Packet::from(encode_header(&node.header(Some(key), connection)));
        frame.append(rest);
        let Some(to) = self.reach(at, &contact) else {
            self.on(at, |node, _, fx| node.link_down(key, "nobody listens", fx));
            return None;
        };
        let from = host(at);
        match self.on(to, |node, now, fx| {
            node.handle_frame(now, &frame, &from, fx)
        }) {
            Ok(answer) => Some(answer),
            Err(error) => {
                let text = error.to_string();
                self.on(at, |node, now, fx| node.link_refused(now, key, &text, fx));
                None
            }
        }
    }
}

//! The links of this node, between the core and the thread that keeps them.
//!
//! The core says what the links are to do ([`BusAction`]); the thread tells what
//! came over them. Both meet here, on the main thread, in a command or a turn.

use crate::ffi::{self, Call, Ctx, Level, MainThread, Waker};
use crate::host::Host;
use crate::persistence::identity::port;
use crate::settings::read_password;
use disque_bus::{
    Address, Bus, Credentials, DownReason, Event, Greeting, Message, Owner, ProbeKey, SendError,
    Settings, Target,
};
use disque_core::body::Packet;
use disque_core::clock::Now;
use disque_core::cluster::{Contact, PeerKey};
use disque_core::effects::{BusAction, Gate, News, WaiterId};
use disque_core::error::Error;
use disque_core::message::{encode_header, read_answer, Header, Speaker};
use disque_core::node::Node;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Events that one turn takes.
const EVENTS_PER_TURN: usize = 256;
/// Messages of one round after which the thread is told without waiting for its end: it
/// works beside the commands that follow.
const FLUSHED_AT: usize = 64;

/// What the thread needs to introduce this node. Written by the main thread,
/// read by the other one, which holds the lock for the time of a copy.
struct Introduction {
    speaker: Speaker,
    /// Whom the links lead to.
    peers: BTreeMap<u64, [u8; 20]>,
    connections: u64,
}

struct Doorkeeper {
    introduction: Mutex<Introduction>,
    waker: Waker,
}

impl Doorkeeper {
    fn with<R>(&self, visit: impl FnOnce(&mut Introduction) -> R) -> R {
        // Nothing that holds the lock can panic half way.
        let mut guard = self
            .introduction
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        visit(&mut guard)
    }
}

impl Owner for Doorkeeper {
    fn greet(&self, target: Target) -> Greeting {
        let header = self.with(|introduction| {
            introduction.connections += 1;
            Header {
                from: introduction.speaker,
                to: match target {
                    Target::Peer(key) => introduction.peers.get(&key.0).copied(),
                    Target::Probe(_) => None,
                },
                connection: introduction.connections,
            }
        });
        let prefix = encode_header(&header);
        Greeting {
            connection: header.connection,
            hello: prefix.clone().into(),
            prefix: prefix.into(),
        }
    }

    fn wake(&self) {
        self.waker.wake();
    }

    fn log(&self, line: &str) {
        ffi::log_from_any_thread(Level::Warning, line);
    }

    fn thread_started(&self) {
        ffi::block_signals();
    }
}

/// The links.
pub struct Links {
    bus: Bus,
    door: Arc<Doorkeeper>,
    /// The host that the others were told of; empty for none.
    announced: String,
    /// Connections that are up.
    up: BTreeMap<PeerKey, u64>,
    next_serial: u64,
    /// Messages dropped on links to nodes that are in the table no more.
    dropped_before: u64,
    /// What waits for the end of this round, see [`Links::open_gate`].
    gated: Vec<(PeerKey, Packet)>,
    /// Messages that the thread was given and does not know of, see [`Links::flush`].
    unflushed: usize,
}

impl Links {
    /// Starts the thread. It has nothing to do until there are peers.
    pub fn start(node: &Node, settings: Settings, seed: u64) -> std::io::Result<Links> {
        let door = Arc::new(Doorkeeper {
            introduction: Mutex::new(Introduction {
                speaker: node.speaker(),
                peers: BTreeMap::new(),
                connections: 0,
            }),
            waker: ffi::waker(),
        });
        Ok(Links {
            bus: Bus::start(settings, seed, door.clone())?,
            door,
            announced: node.settings().announce_host.clone(),
            up: BTreeMap::new(),
            next_serial: 1,
            dropped_before: 0,
            gated: Vec::new(),
            unflushed: 0,
        })
    }

    /// Changes the settings of all links.
    pub fn set_settings(&mut self, settings: Settings) {
        self.bus.set_settings(settings);
    }

    /// This node is another one, or is reached elsewhere: it introduces itself
    /// anew.
    pub fn introduce(&mut self, node: &Node) {
        // Not to nodes that are known no more, as after a RESET: they would take the
        // new node in. A link that is just being made to one names nobody.
        self.door.with(|introduction| {
            introduction.speaker = node.speaker();
            let known = |key: u64| node.cluster().peers().any(|one| bus_key(one.key).0 == key);
            introduction.peers.retain(|key, _| known(*key));
        });
        self.announced = node.settings().announce_host.clone();
        for &key in self.up.keys() {
            if node.cluster().by_key(key).is_some() {
                self.bus.reconnect(bus_key(key));
            }
        }
    }

    /// Carries out what the core wants of the links.
    pub fn carry_out(&mut self, node: &Node, actions: &mut Vec<BusAction>) {
        for action in actions.drain(..) {
            match action {
                BusAction::Connect(key) => self.connect(node, key),
                BusAction::Introduce => self.introduce(node),
                BusAction::Disconnect(key) => {
                    self.up.remove(&key);
                    self.dropped_before += self.dropped(key);
                    self.bus.remove_peer(bus_key(key));
                }
                BusAction::Send { to, message, gate } => match gate {
                    Gate::Open => self.send(to, message),
                    Gate::Written => {
                        self.gated.push((to, message));
                        // So that the round ends, and the next one begins, at once.
                        self.door.waker.wake();
                    }
                },
            }
        }
        if self.unflushed >= FLUSHED_AT {
            self.flush();
        }
    }

    /// Has the thread send what it was given. Called when a round of the event loop
    /// ends, so that what the commands of one round have to say shares frames: a frame
    /// costs both sides much more than a message.
    pub fn flush(&mut self) {
        self.unflushed = 0;
        self.bus.flush();
    }

    fn connect(&mut self, node: &Node, key: PeerKey) {
        if let Some(peer) = node.cluster().by_key(key) {
            self.door
                .with(|introduction| introduction.peers.insert(u64::from(key.0), peer.id));
            let address = Address::new(peer.contact.host.as_str(), peer.contact.port);
            self.bus.set_peer(bus_key(key), address);
            self.bus.hurry(bus_key(key));
        }
    }

    fn send(&mut self, to: PeerKey, message: Packet) {
        let Some(&connection) = self.up.get(&to) else {
            return;
        };
        let serial = self.next_serial;
        self.next_serial += 1;
        self.unflushed += 1;
        let alone = Message::new(serial, message.bytes);
        let message = message.bodies.into_iter().fold(alone, Message::with_body);
        match self.bus.send(bus_key(to), connection, message) {
            // Counted by the bus; what matters the core says again.
            Ok(()) | Err(SendError::QueueFull | SendError::UnknownPeer) => {}
        }
    }

    /// A round of the event loop is over, and Redis has written what it recorded:
    /// what was gated in it may leave. Called after the event loop has slept,
    /// which it does only once the records are written.
    pub fn open_gate(&mut self) {
        for (to, message) in std::mem::take(&mut self.gated) {
            self.send(to, message);
        }
        self.flush();
    }

    /// Asks who listens at an address, for a client that waits.
    pub fn probe(&mut self, client: WaiterId, contact: &Contact) {
        let address = Address::new(contact.host.as_str(), contact.port);
        self.bus.probe(ProbeKey(client.0), address);
    }

    /// Messages to a peer that were dropped.
    fn dropped(&self, key: PeerKey) -> u64 {
        let stats = self.bus.stats(bus_key(key));
        stats.map_or(0, |stats| stats.dropped)
    }

    /// Bytes that wait for a peer.
    pub fn queued_bytes(&self, key: PeerKey) -> u64 {
        let stats = self.bus.stats(bus_key(key));
        stats.map_or(0, |stats| stats.queued_bytes as u64)
    }
}

fn bus_key(key: PeerKey) -> disque_bus::PeerKey {
    disque_bus::PeerKey(u64::from(key.0))
}

fn core_key(key: disque_bus::PeerKey) -> PeerKey {
    PeerKey(u32::try_from(key.0).unwrap_or(0))
}

impl Host {
    /// The links, started now if they were not.
    fn links(&mut self, ctx: &Ctx) -> Option<&mut Links> {
        if self.links.is_none() && self.may_have_links() {
            let settings = self.bus_settings();
            let seed = u64::from_le_bytes(ctx.random_bytes());
            match Links::start(&self.node, settings, seed) {
                Ok(links) => self.links = Some(links),
                Err(error) => {
                    let text = format!("cannot start the links to other nodes: {error}");
                    ctx.log(Level::Warning, &text);
                }
            }
        }
        self.links.as_mut()
    }

    /// Hands on what the core wants of the links.
    pub fn carry_out_links(&mut self, ctx: &Ctx) {
        let mut actions = std::mem::take(&mut self.fx.bus);
        if self.links(ctx).is_some() {
            let node = &self.node;
            if let Some(links) = &mut self.links {
                links.carry_out(node, &mut actions);
            }
        }
        // The room is kept for the next call.
        actions.clear();
        self.fx.bus = actions;
    }

    /// Gives up all links: this server loads, or is a replica from now on.
    pub fn close_links(&mut self) {
        self.links = None;
        let keys: Vec<_> = self.node.cluster().peers().map(|peer| peer.key).collect();
        for key in keys {
            self.node
                .link_down(key, "this server does not serve now", &mut self.fx);
        }
        self.fx.news.clear();
    }

    /// Settings of the bus, or the port, may have changed.
    pub fn apply_bus_settings(&mut self, ctx: &Ctx) {
        let port = match self.settings.announce_port {
            0 => port(ctx),
            port => port,
        };
        let mut settings = self.node.settings().clone();
        if settings.announce_port != port {
            settings.announce_port = port;
            self.node.set_settings(settings);
            self.introduce();
        }
        let host = &self.node.settings().announce_host;
        if self
            .links
            .as_ref()
            .is_some_and(|links| links.announced != *host)
        {
            self.introduce();
        }
        let settings = self.bus_settings();
        if let Some(links) = &mut self.links {
            links.set_settings(settings);
            // A node that refused the old password may take the new one.
            for peer in self.node.cluster().peers() {
                links.bus.hurry(bus_key(peer.key));
            }
        }
    }

    fn bus_settings(&self) -> Settings {
        let own = &self.settings;
        // The file was read when it was set; what is wrong with it now shows as a
        // refusal at the other nodes.
        let from_file = read_password(&own.bus_password_file).unwrap_or_default();
        let password = if own.bus_password_file.is_empty() {
            own.bus_password.clone()
        } else {
            from_file
        };
        let id = self.node.identity().hex();
        Settings {
            node_timeout: Duration::from_millis(self.node.settings().node_timeout_ms),
            credentials: (!password.is_empty()).then(|| Credentials {
                user: (!own.bus_user.is_empty()).then(|| own.bus_user.clone().into()),
                password: password.into(),
            }),
            client_name: format!("disque:{}", &id[..8]).into(),
            queue_limit: usize::try_from(own.bus_queue_bytes).unwrap_or(usize::MAX),
            ..Settings::default()
        }
    }

    /// Starts a MEET. Its client waits for the outcome, where it can.
    pub fn start_meeting(&mut self, contact: Contact, call: &mut Call<'_>) -> Result<(), Error> {
        let client = self.next_own_client();
        let waits = self.can_block(call);
        let ctx = call.ctx();
        let links = self.links(ctx).ok_or(Error::Internal)?;
        links.probe(client, &contact);
        let blocked = if waits {
            call.block(client.0).ok()
        } else {
            None
        };
        if blocked.is_none() {
            call.reply().simple("OK");
        }
        self.meetings.insert(client, (contact, blocked));
        Ok(())
    }

    /// Takes what came over the links, and says whether there is more.
    pub fn take_bus_events(&mut self, main: MainThread, now: Now) -> bool {
        for _ in 0..EVENTS_PER_TURN {
            let Some(event) = self.links.as_mut().and_then(|links| links.bus.poll_event()) else {
                return false;
            };
            self.take_bus_event(main, now, event);
        }
        true
    }

    fn take_bus_event(&mut self, main: MainThread, now: Now, event: Event) {
        let (node, fx) = (&mut self.node, &mut self.fx);
        match event {
            Event::Up {
                peer,
                connection,
                hello,
            } => {
                let key = core_key(peer);
                match node.handle_answer(now, key, &hello, fx) {
                    Ok(()) => {
                        self.mark_up(key, Some(connection));
                        self.node.link_up(now, key, connection, &mut self.fx);
                    }
                    Err(reason) => node.link_down(key, &reason, fx),
                }
            }
            Event::Answer { peer, bytes, .. } => {
                let key = core_key(peer);
                if let Err(reason) = node.handle_answer(now, key, &bytes, fx) {
                    node.link_down(key, &reason, fx);
                    self.mark_up(key, None);
                    self.reconnect(key);
                }
            }
            Event::Refused { peer, refusal, .. } => {
                let key = core_key(peer);
                node.link_refused(now, key, &refusal.text, fx);
                self.mark_up(key, None);
            }
            Event::Down { peer, reason, .. } => {
                let key = core_key(peer);
                match &reason {
                    DownReason::Refused(refusal) => {
                        node.link_refused(now, key, &refusal.text, fx);
                    }
                    reason => node.link_down(key, &reason.to_string(), fx),
                }
                self.mark_up(key, None);
            }
            Event::Probed { probe, result } => {
                let speaker = match &result {
                    Ok(answer) => read_answer(answer)
                        .map(|(speaker, _)| speaker)
                        .map_err(|error| error.to_string()),
                    Err(reason) => Err(reason.to_string()),
                };
                self.end_meeting(main, WaiterId(probe.0), speaker);
            }
        }
    }

    fn mark_up(&mut self, key: PeerKey, connection: Option<u64>) {
        let Some(links) = &mut self.links else {
            return;
        };
        match connection {
            Some(connection) => links.up.insert(key, connection),
            None => links.up.remove(&key),
        };
    }

    fn reconnect(&mut self, key: PeerKey) {
        if let Some(links) = &mut self.links {
            links.bus.reconnect(bus_key(key));
        }
    }

    /// A MEET ends: the node at the address has said who it is, or has not.
    fn end_meeting(
        &mut self,
        main: MainThread,
        client: WaiterId,
        speaker: Result<Speaker, String>,
    ) {
        let Some((contact, blocked)) = self.meetings.remove(&client) else {
            return;
        };
        let met = speaker
            .map_err(Error::CannotMeet)
            .and_then(|speaker| self.node.met(&speaker, contact, &mut self.fx));
        match (blocked, met) {
            (Some(blocked), met) => {
                blocked.answer(main, |reply| match &met {
                    Ok(()) => reply.simple("OK"),
                    Err(error) => reply.error(&error.to_string()),
                });
            }
            (None, Ok(())) => {}
            (None, Err(error)) => self.fx.news.push(News::NotMet(error.to_string())),
        }
    }

    /// Messages that were dropped because too many waited for a node, or its link
    /// ended before they were answered.
    pub fn dropped_messages(&self) -> u64 {
        let Some(links) = &self.links else {
            return 0;
        };
        let peers = self.node.cluster().peers();
        let of_peers: u64 = peers.map(|peer| links.dropped(peer.key)).sum();
        links.dropped_before + of_peers
    }

    /// Lines for the log.
    pub fn tell_news(&mut self, ctx: &Ctx) {
        for news in self.fx.news.drain(..) {
            let (level, line) = line_of(&news);
            ctx.log(level, &line);
        }
    }
}

fn line_of(news: &News) -> (Level, String) {
    let name = disque_core::node::hex;
    match news {
        News::Joined(id) => (Level::Notice, format!("node {} joined", name(id))),
        News::Left(id) => (Level::Notice, format!("node {} left", name(id))),
        News::LinkUp(id) => (Level::Notice, format!("link to node {} is up", name(id))),
        News::LinkDown { id, reason } => (
            Level::Notice,
            format!("link to node {} is closed: {reason}", name(id)),
        ),
        News::Refused { id, error } => (
            Level::Warning,
            format!("node {} takes nothing: {error}", name(id)),
        ),
        News::BadMessage { from, reason } => {
            let from = name(from);
            (
                Level::Warning,
                format!("node {from} sent a bad message: {reason}"),
            )
        }
        News::NotMet(error) => (Level::Warning, error.clone()),
        News::WasForgotten => (
            Level::Warning,
            "the cluster has forgotten this node: it serves nothing until DISQUE RESET".into(),
        ),
        News::IsDoubled(other) => (
            Level::Warning,
            format!(
                "another server is this node as well, at {other}: neither serves until one of \
                 them is stopped, or DISQUE RESET"
            ),
        ),
        News::IsAlone => (
            Level::Notice,
            "no other server is this node any more: it serves again".into(),
        ),
        News::WasSuperseded(by) => (
            Level::Warning,
            format!(
                "a replica that was promoted is this node now, at {}: this server serves nothing \
                 until it is made its replica, or DISQUE RESET",
                by.contact
            ),
        ),
    }
}

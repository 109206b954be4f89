//! What comes from other nodes and goes to them: frames, answers, heartbeats,
//! and the news of their links.

use super::replication::Talk;
use super::Node;
use crate::body::Parts;
use crate::clock::Now;
use crate::cluster::{
    is_host, memory_ms, Change, Cluster, Comparison, Contact, Double, LinkState, OldConnection,
    Peer, PeerKey, Refusal, Unheard,
};
use crate::collections::Full;
use crate::effects::{BusAction, Effects, Gate, News};
use crate::error::Error;
use crate::holders::Pair;
use crate::job_id::hex_text;
use crate::message::{
    append_message, encode_answer, read_answer, read_frame, Header, Heartbeat, Listing, Malformed,
    Message, Speaker,
};
use crate::queue::Pause;
use crate::record::Record;
use crate::succession::Successor;
use std::fmt;

/// Heartbeats come this many times within node-timeout, but at least one a
/// second.
const BEATS_PER_TIMEOUT: u64 = 4;
const MAX_BEAT_MS: u64 = 1_000;

/// The table is told in answers that are not longer than this yet.
const TELL_BELOW: usize = 64 << 10;

/// How a node hears from others that the cluster has forgotten it.
const FORGOTTEN: &str = "FORGOTTEN the cluster has forgotten this node";

/// Why a frame was not taken. `Display` gives the error reply, code first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Its bytes make no sense.
    Malformed(Malformed),
    /// It comes from this node itself.
    Own,
    /// The sender takes this node for another one.
    OtherNode {
        /// Who lives here.
        id: String,
    },
    /// The sender was forgotten, with its data.
    Forgotten,
    /// Another server is the sender's node now.
    Superseded(Successor),
    /// A newer connection from the sender exists.
    OldConnection(OldConnection),
    /// The sender and another server are one node.
    Double(Double),
    /// The cluster has as many nodes as it can.
    TooManyNodes,
    /// This node was forgotten, or superseded, itself.
    NotServing(Error),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Malformed(error) => write!(f, "ERR malformed frame: {error}"),
            FrameError::Own => f.write_str("ERR this is the node itself"),
            FrameError::OtherNode { id } => write!(f, "ERR another node lives here: {id}"),
            FrameError::Forgotten => write!(f, "{FORGOTTEN}: DISQUE RESET makes it a new one"),
            FrameError::OldConnection(old) => old.fmt(f),
            FrameError::Double(double) => double.fmt(f),
            FrameError::TooManyNodes => f.write_str("ERR the cluster has as many nodes as it can"),
            FrameError::Superseded(successor) => successor.fmt(f),
            FrameError::NotServing(Error::Superseded | Error::Doubled) => {
                f.write_str("SUPERSEDED this server is not the node of its id any more")
            }
            FrameError::NotServing(_) => {
                f.write_str("FORGOTTEN this node was forgotten and is not reset")
            }
        }
    }
}

impl From<Unheard> for FrameError {
    fn from(unheard: Unheard) -> FrameError {
        match unheard {
            Unheard::Old(old) => FrameError::OldConnection(old),
            Unheard::Double(double) => FrameError::Double(double),
        }
    }
}

impl From<Malformed> for FrameError {
    fn from(error: Malformed) -> FrameError {
        FrameError::Malformed(error)
    }
}

/// Where the answers to the messages of a frame go.
type Answers = Vec<u8>;

impl Node {
    /// How this node presents itself.
    pub fn speaker(&self) -> Speaker {
        Speaker {
            id: self.identity.id,
            epoch: self.identity.epoch,
            term: self.identity.term,
            incarnation: self.incarnation,
            process: self.process,
            port: self.settings.announce_port,
        }
    }

    /// The header of frames on a connection to a peer; `None` as the peer asks
    /// who is there.
    pub fn header(&self, to: Option<PeerKey>, connection: u64) -> Header {
        let peer = to.and_then(|key| self.cluster.by_key(key));
        Header {
            from: self.speaker(),
            to: peer.map(|peer| peer.id),
            connection,
        }
    }

    /// A frame has come. `from_host` is the address from which. Returns the
    /// answer; an error leaves nothing changed.
    ///
    /// Messages take effect in order. At the first bad one the rest is left out
    /// and the answer ends with a mark, on which the sender closes the link.
    pub fn handle_frame<'a>(
        &mut self,
        now: Now,
        frame: impl Into<Parts<'a>>,
        from_host: &str,
        fx: &mut Effects,
    ) -> Result<Vec<u8>, FrameError> {
        let (header, messages) = read_frame(frame)?;
        let mut answers = encode_answer(&self.speaker());
        if header.to.is_none() {
            // Somebody asks who is there, before a MEET.
            return Ok(answers);
        }
        self.admit(now, &header, from_host, fx)?;
        for message in messages {
            let taken = message
                .map_err(|error| error.to_string())
                .and_then(|message| self.take(now, &header.from, message, Some(&mut answers), fx));
            if let Err(reason) = taken {
                fx.news.push(News::BadMessage {
                    from: header.from.id,
                    reason: reason.clone(),
                });
                append_message(&Message::Stopped { reason: &reason }, &mut answers);
                break;
            }
        }
        Ok(answers)
    }

    /// Refuses frames that are for another node, and those of nodes that are not of this
    /// cluster any more.
    fn check_speaker(&self, header: &Header) -> Result<(), FrameError> {
        let from = &header.from;
        if from.id == self.identity.id {
            return Err(FrameError::Own);
        }
        if header.to != Some(self.identity.id) {
            return Err(FrameError::OtherNode {
                id: self.identity.hex(),
            });
        }
        if self.cluster.is_forgotten(&from.identity()) {
            return Err(FrameError::Forgotten);
        }
        // Nor does it come back by itself when it has lost its data since.
        let known = self.cluster.peer(&from.id).is_some();
        if !known && self.cluster.is_id_forgotten(&from.id) {
            return Err(FrameError::Forgotten);
        }
        if let Some(peer) = self.cluster.peer(&from.id) {
            if self.cluster.is_superseded(from) {
                return Err(FrameError::Superseded(peer.as_successor()));
            }
        }
        self.check_serving().map_err(FrameError::NotServing)
    }

    /// Checks who speaks, and takes a new node into the table.
    fn admit(
        &mut self,
        now: Now,
        header: &Header,
        from_host: &str,
        fx: &mut Effects,
    ) -> Result<(), FrameError> {
        let from = &header.from;
        self.check_speaker(header)?;
        let connection = (from.incarnation, header.connection);
        let contact = Contact {
            host: from_host.into(),
            port: from.port,
        };
        let succeeds = self.cluster.supersedes(from);
        let clock = (now.mono_ms, self.settings.node_timeout_ms);
        self.cluster
            .hear(from, header.connection, contact.clone(), clock)?;
        if self.cluster.peer(&from.id).is_none() {
            self.add_peer(from, contact, fx);
        }
        // Where its frames come from is where it is, unless it names another host
        // itself or answers where it was: but for a promoted replica that was another
        // server.
        let moved = |peer: &Peer| succeeds || !peer.announced && !peer.link.is_up();
        let host = self
            .cluster
            .peer(&from.id)
            .is_some_and(moved)
            .then_some(from_host);
        let change = self.cluster.update(from, host);
        self.carry_out(change, fx);
        let peer = self
            .cluster
            .peer_mut(&from.id)
            .ok_or(FrameError::TooManyNodes)?;
        let is_new = connection != peer.inbound;
        peer.inbound = connection;
        if is_new {
            // What it said on an earlier connection was of an earlier time.
            peer.hears_us = false;
        }
        peer.heard_at = Some(now.mono_ms);
        if is_new && !peer.link.is_up() {
            // It is back: no need to wait for the next attempt.
            fx.bus.push(BusAction::Connect(peer.key));
        }
        Ok(())
    }

    /// A frame that this node sent was answered.
    pub fn handle_answer(
        &mut self,
        now: Now,
        key: PeerKey,
        answer: &[u8],
        fx: &mut Effects,
    ) -> Result<(), String> {
        let (speaker, messages) = read_answer(answer).map_err(|error| error.to_string())?;
        let peer = self
            .cluster
            .by_key(key)
            .ok_or("the node is not known any more")?;
        if peer.id != speaker.id {
            return Err(format!("another node answers: {}", hex_text(&speaker.id)));
        }
        if self.cluster.is_forgotten(&speaker.identity()) {
            // The table had it with other data, of which nothing was forgotten.
            self.remove_peer(&speaker.id, fx);
            return Err("the cluster has forgotten it".into());
        }
        if self.cluster.is_superseded(&speaker) {
            return Err("a promoted replica is that node now".into());
        }
        let change = self.cluster.update(&speaker, None);
        self.carry_out(change, fx);
        if let Some(peer) = self.cluster.by_key_mut(key) {
            peer.answered_at = Some(now.mono_ms);
        }
        for message in messages {
            let message = message.map_err(|error| error.to_string())?;
            self.take(now, &speaker, message, None, fx)?;
        }
        Ok(())
    }

    /// One message of a frame, or of an answer, where `answers` is `None`.
    fn take(
        &mut self,
        now: Now,
        from: &Speaker,
        message: Message<'_>,
        answers: Option<&mut Answers>,
        fx: &mut Effects,
    ) -> Result<(), String> {
        match message {
            Message::Heartbeat(beat) => self.take_heartbeat(now, from, beat, answers),
            Message::Address { host: "" } => {
                // It wants to be found where its frames come from.
                if let Some(peer) = self.cluster.peer_mut(&from.id) {
                    peer.announced = false;
                }
            }
            Message::Known(Listing { host, .. }) | Message::Address { host }
                if !is_host(host.as_bytes()) =>
            {
                return Err("that is no host name or address".into());
            }
            Message::Known(listing) => self.take_listing(now, &listing, fx),
            Message::Forgotten { id, epoch, until } => {
                self.take_forgotten(now, id, epoch, until, fx)
            }
            Message::Pause { queue, pause } => {
                self.check_queue_name(queue)
                    .map_err(|error| error.to_string())?;
                self.pause(now, queue, Pause::from_bits(pause), fx)
                    .map_err(|error| error.to_string())?;
            }
            Message::Address { host } => {
                if let Some(peer) = self.cluster.peer_mut(&from.id) {
                    peer.announced = true;
                }
                let change = self.cluster.update(from, Some(host));
                self.carry_out(change, fx);
            }
            Message::Stopped { reason } => return Err(format!("it stopped reading: {reason}")),
            _ => return self.take_about_job(now, from, message, answers, fx),
        }
        Ok(())
    }

    fn take_about_job(
        &mut self,
        now: Now,
        from: &Speaker,
        message: Message<'_>,
        answers: Option<&mut Answers>,
        fx: &mut Effects,
    ) -> Result<(), String> {
        let peer = self.cluster.peer(&from.id).ok_or("a stranger")?;
        let with = peer.key;
        let holder = self.holders.number(Pair::from(&from.identity()));
        let from = holder.map_err(|error| error.to_string())?;
        let mut talk = Talk {
            now,
            with,
            from,
            answers,
            fx,
        };
        self.take_job_message(message, &mut talk)
    }

    fn take_heartbeat(
        &mut self,
        now: Now,
        from: &Speaker,
        beat: Heartbeat,
        answers: Option<&mut Answers>,
    ) {
        let Some(peer) = self.cluster.peer_mut(&from.id) else {
            return;
        };
        if std::mem::replace(&mut peer.leaving, beat.leaving) && !beat.leaving {
            // It stays after all: copies that found no place may have one again, as when
            // a node comes back.
            peer.was_reachable = false;
        }
        peer.hears_us = beat.answered;
        if answers.is_none() {
            // It answers one of ours: this node's link leads to the process that was
            // started last. Before that, a question about its copies could go to the
            // one that was killed.
            let doubtful = beat.unclean_start > peer.unclean_start;
            peer.unclean_start = peer.unclean_start.max(beat.unclean_start);
            if doubtful && beat.unclean_start == from.incarnation {
                peer.comparison = Comparison::Due;
            }
            if let Some(sent) = peer.beat_sent_at.take() {
                // Frames arrive in order: so have all questions before it.
                if peer.comparison == Comparison::Asked && self.vigil.compared_before(sent) {
                    peer.comparison = Comparison::Done;
                }
                peer.round_trip_ms = now.mono_ms.saturating_sub(sent);
                // What took long once, in a pause, is not waited for from then on.
                peer.copy_ms /= 2;
            }
        }
        let Some(answers) = answers else {
            return;
        };
        let Some(peer) = self.cluster.peer(&from.id) else {
            return;
        };
        let own = self.heartbeat(peer, now);
        append_message(&Message::Heartbeat(own), answers);
        // Many heartbeats in one frame get no answer without end; a table that is
        // left out here is told with the next one.
        let room = answers.len() < TELL_BELOW;
        if room && !self.cluster.knows_the_same(&self.identity, beat.table) {
            for message in self.cluster.tell() {
                append_message(&message, answers);
            }
        }
    }

    /// What this node says of itself to a peer.
    fn heartbeat(&self, peer: &Peer, now: Now) -> Heartbeat {
        Heartbeat {
            leaving: self.leaving,
            answered: peer.answered_within(now, self.settings.node_timeout_ms),
            unclean_start: self.vigil.unclean_start,
            table: self.cluster.fingerprint(&self.identity),
        }
    }

    /// A node that another one knows.
    fn take_listing(&mut self, now: Now, listing: &Listing<'_>, fx: &mut Effects) {
        if listing.id == self.identity.id {
            self.set_superseded(now, Successor::listed(listing), fx);
            return;
        }
        let speaker = Speaker {
            id: listing.id,
            epoch: listing.epoch,
            term: listing.term,
            incarnation: 0,
            process: 0,
            port: listing.port,
        };
        let contact = Contact::of(listing);
        self.add_peer(&speaker, contact, fx);
        if self.cluster.supersedes(&speaker) {
            let change = self.cluster.update(&speaker, Some(listing.host));
            self.carry_out(change, fx);
        }
    }

    fn take_forgotten(&mut self, now: Now, id: [u8; 20], epoch: u64, until: u64, fx: &mut Effects) {
        if until <= now.wall_ms {
            return;
        }
        if (id, epoch) == (self.identity.id, self.identity.epoch) {
            self.set_forgotten(now, until, fx);
        } else if self.cluster.forget(id, epoch, until).is_some() {
            fx.records.push(&Record::Forgotten { id, epoch, until });
            if self
                .cluster
                .peer(&id)
                .is_some_and(|peer| peer.epoch == epoch)
            {
                self.remove_peer(&id, fx);
            }
        }
    }

    /// Takes a node into the table and has it connected.
    pub(super) fn add_peer(&mut self, speaker: &Speaker, contact: Contact, fx: &mut Effects) {
        let change = self.cluster.add(speaker.identity(), contact);
        if change.is_some() {
            self.record_peer(&speaker.id, fx);
            fx.news.push(News::Joined(speaker.id));
        }
        self.carry_out(change, fx);
    }

    pub(super) fn remove_peer(&mut self, id: &[u8; 20], fx: &mut Effects) {
        let change = self.cluster.remove(id);
        if change.is_some() {
            fx.records.push(&Record::NodeGone { id: *id });
            fx.news.push(News::Left(*id));
        }
        self.carry_out(change, fx);
    }

    fn record_peer(&mut self, id: &[u8; 20], fx: &mut Effects) {
        if let Some(peer) = self.cluster.peer(id) {
            fx.records.push(&Record::Known(peer.listing()));
        }
    }

    /// Hands a change of the table on to the links.
    pub(super) fn carry_out(&mut self, change: Option<Change>, fx: &mut Effects) {
        match change {
            None => {}
            Some(Change::Added(key)) => fx.bus.push(BusAction::Connect(key)),
            Some(Change::Removed(key)) => fx.bus.push(BusAction::Disconnect(key)),
            Some(Change::Updated(key)) => {
                if let Some((id, pair)) = self.cluster.by_key(key).map(|p| (p.id, p.pair())) {
                    self.holders.advance(pair);
                    self.record_peer(&id, fx);
                }
                fx.bus.push(BusAction::Connect(key));
            }
        }
    }

    /// Connects to every node of the table: after a start or a load.
    pub fn connect_all(&mut self, fx: &mut Effects) {
        let keys = self
            .cluster
            .peers()
            .map(|peer| BusAction::Connect(peer.key));
        fx.bus.extend(keys);
    }

    /// The link to a node is up, with this connection number.
    pub fn link_up(&mut self, now: Now, key: PeerKey, connection: u64, fx: &mut Effects) {
        let Some(peer) = self.cluster.by_key_mut(key) else {
            return;
        };
        peer.change_link(LinkState::Up(connection));
        peer.answered_at = Some(now.mono_ms);
        // The heartbeat below is the first on this link.
        peer.beat_sent_at = Some(now.mono_ms);
        fx.news.push(News::LinkUp(peer.id));
        self.end_double(|double| double.by == key, fx);
        let Some(peer) = self.cluster.by_key(key) else {
            return;
        };
        // At once, so that both know of each other without waiting for a beat.
        let beat = self.heartbeat(peer, now);
        let host = &self.settings.announce_host;
        fx.send(key, &Message::Address { host });
        fx.send(key, &Message::Heartbeat(beat));
    }

    /// The link to a node is closed.
    pub fn link_down(&mut self, key: PeerKey, reason: &str, fx: &mut Effects) {
        let Some(peer) = self.cluster.by_key_mut(key) else {
            return;
        };
        if peer.link != LinkState::Closed {
            peer.change_link(LinkState::Closed);
            fx.news.push(News::LinkDown {
                id: peer.id,
                reason: reason.into(),
            });
        }
    }

    /// A node answers with an error instead of taking frames.
    pub fn link_refused(&mut self, now: Now, key: PeerKey, error: &str, fx: &mut Effects) {
        let Some(peer) = self.cluster.by_key_mut(key) else {
            return;
        };
        let refusing = LinkState::Refusing(Refusal(error.into()));
        if peer.link != refusing {
            peer.change_link(refusing);
            fx.news.push(News::Refused {
                id: peer.id,
                error: error.into(),
            });
        }
        if error.starts_with(FORGOTTEN) {
            self.set_forgotten(now, Cluster::forgotten_until(now), fx);
        }
        if let Some(successor) = Successor::parse(error) {
            self.set_superseded(now, successor, fx);
        }
        if let Some(other) = Double::parse(error) {
            self.set_doubled(now, other, key, fx);
        }
        if let Some(start) = OldConnection::parse(error) {
            self.count_on(start, fx);
        }
    }

    /// Sends heartbeats if it is time.
    pub(super) fn beat(&mut self, now: Now, fx: &mut Effects) {
        let timeout = self.settings.node_timeout_ms;
        // Whoever told of it tells it again meanwhile, or takes this server back.
        let memory = 2 * memory_ms(timeout);
        self.end_double(|double| now.mono_ms.saturating_sub(double.at) > memory, fx);
        let interval = (timeout / BEATS_PER_TIMEOUT).clamp(1, MAX_BEAT_MS);
        for key in self.cluster.beat(&self.identity, now, interval) {
            if let Some(peer) = self.cluster.by_key(key) {
                let beat = self.heartbeat(peer, now);
                fx.send(key, &Message::Heartbeat(beat));
            }
        }
    }

    /// Tells all nodes that can be told. What is told rests on a record of this
    /// turn, so it waits until that is written.
    pub(super) fn tell_all(&self, message: &Message<'_>, fx: &mut Effects) {
        let linked = self.cluster.peers().filter(|peer| peer.link.is_up());
        fx.send_to(linked.map(|peer| peer.key), message, Gate::Written);
    }
}

impl From<Full> for String {
    fn from(full: Full) -> String {
        full.to_string()
    }
}

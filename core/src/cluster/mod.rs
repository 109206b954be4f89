//! The other nodes: who they are, how to reach them, whether they answer.
//!
//! The table holds every node that this one knows. It spreads by gossip: each
//! heartbeat carries a fingerprint of the table, and whoever has another one is
//! told all of it. What a node says of itself goes before what others say.
//!
//! A node that was forgotten stays in a list of its own, with its data epoch, so
//! that gossip does not bring it back.

mod doubles;
mod invariants;
mod peer;

pub(crate) use doubles::{memory_ms, Unheard};
pub use doubles::{Double, OldConnection};
pub(crate) use peer::Comparison;
pub use peer::{is_host, Contact, LinkState, Peer, PeerKey, Refusal};

use crate::clock::Now;
use crate::message::{Message, Speaker};
use crate::node::Identity;
use std::collections::BTreeMap;

/// Most nodes of a cluster, this one included.
pub const MAX_NODES: usize = 256;
/// How long it is remembered that a node was forgotten, in ms: a month. A copy
/// of its data that comes up later than this is told again by nobody.
const FORGOTTEN_MS: u64 = 30 * 86_400_000;
/// Most forgotten nodes that are remembered; then those that end first go.
const MAX_FORGOTTEN: usize = 1024;

/// The table of a node.
pub struct Cluster {
    peers: BTreeMap<[u8; 20], Peer>,
    keys: BTreeMap<PeerKey, [u8; 20]>,
    forgotten: BTreeMap<([u8; 20], u64), u64>,
    /// The newest connection from nodes that were taken out, by id, while they
    /// count as forgotten: what comes late on older ones is not their return. With
    /// their term, since a promoted replica counts anew.
    departed: BTreeMap<[u8; 20], (u64, (u64, u64))>,
    next_key: u32,
    /// When the next heartbeats are due; meaningful while there are peers.
    beat_at: u64,
    fingerprint: u64,
    changes: u64,
}

/// What changed in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node came to be known: connect to it.
    Added(PeerKey),
    /// A node is known no more: disconnect.
    Removed(PeerKey),
    /// A node has another address, or other data: connect anew if it moved.
    Updated(PeerKey),
}

impl Cluster {
    /// A node alone.
    pub fn new() -> Cluster {
        Cluster {
            peers: BTreeMap::new(),
            keys: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            departed: BTreeMap::new(),
            next_key: 1,
            beat_at: 0,
            fingerprint: 0,
            changes: 0,
        }
    }

    /// How many nodes there are, this one included.
    pub fn size(&self) -> usize {
        self.peers.len() + 1
    }

    /// Grows with each change that a restart must know.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Something changed beside the table that a restart must know.
    pub(crate) fn touch(&mut self) {
        self.changes += 1;
    }

    /// Whether there is no other node.
    pub fn is_alone(&self) -> bool {
        self.peers.is_empty()
    }

    /// The other nodes, by id.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> + '_ {
        self.peers.values()
    }

    /// A node by its id.
    pub fn peer(&self, id: &[u8; 20]) -> Option<&Peer> {
        self.peers.get(id)
    }

    /// A node by its key.
    pub fn by_key(&self, key: PeerKey) -> Option<&Peer> {
        self.peers.get(self.keys.get(&key)?)
    }

    pub(crate) fn by_key_mut(&mut self, key: PeerKey) -> Option<&mut Peer> {
        self.peers.get_mut(self.keys.get(&key)?)
    }

    pub(crate) fn peer_mut(&mut self, id: &[u8; 20]) -> Option<&mut Peer> {
        self.peers.get_mut(id)
    }

    /// Whether this line of a node's data was forgotten.
    pub fn is_forgotten(&self, identity: &Identity) -> bool {
        self.forgotten.contains_key(&(identity.id, identity.epoch))
    }

    /// Whether a node was forgotten with these or with other data.
    pub(crate) fn is_id_forgotten(&self, id: &[u8; 20]) -> bool {
        let all = (*id, 0)..=(*id, u64::MAX);
        self.forgotten.range(all).next().is_some()
    }

    /// Nodes that were forgotten: id, epoch, wall-clock ms up to which that is
    /// remembered.
    pub fn forgotten(&self) -> impl Iterator<Item = ([u8; 20], u64, u64)> + '_ {
        self.forgotten
            .iter()
            .map(|(&(id, epoch), &until)| (id, epoch, until))
    }

    /// Takes a node into the table, if there is room and it was not forgotten.
    pub(crate) fn add(&mut self, identity: Identity, contact: Contact) -> Option<Change> {
        let known = self.peers.contains_key(&identity.id);
        if known || self.is_forgotten(&identity) || self.size() >= MAX_NODES {
            return None;
        }
        let key = PeerKey(self.next_key);
        self.next_key += 1;
        self.keys.insert(key, identity.id);
        let mut peer = Peer::new(key, identity, contact);
        peer.inbound = self.newest_connection(&identity.id, identity.term);
        self.departed.remove(&identity.id);
        self.peers.insert(identity.id, peer);
        self.enters(KNOWN, &identity.id, identity.epoch);
        Some(Change::Added(key))
    }

    /// Takes a node out of the table.
    pub(crate) fn remove(&mut self, id: &[u8; 20]) -> Option<Change> {
        let peer = self.peers.remove(id)?;
        self.keys.remove(&peer.key);
        self.departed.insert(*id, (peer.term, peer.inbound));
        if self.departed.len() > MAX_FORGOTTEN {
            self.limit_departed();
        }
        self.leaves(KNOWN, id, peer.epoch);
        Some(Change::Removed(peer.key))
    }

    /// The newest connection from a node that is not known, but was, with this term:
    /// its incarnation and number.
    pub(crate) fn newest_connection(&self, id: &[u8; 20], term: u64) -> (u64, u64) {
        match self.departed.get(id) {
            Some(&(known, newest)) if known == term => newest,
            _ => (0, 0),
        }
    }

    /// Remembers that a node is gone for good. `None` when that is no news.
    pub(crate) fn forget(&mut self, id: [u8; 20], epoch: u64, until: u64) -> Option<()> {
        let known = self.forgotten.get(&(id, epoch)).copied();
        if known.is_some_and(|known| known >= until) {
            return None;
        }
        if self.forgotten.insert((id, epoch), until).is_none() {
            self.enters(FORGOTTEN, &id, epoch);
        }
        self.changes += 1;
        if self.forgotten.len() > MAX_FORGOTTEN {
            let first = self.forgotten.iter().min_by_key(|(_, until)| **until);
            if let Some(&(id, epoch)) = first.map(|(key, _)| key) {
                self.forgotten.remove(&(id, epoch));
                self.leaves(FORGOTTEN, &id, epoch);
            }
        }
        Some(())
    }

    /// Drops from memory who was forgotten so long ago that it counts no more. Not
    /// this node itself: it serves nothing until it is reset, however long.
    fn end_memory(&mut self, me: &Identity, wall_ms: u64) {
        let own = (me.id, me.epoch);
        let over = |(node, until): (&([u8; 20], u64), &u64)| {
            (*until <= wall_ms && *node != own).then_some(*node)
        };
        let over: Vec<_> = self.forgotten.iter().filter_map(over).collect();
        for (id, epoch) in &over {
            self.forgotten.remove(&(*id, *epoch));
            self.leaves(FORGOTTEN, id, *epoch);
        }
        if !over.is_empty() {
            self.limit_departed();
        }
    }

    /// Keeps of those who were taken out only whom others may still forget, and
    /// never more than there can be of these.
    fn limit_departed(&mut self) {
        let forgotten = &self.forgotten;
        self.departed
            .retain(|id, _| forgotten.range((*id, 0)..=(*id, u64::MAX)).count() > 0);
        while self.departed.len() > MAX_FORGOTTEN {
            self.departed.pop_first();
        }
    }

    /// Up to when a node that is forgotten now is remembered, wall-clock ms.
    pub(crate) fn forgotten_until(now: Now) -> u64 {
        now.wall_ms.saturating_add(FORGOTTEN_MS)
    }

    /// Forgets all others, and all that were forgotten.
    pub(crate) fn clear(&mut self) -> Vec<Change> {
        let removed = self.keys.keys().map(|&key| Change::Removed(key)).collect();
        *self = Cluster {
            next_key: self.next_key,
            changes: self.changes + 1,
            ..Cluster::new()
        };
        removed
    }

    /// Whether a speaker has a lower term than the node of its id that is known.
    pub(crate) fn is_superseded(&self, speaker: &Speaker) -> bool {
        let known = self.peers.get(&speaker.id);
        known.is_some_and(|peer| speaker.term < peer.term)
    }

    /// Whether a speaker has a higher term than the node of its id that is known.
    pub(crate) fn supersedes(&self, speaker: &Speaker) -> bool {
        let known = self.peers.get(&speaker.id);
        known.is_some_and(|peer| speaker.term > peer.term)
    }

    /// What a node says of itself: its epoch, term and address. Not of one that was
    /// superseded, or forgotten with these data.
    pub(crate) fn update(&mut self, speaker: &Speaker, host: Option<&str>) -> Option<Change> {
        if self.is_superseded(speaker) || self.is_forgotten(&speaker.identity()) {
            return None;
        }
        let peer = self.peers.get_mut(&speaker.id)?;
        if speaker.term > peer.term {
            peer.succeed();
        }
        let before = peer.epoch;
        let same_data = (before, peer.term) == (speaker.epoch, speaker.term);
        (peer.epoch, peer.term) = (speaker.epoch, speaker.term);
        let host = host.unwrap_or(&peer.contact.host);
        let moved = (host, speaker.port) != (peer.contact.host.as_str(), peer.contact.port);
        let key = peer.key;
        if moved {
            peer.contact = Contact {
                host: host.into(),
                port: speaker.port,
            };
        }
        if !moved && same_data {
            return None;
        }
        self.leaves(KNOWN, &speaker.id, before);
        self.enters(KNOWN, &speaker.id, speaker.epoch);
        Some(Change::Updated(key))
    }

    /// An entry came: the fingerprint is kept as the table changes, never by a
    /// walk.
    fn enters(&mut self, kind: u8, id: &[u8; 20], epoch: u64) {
        self.changes += 1;
        self.fingerprint = self.fingerprint.wrapping_add(hash(kind, id, epoch));
    }

    fn leaves(&mut self, kind: u8, id: &[u8; 20], epoch: u64) {
        self.changes += 1;
        self.fingerprint = self.fingerprint.wrapping_sub(hash(kind, id, epoch));
    }

    /// The fingerprint of the table as the node `me` would tell it, itself
    /// included: equal at two nodes that know the same.
    pub fn fingerprint(&self, me: &Identity) -> u64 {
        self.fingerprint.wrapping_add(hash(KNOWN, &me.id, me.epoch))
    }

    /// The whole table, this node left out: what another one is told.
    pub(crate) fn tell(&self) -> impl Iterator<Item = Message<'_>> + '_ {
        let known = self
            .peers
            .values()
            .map(|peer| Message::Known(peer.listing()));
        let forgotten = self
            .forgotten()
            .map(|(id, epoch, until)| Message::Forgotten { id, epoch, until });
        forgotten.chain(known)
    }

    /// Heartbeats are due at this time, on the monotonic clock.
    pub(crate) fn next_beat(&self) -> Option<u64> {
        (!self.peers.is_empty()).then_some(self.beat_at)
    }

    /// Has the next heartbeats sent at once: they have news.
    pub(crate) fn beat_soon(&mut self) {
        self.beat_at = 0;
    }

    /// The peers to send a heartbeat to, if it is time.
    pub(crate) fn beat(&mut self, me: &Identity, now: Now, interval_ms: u64) -> Vec<PeerKey> {
        if self.peers.is_empty() || now.mono_ms < self.beat_at {
            return Vec::new();
        }
        self.beat_at = now.after(interval_ms);
        self.end_memory(me, now.wall_ms);
        for peer in self.peers.values_mut() {
            peer.known_since.get_or_insert(now.mono_ms);
        }
        let linked = self.peers.values_mut().filter(|peer| peer.link.is_up());
        linked
            .map(|peer| {
                peer.beat_sent_at.get_or_insert(now.mono_ms);
                peer.key
            })
            .collect()
    }

    /// Has all peers compared with, each once it is reachable.
    pub(crate) fn doubt_all(&mut self) {
        self.peers
            .values_mut()
            .for_each(|peer| peer.comparison = Comparison::Due);
    }

    /// Whether one that is to be compared with is reachable now. It is told once.
    pub(crate) fn take_doubts(&mut self, now: Now, timeout_ms: u64) -> bool {
        let mut any = false;
        for peer in self.peers.values_mut() {
            let due = peer.comparison == Comparison::Due;
            if due && peer.is_reachable(now, timeout_ms) {
                peer.comparison = Comparison::Asked;
                any = true;
            }
        }
        any
    }

    /// Looks who is reachable; whether a node is that was not at the last look.
    pub(crate) fn note_reachable(&mut self, now: Now, timeout_ms: u64) -> bool {
        let mut returned = false;
        for peer in self.peers.values_mut() {
            let reachable = peer.is_reachable(now, timeout_ms);
            if reachable && !peer.was_reachable {
                returned = true;
                peer.reachable_since = now.mono_ms;
            }
            peer.was_reachable = reachable;
        }
        returned
    }

    /// Whether a peer that tells this fingerprint knows the same nodes.
    pub(crate) fn knows_the_same(&self, me: &Identity, table: u64) -> bool {
        self.fingerprint(me) == table
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster::new()
    }
}

/// What an entry adds to the fingerprint: a sum over entries in any order, since
/// both sides leave themselves out and add themselves.
fn hash(kind: u8, id: &[u8; 20], epoch: u64) -> u64 {
    // FNV-1a of the entry: the table is no place for an adversary, whoever speaks
    // here was let in.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in id.iter().copied().chain(epoch.to_le_bytes()).chain([kind]) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

/// Kinds of entries.
const KNOWN: u8 = 0;
const FORGOTTEN: u8 = 1;

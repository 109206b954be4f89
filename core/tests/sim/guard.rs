//! What must hold of a node's life, from one event to the next.

use crate::site::Site;
use disque_core::cluster::PeerKey;
use disque_core::job_id::JobId;
use disque_core::message::{Header, Malformed, Message, Speaker};
use disque_core::node::inspect::Shown;
use std::collections::BTreeMap;

/// How the names of queues begin whose pauses are never written down: their
/// node dies before. Nobody may hear of them.
pub const NEVER_WRITTEN: &[u8] = b"never:";

/// An id and a data epoch.
pub type Pair = ([u8; 20], u64);

/// A connection from a node: its term, its incarnation, the connection's number.
type Connection = (u64, u64, u64);

/// What was true of a node before.
#[derive(Default)]
pub struct Guard {
    /// Whom it has forgotten.
    forgotten: BTreeMap<Pair, u64>,
    /// The newest connection from each peer, as the node remembers it.
    inbound: BTreeMap<PeerKey, Connection>,
    /// The newest connection from each speaker of which a frame was taken by
    /// this process under this id.
    taken: BTreeMap<([u8; 20], [u8; 20]), Connection>,
    /// How often each node came to its table in the life of this process.
    pub joined: BTreeMap<[u8; 20], u64>,
    /// When each node last answered it.
    pub answered: BTreeMap<[u8; 20], u64>,
    /// Since when it takes those for reachable that it does not answer.
    pub wrong_since: BTreeMap<PeerKey, u64>,
    /// Jobs that it knows to be settled, though it has nothing of them, and until when.
    settled: BTreeMap<JobId, u64>,
    /// The changes of the table at the last look.
    changes: Option<u64>,
}

impl Guard {
    /// Another process begins.
    pub fn restart(&mut self) {
        self.inbound.clear();
        self.taken.clear();
        self.joined.clear();
        self.answered.clear();
        self.wrong_since.clear();
        self.settled.clear();
        self.changes = None;
    }

    /// The node is another one: it has forgotten nobody.
    pub fn reset(&mut self) {
        self.forgotten.clear();
        self.changes = None;
    }
}

impl Site {
    /// What a node says to another one: that it was answered by it is true.
    pub fn check_words<'a>(
        &self,
        to: &[u8; 20],
        words: impl Iterator<Item = Result<Message<'a>, Malformed>>,
        at: u64,
    ) -> Result<(), String> {
        let since = at.saturating_sub(self.settings.node_timeout_ms);
        for message in words {
            let Message::Heartbeat(beat) = message.map_err(|error| error.to_string())? else {
                continue;
            };
            let answered = self.guard.answered.get(to).copied();
            if beat.answered && answered.is_none_or(|answered| answered < since) {
                return Err("a node says that another one answers it, which does not".into());
            }
        }
        Ok(())
    }

    /// A frame was taken: no newer connection of its speaker may have been heard.
    pub fn check_connection(&mut self, header: &Header) -> Result<(), String> {
        let Some(me) = header.to else {
            return Ok(());
        };
        let Speaker {
            term, incarnation, ..
        } = header.from;
        let connection = (term, incarnation, header.connection);
        let newest = self.guard.taken.entry((me, header.from.id)).or_default();
        if connection < *newest {
            return Err(format!(
                "a frame of connection {connection:?} takes effect after one of {newest:?}"
            ));
        }
        *newest = connection;
        Ok(())
    }

    /// Whether the node has a job, or an acknowledgement of it.
    pub fn has(&self, at: u64, id: &JobId) -> bool {
        let node = self.node.as_ref().expect("the node is up");
        node.show(self.clocks.now(at), id).is_some()
    }

    /// Whether the node knows that a job is settled.
    pub fn is_settled(&self, at: u64, id: &JobId) -> bool {
        let node = self.node.as_ref().expect("the node is up");
        match node.show(self.clocks.now(at), id) {
            Some(Shown::Job(view)) => view.job.is_acked(),
            Some(Shown::DummyAck { .. }) => true,
            None => self.guard.settled.get(id).is_some_and(|until| at < *until),
        }
    }

    /// A frame has told that a job is settled: the node remembers it, from the first
    /// time that it was told. One that is short of memory may forget it at any time.
    pub fn note_settled(&mut self, at: u64, id: JobId) {
        if self.settings.max_memory > 0 {
            return;
        }
        let until = at + self.settings.settled_memory_ms;
        let known = self.guard.settled.entry(id).or_insert(until);
        if *known <= at {
            *known = until;
        }
    }

    /// What other nodes say undoes no acknowledgement.
    pub fn check_still_settled(&self, at: u64, ids: &[JobId]) -> Result<(), String> {
        let node = self.node.as_ref().expect("the node is up");
        for id in ids {
            let shown = node.show(self.clocks.now(at), id);
            if shown.is_some() && !self.is_settled(at, id) {
                return Err(format!("a frame makes {id} live, which was acknowledged"));
            }
        }
        Ok(())
    }

    /// Compares the node with what it was.
    pub fn check_life(&mut self, wall_ms: u64) -> Result<(), String> {
        let inside = self.node.as_ref().expect("the node is up");
        let (cluster, me) = (inside.cluster(), inside.identity());
        for peer in cluster.peers() {
            let (incarnation, number) = peer.inbound;
            let newest = (peer.term, incarnation, number);
            let before = self.guard.inbound.insert(peer.key, newest);
            if before.is_some_and(|before| before > newest) {
                return Err(format!(
                    "the newest connection from {:?} was {before:?} and is {:?}",
                    peer.key, newest
                ));
            }
        }
        if self.guard.changes.replace(cluster.changes()) == Some(cluster.changes()) {
            return Ok(());
        }
        let forgotten = cluster.forgotten();
        let now: BTreeMap<Pair, u64> = forgotten.map(|(id, e, until)| ((id, e), until)).collect();
        for (pair, until) in &self.guard.forgotten {
            let counts = *until > wall_ms || *pair == (me.id, me.epoch);
            if counts && !now.contains_key(pair) {
                return Err(format!("it is forgotten that {pair:?} was forgotten"));
            }
        }
        self.guard.forgotten = now;
        Ok(())
    }
}

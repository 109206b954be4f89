//! What a call of the core wants done.
//!
//! The caller keeps one [`Effects`], hands it to each call, carries out what it
//! finds, and clears it. The buffers keep their room, so that a call that adds
//! or delivers a job allocates nothing for its effects.

use crate::body::Packet;
use crate::cluster::{Contact, PeerKey};
use crate::error::Error;
use crate::job_id::Ids;
use crate::message::{pack_message, Message};
use crate::record::RecordBatch;
use crate::succession::Successor;

/// A client that waits for its answer: the name under which the core and its
/// caller both know it. Never reused within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u64);

/// What a waiting client is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// These jobs were delivered to it.
    Jobs(Delivered),
    /// Its jobs have the copies that it waited for.
    Added(Ids),
    /// Its time is over, or there will be nothing.
    Null,
    /// It cannot be served.
    Error(Error),
}

/// Jobs handed to one client: a part of [`Effects::delivered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    start: usize,
    end: usize,
    /// Whether the client asked for the counters.
    pub with_counters: bool,
}

/// Everything that a call wants done, in the order in which it is to be done:
/// first the records, then the answers.
#[derive(Default)]
pub struct Effects {
    /// Changes that a restart must know.
    pub records: RecordBatch,
    /// Waiting clients to answer. They no longer wait.
    pub answers: Vec<(WaiterId, Answer)>,
    /// What the links to other nodes are to do.
    pub bus: Vec<BusAction>,
    /// What an operator should read in the log.
    pub news: Vec<News>,
    delivered: Vec<u32>,
}

/// Something for the links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusAction {
    /// Connect to a node of the table, or connect anew where it is now.
    Connect(PeerKey),
    /// Present this node anew, as it counts its starts now.
    Introduce,
    /// Close the connection: the node is no longer in the table.
    Disconnect(PeerKey),
    /// Send a message to a node.
    Send {
        /// To whom.
        to: PeerKey,
        /// The encoded message.
        message: Packet,
        /// When it may leave.
        gate: Gate,
    },
}

/// When a message may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// At once.
    Open,
    /// Once the records of this turn are written: it rests on them.
    Written,
}

/// A change that is worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A node came to the table.
    Joined([u8; 20]),
    /// A node left the table.
    Left([u8; 20]),
    /// The link to a node is up.
    LinkUp([u8; 20]),
    /// The link to a node is closed.
    LinkDown {
        /// Which.
        id: [u8; 20],
        /// Why.
        reason: String,
    },
    /// A node answers with an error.
    Refused {
        /// Which.
        id: [u8; 20],
        /// Its error.
        error: String,
    },
    /// A message made no sense.
    BadMessage {
        /// Whose.
        from: [u8; 20],
        /// Why.
        reason: String,
    },
    /// A DISQUE MEET whose client did not wait has failed.
    NotMet(String),
    /// The cluster has forgotten this node.
    WasForgotten,
    /// Another server is this node now.
    WasSuperseded(Successor),
    /// Another server has this node's id and term, at this address.
    IsDoubled(Contact),
    /// That one is gone.
    IsAlone,
}

impl Effects {
    pub(crate) fn send(&mut self, to: PeerKey, message: &Message<'_>) {
        self.send_to([to], message, Gate::Open);
    }

    /// Sends one message to several nodes; it is encoded once, and its body shared if it
    /// is large.
    pub(crate) fn send_to(
        &mut self,
        peers: impl IntoIterator<Item = PeerKey>,
        message: &Message<'_>,
        gate: Gate,
    ) {
        let mut peers = peers.into_iter();
        let Some(mut to) = peers.next() else {
            return;
        };
        let message = pack_message(message);
        for next in peers {
            let message = message.clone();
            self.bus.push(BusAction::Send { to, message, gate });
            to = next;
        }
        self.bus.push(BusAction::Send { to, message, gate });
    }

    /// Nothing to do, no room taken.
    pub fn new() -> Effects {
        Effects::default()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
            && self.answers.is_empty()
            && self.bus.is_empty()
            && self.news.is_empty()
    }

    /// Forgets everything and keeps the room.
    pub fn clear(&mut self) {
        self.records.clear();
        self.answers.clear();
        self.bus.clear();
        self.news.clear();
        self.delivered.clear();
    }

    /// The keys of the jobs of one delivery. They are valid until the next call
    /// of the node: write the reply before it.
    pub fn jobs(&self, delivered: Delivered) -> &[u32] {
        &self.delivered[delivered.start..delivered.end]
    }

    /// How many jobs were delivered so far; the mark for [`Effects::since`].
    pub(crate) fn mark(&self) -> usize {
        self.delivered.len()
    }

    pub(crate) fn deliver(&mut self, job: u32) {
        self.delivered.push(job);
    }

    pub(crate) fn since(&self, mark: usize, with_counters: bool) -> Delivered {
        Delivered {
            start: mark,
            end: self.delivered.len(),
            with_counters,
        }
    }

    pub(crate) fn answer(&mut self, waiter: WaiterId, answer: Answer) {
        self.answers.push((waiter, answer));
    }
}

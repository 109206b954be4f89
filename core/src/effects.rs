//! What a call of the core wants done.
//!
//! The caller keeps one [`Effects`], hands it to each call, carries out what it
//! finds, and clears it. The buffers keep their room, so that a call that adds
//! or delivers a job allocates nothing for its effects.

use crate::error::Error;
use crate::record::RecordBatch;

/// A client that waits for its answer: the name under which the core and its
/// caller both know it. Never reused within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u64);

/// What a waiting client is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// These jobs were delivered to it.
    Jobs(Delivered),
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
    delivered: Vec<u32>,
}

impl Effects {
    /// Nothing to do, no room taken.
    pub fn new() -> Effects {
        Effects::default()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.answers.is_empty()
    }

    /// Forgets everything and keeps the room.
    pub fn clear(&mut self) {
        self.records.clear();
        self.answers.clear();
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

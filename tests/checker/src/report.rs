//! What the checker found.

use crate::event::FaultKind;
use std::collections::BTreeMap;
use std::fmt;

/// What was found in a history.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Promises that were broken.
    pub violations: Vec<Violation>,
    /// What happened, in numbers.
    pub summary: Summary,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub class: Class,
    /// When it showed.
    pub t: u64,
    /// What happened.
    pub text: String,
}

/// The promises, by how they are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A job that was acknowledged to its producer never came, or was not settled
    /// and did not come again, and no more went wrong than was promised for.
    Lost,
    /// A delivery of what was never added or was refused, of other bytes or in
    /// another queue.
    Phantom,
    /// A delivery more than causes there are.
    Duplicated,
    /// A job with RETRY 0 was delivered again.
    MoreThanOnce,
    /// A delivery long after the job was settled, and long after all was well.
    Resurrected,
    /// A client waited beside a job.
    Stuck,
    /// Something is left when nothing should be.
    Leak,
    /// A delivery before the DELAY of its add or NACK was over.
    Early,
    /// A delivery after the TTL.
    Expired,
    /// The history contradicts itself: whoever wrote it is wrong.
    Unreadable,
}

/// Why a job was delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It was not settled within RETRY.
    Retry,
    /// NACK.
    Nack,
    /// ENQUEUE, or DELJOB of one copy.
    Command,
    /// Something was wrong with a node or link meanwhile.
    Fault,
    /// A FASTACK that not all could hear of.
    FastAck,
    /// The acknowledgement, or that it was there, was lost with a node's data.
    Loss,
}

/// Why a job did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excuse {
    /// Its TTL was over.
    Expired,
    /// As many nodes lost it as it had copies.
    HoldersLost,
    /// RETRY 0, and something went wrong, or its client was gone.
    AtMostOnce,
    /// It was settled before.
    Settled,
}

/// What happened, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Adds by how they ended: an id, a refusal, nobody knows.
    pub added: u64,
    /// See `added`.
    pub refused: u64,
    /// See `added`.
    pub unknown: u64,
    /// Jobs that were delivered at least once.
    pub delivered: u64,
    /// Jobs that were settled.
    pub settled: u64,
    /// Deliveries after the first, by cause.
    pub again: BTreeMap<Cause, u64>,
    /// Jobs that did not come, by excuse.
    pub missing: BTreeMap<Excuse, u64>,
    /// Jobs with RETRY 0 that were delivered.
    pub at_most_once: u64,
    /// Deliveries before the DELAY of a NACK that a fault explains.
    pub early_after_nack: u64,
    /// Deliveries after the TTL that a fault explains.
    pub late_after_fault: u64,
    /// Faults by kind.
    pub faults: BTreeMap<FaultKind, u64>,
    /// Whether everything was consumed in the end: otherwise nothing is said of
    /// jobs that did not come.
    pub drained: bool,
    /// The longest wait of a client beside a job while nothing was wrong, in ms.
    pub longest_wait: u64,
    /// The same after something was wrong, counted from when it was over, in ms.
    pub worst_recovery: u64,
}

impl Report {
    pub(crate) fn violate(&mut self, class: Class, t: u64, text: impl Into<String>) {
        let text = text.into();
        self.violations.push(Violation { class, t, text });
    }

    /// The violations of one class.
    pub fn of(&self, class: Class) -> impl Iterator<Item = &Violation> {
        let same = move |violation: &&Violation| violation.class == class;
        self.violations.iter().filter(same)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}: {}", self.class, self.t, self.text)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        write!(f, "{:?}", self.summary)
    }
}

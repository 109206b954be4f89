//! One job, as a node keeps it.

use crate::body::Body;
use crate::clock::NEVER;
use crate::collections::{Timed, TimerLinks};
use crate::copies::NO_COPIES;
use crate::job_id::JobId;
use crate::span::Span;
use bincode::{BorrowDecode, Encode};

/// Where a job stands on this node. Records carry it: append at the end, never reorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub enum State {
    /// Waits for the end of its DELAY. Clients see it as active.
    Delayed,
    /// Held, not queued here: delivered, or taken off the queue.
    Active,
    /// Deliverable here.
    Queued,
    /// Its producer waits for copies.
    WaitRepl,
    /// Settled: kept until every possible holder knows. It has no body.
    Acked,
}

impl State {
    /// How many states there are, for tables of counters.
    pub const COUNT: usize = 5;

    /// The name that clients know.
    pub fn name(self) -> &'static str {
        match self {
            State::Delayed | State::Active => "active",
            State::Queued => "queued",
            State::WaitRepl => "wait-repl",
            State::Acked => "acked",
        }
    }
}

/// The options of a job that ADDJOB sets and nothing changes afterwards. Records and
/// messages carry them: the order of the fields is the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Options {
    /// Copies asked for, 1 to 65535.
    pub replicate: u16,
    /// Copies to wait for before the producer is answered.
    pub sync: u16,
    /// How long the job lives from its creation. Above zero.
    pub ttl: Span,
    /// How long it waits before it is queued first. Below `ttl`.
    pub delay: Span,
    /// How long after a delivery it is queued again; zero means at most once.
    pub retry: Span,
}

impl Options {
    /// Nodes that must have the job before its producer is answered: one at least,
    /// where the node that takes it keeps none.
    pub fn copies_to_wait_for(&self) -> usize {
        usize::from(self.sync.max(1))
    }
}

/// A job. There are many, and each byte here counts for every one of them:
/// keep fields ordered by size and options that few jobs use out of it.
pub struct Job {
    /// Creation: wall-clock ms x 10^6 or a little more; orders the queue.
    pub ctime: u64,
    /// When its TTL passes, on the monotonic clock.
    pub expire_at: u64,
    /// When it will be queued, on the monotonic clock; [`NEVER`] while it is
    /// queued, and for a delivered job with RETRY 0.
    pub requeue_at: u64,
    /// What the producer gave.
    pub body: Body,
    timer: TimerLinks,
    /// The key of its queue.
    pub queue: u32,
    /// The key of what is known of its copies, [`NO_COPIES`] if there are none.
    pub copies: u32,
    /// Deliveries so far.
    pub attempt: u32,
    /// See [`Options`].
    pub options: Options,
    /// Negative acknowledgements, saturating.
    pub nacks: u16,
    /// Times it was queued again without a NACK, saturating.
    pub additional_deliveries: u16,
    /// The public name.
    pub id: JobId,
    /// Where it stands.
    pub state: State,
    /// An at-most-once job that may have been delivered before a crash: it is
    /// kept, and not delivered (SPEC of RETRY 0 across restarts).
    pub withheld: bool,
}

impl Job {
    /// A job that is not linked anywhere yet.
    pub fn new(id: JobId, queue: u32, ctime: u64, options: Options, body: Body) -> Job {
        Job {
            ctime,
            expire_at: NEVER,
            requeue_at: NEVER,
            body,
            timer: TimerLinks::default(),
            queue,
            copies: NO_COPIES,
            attempt: 0,
            options,
            nacks: 0,
            additional_deliveries: 0,
            id,
            state: State::Active,
            withheld: false,
        }
    }

    /// Whether it waits for nothing but to be forgotten.
    pub fn is_acked(&self) -> bool {
        self.state == State::Acked
    }

    /// When it was added, on the monotonic clock of this node.
    pub fn added_at(&self) -> u64 {
        self.expire_at.saturating_sub(self.options.ttl.ms())
    }

    /// When its DELAY ends, on the monotonic clock of this node.
    pub fn delay_ends_at(&self) -> u64 {
        self.added_at().saturating_add(self.options.delay.ms())
    }

    /// Whether it may be delivered at most once.
    pub fn at_most_once(&self) -> bool {
        self.options.retry.is_zero()
    }

    /// Whether it may be put on its queue: an at-most-once job only before its
    /// first delivery, and not while withheld.
    pub fn may_be_queued(&self) -> bool {
        !self.at_most_once() || (self.attempt == 0 && !self.withheld)
    }

    /// Bytes that this job takes, near enough for limits and INFO: its slot, its
    /// entries in the indexes, and its body.
    pub fn memory(&self) -> usize {
        Self::OVERHEAD + self.body.len()
    }

    /// See [`Job::memory`].
    pub const OVERHEAD: usize = std::mem::size_of::<Job>() + 16;
}

impl Timed for Job {
    fn links(&self) -> TimerLinks {
        self.timer
    }

    fn links_mut(&mut self) -> &mut TimerLinks {
        &mut self.timer
    }

    fn deadline(&self) -> u64 {
        self.expire_at.min(self.requeue_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_small() {
        // With 100 bytes of body and the indexes this is what keeps a job under
        // 250 bytes; see docs/performance.md before making it larger.
        assert!(
            std::mem::size_of::<Job>() <= 112,
            "{}",
            std::mem::size_of::<Job>()
        );
        assert_eq!(
            std::mem::size_of::<Option<Job>>(),
            std::mem::size_of::<Job>()
        );
    }
}

//! One queue: its jobs in order, the clients that wait for them, its counters.

use crate::collections::{OrderedKeys, Timed, TimerLinks};
use crate::effects::WaiterId;
use crate::job::State;
use std::collections::BTreeSet;

/// What PAUSE has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pause {
    /// No job enters the queue.
    pub input: bool,
    /// No job leaves it: it looks empty.
    pub output: bool,
}

impl Pause {
    /// The word that PAUSE answers.
    pub fn name(self) -> &'static str {
        match (self.input, self.output) {
            (false, false) => "none",
            (true, false) => "in",
            (false, true) => "out",
            (true, true) => "all",
        }
    }

    /// Whether nothing is paused.
    pub fn is_none(self) -> bool {
        self == Pause::default()
    }

    /// The form that records carry.
    pub fn to_bits(self) -> u8 {
        u8::from(self.input) | u8::from(self.output) << 1
    }

    /// The reverse of [`Pause::to_bits`]; unknown bits are ignored.
    pub fn from_bits(bits: u8) -> Pause {
        Pause {
            input: bits & 1 != 0,
            output: bits & 2 != 0,
        }
    }
}

/// A queue.
pub struct Queue {
    /// Any bytes.
    pub name: Box<[u8]>,
    /// Keys of the queued jobs, oldest first.
    pub order: OrderedKeys,
    /// Blocked clients; their ids order them by arrival.
    pub waiters: BTreeSet<WaiterId>,
    /// Jobs by [`State`], kept as they move.
    pub counts: [u32; State::COUNT],
    /// Jobs that entered the queue, ever.
    pub jobs_in: u64,
    /// Jobs that were delivered from it, ever.
    pub jobs_out: u64,
    /// When it came to be, monotonic ms.
    pub created_at: u64,
    /// When a client last used it, monotonic ms.
    pub used_at: u64,
    /// When to see whether it is idle; meaningful while its timer is set.
    pub check_at: u64,
    /// What is paused.
    pub pause: Pause,
    /// Whether it is on the node's list of queues whose waiters may be served.
    pub ready: bool,
    timer: TimerLinks,
}

impl Queue {
    /// An empty queue.
    pub fn new(name: &[u8], now_ms: u64) -> Queue {
        Queue {
            name: name.into(),
            order: OrderedKeys::new(),
            waiters: BTreeSet::new(),
            counts: [0; State::COUNT],
            jobs_in: 0,
            jobs_out: 0,
            created_at: now_ms,
            used_at: now_ms,
            check_at: 0,
            pause: Pause::default(),
            ready: false,
            timer: TimerLinks::default(),
        }
    }

    /// Bytes that this queue takes without its jobs, near enough for limits: its
    /// slot, its entry in the index, and its name.
    pub fn memory(&self) -> usize {
        std::mem::size_of::<Queue>() + 16 + self.name.len()
    }

    /// Jobs of one state.
    pub fn count(&self, state: State) -> u32 {
        self.counts[state as usize]
    }

    /// Whether nothing depends on it: it may be dropped once idle.
    pub fn is_unused(&self) -> bool {
        self.counts == [0; State::COUNT] && self.waiters.is_empty() && self.pause.is_none()
    }

    /// Whether a client that asks could be given a job.
    pub fn has_deliverable(&self) -> bool {
        !self.pause.output && !self.order.is_empty()
    }
}

impl Timed for Queue {
    fn links(&self) -> TimerLinks {
        self.timer
    }

    fn links_mut(&mut self) -> &mut TimerLinks {
        &mut self.timer
    }

    fn deadline(&self) -> u64 {
        self.check_at
    }
}

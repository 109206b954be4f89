//! One queue: its jobs in order, the clients that wait for them, its counters.

use crate::clock::Now;
use crate::cluster::PeerKey;
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

/// A request of another node for jobs of a queue. It stands until it is replaced,
/// lapses, or is served.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Who asks.
    pub from: PeerKey,
    /// How many jobs it wants still.
    pub count: u64,
    /// Orders the requests of one node.
    pub serial: u64,
    /// When it lapses, monotonic ms.
    pub until: u64,
}

/// Where jobs of a queue come from, and how fast.
#[derive(Default)]
pub struct Imports {
    /// Nodes that have given jobs in this or the last period.
    sources: Vec<PeerKey>,
    begun_at: u64,
    count: u64,
    last_count: u64,
}

/// How long imports are counted together.
const IMPORT_PERIOD_MS: u64 = 1_000;

impl Imports {
    fn note(&mut self, from: PeerKey, now_ms: u64) {
        let age = now_ms.saturating_sub(self.begun_at);
        if age >= IMPORT_PERIOD_MS {
            let adjoins = age < 2 * IMPORT_PERIOD_MS;
            self.last_count = if adjoins { self.count } else { 0 };
            self.count = 0;
            self.begun_at = now_ms;
            if !adjoins {
                self.sources.clear();
            }
        }
        self.count += 1;
        if !self.sources.contains(&from) {
            self.sources.push(from);
        }
    }

    fn is_current(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.begun_at) < 2 * IMPORT_PERIOD_MS
    }

    /// Jobs a second, of late.
    pub fn rate(&self, now_ms: u64) -> u64 {
        match self.is_current(now_ms) {
            true => self.count.max(self.last_count),
            false => 0,
        }
    }

    /// From where, of late.
    pub fn sources(&self, now_ms: u64) -> &[PeerKey] {
        match self.is_current(now_ms) {
            true => &self.sources,
            false => &[],
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
    /// Jobs that the blocked clients take at most.
    pub wanted: u64,
    /// Jobs that other nodes have been asked for and that have not come.
    pub asked: u64,
    /// What other nodes ask for, whose turn it is first.
    pub requests: Vec<Request>,
    /// Jobs that came from other nodes.
    pub imports: Option<Box<Imports>>,
    /// Whether it is on the list of queues for which jobs are asked.
    pub is_wanting: bool,
    /// Whether it is on the list of queues of which jobs are given.
    pub is_giving: bool,
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
            wanted: 0,
            asked: 0,
            requests: Vec::new(),
            imports: None,
            is_wanting: false,
            is_giving: false,
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

    /// A job has come from another node, which this one had perhaps asked for it.
    pub fn note_import(&mut self, from: PeerKey, now_ms: u64) {
        self.asked = self.asked.saturating_sub(1);
        let imports = self.imports.get_or_insert_with(Box::default);
        imports.note(from, now_ms);
    }

    /// Jobs that come from other nodes a second, of late.
    pub fn import_rate(&self, now: Now) -> u64 {
        let imports = self.imports.as_ref();
        imports.map_or(0, |imports| imports.rate(now.mono_ms))
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

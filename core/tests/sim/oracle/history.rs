//! The history of a run, as clients and operators could write it down.

use disque_core::error::Error;
use disque_core::job_id::{Ids, JobId};
use disque_core::queue::Pause;

/// A GETJOB, from its being asked to its answer. Never used twice.
pub type Call = u64;

/// The number of a queue; its name is the world's business.
pub type Queue = usize;

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Entry {
    /// When, in milliseconds of the world's own time.
    pub at: u64,
    /// The wall clock of the node, in milliseconds.
    pub wall: u64,
    /// How many batches of records the node had written when it was over.
    pub log: u64,
    /// What happened.
    pub what: What,
}

/// A job as a client received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub id: JobId,
    pub queue: Queue,
    pub body: Vec<u8>,
    pub attempt: u32,
    pub nacks: u16,
    pub additional: u16,
}

/// What ADDJOB asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub queue: Queue,
    pub body: Vec<u8>,
    /// With how many jobs it was asked for, itself included.
    pub of_batch: u64,
    pub delay_ms: u64,
    /// As the job has it in the end: defaults filled in.
    pub retry_ms: u64,
    pub ttl_ms: u64,
    pub max_len: Option<u64>,
    pub replicate: Option<u16>,
}

/// What a waiting call was told.
#[derive(Clone, Debug)]
pub enum Told {
    Jobs(Vec<Delivery>),
    /// The ids of the jobs that it added.
    Added(Ids),
    Null,
    Error(Error),
}

/// The commands that end a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    Ack,
    FastAck,
    Delete,
}

#[derive(Clone, Debug)]
pub enum What {
    /// A node starts with nothing.
    Started {
        /// Whether jobs can be refused or dropped for want of memory.
        memory_limited: bool,
        /// Whether at-most-once jobs are delivered after a crash.
        deliver_after_crash: bool,
    },
    Added {
        id: JobId,
        wanted: Wanted,
    },
    Refused {
        wanted: Wanted,
        error: Error,
    },
    /// GETJOB; one that can wait does so from now on unless an answer follows.
    Asked {
        call: Call,
        queues: Vec<Queue>,
        count: u64,
        nohang: bool,
        timeout_ms: Option<u64>,
    },
    Answered {
        call: Call,
        told: Told,
    },
    /// CLIENT UNBLOCK ended a call: the next thing it is told is null.
    Unblocked {
        call: Call,
    },
    /// A client is gone while it waits: it is to be told nothing.
    Gone {
        call: Call,
    },
    /// The client of an answer was gone before it: the deliveries are undone.
    Returned {
        deliveries: Vec<(JobId, u32)>,
    },
    Settled {
        how: Settling,
        ids: Vec<JobId>,
        count: usize,
    },
    Requeued {
        nack: bool,
        ids: Vec<JobId>,
        count: usize,
    },
    Dequeued {
        ids: Vec<JobId>,
        count: usize,
    },
    Working {
        id: JobId,
        answer: Result<u64, Error>,
    },
    Paused {
        queue: Queue,
        input: bool,
        output: bool,
    },
    Leaving(bool),
    /// DISQUE RESET: it is another node, without jobs.
    Reset,
    /// The cluster has forgotten the node: its clients are sent away.
    WasForgotten,
    Flushed,
    /// Everything was written down anew; what the log held before is not needed.
    Snapshot,
    /// Nothing is due at the node.
    CaughtUp {
        jobs: u64,
        lengths: Vec<u64>,
    },
    /// The node is gone, and of its records the first `kept` batches are left.
    Crashed {
        kept: u64,
    },
    Restarted {
        /// Whether no delivery can be missing in what was kept.
        complete: bool,
    },
    /// All was healed and consumed.
    Drained,
}

impl What {
    /// A queue is paused as these bits say.
    pub fn paused(queue: Queue, bits: u8) -> What {
        let pause = Pause::from_bits(bits);
        What::Paused {
            queue,
            input: pause.input,
            output: pause.output,
        }
    }
}

//! How long things may take.

/// What the checker is told of the cluster. All times in ms.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How far the times of the history may be off: from a node to its client.
    pub slack: u64,
    /// How long an acknowledgement may take to reach every holder while nothing
    /// is wrong.
    pub spread: u64,
    /// How long after a fault is over its consequences may show: until all nodes
    /// reach each other and have told what was missed.
    pub settle: u64,
    /// How long a copy that is missing may stay so once its nodes are reachable.
    pub repair: u64,
    /// How long a client may wait beside a job while nothing is wrong.
    pub stuck: u64,
    /// The same after a fault, beside RETRY twice.
    pub stuck_after_fault: u64,
    /// The largest share of RETRY twice that counts after a fault.
    pub stuck_retry_cap: u64,
    /// How much later than RETRY a job may be queued again: its random part.
    pub retry_spread: u64,
    /// For which clients a job must be there.
    pub served: Served,
    /// How many bytes above its base line a node may end with.
    pub memory: u64,
}

/// For which clients a job must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// For those at any node.
    Everywhere,
    /// For those at the node where it is queued. After a fault, when that may be
    /// any: once clients wait at all of these.
    WhereQueued(Vec<String>),
}

impl Default for Limits {
    /// What is promised of real servers.
    fn default() -> Limits {
        Limits {
            slack: 50,
            spread: 500,
            settle: 10_000,
            repair: 10_000,
            stuck: 1_000,
            stuck_after_fault: 2_000,
            stuck_retry_cap: 10_000,
            retry_spread: 500,
            served: Served::Everywhere,
            memory: 8 << 20,
        }
    }
}

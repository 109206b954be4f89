//! What this node has done since it started.

/// Counters since the start. They count what this process did: a restart does
/// not add the jobs that it loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs added.
    pub added: u64,
    /// Of these, with a default REPLICATE below `disque.default-replicate`,
    /// for want of nodes.
    pub added_below_default: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Deliveries taken back because the client was gone before the reply.
    pub returned: u64,
    /// Jobs acknowledged by ACKJOB.
    pub acked: u64,
    /// Jobs acknowledged by FASTACK.
    pub fast_acked: u64,
    /// Jobs deleted by DELJOB.
    pub deleted: u64,
    /// Jobs put back by NACK.
    pub nacked: u64,
    /// Jobs queued again, by their RETRY or by ENQUEUE.
    pub requeued: u64,
    /// Jobs whose TTL passed.
    pub expired: u64,
    /// ADDJOBs refused because memory was full.
    pub refused_for_memory: u64,
    /// Delivered at-most-once jobs dropped because memory was nearly full.
    pub dropped_for_memory: u64,
    /// Jobs given to other nodes.
    pub handed_over: u64,
    /// Jobs that came from other nodes.
    pub imported: u64,
    /// At-most-once jobs given to another node of which nobody says that they have
    /// arrived.
    pub handovers_lost: u64,
    /// At-most-once jobs kept undelivered after a restart.
    pub withheld: u64,
}

//! Known-bad behaviours, each a rule of the protocol that is not kept, to show that
//! the simulation would notice.
//!
//! One of them can be chosen only in a build with `--cfg mutants`, as a setting, and
//! only the simulation does so. In every other build [`Node::is_mutant`] is a constant
//! `false`, and the compiler leaves out what depends on it.

use crate::node::Node;

/// Names each behaviour once: the type, and in a build of mutants the list of all.
macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a node can do wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$doc])* $name,)*
        }

        #[cfg(mutants)]
        impl Mutant {
            /// All of them.
            pub const ALL: &[Mutant] = &[$(Mutant::$name,)*];
        }
    };
}

mutants! {
    /// The producer gets its id before the copies are there.
    ReplyBeforeReplication,
    /// A collection is over when as many nodes have confirmed as there are copies,
    /// whichever these are.
    CollectionCountsNonHolders,
    /// Acknowledgements are not written down.
    AckNotPersisted,
    /// Lost copies are made up for by the node that made the job, and no other.
    OnlyOriginRepairs,
    /// RETRY runs from when the job was first queued, not from its delivery.
    RetryFromQueueing,
    /// Of two that ask each other neither goes first, and of two that have queued
    /// the same job neither yields.
    NoTieBreak,
    /// That a job was settled is not remembered: a copy that comes late is kept.
    LateCopyKept,
    /// A job leaves for another node before that is written down.
    HandOverBeforeFlush,
    /// An acknowledged job that another node gives is queued again.
    AckedJobTaken,
    /// Whoever gives an at-most-once job away keeps it.
    AtMostOnceKept,
    /// A holder relies on the responsible node though that does not answer.
    DeathUnnoticed,
    /// A node that is told to wait queues the job.
    PostponeIgnored,
    /// Copies at a node that was killed still count.
    UncleanStartTrusted,
    /// At-most-once jobs that may have been delivered are queued after a crash.
    CrashForgotten,
    /// A server serves on that was told that a promoted replica is its node.
    SupersededServes,
}

impl Node {
    /// Whether this node is that bad.
    #[cfg(mutants)]
    pub(crate) fn is_mutant(&self, mutant: Mutant) -> bool {
        self.settings().mutant == Some(mutant)
    }

    /// Whether this node is that bad: never.
    #[cfg(not(mutants))]
    pub(crate) const fn is_mutant(&self, _: Mutant) -> bool {
        false
    }
}

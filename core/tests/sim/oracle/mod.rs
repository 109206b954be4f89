//! What must be true of everything that clients see.
//!
//! The [`history`] is the list of what clients asked and were told, of what
//! befell the nodes, and of how far records were written. The [`checker`] reads
//! it in order and knows nothing else: not the node's state, not its random
//! numbers. Where those leave a choice (when exactly, within its spread, a RETRY
//! falls due) it keeps both ends of what is possible.

pub mod calls;
pub mod checker;
#[cfg(test)]
mod checker_tests;
pub mod history;
mod requests;
pub mod track;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which kind: see [`checker`].
    pub kind: Kind,
    /// What happened.
    pub text: String,
}

/// The kinds of broken promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A job that was accepted is nowhere, and nothing explains it.
    Lost,
    /// A delivery of what was never added, or of other bytes, or elsewhere.
    Phantom,
    /// A second delivery that nothing explains.
    Duplicate,
    /// An at-most-once job was delivered twice.
    MoreThanOnce,
    /// A delivery before the end of the DELAY.
    TooEarly,
    /// A delivery after an acknowledgement, deletion or flush.
    Resurrected,
    /// A delivery after the TTL.
    Expired,
    /// A younger job was delivered before an older one.
    Order,
    /// A client was served before one that waited longer.
    Overtaken,
    /// A client waits although there is a job for it, or its time is over.
    Stuck,
    /// A client was told something twice, or something that is not so.
    WrongAnswer,
    /// A client that was gone took a job with it.
    TakenByGone,
    /// A paused queue took or gave a job.
    Paused,
    /// A count, counter or length is not what it must be.
    Miscounted,
}

impl Kind {
    /// The violation of this kind.
    pub fn because(self, text: String) -> Violation {
        Violation { kind: self, text }
    }
}

/// Fails with a kind and a text unless a condition holds.
macro_rules! demand {
    ($condition:expr, $kind:ident, $($text:tt)+) => {
        if !$condition {
            return Err($crate::oracle::Kind::$kind.because(format!($($text)+)));
        }
    };
}
pub(crate) use demand;

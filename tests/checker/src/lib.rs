//! Judges what clients of a cluster saw while things went wrong.
//!
//! A run writes a [history](event): what clients asked and were told, and the
//! [faults](event::Fault) that were done to nodes and links. [`check`] reads it
//! afterwards and says which promises were broken, and counts what the faults
//! explain. It knows nothing of the nodes' inside, so that one checker serves the
//! simulation and real servers.
//!
//! Every added job has a body that no other job has: by it an add whose answer
//! never came is still recognised when its job is delivered.
//!
//! Where the history leaves open what happened (an answer that is missing, which
//! nodes held a copy), the checker takes what is best for the nodes. It may miss
//! a broken promise; what it reports is broken, within its [`Limits`].
#![forbid(unsafe_code)]

pub mod body;
pub mod event;
mod faults;
mod jobs;
mod judge;
mod limits;
mod report;

pub use event::{Event, Fault, FaultKind, Left, Lost, Op, Phase, Want};
pub use limits::{Limits, Served};
pub use report::{Cause, Class, Excuse, Report, Summary, Violation};

/// Judges a history. The events may come in any order; those of one moment are
/// taken in the order given.
pub fn check(history: &[Event], limits: &Limits) -> Report {
    let mut ordered: Vec<&Event> = history.iter().collect();
    ordered.sort_by_key(|event| event.t);
    let faults = faults::Faults::of(&ordered);
    let mut report = Report::default();
    let record = jobs::Record::of(&ordered, &mut report);
    judge::Judge {
        record: &record,
        faults: &faults,
        limits,
        report: &mut report,
    }
    .judge();
    report
}

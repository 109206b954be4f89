//! The promises, one after the other.

mod again;
mod losses;
mod stuck;

use crate::event::{Left, Lost};
use crate::faults::Faults;
use crate::jobs::{Job, Outcome, Record};
use crate::limits::Limits;
use crate::report::{Cause, Class, Report};

/// Everything that a judgement rests on.
pub struct Judge<'a> {
    pub record: &'a Record,
    pub faults: &'a Faults,
    pub limits: &'a Limits,
    pub report: &'a mut Report,
}

impl Judge<'_> {
    /// Judges all of it.
    pub fn judge(mut self) {
        let record = self.record;
        for job in &record.jobs {
            self.count(job);
            if job.outcome == Outcome::Refused {
                self.judge_refused(job);
                continue;
            }
            self.judge_times(job);
            self.judge_again(job);
            self.judge_missing(job);
            self.judge_stuck(job);
        }
        for fault in self.faults.all() {
            *self.report.summary.faults.entry(fault.kind).or_default() += 1;
        }
        self.report.summary.drained = record.drained.is_some();
        self.judge_left();
    }

    fn count(&mut self, job: &Job) {
        let summary = &mut self.report.summary;
        match job.outcome {
            Outcome::Added => summary.added += 1,
            Outcome::Refused => summary.refused += 1,
            Outcome::GivenUp | Outcome::Unknown => summary.unknown += 1,
        }
        if !job.deliveries.is_empty() {
            summary.delivered += 1;
            summary.at_most_once += u64::from(job.at_most_once());
        }
        summary.settled += u64::from(job.may_be_settled());
    }

    /// Whether the node that took a job in and then refused it may have lost the
    /// second with the end of its data, and not the first.
    fn refusal_was_lost(&self, job: &Job, by: u64) -> bool {
        let slack = self.limits.slack;
        let mut losses = self.faults.losses(job.to.saturating_sub(slack));
        losses.any(|loss| {
            let Lost::Since(since) = loss.lost else {
                return false;
            };
            loss.from <= by && loss.node == job.node && since <= job.to.saturating_add(slack)
        })
    }

    fn judge_refused(&mut self, job: &Job) {
        let Some(first) = job.deliveries.first() else {
            return;
        };
        if self.refusal_was_lost(job, first.t) {
            *self.report.summary.again.entry(Cause::Loss).or_default() += 1;
        } else {
            let text = format!("{} was refused, and delivered", job.name());
            self.report.violate(Class::Phantom, first.t, text);
        }
    }

    /// No delivery before the DELAY is over, nor after the TTL.
    fn judge_times(&mut self, job: &Job) {
        for delivery in &job.deliveries {
            let slack = self.limits.slack + self.faults.clock_error(delivery.t);
            let due = job.from.saturating_add(job.want.delay);
            if delivery.t.saturating_add(slack) < due {
                let text = format!("{} came before {due}", job.name());
                self.report.violate(Class::Early, delivery.t, text);
            }
            if job.expires().saturating_add(slack + self.limits.spread) < delivery.t {
                // A node that stood still, a message that came late: its time
                // stood still as well.
                if self
                    .faults
                    .disturb(job.from, delivery.t, self.limits.settle)
                {
                    self.report.summary.late_after_fault += 1;
                    continue;
                }
                let text = format!("{} came after {}", job.name(), job.expires());
                self.report.violate(Class::Expired, delivery.t, text);
            }
        }
    }

    /// What nodes hold in the end, against their base line.
    fn judge_left(&mut self) {
        for (node, (base, last, t)) in &self.record.left {
            let base = base.unwrap_or_default();
            let counts = |left: &Left| [left.jobs, left.acks, left.waiters, left.blocked];
            let more = counts(last).iter().zip(counts(&base)).any(|(a, b)| *a > b);
            if more || last.memory > base.memory.saturating_add(self.limits.memory) {
                let text = format!("node {node} began with {base:?} and ends with {last:?}");
                self.report.violate(Class::Leak, *t, text);
            }
        }
    }
}

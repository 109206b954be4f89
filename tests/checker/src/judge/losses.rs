//! Jobs that did not come.

use super::Judge;
use crate::event::{Lost, Op};
use crate::faults::Span;
use crate::jobs::{Job, Outcome};
use crate::report::{Class, Excuse};
use std::collections::BTreeSet;

impl Judge<'_> {
    /// A job whose producer has its id is delivered, and again until it is
    /// settled.
    pub fn judge_missing(&mut self, job: &Job) {
        let Some(drained) = self.record.drained else {
            return;
        };
        let is_missing = job.deliveries.is_empty() || !job.may_be_settled();
        if job.outcome != Outcome::Added || !is_missing {
            return;
        }
        match self.excuse(job, drained) {
            Some(excuse) => *self.report.summary.missing.entry(excuse).or_default() += 1,
            None => {
                let last = job.deliveries.last();
                let how = match last {
                    None => "never came".to_string(),
                    Some(last) => format!(
                        "came to node {} at {}, was not settled, and did not come again",
                        last.node, last.t
                    ),
                };
                let text = format!(
                    "{}, added {}-{} at {} with {:?}, {how}",
                    job.name(),
                    job.from,
                    job.to,
                    job.node,
                    job.want
                );
                self.report.violate(Class::Lost, drained, text);
            }
        }
    }

    fn excuse(&self, job: &Job, drained: u64) -> Option<Excuse> {
        if job.may_be_settled() {
            return Some(Excuse::Settled);
        }
        if let Some(excuse) = self.may_be_gone(job, drained) {
            return Some(excuse);
        }
        let error = self.faults.clock_error(drained);
        // Its copies may have been made when it was sent.
        let expires = job.from.saturating_add(job.want.ttl);
        let is_over = expires <= drained.saturating_add(self.limits.slack + error);
        is_over.then_some(Excuse::Expired)
    }

    /// Why no node may have had a job any more.
    pub fn may_be_gone(&self, job: &Job, by: u64) -> Option<Excuse> {
        match job.at_most_once() {
            true => self.excuse_at_most_once(job, by),
            false => self.lost_all_copies(job).then_some(Excuse::HoldersLost),
        }
    }

    /// One delivery at most: whatever goes wrong on its way may cost it, and a
    /// client that did not see it.
    fn excuse_at_most_once(&self, job: &Job, by: u64) -> Option<Excuse> {
        let unseen = self.record.unseen.get(&job.queue);
        let unseen = unseen.is_some_and(|unseen| unseen.iter().any(|&(_, to)| to >= job.from));
        let taken = !job.deliveries.is_empty() || unseen || job.first(Op::Nack).is_some();
        let disturbed = self.faults.disturb(job.from, by, self.limits.settle);
        (taken || disturbed).then_some(Excuse::AtMostOnce)
    }

    /// Whether as many nodes lost their data as there were copies promised: SYNC
    /// of them at first, REPLICATE of them once there was time to make them; and
    /// again after a loss.
    fn lost_all_copies(&self, job: &Job) -> bool {
        let sync = u64::from(job.want.sync.max(1));
        let all = u64::from(job.want.replicate.max(1)).max(sync);
        // The copies that there certainly are, and when they were written.
        let (mut copies, mut written) = (sync, job.to);
        let mut since = job.to;
        let mut lost: BTreeSet<&str> = BTreeSet::new();
        for loss in self.faults.losses(job.from) {
            let whole = copies == all && lost.is_empty();
            let repaired = self.faults.calm_of(self.limits.repair, since, loss.from);
            if let Some(repaired) = repaired.filter(|_| !whole) {
                (copies, written) = (all, repaired);
                // As many as there are nodes that take them.
                lost = self.faults.leaving(repaired).collect();
            }
            let is_hit = self.can_hit(loss, written, lost.is_empty());
            if is_hit && lost.insert(&loss.node) {
                // What lasts may have begun before the job was there.
                since = loss.from.max(job.to);
                if lost.len() as u64 >= copies {
                    return true;
                }
            }
        }
        false
    }

    /// Whether a loss can be that of a copy which is no younger than `written`.
    fn can_hit(&self, loss: &Span, written: u64, is_whole: bool) -> bool {
        match loss.lost {
            Lost::Nothing => false,
            Lost::All => true,
            // Copies that make up for a loss are younger: nobody knows how much.
            Lost::Since(since) => !is_whole || since <= written.saturating_add(self.limits.slack),
        }
    }
}

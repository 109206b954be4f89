//! Clients that wait beside a job.

use super::Judge;
use crate::event::Op;
use crate::jobs::{Job, Outcome, Wait};
use crate::limits::Served;
use crate::report::Class;

/// From one time to another.
type Stretch = (u64, u64);

impl Judge<'_> {
    /// While a job can be had, no client waits for long.
    pub fn judge_stuck(&mut self, job: &Job) {
        if job.outcome != Outcome::Added {
            return;
        }
        let Some(waits) = self.record.waits.get(&job.queue) else {
            return;
        };
        for (node, had) in self.when_it_can_be_had(job) {
            for calm in self.faults.calm(had.0, had.1) {
                self.judge_calm(job, node, calm, waits);
            }
        }
    }

    /// When a job can be had, and at which node it lies if nothing was wrong:
    /// from being added, or from being due again, to the next delivery.
    fn when_it_can_be_had<'a>(&self, job: &'a Job) -> Vec<(&'a str, Stretch)> {
        let settling = [Op::Ack, Op::FastAck, Op::DelJob];
        let commands = job.commands.iter();
        let settled = commands.filter(|command| settling.contains(&command.op));
        let settled = settled.map(|command| command.from).min();
        let over = settled.unwrap_or(u64::MAX).min(self.record.end);
        // A clock that was set ahead ends it sooner, at a restart.
        let expires = job.from.saturating_add(job.want.ttl);
        let over = over.min(expires.saturating_sub(self.faults.clock_error(over)));
        let first = (job.to.saturating_add(job.want.delay), job.node.as_str());
        let again = job.deliveries.iter().map(|delivery| {
            let after = job.commands.iter().filter(|c| c.from >= delivery.t);
            let put_off = after.map(|c| c.to.saturating_add(c.delay)).max();
            let from = delivery.t.max(put_off.unwrap_or(0));
            let retry = job.want.retry.saturating_add(self.limits.retry_spread);
            (from.saturating_add(retry), delivery.node.as_str())
        });
        let again = again.filter(|_| !job.at_most_once());
        let ends = job.deliveries.iter().enumerate().map(|(seen, delivery)| {
            // One before it got lost on its way to a client: until RETRY was over nobody
            // could have the job.
            let unseen = (delivery.attempt).is_some_and(|attempt| attempt as usize > seen + 1);
            let retry = job.want.retry.saturating_add(self.limits.retry_spread);
            delivery.t.saturating_sub(if unseen { retry } else { 0 })
        });
        let starts = std::iter::once(first).chain(again);
        // A job that does not come again may be gone.
        let is_gone = self.may_be_gone(job, over).is_some();
        let ends = ends.chain((!is_gone).then_some(over));
        starts
            .zip(ends)
            .map(|((from, node), to)| {
                let from = from.saturating_add(self.faults.clock_delay(to));
                (node, (from, to.min(over)))
            })
            .filter(|(_, (from, to))| from < to)
            .collect()
    }

    fn judge_calm(&mut self, job: &Job, node: &str, calm: Stretch, waits: &[Wait]) {
        let disturbed = self.faults.disturb(job.from, calm.1, self.limits.settle);
        let near = waits
            .iter()
            .filter(|wait| wait.from < calm.1 && wait.to > calm.0);
        let near: Vec<&Wait> = near.collect();
        let at = |node: &str| together(near.iter().filter(|wait| wait.node == *node), calm);
        let waited = match &self.limits.served {
            Served::Everywhere => together(near.iter(), calm),
            Served::WhereQueued(_) if !disturbed => at(node),
            Served::WhereQueued(nodes) => {
                let all = vec![calm];
                nodes.iter().fold(all, |all, node| overlap(&all, &at(node)))
            }
        };
        let limits = self.limits;
        let bound = match disturbed {
            false => limits.stuck,
            true => {
                let retries = job.want.retry.saturating_mul(2);
                limits.stuck_after_fault + retries.min(limits.stuck_retry_cap)
            }
        };
        let longest = waited.iter().max_by_key(|(from, to)| to - from).copied();
        let Some((from, to)) = longest else {
            return;
        };
        let summary = &mut self.report.summary;
        let worst = match disturbed {
            false => &mut summary.longest_wait,
            true => &mut summary.worst_recovery,
        };
        *worst = (*worst).max(to - from);
        if to - from > bound.saturating_add(limits.slack) {
            let text = format!(
                "{}, added {}-{} at {} with {:?}, lay at node {node} from {} on, and a client \
                 waited from {from} to {to}, more than {bound} ms",
                job.name(),
                job.from,
                job.to,
                job.node,
                job.want,
                calm.0
            );
            self.report.violate(Class::Stuck, to, text);
        }
    }
}

/// When somebody waits, within a stretch. A client that was told that there is
/// nothing, and asks again at once, waits on.
fn together<'a>(waits: impl Iterator<Item = &'a &'a Wait>, within: Stretch) -> Vec<Stretch> {
    let mut waits: Vec<&&Wait> = waits.collect();
    waits.sort_by_key(|wait| wait.from);
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut goes_on = false;
    for wait in waits {
        let (from, to) = (wait.from.max(within.0), wait.to.min(within.1));
        match stretches.last_mut().filter(|last| from <= last.1) {
            Some(last) if goes_on || from < last.1 => {
                if to >= last.1 {
                    (last.1, goes_on) = (to, !wait.is_served);
                }
            }
            _ => {
                stretches.push((from, to));
                goes_on = !wait.is_served;
            }
        }
    }
    stretches
}

/// What two sets of stretches share.
fn overlap(one: &[Stretch], other: &[Stretch]) -> Vec<Stretch> {
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    pairs
        .map(|(a, b)| (a.0.max(b.0), a.1.min(b.1)))
        .filter(|(from, to)| from < to)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(from: u64, to: u64, is_served: bool) -> Wait {
        let node = String::new();
        Wait {
            node,
            from,
            to,
            is_served,
        }
    }

    #[test]
    fn one_waits_on_after_nothing_but_not_after_a_job() {
        let waits = [
            wait(0, 10, false),
            wait(10, 20, true),
            wait(20, 25, false),
            wait(22, 40, false),
            wait(50, 60, false),
        ];
        let waits: Vec<&Wait> = waits.iter().collect();
        let found = together(waits.iter(), (5, 55));
        assert_eq!(found, [(5, 20), (20, 40), (50, 55)]);
    }

    #[test]
    fn overlaps() {
        let shared = overlap(&[(0, 10), (20, 30)], &[(5, 22), (25, 26)]);
        assert_eq!(shared, [(5, 10), (20, 22), (25, 26)]);
    }
}

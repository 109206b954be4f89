//! Deliveries that are one too many, unless there is a cause.

use super::Judge;
use crate::event::{Lost, Op, Phase};
use crate::jobs::{Command, Delivery, Job};
use crate::report::{Cause, Class};
use std::collections::BTreeSet;

/// What has explained a delivery of a job, by its place among its kind.
#[derive(Default)]
struct Used {
    commands: BTreeSet<usize>,
    deliveries: BTreeSet<usize>,
}

impl Judge<'_> {
    /// Each delivery after the first has a cause, and none comes long after the
    /// job was settled.
    pub fn judge_again(&mut self, job: &Job) {
        let mut used = Used::default();
        for (index, delivery) in job.deliveries.iter().enumerate() {
            let earlier = &job.deliveries[..index];
            let before = earlier.last();
            self.judge_nack_delay(job, before, delivery);
            if job.at_most_once() && before.is_some() {
                let text = format!("{} at node {}", self.tell(job), delivery.node);
                self.report.violate(Class::MoreThanOnce, delivery.t, text);
                continue;
            }
            let cause = match self.after_settling(job, delivery) {
                Some(Ok(cause)) => Some(cause),
                Some(Err(class)) => {
                    let text = format!("{} at node {}", self.tell(job), delivery.node);
                    self.report.violate(class, delivery.t, text);
                    continue;
                }
                None => match before {
                    Some(before) => {
                        let due = self.due(job, earlier, delivery, &mut used);
                        due.or_else(|| self.cause(job, before, delivery, &mut used))
                    }
                    None => continue,
                },
            };
            match cause {
                Some(cause) => *self.report.summary.again.entry(cause).or_default() += 1,
                None => {
                    let text = format!("{} at node {}", self.tell(job), delivery.node);
                    self.report.violate(Class::Duplicated, delivery.t, text);
                }
            }
        }
    }

    /// The life of a job in one line.
    fn tell(&self, job: &Job) -> String {
        let deliveries: Vec<_> = job.deliveries.iter().map(|d| (d.t, &*d.node)).collect();
        let commands = job.commands.iter();
        let commands: Vec<_> = commands
            .map(|c| format!("{:?} {:?} {}-{} at {}", c.op, c.phase, c.from, c.to, c.node))
            .collect();
        format!(
            "{}, added {}-{} at {} ({:?}) with {:?}, delivered {deliveries:?}, {commands:?}",
            job.name(),
            job.from,
            job.to,
            job.node,
            job.outcome,
            job.want
        )
    }

    /// A delivery after the job was settled, once every node must know: what
    /// explains it, or what it breaks. `None` while nodes need not know.
    fn after_settling(&self, job: &Job, delivery: &Delivery) -> Option<Result<Cause, Class>> {
        let t = delivery.t;
        if let Some(settled) = job.settled() {
            let known = settled.max(self.faults.calm_since(t)?) + self.limits.settle;
            if t <= known {
                return None;
            }
            return Some(match self.settling_was_lost(settled, t) {
                true => Ok(Cause::Loss),
                false => Err(Class::Resurrected),
            });
        }
        let dropped = job.first(Op::FastAck)?;
        if t <= dropped.saturating_add(self.limits.spread) {
            return None;
        }
        let disturbed = self.faults.disturb(job.from, t, self.limits.settle);
        Some(match disturbed {
            true => Ok(Cause::FastAck),
            false => Err(Class::Duplicated),
        })
    }

    /// Whether a node that knew of a settling may have lost it: all of its data
    /// before the others knew too, or data so old that the settling was among
    /// what it lost while the job was not.
    fn settling_was_lost(&self, settled: u64, to: u64) -> bool {
        let spread = settled.saturating_add(self.limits.spread);
        let told = self.faults.calm_of(self.limits.settle, settled, to);
        let mut losses = self
            .faults
            .losses(settled.saturating_sub(self.limits.slack));
        losses.any(|loss| {
            loss.from <= to
                && match loss.lost {
                    Lost::Nothing => false,
                    Lost::Since(since) => since <= spread.max(told.unwrap_or(to)),
                    Lost::All => told.is_none_or(|told| loss.from <= told),
                }
        })
    }

    /// RETRY, if it was over since a delivery that has not explained another one. Time
    /// comes before commands: a NACK of the same moment may explain the next delivery.
    fn due(
        &self,
        job: &Job,
        earlier: &[Delivery],
        delivery: &Delivery,
        used: &mut Used,
    ) -> Option<Cause> {
        let unheard = |other: &Delivery| {
            other.node != delivery.node && other.t.saturating_add(self.limits.spread) >= delivery.t
        };
        for (index, before) in earlier.iter().enumerate().rev() {
            let free = !used.deliveries.contains(&index);
            if free && self.was_due(job, before, delivery) {
                used.deliveries.insert(index);
                return Some(Cause::Retry);
            }
            // The copy of another node has a RETRY of its own until it hears of this one.
            if !unheard(before) {
                break;
            }
        }
        None
    }

    /// What but RETRY explains a delivery after another one. A command explains one.
    fn cause(
        &self,
        job: &Job,
        before: &Delivery,
        delivery: &Delivery,
        used: &mut Used,
    ) -> Option<Cause> {
        let (faults, limits) = (self.faults, self.limits);
        // The delivery before may come from a node that had not heard of it yet.
        let heard = limits.slack.max(limits.spread);
        let mut called = |op: Op| {
            let mut commands = job.commands.iter().enumerate();
            commands.any(|(index, command)| {
                let effect = command.phase != Phase::Fail && command.count > 0;
                command.op == op
                    && effect
                    && command.from <= delivery.t
                    && command.to.saturating_add(heard) >= before.t
                    && used.commands.insert(index)
            })
        };
        if called(Op::Nack) {
            Some(Cause::Nack)
        } else if called(Op::Enqueue) || called(Op::DelJob) {
            Some(Cause::Command)
        } else if faults.disturb(before.t, delivery.t, limits.settle) {
            Some(Cause::Fault)
        } else if self.settling_was_lost(before.t, delivery.t) {
            Some(Cause::Loss)
        } else {
            None
        }
    }

    /// Whether RETRY had passed since a delivery, or the last WORKING after it,
    /// without the job being settled.
    fn was_due(&self, job: &Job, before: &Delivery, delivery: &Delivery) -> bool {
        let (slack, spread) = (self.limits.slack, self.limits.spread);
        let done = |op: Op| {
            let commands = job.commands.iter();
            commands.filter(move |c| c.op == op && c.phase == Phase::Ok)
        };
        let worked = done(Op::Working).map(|command: &Command| command.to);
        // One that crosses the delivery came too late to put it off.
        let worked = worked.filter(|to| to.saturating_add(spread) < delivery.t);
        let worked = worked.max().unwrap_or(0);
        // The one before may have come from another copy, whose RETRY is its own.
        let due = before.t.max(worked).saturating_add(job.want.retry);
        if delivery.t.saturating_add(slack) < due {
            return false;
        }
        let settled = done(Op::Ack).chain(done(Op::FastAck));
        let settled = settled.map(|command| command.to).min();
        settled.is_none_or(|settled| {
            let in_time = settled.saturating_add(spread) <= due;
            !in_time && delivery.t <= settled.saturating_add(spread)
        })
    }

    /// No delivery before the DELAY of the last NACK is over.
    fn judge_nack_delay(&mut self, job: &Job, before: Option<&Delivery>, delivery: &Delivery) {
        let (slack, spread) = (self.limits.slack, self.limits.spread);
        let put_back = |command: &&Command| {
            matches!(command.op, Op::Nack | Op::Enqueue)
                && command.phase != Phase::Fail
                && command.count > 0
                && command.from <= delivery.t
        };
        let Some(last) = job.commands.iter().rfind(put_back) else {
            return;
        };
        // What was on its way when the NACK came, came from before it.
        let heard = last.to.saturating_add(spread);
        let is_first = before.is_none_or(|before| before.t <= heard);
        let due = last.from.saturating_add(last.delay);
        let latest = delivery.t + slack + self.faults.clock_error(delivery.t);
        if delivery.t <= heard || !is_first || latest >= due {
            return;
        }
        if self
            .faults
            .disturb(last.from, delivery.t, self.limits.settle)
        {
            self.report.summary.early_after_nack += 1;
        } else {
            let text = format!("{} before {due}", self.tell(job));
            self.report.violate(Class::Early, delivery.t, text);
        }
    }
}

//! NACK, ENQUEUE, DEQUEUE, WORKING.

use super::Node;
use crate::clock::{Now, NEVER};
use crate::effects::Effects;
use crate::error::Error;
use crate::job::State;
use crate::job_id::JobId;
use crate::record::Record;

/// What counts when a job goes back to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// A negative acknowledgement.
    Nack,
    /// One more delivery.
    AdditionalDelivery,
}

impl Counter {
    /// The counter that a record names.
    pub(super) fn of(nack: bool) -> Counter {
        if nack {
            Counter::Nack
        } else {
            Counter::AdditionalDelivery
        }
    }
}

impl Node {
    /// NACK and ENQUEUE: puts active jobs back on their queues now and returns
    /// how many. A job that is queued stays as it is; so does a delivered
    /// at-most-once job, and a job whose queue is paused in.
    pub fn requeue_jobs(
        &mut self,
        now: Now,
        ids: &[JobId],
        counter: Counter,
        fx: &mut Effects,
    ) -> usize {
        let mut requeued = 0;
        for id in ids {
            let Some(key) = self.jobs.find(id) else {
                continue;
            };
            let job = &self.jobs[key];
            let paused = self.queues[job.queue].pause.input;
            let active = matches!(job.state, State::Active | State::Delayed);
            // One on its way to another node is queued, there.
            let is_queued = !active || self.is_handed(key);
            if is_queued || paused || !job.may_be_queued() {
                continue;
            }
            self.take_turn(key);
            self.count_and_queue(key, counter);
            self.tell_queued(key, Node::bump_of(counter), 0, now, fx);
            let queue = self.jobs[key].queue;
            self.queues[queue].used_at = now.mono_ms;
            fx.records.push(&Record::Requeued {
                id: *id,
                nack: counter == Counter::Nack,
            });
            requeued += 1;
        }
        requeued
    }

    /// Counts and queues, for the command and for its record.
    pub(super) fn count_and_queue(&mut self, key: u32, counter: Counter) {
        let job = &mut self.jobs[key];
        match counter {
            Counter::Nack => {
                job.nacks = job.nacks.saturating_add(1);
                self.stats.nacked += 1;
            }
            Counter::AdditionalDelivery => {
                job.additional_deliveries = job.additional_deliveries.saturating_add(1);
                self.stats.requeued += 1;
            }
        }
        self.move_job(key, State::Queued, NEVER);
    }

    /// DEQUEUE: takes queued jobs off their queues, back to active, and returns
    /// how many. They come back a RETRY later; at-most-once jobs by ENQUEUE only.
    pub fn dequeue_jobs(&mut self, now: Now, ids: &[JobId], fx: &mut Effects) -> usize {
        let mut dequeued = 0;
        for id in ids {
            let Some(key) = self.jobs.find(id) else {
                continue;
            };
            if self.jobs[key].state == State::Queued {
                self.postpone(key, now, fx);
                self.own_deadline(key);
                dequeued += 1;
            }
        }
        dequeued
    }

    /// WORKING: the next delivery of the job is put off by one RETRY from now.
    /// Returns the RETRY in seconds, rounded up. An at-most-once job has no next
    /// delivery: it stays as it is and the answer is 0.
    pub fn working(
        &mut self,
        now: Now,
        id: Option<&JobId>,
        fx: &mut Effects,
    ) -> Result<u64, Error> {
        let key = id.and_then(|id| self.jobs.find(id)).ok_or(Error::NoJob)?;
        let job = &self.jobs[key];
        if job.is_acked() {
            return Err(Error::Acked);
        }
        let half = job.options.ttl.ms() / 2;
        if job.expire_at.saturating_sub(now.mono_ms) < half {
            return Err(Error::TooLate);
        }
        let retry = job.options.retry;
        if !retry.is_zero() && job.state != State::WaitRepl {
            self.postpone(key, now, fx);
            self.tell_working(key, now, fx);
        }
        Ok(retry.secs_rounded_up())
    }

    /// Makes a job active until one RETRY from now, and no sooner than its DELAY
    /// ends.
    fn postpone(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let mut requeue_at = self.retry_deadline(key, now);
        if self.jobs[key].state == State::Delayed {
            requeue_at = requeue_at.max(self.jobs[key].requeue_at);
        }
        self.move_job(key, State::Active, requeue_at);
        let job = &self.jobs[key];
        fx.records.push(&Record::Postponed {
            id: job.id,
            requeue_at: now.to_wall(requeue_at),
        });
        self.queues[job.queue].used_at = now.mono_ms;
    }
}

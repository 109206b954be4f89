//! GETJOB, and deliveries that never arrived.

use super::Node;
use crate::clock::{Now, NEVER};
use crate::effects::{Delivered, Effects};
use crate::error::Error;
use crate::job::State;
use crate::job_id::JobId;
use crate::mutants::Mutant;
use crate::record::Record;
use smallvec::SmallVec;

/// What GETJOB asks for, with every value in its range already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetJob<'a> {
    /// Names of queues in the order of preference, none twice.
    pub queues: SmallVec<[&'a [u8]; 4]>,
    /// COUNT, at least 1.
    pub count: u64,
    /// NOHANG: never block.
    pub nohang: bool,
    /// TIMEOUT in milliseconds; `None` for ever.
    pub timeout_ms: Option<u64>,
    /// WITHCOUNTERS.
    pub with_counters: bool,
}

/// A delivery, as its receiver's side remembers it until the reply has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The job.
    pub id: JobId,
    /// Which delivery of it.
    pub attempt: u32,
}

/// A reply ends early when its bodies exceed this, whatever COUNT says.
pub(super) const MAX_REPLY_BYTES: usize = 64 << 20;

impl Node {
    /// GETJOB, the part that does not wait: delivers what is there, or `None`.
    pub fn get_jobs(&mut self, now: Now, get: &GetJob<'_>, fx: &mut Effects) -> Option<Delivered> {
        let queues: SmallVec<[u32; 4]> = get
            .queues
            .iter()
            .filter_map(|name| self.queues.find(name))
            .collect();
        self.deliver_from(&queues, get.count, get.with_counters, now, fx)
    }

    /// Takes up to `count` jobs, one from each queue in turn, again and again.
    pub(super) fn deliver_from(
        &mut self,
        queues: &[u32],
        count: u64,
        with_counters: bool,
        now: Now,
        fx: &mut Effects,
    ) -> Option<Delivered> {
        self.notice_standstill(now);
        let mark = fx.mark();
        let (mut left, mut bytes) = (count.min(self.settings.max_ids), 0);
        let mut found = true;
        while found && left > 0 {
            found = false;
            for &queue in queues {
                if left == 0 || bytes > MAX_REPLY_BYTES {
                    break;
                }
                if let Some(key) = self.deliver_one(queue, now, fx) {
                    bytes += self.jobs[key].body.len();
                    left -= 1;
                    found = true;
                }
            }
        }
        let delivered = fx.since(mark, with_counters);
        (fx.mark() > mark).then_some(delivered)
    }

    fn deliver_one(&mut self, queue: u32, now: Now, fx: &mut Effects) -> Option<u32> {
        if self.queues[queue].pause.output {
            return None;
        }
        let key = self.lift_own_front(queue, now, fx)?;
        let requeue_at = match self.is_mutant(Mutant::RetryFromQueueing) {
            true => self.jobs[key].delay_ends_at() + self.jobs[key].options.retry.ms(),
            false => self.retry_deadline(key, now),
        };
        let job = &mut self.jobs[key];
        job.attempt = job.attempt.saturating_add(1);
        let id = job.id;
        self.place(key, State::Active, requeue_at);
        self.own_deadline(key);
        let entry = &mut self.queues[queue];
        entry.jobs_out += 1;
        entry.used_at = now.mono_ms;
        self.stats.delivered += 1;
        fx.records.push(&Record::Delivered {
            id,
            requeue_at: now.to_wall(requeue_at),
        });
        fx.deliver(key);
        Some(key)
    }

    /// Takes the oldest job off a queue that is surely still this node's. Jobs of
    /// which others must be asked first leave the queue until they have answered.
    pub(super) fn lift_own_front(&mut self, queue: u32, now: Now, fx: &mut Effects) -> Option<u32> {
        loop {
            let key = self.queues[queue].order.front()?;
            if !self.must_ask(key, now) || self.ask(key, 0, now, fx) {
                return self.lift_front(queue);
            }
        }
    }

    /// What to remember of a delivery until its reply has left.
    pub fn receipts(&self, delivered: Delivered, fx: &Effects) -> SmallVec<[Receipt; 1]> {
        let receipt = |&key: &u32| {
            let job = &self.jobs[key];
            Receipt {
                id: job.id,
                attempt: job.attempt,
            }
        };
        fx.jobs(delivered).iter().map(receipt).collect()
    }

    /// The reply with these deliveries never left: they did not happen, not
    /// even for at-most-once jobs. Jobs that moved on since are left alone.
    pub fn undeliver(&mut self, receipts: &[Receipt], fx: &mut Effects) {
        for receipt in receipts {
            let Some(key) = self.jobs.find(&receipt.id) else {
                continue;
            };
            let job = &self.jobs[key];
            let delivered = job.state == State::Active && job.attempt == receipt.attempt;
            if delivered && self.is_responsible(key) {
                self.take_back(key);
                fx.records.push(&Record::Returned { id: receipt.id });
            }
        }
    }

    pub(super) fn take_back(&mut self, key: u32) {
        self.lift(key);
        let job = &mut self.jobs[key];
        job.attempt = job.attempt.saturating_sub(1);
        self.place(key, State::Queued, NEVER);
        if let Some(copies) = self.copies.get_mut(self.jobs[key].copies) {
            copies.own_deadline = false;
        }
        self.stats.returned += 1;
    }

    /// The queue names a blocked GETJOB may wait on are checked before it waits.
    pub fn check_get(&self, get: &GetJob<'_>) -> Result<(), Error> {
        self.check_count(("the queues of GETJOB", "names"), get.queues.len())?;
        get.queues
            .iter()
            .try_for_each(|name| self.check_queue_name(name))
    }
}

//! How a job moves between states. All of it is here: the queue's order, the
//! counters, the timer and the memory total change together or not at all.

use super::Node;
use crate::clock::{Now, NEVER};
use crate::collections::Full;
use crate::copies::NO_COPIES;
use crate::job::{Job, State};
use crate::span::Span;
use rand::RngCore;

/// The largest random addition to a requeue deadline.
const MAX_SPREAD_MS: u64 = 500;

impl Node {
    /// Takes in a new job in the state that it says.
    pub(super) fn insert_job(&mut self, job: Job) -> Result<u32, Full> {
        let (state, requeue_at) = (job.state, job.requeue_at);
        let key = self.jobs.insert(job)?;
        self.place(key, state, requeue_at);
        Ok(key)
    }

    /// Takes a job out of everything.
    pub(super) fn remove_job(&mut self, key: u32, now: Now) {
        self.lift(key);
        if let Some(job) = self.jobs.remove(key) {
            self.remove_copies(job.copies);
            self.watch_if_unused(job.queue, now);
        }
    }

    fn remove_copies(&mut self, copies: u32) {
        if copies != NO_COPIES {
            self.set_short(copies, false);
            self.copies.remove(copies);
        }
    }

    /// Moves a job to another state or deadline.
    pub(super) fn move_job(&mut self, key: u32, state: State, requeue_at: u64) {
        self.lift(key);
        self.place(key, state, requeue_at);
    }

    /// Takes the oldest job off a queue. The caller places it again at once.
    pub(super) fn lift_front(&mut self, queue: u32) -> Option<u32> {
        let key = self.queues[queue].order.pop_front()?;
        self.unlink(key);
        Some(key)
    }

    /// Takes a job out of its state: order, counter, timer. What [`is_disposable`]
    /// and the queue's order depend on may change only between this and `place`.
    pub(super) fn lift(&mut self, key: u32) {
        let job = &self.jobs[key];
        if job.state == State::Queued {
            let jobs = &self.jobs;
            let found = self.queues[job.queue].order.remove(key, |k| jobs.rank(k));
            debug_assert!(found);
        }
        self.unlink(key);
    }

    fn unlink(&mut self, key: u32) {
        self.jobs.stop_timer(key);
        let job = &self.jobs[key];
        self.queues[job.queue].counts[job.state as usize] -= 1;
        self.job_counts[job.state as usize] -= 1;
        if is_disposable(job) {
            self.disposable.remove(&(job.ctime, key));
        }
    }

    /// Puts a lifted or new job into a state. A job that may not be queued is
    /// kept active for good, whatever a damaged record says.
    pub(super) fn place(&mut self, key: u32, state: State, requeue_at: u64) {
        let job = &mut self.jobs[key];
        let (state, requeue_at) = match state {
            State::Acked | State::WaitRepl => (state, NEVER),
            State::Queued if job.may_be_queued() => (State::Queued, NEVER),
            _ if !job.may_be_queued() => (State::Active, NEVER),
            _ => (state, requeue_at),
        };
        job.state = state;
        job.requeue_at = requeue_at;
        let (queue, ctime) = (job.queue, job.ctime);
        if is_disposable(job) {
            self.disposable.insert((ctime, key));
        }
        self.job_counts[state as usize] += 1;
        self.jobs.start_timer(key);
        let jobs = &self.jobs;
        let entry = &mut self.queues[queue];
        entry.counts[state as usize] += 1;
        if state == State::Queued {
            entry.order.insert(key, |k| jobs.rank(k));
            entry.jobs_in += 1;
            self.mark_ready(queue);
        }
    }

    /// When a job that is delivered or postponed now comes back.
    pub(super) fn retry_deadline(&mut self, key: u32, now: Now) -> u64 {
        self.deadline_after(self.jobs[key].options.retry, now)
    }

    /// The same for a job that is not in the table yet.
    pub(super) fn deadline_after(&mut self, retry: Span, now: Now) -> u64 {
        let retry = retry.ms();
        if retry == 0 {
            return NEVER;
        }
        now.after(retry.saturating_add(self.spread(retry)))
    }

    /// A random time, so that holders of one job, and jobs of one moment, do
    /// not all act at once. Only ever added.
    fn spread(&mut self, retry_ms: u64) -> u64 {
        let max = MAX_SPREAD_MS.min(retry_ms / 4);
        u64::from(self.rng.next_u32()) % (max + 1)
    }
}

/// Whether nothing is lost when this job is dropped.
pub(super) fn is_disposable(job: &Job) -> bool {
    job.state == State::Active && job.at_most_once() && job.attempt > 0
}

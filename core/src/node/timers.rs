//! What the passing of time does: jobs fall due, waits end, idle queues go.

use super::Node;
use crate::clock::{Now, NEVER};
use crate::collections::Poll;
use crate::effects::{Answer, Effects};
use crate::error::Error;
use crate::job::State;
use crate::message::Bump;

impl Node {
    /// When [`Node::run_due`] has something to do next, on the monotonic clock;
    /// a time that has passed means at once, `None` never.
    pub fn next_wake(&self) -> Option<u64> {
        if !self.discarded.is_empty() {
            return Some(0);
        }
        let always = [
            self.waiters.next_wake(),
            self.adders.next_wake(),
            self.cluster.next_beat(),
        ];
        let always = always.into_iter().flatten();
        if self.is_displaced() {
            return always.min();
        }
        let busy = self.vigil.has_work() || self.federation.has_work();
        if busy || !self.ready.is_empty() {
            return Some(0);
        }
        let of_jobs = [
            self.jobs.next_wake(),
            self.queues.next_wake(),
            self.copies.next_wake(),
            self.acks.next_wake(),
            self.settled.next_wake(),
            self.next_walk(),
            self.next_request(),
            self.next_drain(),
        ];
        always.chain(of_jobs.into_iter().flatten()).min()
    }

    /// Does what is due, about `max` steps of each kind, and serves clients for
    /// whom there are jobs. Call it again while [`Node::next_wake`] is not in
    /// the future.
    pub fn run_due(&mut self, now: Now, max: usize, fx: &mut Effects) {
        self.rest_if_late(now);
        self.beat(now, fx);
        self.end_waits(now, max, fx);
        self.end_adds(now, max, fx);
        if self.is_displaced() {
            self.free_discarded(max);
            return;
        }
        self.run_copies(now, max, fx);
        self.run_jobs(now, max, fx);
        self.run_drain(now, max, fx);
        self.drop_idle_queues(now, max);
        self.free_discarded(max);
        self.serve(now, max, fx);
        self.repeat_requests(now, max, fx);
    }

    /// Ends the waits of clients whose time is over, at most `max`. Nothing of it
    /// is recorded.
    pub fn end_waits(&mut self, now: Now, max: usize, fx: &mut Effects) {
        let mut moves = max as u32;
        for _ in 0..max {
            let Some(id) = self.waiters.poll(now, &mut moves) else {
                return;
            };
            self.forget_consumer(id, now);
            fx.answer(id, Answer::Null);
        }
    }

    /// Ends the waits of producers whose time is over.
    fn end_adds(&mut self, now: Now, max: usize, fx: &mut Effects) {
        let mut moves = max as u32;
        for _ in 0..max {
            let Some(id) = self.adders.poll(now, &mut moves) else {
                return;
            };
            self.give_up_adding(id, Error::NoRepl, now, fx);
        }
    }

    fn run_jobs(&mut self, now: Now, max: usize, fx: &mut Effects) {
        let mut moves = max as u32;
        for _ in 0..max {
            let Poll::Due(key) = self.jobs.poll(now, &mut moves) else {
                return;
            };
            if self.jobs[key].expire_at <= now.mono_ms {
                self.expire(key, now, fx);
            } else {
                self.queue_due(key, now, fx);
            }
        }
    }

    fn expire(&mut self, key: u32, now: Now, fx: &mut Effects) {
        if !self.jobs[key].is_acked() {
            self.stats.expired += 1;
            self.fail_add(key, Error::NoRepl, now, fx);
        }
        self.remove_recorded(key, now, fx);
    }

    /// Queues a job whose DELAY or RETRY has passed, if it is this node that does.
    /// Nothing is written down: a restart finds the same deadline passed and does
    /// the same.
    fn queue_due(&mut self, key: u32, now: Now, fx: &mut Effects) {
        if !self.may_queue_due(key, now, fx) {
            return;
        }
        let job = &mut self.jobs[key];
        let first = job.state == State::Delayed;
        if self.queues[job.queue].pause.input && !first {
            let later = self.retry_deadline(key, now);
            self.move_job(key, State::Active, later);
            return;
        }
        // Taken off its queue, or put off, before anybody had it: not a delivery more.
        // What another node did with it before it went away is not known.
        let copies = self.copies.get(job.copies);
        let others = copies.is_some_and(|copies| copies.responsible != Some(self.own));
        let again = job.attempt > 0 || others;
        if again {
            job.additional_deliveries = job.additional_deliveries.saturating_add(1);
            self.stats.requeued += 1;
        }
        self.take_turn(key);
        self.move_job(key, State::Queued, NEVER);
        if !first {
            let bump = if again { Bump::Delivery } else { Bump::None };
            self.tell_queued(key, bump, 0, now, fx);
        }
    }

    fn drop_idle_queues(&mut self, now: Now, max: usize) {
        let mut moves = max as u32;
        for _ in 0..max {
            let Poll::Due(key) = self.queues.poll(now, &mut moves) else {
                return;
            };
            let queue = &self.queues[key];
            if !queue.is_unused() {
                continue; // Watched again when the last job or waiter goes.
            }
            // What other nodes ask for stands in it.
            let asked_until = queue.requests.iter().map(|one| one.until).max();
            let idle_from = queue.used_at.saturating_add(self.settings.queue_idle_ms);
            let idle_from = idle_from.max(asked_until.unwrap_or(0));
            if idle_from <= now.mono_ms {
                self.queues.remove(key);
            } else {
                self.queues.watch(key, idle_from);
            }
        }
    }

    /// Has a queue that nothing depends on any more looked at when it is idle.
    pub(super) fn watch_if_unused(&mut self, key: u32, now: Now) {
        if self.queues[key].is_unused() && !self.queues.is_watched(key) {
            self.queues
                .watch(key, now.after(self.settings.queue_idle_ms));
        }
    }

    /// Whether a flush or load has left something to free.
    pub fn has_discarded(&self) -> bool {
        !self.discarded.is_empty()
    }

    /// Frees a part of what a flush or load has left; whether there is more.
    pub fn free_discarded(&mut self, max: usize) -> bool {
        if self
            .discarded
            .last_mut()
            .is_some_and(|one| one.free_some(max))
        {
            self.discarded.pop();
        }
        !self.discarded.is_empty()
    }
}

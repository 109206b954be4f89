//! Clients that wait for a job.
//!
//! Per queue they are served in the order in which they came. A client that
//! waits on several queues stands in the line of each and leaves them all when
//! it is answered.

use super::get::GetJob;
use super::Node;
use crate::clock::{Now, NEVER};
use crate::effects::{Answer, Effects, WaiterId};
use crate::error::Error;
use crate::tables::Waiter;
use smallvec::SmallVec;

/// Jobs after which a call of [`Node::serve`] takes no further client.
const MAX_JOBS_SERVED: usize = 1_000;

impl Node {
    /// GETJOB, the part that waits: [`Node::get_jobs`] found nothing.
    pub fn block(&mut self, now: Now, get: &GetJob<'_>) -> Result<WaiterId, Error> {
        if self.leaving {
            return Err(Error::Leaving);
        }
        if self.waiters.len() as u64 >= self.settings.max_blocked_clients {
            return Err(Error::TooManyBlocked);
        }
        for name in &get.queues {
            self.check_room_for_queue(name)?;
        }
        // What a client takes at most; a sum of all must not overflow.
        let count = get.count.min(self.settings.max_ids);
        let queues = get
            .queues
            .iter()
            .map(|name| self.queues.find_or_create(name, now))
            .collect::<Result<_, _>>()?;
        let id = self.waiters.insert(Waiter::new(
            queues,
            count,
            get.with_counters,
            get.timeout_ms.map_or(NEVER, |ms| now.after(ms)),
        ))?;
        for queue in self.waiting_on(id) {
            let entry = &mut self.queues[queue];
            entry.waiters.insert(id);
            entry.used_at = now.mono_ms;
            entry.wanted = entry.wanted.saturating_add(count);
            self.want(queue);
        }
        Ok(id)
    }

    /// A client that waited is gone, or was answered by someone else. Unknown
    /// ids are ignored: its answer may have been on its way.
    pub fn forget_waiter(&mut self, id: WaiterId, now: Now, fx: &mut Effects) {
        self.leave_adding(id, now, fx);
        self.forget_consumer(id, now);
    }

    /// A client that waited for jobs waits no longer.
    pub(super) fn forget_consumer(&mut self, id: WaiterId, now: Now) {
        let Some(waiter) = self.waiters.remove(id) else {
            return;
        };
        for queue in waiter.queues {
            let entry = &mut self.queues[queue];
            entry.waiters.remove(&id);
            entry.wanted = entry.wanted.saturating_sub(waiter.count);
            self.watch_if_unused(queue, now);
        }
    }

    /// Whether there may be clients to serve.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Answers waiting clients for whom there are jobs, at most about `max` of
    /// them; what remains is due at once (see [`Node::next_wake`]).
    pub fn serve(&mut self, now: Now, max: usize, fx: &mut Effects) {
        if self.is_displaced() {
            return;
        }
        let first = fx.mark();
        for _ in 0..max {
            if fx.mark() - first >= MAX_JOBS_SERVED {
                break;
            }
            let Some(&queue) = self.ready.front() else {
                break;
            };
            if !self.serve_first(queue, now, fx) {
                self.ready.pop_front();
                // A queue that was dropped leaves its key on the list; the key
                // may name another queue by now, which is then served early.
                if let Some(entry) = self.queues.get_mut(queue) {
                    entry.ready = false;
                    self.offer(queue);
                    // Those that still wait were not asked for while there were jobs.
                    self.want(queue);
                }
            }
        }
        if self.federation.has_work() {
            self.federate(now, max, fx);
        }
    }

    /// Serves the client that waits longest on this queue, if it can be served.
    fn serve_first(&mut self, queue: u32, now: Now, fx: &mut Effects) -> bool {
        let Some(entry) = self.queues.get(queue).filter(|q| q.has_deliverable()) else {
            return false;
        };
        let Some(&id) = entry.waiters.first() else {
            return false;
        };
        let Some(waiter) = self.waiters.get(id) else {
            return false;
        };
        let (count, with_counters) = (waiter.count, waiter.with_counters);
        // Not from a queue where another client came before it.
        let mut queues = waiter.queues.clone();
        queues.retain(|queue| self.queues[*queue].waiters.first() == Some(&id));
        if let Some(delivered) = self.deliver_from(&queues, count, with_counters, now, fx) {
            fx.answer(id, Answer::Jobs(delivered));
            self.forget_consumer(id, now);
        }
        true
    }

    pub(super) fn answer_all_waiters(&mut self, answer: &Answer, now: Now, fx: &mut Effects) {
        while let Some(id) = self.waiters.any() {
            self.forget_consumer(id, now);
            fx.answer(id, answer.clone());
        }
    }

    /// The jobs that producers wait for are dropped, or this node will not be the
    /// one to queue them.
    pub(super) fn refuse_all_adders(&mut self, error: &Error, now: Now, fx: &mut Effects) {
        while let Some(id) = self.adders.any() {
            self.leave_adding(id, now, fx);
            fx.answer(id, Answer::Error(error.clone()));
        }
    }

    fn waiting_on(&self, id: WaiterId) -> SmallVec<[u32; 2]> {
        self.waiters
            .get(id)
            .map_or_else(SmallVec::new, |waiter| waiter.queues.clone())
    }

    /// Notes that jobs came to a queue where clients may wait.
    pub(super) fn mark_ready(&mut self, queue: u32) {
        let entry = &mut self.queues[queue];
        if !entry.ready && !entry.waiters.is_empty() && entry.has_deliverable() {
            entry.ready = true;
            self.ready.push_back(queue);
        }
        if !self.queues[queue].requests.is_empty() {
            self.offer(queue);
        }
    }
}

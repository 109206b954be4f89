//! What must hold of a node between any two calls, for tests.
//!
//! Everything the node keeps beside the jobs themselves (orders, counters,
//! timers, lists, totals) is compared with what a walk over the jobs, queues
//! and waiting clients gives. That costs time in proportion to all of them:
//! nothing but tests calls it, and a linked module does not contain it.

use super::moves::is_disposable;
use super::Node;
use crate::clock::{Now, NEVER};
use crate::collections::Timed;
use crate::invariants::{hold, wakes_in_time};
use crate::job::State;
use crate::tables::{QueueTable, Waiter};
use std::collections::{BTreeMap, BTreeSet};

/// What a walk over the jobs of one queue finds.
#[derive(Default)]
struct Recount {
    counts: [u32; State::COUNT],
    order: BTreeSet<(u64, u32)>,
}

impl Node {
    /// Checks the whole state of the node; the text says what is wrong. `now`
    /// is the time of the last call.
    pub fn check_invariants(&self, now: Now) -> Result<(), String> {
        let recounts = self.check_jobs(now)?;
        for (key, queue) in self.queues.iter() {
            let name = queue.name.escape_ascii();
            self.check_queue(key, recounts.get(&key), now)
                .map_err(|wrong| format!("queue {name}: {wrong}"))?;
        }
        check_wake(&self.queues, now)?;
        self.cluster.check(&self.identity)?;
        self.check_copies_table(now)?;
        self.check_waiters(now)
    }

    fn check_jobs(&self, now: Now) -> Result<BTreeMap<u32, Recount>, String> {
        let mut recounts = BTreeMap::<u32, Recount>::new();
        let mut counts = [0; State::COUNT];
        let mut disposable = BTreeSet::new();
        let (mut jobs, mut bytes, mut earliest) = (0, 0, NEVER);
        let mut from = 0;
        while let Some(key) = self.jobs.next_occupied(from) {
            from = key + 1;
            let job = &self.jobs[key];
            let id = job.id;
            hold!(self.jobs.find(&id) == Some(key), "{id}: not found by id");
            hold!(
                self.queues.get(job.queue).is_some(),
                "{id}: its queue is gone"
            );
            hold!(job.links().is_scheduled(), "{id}: no timer runs");
            self.check_copies_of(key)?;
            if job.state == State::Queued {
                hold!(job.requeue_at == NEVER, "{id}: queued with a deadline");
                hold!(job.may_be_queued(), "{id}: at most once, and queued again");
            } else if !job.may_be_queued() {
                hold!(
                    job.requeue_at == NEVER,
                    "{id}: at most once, and will be queued again"
                );
            }
            let recount = recounts.entry(job.queue).or_default();
            recount.counts[job.state as usize] += 1;
            if job.state == State::Queued {
                recount.order.insert(self.jobs.rank(key));
            }
            counts[job.state as usize] += 1;
            if is_disposable(job) {
                disposable.insert((job.ctime, key));
            }
            jobs += 1;
            bytes += job.memory();
            earliest = earliest.min(job.deadline());
        }
        hold!(
            jobs == self.jobs.len(),
            "{} jobs, {jobs} found",
            self.jobs.len()
        );
        hold!(
            jobs == self.jobs.timer_count(),
            "{jobs} jobs, {} timers",
            self.jobs.timer_count()
        );
        hold!(
            counts == self.job_counts,
            "jobs by state {:?}, counted {counts:?}",
            self.job_counts
        );
        hold!(
            bytes == self.jobs.bytes(),
            "{} bytes, counted {bytes}",
            self.jobs.bytes()
        );
        hold!(
            disposable == self.disposable,
            "disposable jobs {:?}, found {disposable:?}",
            self.disposable
        );
        wakes_in_time(
            "jobs",
            self.jobs.next_wake(),
            (jobs > 0).then_some(earliest),
            now,
        )?;
        Ok(recounts)
    }

    fn check_queue(&self, key: u32, recount: Option<&Recount>, now: Now) -> Result<(), String> {
        let queue = &self.queues[key];
        let empty = Recount::default();
        let recount = recount.unwrap_or(&empty);
        hold!(
            self.queues.find(&queue.name) == Some(key),
            "not found by name"
        );
        hold!(
            queue.counts == recount.counts,
            "jobs by state {:?}, counted {:?}",
            queue.counts,
            recount.counts
        );
        let order: Vec<u32> = queue.order.iter().collect();
        let expected: Vec<u32> = recount.order.iter().map(|&(_, key)| key).collect();
        hold!(
            order == expected,
            "order {order:?}, queued jobs {expected:?}"
        );
        hold!(
            order.len() == queue.order.len(),
            "length {}, {} in order",
            queue.order.len(),
            order.len()
        );
        hold!(
            !queue.is_unused() || self.queues.is_watched(key),
            "unused, and never dropped"
        );
        hold!(
            !queue.ready || self.ready.contains(&key),
            "marked ready, and not on the list"
        );
        hold!(
            queue.ready || queue.waiters.is_empty() || !queue.has_deliverable(),
            "has jobs and waiting clients at {}, and is not on the list",
            now.mono_ms
        );
        for &id in &queue.waiters {
            let waiter = self.waiters.get(id);
            hold!(
                waiter.is_some_and(|waiter| waiter.queues.contains(&key)),
                "{id:?} stands in its line, and does not wait for it"
            );
        }
        Ok(())
    }

    fn check_waiters(&self, now: Now) -> Result<(), String> {
        let (mut waiters, mut timed, mut earliest) = (0, 0, NEVER);
        for (id, waiter) in self.waiters.iter() {
            waiters += 1;
            timed += usize::from(waiter.deadline != NEVER);
            earliest = earliest.min(waiter.deadline);
            let distinct: BTreeSet<_> = waiter.queues.iter().collect();
            hold!(
                distinct.len() == waiter.queues.len(),
                "{id:?} waits twice for one queue"
            );
            hold!(
                self.waiters
                    .get(id)
                    .is_some_and(|w: &Waiter| w.deadline == waiter.deadline),
                "{id:?} is not found"
            );
            for &key in &waiter.queues {
                let queue = self.queues.get(key);
                hold!(
                    queue.is_some_and(|queue| queue.waiters.contains(&id)),
                    "{id:?} does not stand in the line of queue {key}"
                );
            }
        }
        hold!(
            waiters == self.waiters.len(),
            "{} clients wait, {waiters} found",
            self.waiters.len()
        );
        hold!(
            timed == self.waiters.timer_count(),
            "{timed} clients with a time limit, {} timers",
            self.waiters.timer_count()
        );
        wakes_in_time(
            "waiting clients",
            self.waiters.next_wake(),
            (timed > 0).then_some(earliest),
            now,
        )
    }
}

fn check_wake(queues: &QueueTable, now: Now) -> Result<(), String> {
    let watched = queues.iter().filter(|&(key, _)| queues.is_watched(key));
    let earliest = watched.map(|(_, queue)| queue.check_at).min();
    wakes_in_time("queues", queues.next_wake(), earliest, now)
}

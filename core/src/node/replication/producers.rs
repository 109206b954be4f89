//! Producers that wait for copies.
//!
//! Each waits for all jobs of its command, one or a batch. When the last of them is on
//! enough nodes all are queued and the producer gets their ids. When one fails, all
//! have failed: none is queued here, and those that others have are settled.

use crate::clock::{Now, NEVER};
use crate::effects::{Answer, Effects, Gate, WaiterId};
use crate::error::Error;
use crate::holders::Holder;
use crate::job_id::{Ids, JobId};
use crate::message::Message;
use crate::node::Node;
use crate::tables::{Producer, Waiter};
use smallvec::{smallvec, SmallVec};

impl Node {
    /// Lets a producer wait for the copies of its jobs; 0 ms for without limit.
    pub(in crate::node) fn wait_for_copies(
        &mut self,
        jobs: Ids,
        timeout_ms: u64,
        now: Now,
    ) -> Result<WaiterId, Error> {
        let deadline = match timeout_ms {
            0 => NEVER,
            ms => now.after(ms),
        };
        Ok(self.adders.insert(Waiter::for_copies(jobs, deadline))?)
    }

    /// Enough nodes hold a job whose producer was not answered. It stays as it is until
    /// all of its batch are held.
    pub(super) fn note_held(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let copies = &mut self.copies[self.jobs[key].copies];
        let was_held = std::mem::replace(&mut copies.held, true);
        match copies.adder {
            None => self.release_recorded(key, now, fx),
            Some(waiter) if !was_held => self.count_held(waiter, key, now, fx),
            Some(_) => {}
        }
    }

    fn release_recorded(&mut self, key: u32, now: Now, fx: &mut Effects) {
        self.record_holders(key, fx);
        self.release(key, now);
    }

    /// One job more of a producer is on enough nodes, or settled. With the last one all
    /// are released.
    fn count_held(&mut self, waiter: WaiterId, key: u32, now: Now, fx: &mut Effects) {
        let Some(producer) = producer_mut(self.adders.get_mut(waiter)) else {
            return;
        };
        producer.waiting -= 1;
        if producer.waiting > 0 {
            // Should the others be refused, this one may have been delivered elsewhere.
            producer.all_full = false;
            return;
        }
        let ids = std::mem::take(&mut producer.jobs);
        let keys: SmallVec<[u32; 1]> = match ids.len() {
            1 => smallvec![key],
            _ => self.jobs.find_all(&ids).collect(),
        };
        let short = match ids.len() {
            1 => 0,
            _ => self.doubt_held(waiter, &keys),
        };
        if short > 0 {
            if let Some(producer) = producer_mut(self.adders.get_mut(waiter)) {
                (producer.jobs, producer.waiting) = (ids, short);
            }
            return;
        }
        self.adders.remove(waiter);
        for key in keys {
            if self.leave_producer(waiter, key) {
                self.release_recorded(key, now, fx);
            }
        }
        fx.answer(waiter, Answer::Added(ids));
    }

    /// How many of these jobs have lost copies while their producer waited for others.
    fn doubt_held(&mut self, waiter: WaiterId, keys: &[u32]) -> usize {
        let mut short = 0;
        for &key in keys {
            if self.waiter_of(key) == Some(waiter) && !self.is_held(key) {
                self.copies[self.jobs[key].copies].held = false;
                short += 1;
            }
        }
        short
    }

    /// The producer that waits for a job.
    pub(in crate::node) fn waiter_of(&self, key: u32) -> Option<WaiterId> {
        self.copies.get(self.jobs[key].copies)?.adder
    }

    /// A producer does not wait for a job any more; whether it did.
    fn leave_producer(&mut self, waiter: WaiterId, key: u32) -> bool {
        let copies = self.copies.get_mut(self.jobs[key].copies);
        let waits = copies.filter(|copies| copies.adder == Some(waiter));
        waits.is_some_and(|copies| copies.adder.take().is_some())
    }

    /// The job of a producer is settled, or another node has taken it: there is nothing
    /// to wait for any more.
    pub(in crate::node) fn end_add(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let Some(waiter) = self.waiter_of(key) else {
            return;
        };
        let copies = &mut self.copies[self.jobs[key].copies];
        copies.adder = None;
        if !copies.held {
            self.count_held(waiter, key, now, fx);
        }
    }

    /// The add of a job has failed, and so has its batch. What becomes of the job itself
    /// the caller sees to.
    pub(in crate::node) fn fail_add(&mut self, key: u32, error: Error, now: Now, fx: &mut Effects) {
        if let Some(waiter) = self.waiter_of(key) {
            self.leave_producer(waiter, key);
            self.give_up_adding(waiter, error, now, fx);
        }
    }

    /// The time of a producer is over, or it is not to wait any longer: its jobs count
    /// as settled, wherever they have come to.
    pub(in crate::node) fn give_up_adding(
        &mut self,
        waiter: WaiterId,
        error: Error,
        now: Now,
        fx: &mut Effects,
    ) {
        let Some(producer) = self.adders.remove(waiter).and_then(|wait| wait.producer) else {
            return;
        };
        self.count_refused_add(&error);
        fx.answer(waiter, Answer::Error(error));
        for id in &producer.jobs {
            self.take_back_added(waiter, id, now, fx);
            // What they refused may come again, late, and when they have room.
            let refused = producer.refused.iter();
            let peers = refused.filter_map(|one| self.reach(*one, now));
            fx.send_to(peers, &Message::DelJob { id: *id }, Gate::Written);
        }
    }

    fn take_back_added(&mut self, waiter: WaiterId, id: &JobId, now: Now, fx: &mut Effects) {
        if let Some(key) = self.jobs.find(id) {
            if !self.leave_producer(waiter, key) {
                return;
            }
            self.settle_job(key, now, fx);
        }
        if !id.is_retried() {
            // It moves, or has moved, to another node. Which one is not written down.
            self.tell_fast_ack(*id, now, fx);
            self.remember_settled(*id, now);
        }
    }

    /// A producer is gone. Its jobs go on their way, each by itself: it may have been
    /// told of them, and cannot tell.
    pub(in crate::node) fn leave_adding(&mut self, waiter: WaiterId, now: Now, fx: &mut Effects) {
        let Some(producer) = self.adders.remove(waiter).and_then(|wait| wait.producer) else {
            return;
        };
        for id in &producer.jobs {
            let key = self.jobs.find(id);
            let Some(key) = key.filter(|&key| self.leave_producer(waiter, key)) else {
                continue;
            };
            if self.is_held(key) {
                self.release_recorded(key, now, fx);
            }
        }
    }

    /// Remembers for the producer of a job that a node refused it. Returns all that
    /// did.
    pub(super) fn note_refusal(
        &mut self,
        key: u32,
        from: Holder,
        full: bool,
    ) -> SmallVec<[Holder; 4]> {
        let Some(producer) = self.producer_of(key) else {
            return SmallVec::from_slice(&[from]);
        };
        if !producer.refused.contains(&from) {
            producer.refused.push(from);
        }
        producer.all_full &= full;
        producer.refused.clone()
    }

    /// The producer that waits for more copies of a job.
    pub(super) fn producer_of(&mut self, key: u32) -> Option<&mut Producer> {
        let copies = self.copies.get(self.jobs[key].copies)?;
        let waiter = copies.adder.filter(|_| !copies.held)?;
        producer_mut(self.adders.get_mut(waiter))
    }

    /// A producer need not wait for nodes that have refused: when all have that are
    /// reached, there will be no copy more.
    pub(super) fn give_up_if_refused(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let Some(producer) = self.producer_of(key) else {
            return;
        };
        let error = producer.error();
        let refused = producer.refused.clone();
        let copies = &self.copies[self.jobs[key].copies];
        let other = |one: &Holder| *one != self.own;
        let silent = |one: Holder| other(&one) && !refused.contains(&one);
        let may_answer = copies.holders.unconfirmed().any(silent);
        // One that was asked twice may have refused only the first time.
        let copied = copies.resent || copies.holders.confirmed().any(|one| other(&one));
        let error = if copied { Error::NoRepl } else { error };
        let free = !self.pick_new(key, 1, &refused, now).is_empty();
        let copies = &self.copies[self.jobs[key].copies];
        if let Some(waiter) = copies.adder.filter(|_| !may_answer && !free) {
            self.give_up_adding(waiter, error, now, fx);
        }
    }
}

fn producer_mut(waiter: Option<&mut Waiter>) -> Option<&mut Producer> {
    waiter?.producer.as_deref_mut()
}

//! Who surely holds a job, and the producer that waits until enough nodes do.

use super::Talk;
use crate::clock::{Now, NEVER};
use crate::copies::Duty;
use crate::effects::{Answer, Effects, WaiterId};
use crate::error::Error;
use crate::holders::Holder;
use crate::job::State;
use crate::job_id::JobId;
use crate::node::Node;
use crate::tables::Waiter;

impl Node {
    /// GOTJOB.
    pub(super) fn take_got_job(
        &mut self,
        id: &JobId,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.live(id) else {
            return Ok(());
        };
        let copies = self.copies_of(key)?;
        if !self.copies[copies].holders.is_confirmed(talk.from) {
            self.note_copy_time(copies, talk);
            self.note_taker(key, talk.from);
        }
        self.confirm(key, talk.from, talk.now, talk.fx);
        Ok(())
    }

    /// How long a node takes for a copy that is sent once.
    fn note_copy_time(&mut self, copies: u32, talk: &Talk<'_, '_>) {
        let copies = &self.copies[copies];
        let sent_once = copies.tries == 0 && copies.heard_at > 0 && !copies.grown;
        if copies.duty == Duty::Spread && sent_once {
            let took = talk.now.mono_ms.saturating_sub(copies.heard_at);
            if let Some(peer) = self.cluster.by_key_mut(talk.with) {
                peer.copy_ms = took;
            }
        }
    }

    /// A node surely holds a live job.
    pub(in crate::node) fn confirm(
        &mut self,
        key: u32,
        holder: Holder,
        now: Now,
        fx: &mut Effects,
    ) {
        let copies = &mut self.copies[self.jobs[key].copies];
        if copies.holders.confirm(holder) {
            self.copy_confirmed(key, now, fx);
        }
    }

    pub(super) fn copy_confirmed(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let options = self.jobs[key].options;
        let copies = &self.copies[self.jobs[key].copies];
        let confirmed = copies.holders.confirmed_len();
        let waits = self.jobs[key].state == State::WaitRepl;
        if waits && confirmed >= options.copies_to_wait_for() {
            self.record_holders(key, fx);
            self.release(key, now, fx);
        } else if !waits {
            self.record_holders(key, fx);
        }
        self.check_copies(key, now, fx);
        self.drain_soon(key);
    }

    /// A node says that it does not have the job.
    pub(in crate::node) fn take_unknown(&mut self, id: &JobId, talk: &mut Talk<'_, '_>) {
        let Some(key) = self.live(id) else {
            return;
        };
        let Some(copies) = self.copies.get_mut(self.jobs[key].copies) else {
            return;
        };
        let was_sure = copies.holders.doubt(talk.from);
        if copies.responsible == Some(talk.from) {
            copies.responsible = None;
        }
        if was_sure {
            self.record_holders(key, talk.fx);
        }
        self.answered(key, talk.from, talk.now);
        self.check_copies(key, talk.now, talk.fx);
    }

    /// Lets the producer of a job wait for its copies; 0 ms for without limit.
    pub(super) fn wait_for_copies(
        &mut self,
        key: u32,
        timeout_ms: u64,
        now: Now,
    ) -> Result<WaiterId, Error> {
        let deadline = match timeout_ms {
            0 => NEVER,
            ms => now.after(ms),
        };
        let wait = Waiter::for_copies(self.jobs[key].id, deadline);
        Ok(self.adders.insert(wait)?)
    }

    /// Enough nodes hold the job: it is queued or delayed, and its producer gets
    /// the id.
    pub(in crate::node) fn release(&mut self, key: u32, now: Now, fx: &mut Effects) {
        if self.keeps_none(key) {
            let copies_key = self.jobs[key].copies;
            if self.copies[copies_key].handed.is_none() {
                self.copies[copies_key].tries = 0;
                self.answer_adder(key, Answer::Added, fx);
                self.copies.schedule(copies_key, Duty::Entrust, now.mono_ms);
            }
            return;
        }
        let (state, at) = self.first_place(key, now);
        self.move_job(key, state, at);
        self.answer_adder(key, Answer::Added, fx);
    }

    /// Where a job belongs that was never queued: in its queue, or behind its DELAY.
    pub(in crate::node) fn first_place(&self, key: u32, now: Now) -> (State, u64) {
        let job = &self.jobs[key];
        let delay_at = job.delay_ends_at();
        if job.options.delay.is_zero() || delay_at <= now.mono_ms {
            (State::Queued, NEVER)
        } else {
            (State::Delayed, delay_at)
        }
    }

    /// Answers the producer that waits for copies of this job, if one does.
    pub(in crate::node) fn answer_adder(
        &mut self,
        key: u32,
        answer: impl FnOnce(JobId) -> Answer,
        fx: &mut Effects,
    ) {
        let id = self.jobs[key].id;
        let Some(copies) = self.copies.get_mut(self.jobs[key].copies) else {
            return;
        };
        if let Some(waiter) = copies.adder.take() {
            self.adders.remove(waiter);
            let answer = answer(id);
            if let Answer::Error(error) = &answer {
                self.count_refused_add(error);
            }
            fx.answer(waiter, answer);
        }
    }

    /// The time of a producer is over, or it is not to wait any longer: its job
    /// counts as settled, wherever it has come to.
    pub(in crate::node) fn give_up_adding(
        &mut self,
        waiter: WaiterId,
        answer: Error,
        now: Now,
        fx: &mut Effects,
    ) {
        let producer = self
            .adders
            .get(waiter)
            .and_then(|wait| wait.producer.as_ref());
        let Some(key) = producer.and_then(|one| self.live(&one.job)) else {
            self.adders.remove(waiter);
            return;
        };
        self.answer_adder(key, |_| Answer::Error(answer), fx);
        self.settle_job(key, now, fx);
    }
}

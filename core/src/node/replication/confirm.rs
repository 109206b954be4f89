//! Who surely holds a job, and what follows when enough nodes do.

use super::Talk;
use crate::clock::{Now, NEVER};
use crate::copies::Duty;
use crate::effects::Effects;
use crate::holders::Holder;
use crate::job::State;
use crate::job_id::JobId;
use crate::node::Node;

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
        copies.name(holder);
        if copies.holders.confirm(holder) {
            self.copy_confirmed(key, now, fx);
        }
    }

    pub(super) fn copy_confirmed(&mut self, key: u32, now: Now, fx: &mut Effects) {
        if self.jobs[key].state != State::WaitRepl {
            self.record_holders(key, fx);
        } else if self.is_held(key) {
            self.note_held(key, now, fx);
        }
        self.check_copies(key, now, fx);
        self.drain_soon(key);
    }

    /// Whether as many nodes surely hold a job as its producer waits for.
    pub(super) fn is_held(&self, key: u32) -> bool {
        let job = &self.jobs[key];
        let confirmed = self.copies[job.copies].holders.confirmed_len();
        confirmed >= job.options.copies_to_wait_for()
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
        self.let_part(key, talk.from, talk.now);
        self.check_copies(key, talk.now, talk.fx);
    }

    /// The producer of a job is answered: it is queued or delayed, here or by another
    /// holder.
    pub(in crate::node) fn release(&mut self, key: u32, now: Now) {
        if self.keeps_none(key) {
            let copies_key = self.jobs[key].copies;
            if self.copies[copies_key].handed.is_none() {
                self.copies[copies_key].tries = 0;
                self.copies.schedule(copies_key, Duty::Entrust, now.mono_ms);
            }
            return;
        }
        let (state, at) = self.first_place(key, now);
        self.move_job(key, state, at);
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
}

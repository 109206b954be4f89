//! YOURJOBS: a queued job goes to another node.
//!
//! A job that may come again stays here as a copy, and the other node is responsible
//! for it from then on. An at-most-once job moves: it is written down as one that is
//! not delivered here any more before it leaves, and is dropped when it has arrived.
//! If no answer comes the first is asked about and queued again; the other is given
//! up, since it may have been delivered.

use crate::clock::{Now, NEVER};
use crate::cluster::PeerKey;
use crate::copies::Duty;
use crate::effects::{Effects, Gate};
use crate::error::Error;
use crate::holders::Holder;
use crate::job::State;
use crate::job_id::JobId;
use crate::memory::Pressure;
use crate::message::{Claim, CopyImage, Message};
use crate::mutants::Mutant;
use crate::node::replication::{Arrival, Refusal, Talk};
use crate::node::Node;
use crate::record::Record;

impl Node {
    /// Sends a job that was lifted off its queue to another node. Whether that could
    /// be done; else the job is back in its place.
    pub(in crate::node) fn hand_over(
        &mut self,
        key: u32,
        to: PeerKey,
        now: Now,
        fx: &mut Effects,
    ) -> bool {
        // Queued, or new: then its producer waits.
        let state = self.jobs[key].state;
        let (Ok(copies_key), Some(holder)) = (self.copies_of(key), self.holder_of(to)) else {
            self.place(key, state, NEVER);
            return false;
        };
        let answer_by = now.after(self.settings.node_timeout_ms);
        let id = self.jobs[key].id;
        let moves = self.jobs[key].at_most_once();
        if moves {
            self.jobs[key].withheld = true;
            fx.records.push(&Record::Withheld { id });
        }
        let parked = match state {
            State::WaitRepl => State::WaitRepl,
            _ => State::Active,
        };
        self.place(key, parked, answer_by);
        let copies = &mut self.copies[copies_key];
        copies.handed = Some(holder);
        copies.own_deadline = false;
        let holds = copies.holders.is_confirmed(holder);
        if moves {
            self.copies.schedule(copies_key, Duty::HandOver, answer_by);
        } else {
            if copies.name(holder) {
                self.record_holders(key, fx);
            }
            fx.records.push(&Record::Postponed {
                id,
                requeue_at: now.to_wall(answer_by),
            });
        }
        let list = self.holder_list(key);
        let mut image = self.copy_image(key, &list, now);
        image.body = image.body.filter(|_| !holds);
        let serial = self.federation.given + 1;
        let message = Message::YourJob {
            serial,
            copy: image,
        };
        let gate = match self.is_mutant(Mutant::HandOverBeforeFlush) {
            true => Gate::Open,
            false => Gate::Written,
        };
        fx.send_to([to], &message, gate);
        self.federation.given = serial;
        self.stats.handed_over += 1;
        true
    }

    /// Whether this is no later a job than one that the same speaker gave before. An
    /// at-most-once job that came twice would be delivered twice.
    pub(in crate::node) fn came_before(&mut self, serial: u64, talk: &Talk<'_, '_>) -> bool {
        let Some(peer) = self.cluster.by_key_mut(talk.with) else {
            return true;
        };
        let given = (peer.inbound.0, serial);
        let came_before = given <= peer.last_given;
        peer.last_given = peer.last_given.max(given);
        came_before
    }

    /// Whether a job is on its way to another node, which has not answered.
    pub(in crate::node) fn is_handed(&self, key: u32) -> bool {
        let copies = self.copies.get(self.jobs[key].copies);
        copies.is_some_and(|copies| copies.handed.is_some())
    }

    /// YOURJOBS.
    pub(in crate::node) fn take_your_job(
        &mut self,
        copy: &CopyImage<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let id = copy.id;
        if let Some(key) = self.jobs.find(&id) {
            if !self.take_own_copy(key, copy, talk)? {
                self.correct(key, talk);
                return Ok(());
            }
        } else if let Some(Refusal { full }) = self.refuses(copy, Pressure::Full) {
            talk.answer(&Message::NotTaken { id, full });
            return Ok(());
        } else if copy.body.is_none() {
            talk.answer(&Message::NeedBody { id });
            return Ok(());
        } else {
            self.keep_copy(copy, Arrival::Queue, talk)?;
        }
        let Some(key) = self.jobs.find(&id) else {
            return Ok(());
        };
        let queue = self.jobs[key].queue;
        self.queues[queue].note_import(talk.with, talk.now.mono_ms);
        self.stats.imported += 1;
        talk.answer(&Message::GotYourJob {
            id,
            claim: self.claim(key),
        });
        Ok(())
    }

    /// A job is given to this node that has a copy already. Whether it was the giver's
    /// to give, as far as is known here.
    fn take_own_copy(
        &mut self,
        key: u32,
        copy: &CopyImage<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<bool, String> {
        let copies_key = self.copies_of(key)?;
        if self.jobs[key].at_most_once() {
            self.take_back_moved(key, talk.now, talk.fx);
            return Ok(true);
        }
        self.merge(copies_key, copy.holders)?;
        self.confirm(key, talk.from, talk.now, talk.fx);
        if self.compare(key, &copy.claim).is_lt() {
            return Ok(false);
        }
        if self.keeps_none(key) {
            // It was given away, and comes back since consumers wait here.
            self.keep_after_all(key, talk.now, talk.fx);
        }
        let job = &mut self.jobs[key];
        job.attempt = job.attempt.max(copy.claim.attempt);
        job.nacks = job.nacks.max(copy.nacks);
        job.additional_deliveries = job.additional_deliveries.max(copy.additional_deliveries);
        let copies = &mut self.copies[copies_key];
        copies.turn = copies.turn.max(copy.claim.turn);
        // Delivered here, with its RETRY running: it is not queued beside that.
        let delivered = copies.own_deadline && self.jobs[key].state == State::Active;
        let queueable = self.jobs[key].may_be_queued();
        self.take_turn(key);
        if delivered {
            self.own_deadline(key);
        } else if self.jobs[key].state == State::Active && queueable {
            self.move_job(key, State::Queued, NEVER);
            self.record_job(key, talk.now, talk.fx);
        }
        Ok(true)
    }

    /// An at-most-once job comes back before it was known to have arrived elsewhere.
    /// Who gives it away has it alone, and nobody got it.
    fn take_back_moved(&mut self, key: u32, now: Now, fx: &mut Effects) {
        if self.jobs[key].attempt > 0 || self.jobs[key].state == State::Queued {
            return;
        }
        self.end_add(key, now, fx);
        let copies_key = self.jobs[key].copies;
        let own = self.own;
        let copies = &mut self.copies[copies_key];
        copies.handed = None;
        copies.holders.confirm(own);
        // After a restart that was not known any more.
        copies.responsible = Some(own);
        self.copies.schedule(copies_key, Duty::None, NEVER);
        self.lift(key);
        self.jobs[key].withheld = false;
        let (state, at) = self.first_place(key, now);
        self.place(key, state, at);
        self.record_job(key, now, fx);
    }

    /// The other node has the job.
    pub(in crate::node) fn take_got_your_job(
        &mut self,
        id: &JobId,
        claim: &Claim,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.live(id) else {
            return Ok(());
        };
        self.note_taker(key, talk.from);
        // Perhaps only half of what there was went there.
        self.offer(self.jobs[key].queue);
        let copies_key = self.copies_of(key)?;
        let expected = self.copies[copies_key].handed == Some(talk.from);
        if self.jobs[key].at_most_once() {
            if expected && self.is_mutant(Mutant::AtMostOnceKept) {
                self.take_back_moved(key, talk.now, talk.fx);
            } else if expected {
                self.end_add(key, talk.now, talk.fx);
                self.remove_recorded(key, talk.now, talk.fx);
            }
            return Ok(());
        }
        self.confirm(key, talk.from, talk.now, talk.fx);
        self.believe(key, claim, talk)?;
        if self.copies[copies_key].responsible != Some(talk.from) {
            return Ok(());
        }
        if self.may_part(key, talk.now) && self.part(key, talk.now, talk.fx) {
            return Ok(());
        }
        if expected && !self.keeps_none(key) {
            self.copies[copies_key].handed = None;
            let later = self.retry_deadline(key, talk.now);
            self.move_job(key, State::Active, later);
        }
        Ok(())
    }

    /// The other node takes no such job now: it is queued here again, in its old
    /// place.
    pub(in crate::node) fn take_not_taken(
        &mut self,
        id: &JobId,
        full: bool,
        talk: &mut Talk<'_, '_>,
    ) {
        let Some(key) = self.live(id) else {
            return;
        };
        self.withdraw(self.jobs[key].queue, talk.with);
        self.note_no_taker(key, talk.from, full);
        if self.jobs[key].state == State::WaitRepl && self.jobs[key].at_most_once() {
            self.move_to_another(key, full, talk);
            return;
        }
        self.take_back_handed(key, talk.from, talk.now, talk.fx);
        self.choose_another_heir(key, talk.from, talk.now);
    }

    /// The other node does not have the job after all.
    pub(in crate::node) fn take_need_body(&mut self, id: &JobId, talk: &mut Talk<'_, '_>) {
        self.take_unknown(id, talk);
        if let Some(key) = self.live(id) {
            self.take_back_handed(key, talk.from, talk.now, talk.fx);
        }
    }

    /// Ends a hand-over that has failed for sure.
    pub(in crate::node) fn take_back_handed(
        &mut self,
        key: u32,
        from: Holder,
        now: Now,
        fx: &mut Effects,
    ) {
        let copies_key = self.jobs[key].copies;
        let Some(copies) = self.copies.get_mut(copies_key) else {
            return;
        };
        if copies.handed != Some(from) {
            return;
        }
        copies.handed = None;
        if self.jobs[key].at_most_once() {
            self.take_back_moved(key, now, fx);
        } else if self.jobs[key].state != State::WaitRepl {
            self.move_job(key, State::Queued, NEVER);
            self.record_job(key, now, fx);
        }
    }

    /// No answer came for an at-most-once job: it may have been delivered.
    pub(in crate::node) fn give_up_handed(&mut self, key: u32, now: Now, fx: &mut Effects) {
        self.stats.handovers_lost += 1;
        self.fail_add(key, Error::NoRepl, now, fx);
        self.remove_recorded(key, now, fx);
    }
}

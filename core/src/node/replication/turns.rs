//! Who queues a job again.
//!
//! Each job has one node that is *responsible*: the one that queued or delivered it
//! last. The others keep quiet while it answers, and their own deadlines move on. Of
//! two that claim a job the higher *turn* is believed, and each queueing is one turn
//! more. Only where the responsible node is away does a holder ask the others
//! (WILLQUEUE), and queue the job if nobody objects.

use super::{Standing, Talk};
use crate::clock::{Now, NEVER};
use crate::copies::{Duty, NO_COPIES};
use crate::effects::{Effects, Gate};
use crate::holders::{Pair, PairList, Pairs};
use crate::job::State;
use crate::job_id::JobId;
use crate::message::{Bump, Claim, Message};
use crate::mutants::Mutant;
use crate::node::requeue::Counter;
use crate::node::Node;
use std::cmp::Ordering;

impl Node {
    /// Compares a claim with what is believed here.
    pub(in crate::node) fn compare(&self, key: u32, claim: &Claim) -> Ordering {
        let job = &self.jobs[key];
        let Some(copies) = self.copies.get(job.copies) else {
            return Ordering::Less;
        };
        let own = copies.responsible.map(|holder| self.holders.pair(holder));
        let theirs = claim.responsible;
        let turns = claim.turn.cmp(&copies.turn);
        if turns == Ordering::Equal && self.is_mutant(Mutant::NoTieBreak) {
            return Ordering::Less;
        }
        turns.then_with(|| {
            let rank = |pair: &Pair| pair.rank(&job.id);
            theirs.as_ref().map(rank).cmp(&own.as_ref().map(rank))
        })
    }

    /// Takes over a claim if it is higher than what is believed here. What this node
    /// had queued or planned it then leaves to the other.
    pub(in crate::node) fn believe(
        &mut self,
        key: u32,
        claim: &Claim,
        talk: &mut Talk<'_, '_>,
    ) -> Result<Ordering, String> {
        let job = &mut self.jobs[key];
        job.attempt = job.attempt.max(claim.attempt);
        let order = self.compare(key, claim);
        let copies_key = self.copies_of(key)?;
        let Some(pair) = claim.responsible.filter(|_| order == Ordering::Greater) else {
            return Ok(order);
        };
        let named = self
            .holders
            .number(pair)
            .map_err(|error| error.to_string())?;
        let copies = &mut self.copies[copies_key];
        if named == self.own {
            // Its own word, of before it lost the last of its data; or that of the
            // node that it believes.
            let trusted = copies.responsible == Some(talk.from);
            if trusted || copies.responsible == Some(self.own) {
                // Above it: others may believe the one of whom it was before.
                copies.turn = claim.turn.saturating_add(1);
                copies.responsible = Some(self.own);
                copies.untold = true;
            }
            return Ok(order);
        }
        let entrusts = matches!(copies.duty, Duty::Entrust | Duty::Part);
        let answered = copies.adder.is_none() && entrusts;
        if self.jobs[key].state == State::WaitRepl && !answered {
            // It is not this node's to give away before its producer was answered.
            return Ok(order);
        }
        copies.turn = claim.turn;
        copies.responsible = Some(named);
        copies.own_deadline = false;
        copies.asking = None;
        copies.handed = None;
        if matches!(self.jobs[key].state, State::Queued | State::Delayed) {
            let later = self.retry_deadline(key, talk.now);
            self.move_job(key, State::Active, later);
        }
        Ok(order)
    }

    /// Whether this node is the one to queue a job again, and does not doubt it.
    pub(in crate::node) fn is_responsible(&self, key: u32) -> bool {
        let copies = self.copies.get(self.jobs[key].copies);
        copies.is_none_or(|one| {
            one.responsible == Some(self.own) && one.asking.is_none() && one.handed.is_none()
        })
    }

    /// This node queues the job, or will: it is one turn more, and this node's.
    pub(in crate::node) fn take_turn(&mut self, key: u32) {
        let (own, doubts) = (self.own, self.vigil.doubts);
        if let Some(copies) = self.copies.get_mut(self.jobs[key].copies) {
            copies.turn = copies.turn.saturating_add(1);
            copies.responsible = Some(own);
            copies.asking = None;
            copies.handed = None;
            copies.own_deadline = false;
            copies.asked = doubts;
        }
    }

    /// Tells the other holders that this node has queued the job again.
    pub(in crate::node) fn tell_queued(
        &mut self,
        key: u32,
        counter: Bump,
        ms: u64,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.jobs[key].copies == NO_COPIES {
            return;
        }
        let list = self.holder_list(key);
        let message = self.queued_message(key, counter, ms, &list);
        self.tell_others(key, now, &message, Gate::Open, fx);
        let copies = &self.copies[self.jobs[key].copies];
        let away = |holder| self.standing(holder, now) == Standing::Unreachable;
        let untold = copies.holders.iter().any(away);
        self.copies[self.jobs[key].copies].untold = untold;
    }

    /// A node has come back that may not know that this one has queued the job.
    pub(super) fn tell_again(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let job = &self.jobs[key];
        let Some(copies) = self.copies.get(job.copies) else {
            return;
        };
        let own = copies.responsible == Some(self.own);
        if own && copies.untold && Self::waits_for_requeue(job.state) {
            let left = self.time_left(key, now);
            self.tell_queued(key, Bump::None, left, now, fx);
        }
    }

    /// How long until the job is queued here, in ms; 0 if it is, or for never.
    pub(super) fn time_left(&self, key: u32, now: Now) -> u64 {
        let job = &self.jobs[key];
        match job.state {
            State::Queued => 0,
            State::WaitRepl => job.delay_ends_at().saturating_sub(now.mono_ms),
            _ if job.requeue_at == NEVER => 0,
            _ => job.requeue_at.saturating_sub(now.mono_ms),
        }
    }

    /// The deadline here was set by what a client said or got here.
    pub(in crate::node) fn own_deadline(&mut self, key: u32) {
        if let Some(copies) = self.copies.get_mut(self.jobs[key].copies) {
            copies.own_deadline = true;
        }
    }

    /// QUEUED.
    pub(super) fn take_queued(
        &mut self,
        message: &Message<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let &Message::Queued {
            id,
            counter,
            ms,
            ref claim,
            holders,
        } = message
        else {
            return Ok(());
        };
        let Some(key) = self.live_or_deny(&id, talk) else {
            return Ok(());
        };
        let copies_key = self.copies_of(key)?;
        self.merge(copies_key, holders)?;
        self.pass_on(key, message, talk)?;
        self.bump(key, counter);
        let before = self.copies[copies_key].responsible;
        let order = self.believe(key, claim, talk)?;
        let of_own = |pair| self.holders.is_line_of(pair, self.own);
        let names_me = claim.responsible.as_ref().is_some_and(of_own);
        let was_here = before == Some(self.own) && !names_me;
        if order == Ordering::Less && counter == Bump::Nack && was_here {
            return self.yield_to(key, claim, talk);
        }
        if order == Ordering::Less {
            self.correct(key, talk);
            return Ok(());
        }
        if names_me {
            self.tell_again(key, talk.now, talk.fx);
            return Ok(());
        }
        self.copies[copies_key].asking = None;
        if Self::waits_for_requeue(self.jobs[key].state) {
            let later = self.retry_deadline(key, talk.now).saturating_add(ms);
            self.move_job(key, State::Active, later);
        }
        Ok(())
    }

    fn bump(&mut self, key: u32, counter: Bump) {
        let job = &mut self.jobs[key];
        match counter {
            Bump::None => {}
            Bump::Nack => job.nacks = job.nacks.saturating_add(1),
            Bump::Delivery => {
                job.additional_deliveries = job.additional_deliveries.saturating_add(1)
            }
        }
    }

    /// The speaker has a lower turn than is believed here: it is told.
    pub(in crate::node) fn correct(&mut self, key: u32, talk: &mut Talk<'_, '_>) {
        let left = self.time_left(key, talk.now);
        let list = self.holder_list(key);
        talk.answer(&self.queued_message(key, Bump::None, left, &list));
    }

    /// QUEUED, as this node says it.
    fn queued_message<'a>(
        &self,
        key: u32,
        counter: Bump,
        ms: u64,
        holders: &'a PairList,
    ) -> Message<'a> {
        Message::Queued {
            id: self.jobs[key].id,
            counter,
            ms,
            claim: self.claim(key),
            holders: holders.pairs(),
        }
    }

    /// A consumer has given back elsewhere what was delivered here: the delivery is
    /// over, and the other node, which claims the job, has it, with a turn above the
    /// one here. It is not the speaker where that passed its word on.
    fn yield_to(&mut self, key: u32, claim: &Claim, talk: &mut Talk<'_, '_>) -> Result<(), String> {
        let named = claim.responsible.map(|pair| self.holders.number(pair));
        let other = match named {
            Some(holder) => holder.map_err(|error| error.to_string())?,
            None => talk.from,
        };
        let copies = &mut self.copies[self.jobs[key].copies];
        copies.responsible = Some(other);
        copies.own_deadline = false;
        copies.asking = None;
        if Self::waits_for_requeue(self.jobs[key].state) {
            let later = self.retry_deadline(key, talk.now);
            self.move_job(key, State::Active, later);
        }
        if other != talk.from {
            let peer = self.reach(other, talk.now);
            let (left, list) = (self.time_left(key, talk.now), self.holder_list(key));
            let message = self.queued_message(key, Bump::None, left, &list);
            talk.fx.send_to(peer, &message, Gate::Open);
        }
        self.correct(key, talk);
        Ok(())
    }

    /// A speaker that does not know who is responsible could not tell it either.
    fn pass_on(
        &mut self,
        key: u32,
        message: &Message<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let (Message::Queued { holders, .. } | Message::Working { holders, .. }) = message else {
            return Ok(());
        };
        let listed = self.read_set(*holders)?;
        let copies = &self.copies[self.jobs[key].copies];
        let Some(responsible) = copies.responsible else {
            return Ok(());
        };
        if responsible == talk.from || listed.contains(responsible) {
            return Ok(());
        }
        if let Some(peer) = self.reach(responsible, talk.now) {
            talk.fx.send(peer, message);
        }
        Ok(())
    }

    /// WORKING, said to another holder.
    pub(super) fn take_working(
        &mut self,
        message: &Message<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let &Message::Working {
            id,
            ref claim,
            holders,
        } = message
        else {
            return Ok(());
        };
        let Some(key) = self.live_or_deny(&id, talk) else {
            return Ok(());
        };
        let copies = self.copies_of(key)?;
        self.merge(copies, holders)?;
        self.pass_on(key, message, talk)?;
        self.believe(key, claim, talk)?;
        let job = &self.jobs[key];
        let delayed = job.state == State::Delayed;
        if Self::waits_for_requeue(job.state) && !delayed && !job.at_most_once() {
            let later = self.retry_deadline(key, talk.now);
            let copies = &mut self.copies[copies];
            copies.asking = None;
            copies.own_deadline = copies.responsible == Some(self.own);
            self.move_job(key, State::Active, later);
        }
        Ok(())
    }

    /// WORKING, said by a client here.
    pub(in crate::node) fn tell_working(&mut self, key: u32, now: Now, fx: &mut Effects) {
        if self.jobs[key].copies == NO_COPIES {
            return;
        }
        self.own_deadline(key);
        let list = self.holder_list(key);
        let message = Message::Working {
            id: self.jobs[key].id,
            claim: self.claim(key),
            holders: list.pairs(),
        };
        self.tell_others(key, now, &message, Gate::Open, fx);
    }

    /// ENQUEUE: the job is this node's from now on.
    pub(super) fn take_enqueue(
        &mut self,
        id: &JobId,
        delay_ms: u64,
        claim: &Claim,
        pairs: Pairs<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.live_or_deny(id, talk) else {
            talk.answer(&Message::NotTaken {
                id: *id,
                full: false,
            });
            return Ok(());
        };
        let now = talk.now;
        let copies_key = self.copies_of(key)?;
        let set = self.read_set(pairs)?;
        let copies = &mut self.copies[copies_key];
        copies.learn(&set);
        if !set.contains(talk.from) {
            copies.holders.remove(talk.from);
        }
        // It comes again, and was taken before; perhaps it has been given on since.
        let other = copies.responsible.is_some_and(|one| one != talk.from);
        let taken = other && copies.turn > claim.turn || copies.own_deadline;
        copies.turn = copies.turn.max(claim.turn);
        let job = &mut self.jobs[key];
        job.attempt = job.attempt.max(claim.attempt);
        self.record_holders(key, talk.fx);
        let job = &self.jobs[key];
        let refused = self.leaving || self.queues[job.queue].pause.input;
        if refused && !taken {
            talk.answer(&Message::NotTaken {
                id: *id,
                full: false,
            });
            return Ok(());
        }
        let here = matches!(job.state, State::Queued | State::Delayed);
        if !taken && !here && Self::waits_for_requeue(job.state) && job.may_be_queued() {
            self.take_turn(key);
            self.plan_first(key, delay_ms, now);
            self.tell_queued(key, Bump::None, delay_ms, now, talk.fx);
        }
        self.check_copies(key, now, talk.fx);
        talk.answer(&Message::GotYourJob {
            id: *id,
            claim: self.claim(key),
        });
        Ok(())
    }

    /// A job that has become this node's is queued, at once or in `delay_ms`.
    fn plan_first(&mut self, key: u32, delay_ms: u64, now: Now) {
        let job = &self.jobs[key];
        let first = job.attempt == 0 && !job.options.delay.is_zero();
        match delay_ms {
            0 => self.move_job(key, State::Queued, NEVER),
            ms if first => self.move_job(key, State::Delayed, now.after(ms)),
            ms => {
                self.move_job(key, State::Active, now.after(ms));
                self.own_deadline(key);
            }
        }
    }

    /// A live copy is dropped here though the job is not settled: another node takes
    /// it over.
    pub(in crate::node) fn hand_on(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let own = self.own;
        let Some(copies) = self.copies.get_mut(self.jobs[key].copies) else {
            return;
        };
        let was_responsible = copies.responsible == Some(own);
        copies.holders.remove(own);
        let delay_ms = self.time_left(key, now);
        let list = self.holder_list(key);
        let message = Message::Enqueue {
            id: self.jobs[key].id,
            delay_ms,
            claim: self.claim(key),
            holders: list.pairs(),
        };
        let copies = &self.copies[self.jobs[key].copies];
        let mut confirmed = copies.holders.confirmed();
        let heir = confirmed.find_map(|holder| self.reach(holder, now));
        fx.send_to(heir.filter(|_| was_responsible), &message, Gate::Written);
        self.tell_holders(key, now, fx);
    }

    /// Counters that go with a queueing.
    pub(in crate::node) fn bump_of(counter: Counter) -> Bump {
        match counter {
            Counter::Nack => Bump::Nack,
            Counter::AdditionalDelivery => Bump::Delivery,
        }
    }
}

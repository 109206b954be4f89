//! WILLQUEUE: before a holder queues a job of which another node had the care, it
//! asks the other holders, and queues the job if nobody objects. So does a node that
//! was away itself, before it hands out what it has.

use super::{Standing, Talk};
use crate::clock::{Now, NEVER};
use crate::copies::Asking;
use crate::effects::{Effects, Gate};
use crate::holders::{Holder, HolderSet, Pairs};
use crate::job::State;
use crate::job_id::JobId;
use crate::message::{Claim, Message};
use crate::mutants::Mutant;
use crate::node::Node;
use smallvec::SmallVec;

/// A question goes out this long before the job is queued, or a quarter of its
/// RETRY.
const LEAD_MS: u64 = 500;
/// How soon a node may ask again that was told to wait.
const ASK_AGAIN_MS: u64 = 100;
/// How long a node that let another one go ahead does not ask itself.
const GRANT_MS: u64 = 1_000;
/// The longest wait that is asked for in the name of another node.
const POSTPONE_MS: u64 = 10_000;
/// How often a node that has just started looks whether others have come up.
const LOOK_AGAIN_MS: u64 = 250;

impl Node {
    /// What other nodes may have done while this one was away is not known: before
    /// a job is queued or handed out they have to be asked.
    pub(in crate::node) fn must_ask(&self, key: u32, now: Now) -> bool {
        let Some(copies) = self.copies.get(self.jobs[key].copies) else {
            return false;
        };
        let other = |holder| !matches!(self.standing(holder, now), Standing::Own | Standing::Gone);
        copies.asked != self.vigil.doubts && copies.holders.iter().any(other)
    }

    /// The deadline of a job with copies has come. Whether it may be queued by this
    /// node now; else its deadline has moved.
    pub(in crate::node) fn may_queue_due(&mut self, key: u32, now: Now, fx: &mut Effects) -> bool {
        let job = &self.jobs[key];
        let Some(copies) = self.copies.get(job.copies) else {
            return true;
        };
        if self.vigil.rests(now) {
            let state = job.state;
            self.move_job(key, state, self.vigil.rests_until);
            return false;
        }
        if copies.handed.is_some() {
            // Whether the other node has it is not known: it is asked like the rest.
            self.copies[self.jobs[key].copies].handed = None;
            return self.ask(key, 0, now, fx);
        }
        if let Some(asking) = &copies.asking {
            let silent = self.still_unanswered(key, asking, now);
            if silent.is_empty() || now.mono_ms >= asking.limit {
                return true;
            }
            self.ask_on(key, silent, now, fx);
            return false;
        }
        let own = copies.responsible == Some(self.own);
        if own && !self.must_ask(key, now) {
            return true;
        }
        let elsewhere = copies.responsible.filter(|_| !own);
        let unnoticed = self.is_mutant(Mutant::DeathUnnoticed);
        if elsewhere.is_some_and(|holder| unnoticed || self.reach(holder, now).is_some()) {
            let later = self.retry_deadline(key, now);
            self.move_job(key, State::Active, later);
            return false;
        }
        let lead = LEAD_MS.min(job.options.retry.ms() / 4);
        self.ask(key, lead, now, fx)
    }

    /// Asks the other holders whether the job may be queued in `lead` ms. Whether
    /// it may at once, since nobody is there to be asked.
    pub(in crate::node) fn ask(&mut self, key: u32, lead: u64, now: Now, fx: &mut Effects) -> bool {
        let grace = self.vigil.grace_until(self.settings.node_timeout_ms);
        let fresh = self.waits_for_absent(key, now);
        let holders = self.copies[self.jobs[key].copies].holders.iter();
        let unanswered = self.to_wait_for(key, holders, now);
        if unanswered.is_empty() {
            return true;
        }
        let due = now.after(lead);
        let limit = due.saturating_add(self.settings.node_timeout_ms);
        let limit = if fresh { limit.max(grace) } else { limit };
        self.send_will_queue(key, &unanswered, now, fx);
        self.copies[self.jobs[key].copies].asking = Some(Box::new(Asking {
            unanswered,
            due,
            limit,
        }));
        let look = if fresh {
            due.max(now.after(LOOK_AGAIN_MS))
        } else {
            due
        };
        self.move_job(key, State::Active, look);
        false
    }

    /// Whether others that are not up yet are waited for too: this node has just come
    /// back itself.
    fn waits_for_absent(&self, key: u32, now: Now) -> bool {
        let grace = self.vigil.grace_until(self.settings.node_timeout_ms);
        self.must_ask(key, now) && now.mono_ms < grace
    }

    /// Whose answers about a job are waited for, of those.
    fn to_wait_for(
        &self,
        key: u32,
        of: impl Iterator<Item = Holder>,
        now: Now,
    ) -> SmallVec<[Holder; 4]> {
        let absent = self.waits_for_absent(key, now);
        let waits = |holder: &Holder| match self.standing(*holder, now) {
            Standing::Own | Standing::Gone => false,
            Standing::Reachable(_) => true,
            Standing::Unreachable => absent,
        };
        of.filter(waits).collect()
    }

    /// Who of those that were asked has not answered and is still to be waited for.
    fn still_unanswered(&self, key: u32, asking: &Asking, now: Now) -> SmallVec<[Holder; 4]> {
        self.to_wait_for(key, asking.unanswered.iter().copied(), now)
    }

    /// The time has come, and some have not answered.
    fn ask_on(&mut self, key: u32, silent: SmallVec<[Holder; 4]>, now: Now, fx: &mut Effects) {
        self.send_will_queue(key, &silent, now, fx);
        let Some(asking) = &mut self.copies[self.jobs[key].copies].asking else {
            return;
        };
        asking.unanswered = silent;
        let look = now.after(LOOK_AGAIN_MS).min(asking.limit);
        self.move_job(key, State::Active, look);
    }

    fn send_will_queue(&self, key: u32, to: &[Holder], now: Now, fx: &mut Effects) {
        let list = self.holder_list(key);
        let message = Message::WillQueue {
            id: self.jobs[key].id,
            claim: self.claim(key),
            holders: list.pairs(),
        };
        let peers = to.iter().filter_map(|holder| self.reach(*holder, now));
        fx.send_to(peers, &message, Gate::Open);
    }

    /// Holders came to be known while a question is open: they are asked as well.
    pub(super) fn ask_new_holders(
        &mut self,
        key: u32,
        before: &HolderSet,
        now: Now,
        fx: &mut Effects,
    ) {
        let copies = &mut self.copies[self.jobs[key].copies];
        let all = copies.holders.iter();
        let new: SmallVec<[Holder; 4]> = all.filter(|holder| !before.contains(*holder)).collect();
        let Some(asking) = &mut copies.asking else {
            return;
        };
        asking.unanswered.extend_from_slice(&new);
        self.send_will_queue(key, &new, now, fx);
    }

    /// WILLQUEUE.
    pub(super) fn take_will_queue(
        &mut self,
        id: &JobId,
        claim: &Claim,
        pairs: Pairs<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.live_or_deny(id, talk) else {
            return Ok(());
        };
        let copies_key = self.copies_of(key)?;
        let asked_with = self.read_set(pairs)?;
        let attempt = self.jobs[key].attempt;
        let copies = &mut self.copies[copies_key];
        copies.grown |= copies.learn(&asked_with);
        self.confirm(key, talk.from, talk.now, talk.fx);
        self.believe(key, claim, talk)?;
        let copies = &self.copies[copies_key];
        if copies.holders.iter().any(|one| !asked_with.contains(one)) {
            let list = self.holder_list(key);
            talk.answer(&Message::Holders {
                id: *id,
                holders: list.pairs(),
            });
        }
        let own = self.claim(key);
        if self.jobs[key].state == State::Queued {
            self.correct(key, talk);
        } else if let Some(ms) = self.objection(key, attempt, claim, talk) {
            talk.answer(&Message::Postpone {
                id: *id,
                ms,
                claim: own,
            });
        } else {
            self.step_back(key, talk.now);
            talk.answer(&Message::GoAhead {
                id: *id,
                turn: own.turn,
            });
        }
        Ok(())
    }

    /// This node has let another one go ahead: it does not ask itself before that one
    /// can have queued the job, or two would be let go at once.
    fn step_back(&mut self, key: u32, now: Now) {
        let job = &self.jobs[key];
        let stays = job.at_most_once() || self.is_mutant(Mutant::NoTieBreak);
        if job.state != State::Active || stays {
            return;
        }
        let at = match self.copies[job.copies].asking.take() {
            Some(_) => now.after(GRANT_MS),
            None => job.requeue_at.max(now.after(GRANT_MS)),
        };
        self.move_job(key, State::Active, at);
    }

    /// For how long the asker should wait, if it should.
    fn objection(&self, key: u32, attempt: u32, claim: &Claim, talk: &Talk<'_, '_>) -> Option<u64> {
        let (job, now) = (&self.jobs[key], talk.now);
        let copies = self.copies.get(job.copies)?;
        if job.state == State::WaitRepl {
            return Some(job.options.retry.ms().clamp(ASK_AGAIN_MS, POSTPONE_MS));
        }
        if let Some(asking) = &copies.asking {
            // Both ask: always the same one of the two goes first.
            let rank = |holder| self.holders.pair(holder).rank(&job.id);
            let first = rank(self.own) > rank(talk.from) && !self.is_mutant(Mutant::NoTieBreak);
            return first.then(|| asking.due.saturating_sub(now.mono_ms) + ASK_AGAIN_MS);
        }
        let ahead = job.requeue_at > now.mono_ms;
        let set_here = copies.own_deadline || job.state == State::Delayed;
        if ahead && job.requeue_at != NEVER && (set_here || attempt > claim.attempt) {
            return Some(job.requeue_at - now.mono_ms);
        }
        let other = copies
            .responsible
            .filter(|holder| *holder != talk.from && *holder != self.own)?;
        let reached = self.reach(other, now).is_some();
        (reached && copies.turn > claim.turn).then(|| job.options.retry.ms().min(POSTPONE_MS))
    }

    /// A holder has nothing against queueing the job.
    pub(super) fn take_go_ahead(&mut self, id: &JobId, turn: u32, talk: &mut Talk<'_, '_>) {
        let Some(key) = self.live(id) else {
            return;
        };
        if let Some(copies) = self.copies.get_mut(self.jobs[key].copies) {
            if copies.asking.is_some() {
                copies.turn = copies.turn.max(turn);
            }
            self.answered(key, talk.from, talk.now);
        }
    }

    /// A holder has answered the question; the last answer lets the job go.
    pub(super) fn answered(&mut self, key: u32, from: Holder, now: Now) {
        let Some(copies) = self.copies.get_mut(self.jobs[key].copies) else {
            return;
        };
        let Some(asking) = &mut copies.asking else {
            return;
        };
        asking.unanswered.retain(|holder| *holder != from);
        let due = asking.due;
        let asking = asking.clone();
        if self.still_unanswered(key, &asking, now).is_empty() {
            // By the timer, also when the time has come: it knows all the rules.
            self.move_job(key, State::Active, due.max(now.mono_ms));
        }
    }

    /// POSTPONE.
    pub(super) fn take_postpone(
        &mut self,
        id: &JobId,
        ms: u64,
        claim: &Claim,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.live(id) else {
            return Ok(());
        };
        if self.is_mutant(Mutant::PostponeIgnored) {
            self.answered(key, talk.from, talk.now);
            return Ok(());
        }
        self.believe(key, claim, talk)?;
        let copies_key = self.copies_of(key)?;
        if self.copies[copies_key].asking.take().is_some() {
            let at = talk.now.after(ms.max(ASK_AGAIN_MS));
            self.move_job(key, State::Active, at);
        }
        Ok(())
    }
}

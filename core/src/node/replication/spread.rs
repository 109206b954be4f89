//! Copies of a job: as many as were asked for, when it is added and whenever some
//! are lost.

use super::{doubled, Talk, FIRST_WAIT_MS};
use crate::clock::{Now, NEVER};
use crate::cluster::{Peer, PeerKey};
use crate::copies::{Copies, Duty, NO_COPIES};
use crate::effects::{Answer, Effects, Gate, WaiterId};
use crate::error::Error;
use crate::holders::{Holder, Pairs};
use crate::job::{Options, State};
use crate::job_id::JobId;
use crate::message::Message;
use crate::node::add::Place;
use crate::node::Node;
use crate::tables::Waiter;
use rand::RngCore;
use smallvec::SmallVec;

/// One more node is tried this soon where a producer waits.
const EARLY_MS: u64 = 250;
/// Waits before making copies are repeated double up to this.
const LONGEST_WAIT_MS: u64 = 30_000;
/// Another node makes up for lost copies when nothing was heard for this long of
/// the one whose turn it is.
const HEARD_MS: u64 = 3_000;

impl Node {
    /// How many nodes can keep a copy of a new job now.
    pub(in crate::node) fn nodes_for_copies(&self, place: Place, now: Now) -> usize {
        self.targets(now).count() + usize::from(place == Place::Here)
    }

    pub(in crate::node) fn targets(&self, now: Now) -> impl Iterator<Item = PeerKey> + '_ {
        let timeout = self.settings.node_timeout_ms;
        let peers = self.cluster.peers();
        peers
            .filter(move |peer| !peer.leaving && peer.is_reachable(now, timeout))
            .map(|peer| peer.key)
    }

    /// Up to `count` nodes that can keep a copy of a job and are not among those: first
    /// where consumers wait for it, else random ones.
    pub(super) fn pick(
        &mut self,
        key: u32,
        count: usize,
        without: &[Holder],
        now: Now,
    ) -> SmallVec<[Holder; 4]> {
        let all: SmallVec<[PeerKey; 8]> = self.targets(now).collect();
        let mut free: SmallVec<[Holder; 8]> = all
            .into_iter()
            .filter_map(|peer| self.holder_of(peer))
            .filter(|holder| !without.contains(holder))
            .collect();
        let mut picked = SmallVec::new();
        let requests = self.queues[self.jobs[key].queue].requests.clone();
        for request in requests {
            let holder = self.holder_of(request.from);
            let place = free.iter().position(|one| Some(*one) == holder);
            if let Some(place) = place.filter(|_| picked.len() < count) {
                picked.push(free.swap_remove(place));
            }
        }
        while picked.len() < count && !free.is_empty() {
            let place = self.rng.next_u32() as usize % free.len();
            picked.push(free.swap_remove(place));
        }
        picked
    }

    /// Has a job that was just added copied. Returns the wait of its producer, if
    /// it waits.
    pub(in crate::node) fn start_spreading(
        &mut self,
        key: u32,
        place: Place,
        timeout_ms: u64,
        now: Now,
        fx: &mut Effects,
    ) -> Result<Option<WaiterId>, Error> {
        let Options {
            replicate, sync, ..
        } = self.jobs[key].options;
        let here = place == Place::Here;
        // A node that has just come up gets what is sent now: it has not missed it.
        self.look_around(now);
        let mut copies = self.first_copies(key, place, now);
        let others = usize::from(replicate) - usize::from(here);
        for holder in self.pick(key, others, &[self.own], now) {
            copies.holders.add(holder);
        }
        if sync > 1 || !here {
            copies.adder = Some(self.wait_for_copies(key, timeout_ms, now)?);
        }
        let waiter = copies.adder;
        let copies = self.copies.insert(copies)?;
        self.jobs[key].copies = copies;
        self.send_copies(key, Gate::Open, now, fx);
        let wait = if waiter.is_some() {
            self.patience(EARLY_MS)
        } else {
            self.first_wait()
        };
        self.copies.schedule(copies, Duty::Spread, now.after(wait));
        self.set_short(copies, true);
        Ok(waiter)
    }

    /// What is known of the copies of a job that is just added.
    pub(super) fn first_copies(&self, key: u32, place: Place, now: Now) -> Copies {
        let mut copies = Copies::new(key, self.own);
        if place == Place::Elsewhere {
            copies.holders.doubt(self.own);
        }
        copies.turn = 1;
        copies.responsible = Some(self.own);
        copies.asked = self.vigil.doubts;
        copies.heard_at = now.mono_ms;
        copies
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

    /// How long to wait for an answer before asking again: the slowest link sets
    /// it.
    pub(super) fn first_wait(&self) -> u64 {
        self.patience(FIRST_WAIT_MS)
    }

    /// At least so long, and longer than answers have taken of late.
    fn patience(&self, least: u64) -> u64 {
        let slow = |peer: &Peer| peer.round_trip_ms.max(peer.copy_ms);
        let slowest = self.cluster.peers().map(slow).max();
        let wait = slowest.unwrap_or(0).saturating_mul(3);
        wait.clamp(least, LONGEST_WAIT_MS)
    }

    /// Sends the job to all that may hold a copy and have not confirmed it.
    fn send_copies(&self, key: u32, gate: Gate, now: Now, fx: &mut Effects) {
        let copies = &self.copies[self.jobs[key].copies];
        self.send_copies_to(key, copies.holders.unconfirmed(), gate, now, fx);
    }

    fn send_copies_to(
        &self,
        key: u32,
        to: impl Iterator<Item = Holder>,
        gate: Gate,
        now: Now,
        fx: &mut Effects,
    ) {
        let list = self.holder_list(key);
        let message = Message::ReplJob(self.copy_image(key, &list, now));
        let peers = to.filter_map(|holder| self.reach(holder, now));
        fx.send_to(peers, &message, gate);
    }

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

    fn copy_confirmed(&mut self, key: u32, now: Now, fx: &mut Effects) {
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
            fx.answer(waiter, answer(id));
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

    /// A node keeps no copy.
    pub(super) fn take_not_kept(&mut self, id: &JobId, full: bool, talk: &mut Talk<'_, '_>) {
        let Some(key) = self.live(id) else {
            return;
        };
        let Some(copies) = self.copies.get_mut(self.jobs[key].copies) else {
            return;
        };
        // Who is responsible has it, if only until another one takes it over.
        let has_it = copies.responsible == Some(talk.from);
        if has_it || copies.holders.is_confirmed(talk.from) {
            return;
        }
        // It may yet take it if it was sent twice.
        if !copies.resent {
            copies.holders.remove(talk.from);
        }
        let eager = copies.tries < 8;
        let refused = self.note_refusal(key, talk.from, full);
        let copies = &mut self.copies[self.jobs[key].copies];
        if eager && matches!(copies.duty, Duty::Spread | Duty::Repair) {
            copies.tries += 1;
            self.replace_refused(key, &refused, talk.now, talk.fx);
        }
        self.give_up_if_refused(key, talk.now, talk.fx);
    }

    /// Nodes keep no copy: as many others get one.
    fn replace_refused(&mut self, key: u32, refused: &[Holder], now: Now, fx: &mut Effects) {
        let missing = self.missing(key, now);
        let copies = &self.copies[self.jobs[key].copies];
        let mut known: SmallVec<[Holder; 8]> = copies.holders.iter().collect();
        known.extend_from_slice(refused);
        let pending = self.pending(key, refused, now);
        let added = self.pick(key, missing.saturating_sub(pending), &known, now);
        let gate = self.name(key, &added, fx);
        self.send_copies_to(key, added.into_iter(), gate, now, fx);
    }

    /// How many nodes may still answer that they have a copy, but for those.
    fn pending(&self, key: u32, without: &[Holder], now: Now) -> usize {
        let copies = &self.copies[self.jobs[key].copies];
        let unconfirmed = copies.holders.unconfirmed();
        unconfirmed
            .filter(|one| !without.contains(one) && self.reach(*one, now).is_some())
            .count()
    }

    /// Sends the job to as many further nodes as copies are missing, or to one more if
    /// that was done before; and again to those that have not answered.
    pub(super) fn add_copies(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let missing = self.missing(key, now);
        let copies = &self.copies[self.jobs[key].copies];
        let known: SmallVec<[Holder; 8]> = copies.holders.iter().collect();
        let count = if copies.resent {
            usize::from(missing > 0)
        } else {
            missing.saturating_sub(self.pending(key, &[], now))
        };
        let added = self.pick(key, count, &known, now);
        self.send_again(key, &added, now, fx);
    }

    fn send_again(&mut self, key: u32, added: &[Holder], now: Now, fx: &mut Effects) {
        let copies = &mut self.copies[self.jobs[key].copies];
        copies.resent |= !copies.holders.is_complete();
        let gate = self.name(key, added, fx);
        self.send_copies(key, gate, now, fx);
    }

    /// Adds nodes to the possible holders. Who may hold a job must be known before it
    /// can: returns when it may be sent there.
    fn name(&mut self, key: u32, added: &[Holder], fx: &mut Effects) -> Gate {
        if added.is_empty() {
            return Gate::Open;
        }
        let copies = &mut self.copies[self.jobs[key].copies];
        for holder in added {
            copies.grown |= copies.holders.add(*holder);
        }
        self.record_holders(key, fx);
        Gate::Written
    }

    /// Whether there is a node that could have a copy more.
    pub(in crate::node) fn can_be_copied(&mut self, key: u32, now: Now) -> bool {
        let copies = &self.copies[self.jobs[key].copies];
        let confirmed: SmallVec<[Holder; 8]> = copies.holders.confirmed().collect();
        !self.pick(key, 1, &confirmed, now).is_empty()
    }

    /// How many copies are missing.
    pub(in crate::node) fn missing(&self, key: u32, now: Now) -> usize {
        let job = &self.jobs[key];
        if job.copies == NO_COPIES {
            return 0;
        }
        usize::from(job.options.replicate).saturating_sub(self.copies_that_stay(key, now))
    }

    /// How many nodes surely have a copy, and stay.
    pub(in crate::node) fn copies_that_stay(&self, key: u32, now: Now) -> usize {
        let copies = self.copies.get(self.jobs[key].copies).into_iter();
        let confirmed = copies.flat_map(|copies| copies.holders.confirmed());
        confirmed.filter(|holder| self.counts(*holder, now)).count()
    }

    /// Looks whether a live job has all its copies, and sees to it if not.
    pub(in crate::node) fn check_copies(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let job = &self.jobs[key];
        let copies_key = job.copies;
        if self.copies.get(copies_key).is_none() || job.is_acked() {
            return;
        }
        let short = !job.at_most_once() && self.missing(key, now) > 0;
        self.set_short(copies_key, short);
        let duty = self.copies[copies_key].duty;
        match (short, duty) {
            (false, Duty::Spread | Duty::Repair) => {
                self.copies.schedule(copies_key, Duty::None, NEVER);
                self.copies[copies_key].tries = 0;
                self.tell_holders_if_new(key, now, fx);
            }
            (true, Duty::None) => {
                let wait = if self.repairs_first(key, now) {
                    FIRST_WAIT_MS
                } else {
                    HEARD_MS
                };
                self.copies
                    .schedule(copies_key, Duty::Repair, now.after(wait));
            }
            _ => {}
        }
    }

    pub(in crate::node) fn set_short(&mut self, copies: u32, short: bool) {
        let copies = &mut self.copies[copies];
        if copies.short != short {
            copies.short = short;
            if short {
                self.vigil.under_replicated += 1;
            } else {
                self.vigil.under_replicated -= 1;
            }
        }
    }

    /// All copies are there: the others are told who has one, where they could not
    /// know it from the job itself.
    fn tell_holders_if_new(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let options = self.jobs[key].options;
        let copies = &mut self.copies[self.jobs[key].copies];
        let grown = std::mem::take(&mut copies.grown);
        if grown || options.sync < options.replicate {
            self.tell_holders(key, now, fx);
        }
    }

    pub(super) fn tell_holders(&self, key: u32, now: Now, fx: &mut Effects) {
        let list = self.holder_list(key);
        let message = Message::Holders {
            id: self.jobs[key].id,
            holders: list.pairs(),
        };
        self.tell_others(key, now, &message, Gate::Written, fx);
    }

    /// Whether it is this node that makes up for lost copies: of the holders that
    /// it reaches, the one of the lowest rank.
    fn repairs_first(&self, key: u32, now: Now) -> bool {
        let id = &self.jobs[key].id;
        let rank = |holder| self.holders.pair(holder).rank(id);
        let own = rank(self.own);
        let Some(copies) = self.copies.get(self.jobs[key].copies) else {
            return false;
        };
        let reachable = |holder: &Holder| self.reach(*holder, now).is_some();
        let mut others = copies.holders.confirmed().filter(reachable);
        others.all(|holder| rank(holder) > own)
    }

    /// Copies were not confirmed in time.
    pub(super) fn spread_again(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let wait = self.first_wait();
        let copies_key = self.jobs[key].copies;
        let copies = &mut self.copies[copies_key];
        // Others that were sent before it were answered late: it is on its way.
        let due = copies.heard_at.saturating_add(wait);
        if copies.tries == 0 && now.mono_ms < due {
            self.copies.schedule(copies_key, Duty::Spread, due);
            self.try_another(key, now, fx);
            return;
        }
        copies.tries = copies.tries.saturating_add(1);
        if copies.heard_at == 0 {
            copies.heard_at = now.mono_ms;
        }
        let wait = doubled(wait, copies.tries, LONGEST_WAIT_MS);
        let known: SmallVec<[Holder; 8]> = copies.holders.iter().collect();
        self.copies
            .schedule(copies_key, Duty::Spread, now.after(wait));
        let one_more = usize::from(self.missing(key, now) > 0);
        let added = self.pick(key, one_more, &known, now);
        self.send_again(key, &added, now, fx);
    }

    /// A producer waits, and a node that hangs is not known to hang yet: one more node
    /// gets a copy, once. Those that were sent one are left in peace.
    fn try_another(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let copies = &self.copies[self.jobs[key].copies];
        if copies.adder.is_none() || copies.grown {
            return;
        }
        let known: SmallVec<[Holder; 8]> = copies.holders.iter().collect();
        let added = self.pick(key, 1, &known, now);
        let gate = self.name(key, &added, fx);
        self.send_copies_to(key, added.into_iter(), gate, now, fx);
    }

    /// It is time to make up for lost copies, unless another node does.
    pub(super) fn repair(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let copies_key = self.jobs[key].copies;
        let heard_at = self.copies[copies_key].heard_at;
        let silent = now.mono_ms >= heard_at.saturating_add(HEARD_MS);
        if self.missing(key, now) == 0 {
            self.copies.schedule(copies_key, Duty::None, NEVER);
            self.check_copies(key, now, fx);
            return;
        }
        let acts = self.leaving || self.repairs_first(key, now) || silent;
        let copies = &mut self.copies[copies_key];
        let wait = if acts {
            copies.tries = copies.tries.saturating_add(1);
            doubled(FIRST_WAIT_MS, copies.tries, LONGEST_WAIT_MS)
        } else {
            HEARD_MS
        };
        self.copies
            .schedule(copies_key, Duty::Repair, now.after(wait));
        if acts {
            self.add_copies(key, now, fx);
        }
    }

    /// HOLDERS.
    pub(super) fn take_holders(
        &mut self,
        id: &JobId,
        pairs: Pairs<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.live_or_deny(id, talk) else {
            return Ok(());
        };
        let copies_key = self.copies_of(key)?;
        let set = self.read_set(pairs)?;
        let own = self.own;
        let keeps = !self.keeps_none(key);
        let copies = &mut self.copies[copies_key];
        let before = copies.holders.clone();
        copies.holders.add_all(&set);
        for holder in set.confirmed() {
            copies.holders.confirm(holder);
        }
        if !set.contains(talk.from) {
            copies.holders.remove(talk.from);
            if copies.responsible == Some(talk.from) {
                copies.responsible = None;
            }
        }
        if keeps {
            copies.holders.confirm(own);
        }
        copies.heard_at = talk.now.mono_ms;
        if copies.holders != before {
            self.ask_new_holders(key, &before, talk.now, talk.fx);
            self.copy_confirmed(key, talk.now, talk.fx);
        } else {
            self.check_copies(key, talk.now, talk.fx);
        }
        Ok(())
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
}

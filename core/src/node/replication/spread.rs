//! Copies of a job: as many as were asked for, when it is added and whenever some
//! are lost.

use super::{doubled, Talk, FIRST_WAIT_MS};
use crate::clock::{Now, NEVER};
use crate::cluster::{Peer, PeerKey};
use crate::copies::{Copies, Duty};
use crate::effects::{Answer, Effects, Gate, WaiterId};
use crate::error::Error;
use crate::holders::{Holder, Pairs};
use crate::job::{Options, State};
use crate::job_id::JobId;
use crate::message::Message;
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
    /// How many nodes can keep a copy now, this one included.
    pub(in crate::node) fn reachable_nodes(&self, now: Now) -> usize {
        self.targets(now).count() + 1
    }

    fn targets(&self, now: Now) -> impl Iterator<Item = PeerKey> + '_ {
        let timeout = self.settings.node_timeout_ms;
        let peers = self.cluster.peers();
        peers
            .filter(move |peer| !peer.leaving && peer.is_reachable(now, timeout))
            .map(|peer| peer.key)
    }

    /// Up to `count` random nodes that can keep a copy and are not among those.
    fn pick(&mut self, count: usize, without: &[Holder], now: Now) -> SmallVec<[Holder; 4]> {
        let all: SmallVec<[PeerKey; 8]> = self.targets(now).collect();
        let mut free: SmallVec<[Holder; 8]> = all
            .into_iter()
            .filter_map(|peer| self.holder_of(peer))
            .filter(|holder| !without.contains(holder))
            .collect();
        let mut picked = SmallVec::new();
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
        timeout_ms: u64,
        now: Now,
        fx: &mut Effects,
    ) -> Result<Option<WaiterId>, Error> {
        let Options {
            replicate, sync, ..
        } = self.jobs[key].options;
        // A node that has just come up gets what is sent now: it has not missed it.
        self.look_around(now);
        let mut copies = Copies::new(key, self.own);
        copies.turn = 1;
        copies.responsible = Some(self.own);
        copies.asked = self.vigil.doubts;
        copies.heard_at = now.mono_ms;
        for holder in self.pick(usize::from(replicate) - 1, &[self.own], now) {
            copies.holders.add(holder);
        }
        if sync > 1 {
            let deadline = match timeout_ms {
                0 => NEVER,
                ms => now.after(ms),
            };
            let id = self.jobs[key].id;
            let wait = Waiter::for_copies(id, deadline);
            copies.adder = Some(self.adders.insert(wait)?);
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

    /// How long to wait for an answer before asking again: the slowest link sets
    /// it.
    fn first_wait(&self) -> u64 {
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
        if waits && confirmed >= usize::from(options.sync) {
            self.record_holders(key, fx);
            self.release(key, now, fx);
        } else if !waits {
            self.record_holders(key, fx);
        }
        self.check_copies(key, now, fx);
    }

    /// Enough nodes hold the job: it is queued or delayed, and its producer gets
    /// the id.
    pub(in crate::node) fn release(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let job = &self.jobs[key];
        let delay_at = job.delay_ends_at();
        if job.options.delay.is_zero() || delay_at <= now.mono_ms {
            self.move_job(key, State::Queued, NEVER);
        } else {
            self.move_job(key, State::Delayed, delay_at);
        }
        self.answer_adder(key, Answer::Added, fx);
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
        let job = self.adders.get(waiter).and_then(|wait| wait.job);
        let Some(key) = job.and_then(|id| self.live(&id)) else {
            self.adders.remove(waiter);
            return;
        };
        self.answer_adder(key, |_| Answer::Error(answer), fx);
        self.settle_job(key, now, fx);
    }

    /// A node keeps no copy.
    pub(super) fn take_not_kept(&mut self, id: &JobId, talk: &mut Talk<'_, '_>) {
        let Some(key) = self.live(id) else {
            return;
        };
        let Some(copies) = self.copies.get_mut(self.jobs[key].copies) else {
            return;
        };
        if copies.holders.is_confirmed(talk.from) {
            return;
        }
        copies.holders.remove(talk.from);
        let eager = copies.tries < 8;
        if eager && matches!(copies.duty, Duty::Spread | Duty::Repair) {
            copies.tries += 1;
            self.add_copies(key, &[talk.from], talk.now, talk.fx);
        }
    }

    /// Sends the job to as many further nodes as copies are missing.
    fn add_copies(&mut self, key: u32, without: &[Holder], now: Now, fx: &mut Effects) {
        let missing = self.missing(key, now);
        let copies = &self.copies[self.jobs[key].copies];
        let mut known: SmallVec<[Holder; 8]> = copies.holders.iter().collect();
        known.extend_from_slice(without);
        let unconfirmed = copies.holders.unconfirmed();
        let pending = unconfirmed
            .filter(|holder| self.reach(*holder, now).is_some())
            .count();
        let added = self.pick(missing.saturating_sub(pending), &known, now);
        self.name_new(key, &added, now, fx);
    }

    fn name_new(&mut self, key: u32, added: &[Holder], now: Now, fx: &mut Effects) {
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

    /// How many copies are missing.
    fn missing(&self, key: u32, now: Now) -> usize {
        let job = &self.jobs[key];
        let Some(copies) = self.copies.get(job.copies) else {
            return 0;
        };
        let there = copies.holders.confirmed();
        let there = there.filter(|holder| self.counts(*holder, now)).count();
        usize::from(job.options.replicate).saturating_sub(there)
    }

    /// Looks whether a live job has all its copies, and sees to it if not.
    pub(super) fn check_copies(&mut self, key: u32, now: Now, fx: &mut Effects) {
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
        let added = self.pick(one_more, &known, now);
        self.name_new(key, &added, now, fx);
    }

    /// A producer waits, and a node that hangs is not known to hang yet: one more node
    /// gets a copy, once. Those that were sent one are left in peace.
    fn try_another(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let copies = &self.copies[self.jobs[key].copies];
        if copies.adder.is_none() || copies.grown {
            return;
        }
        let known: SmallVec<[Holder; 8]> = copies.holders.iter().collect();
        let added = self.pick(1, &known, now);
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
        let acts = self.repairs_first(key, now) || silent;
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
            self.add_copies(key, &[], now, fx);
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
        copies.holders.confirm(own);
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

//! Acknowledgements: spread to every node that may hold the job, kept until each has
//! confirmed, and then dropped everywhere.

use super::{doubled, Standing, Talk, FIRST_WAIT_MS};
use crate::clock::{Now, NEVER};
use crate::cluster::PeerKey;
use crate::copies::Duty;
use crate::effects::{Effects, Gate};
use crate::holders::{Holder, Pairs};
use crate::job::State;
use crate::job_id::JobId;
use crate::memory::Pressure;
use crate::message::Message;
use crate::mutants::Mutant;
use crate::node::Node;
use crate::record::Record;
use rand::RngCore;
use smallvec::SmallVec;

/// Waits between two rounds of asking double up to this.
const LONGEST_WAIT_MS: u64 = 180_000;
/// A holder that was told of an acknowledgement collects itself if the one that
/// told it has not finished by then; a random part of a second is added.
const AWAIT_MS: u64 = 5_000;
const AWAIT_SPREAD_MS: u32 = 1_000;
/// An acknowledged job is kept this much longer than its TTL.
const KEPT_MS: u64 = 60_000;
/// What the TTL in an id says at most; it then stands for any longer one too.
const LONGEST_TTL_FIELD: u16 = u16::MAX - 1;

fn wait_after(tries: u8) -> u64 {
    doubled(FIRST_WAIT_MS, tries, LONGEST_WAIT_MS)
}

impl Node {
    /// Settles a live job: at once where nobody else can have it, else it is kept
    /// until all others know.
    pub(in crate::node) fn settle_job(&mut self, key: u32, now: Now, fx: &mut Effects) {
        self.end_add(key, now, fx);
        let copies = self.copies.get(self.jobs[key].copies);
        let shared = copies.is_some_and(|copies| copies.holders.len() > 1);
        if !shared {
            self.forget_settled(key, now, fx);
            return;
        }
        self.become_acked(key, now);
        self.record_acked(key, fx);
        self.collect(key, now, fx);
    }

    /// Writes down that a job is acknowledged.
    fn record_acked(&self, key: u32, fx: &mut Effects) {
        if !self.is_mutant(Mutant::AckNotPersisted) {
            let id = self.jobs[key].id;
            fx.records.push(&Record::Acked { id });
        }
    }

    /// Turns a live job into an acknowledged one: its body goes, its possible
    /// holders stay.
    pub(in crate::node) fn become_acked(&mut self, key: u32, now: Now) {
        self.lift(key);
        self.jobs.drop_body(key);
        let job = &mut self.jobs[key];
        job.expire_at = job.expire_at.saturating_add(KEPT_MS);
        self.place(key, State::Acked, NEVER);
        let (copies_key, own) = (self.jobs[key].copies, self.own);
        self.set_short(copies_key, false);
        self.await_collection(key, now);
        let copies = &mut self.copies[copies_key];
        copies.asking = None;
        copies.own_deadline = false;
        copies.tries = 0;
        copies.holders.doubt_all();
        copies.holders.confirm(own);
    }

    /// Leaves the collection to whoever told of the acknowledgement, for a while.
    pub(in crate::node) fn await_collection(&mut self, key: u32, now: Now) {
        let spread = self.rng.next_u32() % AWAIT_SPREAD_MS;
        let at = now.after(AWAIT_MS + u64::from(spread));
        let copies_key = self.jobs[key].copies;
        self.copies.schedule(copies_key, Duty::AwaitCollection, at);
    }

    /// Drops a job that is settled, and remembers that it was.
    fn forget_settled(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let id = self.jobs[key].id;
        match self.is_mutant(Mutant::AckNotPersisted) {
            true => self.remove_job(key, now),
            false => self.remove_recorded(key, now, fx),
        }
        self.remember_settled(id, now);
    }

    pub(in crate::node) fn remember_settled(&mut self, id: JobId, now: Now) {
        if !self.cluster.is_alone() && !self.is_mutant(Mutant::LateCopyKept) {
            let settings = &self.settings;
            let (ms, max) = (settings.settled_memory_ms, settings.settled_memory_max);
            self.settled.remember(id, now, ms, max);
        }
    }

    /// Asks every possible holder that has not confirmed, or ends the collection.
    pub(super) fn collect(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let copies_key = self.jobs[key].copies;
        self.drop_gone(key, now);
        if self.copies[copies_key].holders.is_complete() || self.miscounts(key) {
            self.end_collection(key, now, fx);
            return;
        }
        let list = self.holder_list(key);
        let message = Message::SetAck {
            id: self.jobs[key].id,
            attempt: self.jobs[key].attempt,
            dummy: false,
            holders: list.pairs(),
        };
        let unconfirmed = self.copies[copies_key].holders.unconfirmed();
        let peers = unconfirmed.filter_map(|holder| self.reach(holder, now));
        fx.send_to(peers, &message, Gate::Open);
        let copies = &mut self.copies[copies_key];
        let wait = wait_after(copies.tries);
        copies.tries = copies.tries.saturating_add(1);
        self.copies
            .schedule(copies_key, Duty::Collect, now.after(wait));
    }

    /// When [`Mutant::CollectionCountsNonHolders`] has enough.
    fn miscounts(&self, key: u32) -> bool {
        let (job, copies) = (&self.jobs[key], &self.copies[self.jobs[key].copies]);
        self.is_mutant(Mutant::CollectionCountsNonHolders)
            && copies.holders.confirmed_len() >= usize::from(job.options.replicate)
    }

    /// A holder that is gone cannot confirm. It may have handed the job on, so all
    /// nodes are asked in its place.
    fn drop_gone(&mut self, key: u32, now: Now) {
        let copies = &self.copies[self.jobs[key].copies];
        let gone: SmallVec<[Holder; 4]> = copies
            .holders
            .unconfirmed()
            .filter(|holder| self.standing(*holder, now) == Standing::Gone)
            .collect();
        if gone.is_empty() {
            return;
        }
        let present = self.present();
        let copies = &mut self.copies[self.jobs[key].copies];
        for holder in gone {
            copies.holders.remove(holder);
        }
        for holder in present {
            copies.holders.add(holder);
        }
    }

    /// Everybody knows: the job is dropped here and at all others.
    fn end_collection(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let id = self.jobs[key].id;
        self.tell_others(key, now, &Message::DelJob { id }, Gate::Written, fx);
        self.forget_settled(key, now, fx);
    }

    /// SETACK.
    pub(super) fn take_set_ack(
        &mut self,
        id: &JobId,
        attempt: u32,
        dummy: bool,
        pairs: Pairs<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.jobs.find(id) else {
            self.take_set_ack_unknown(id, dummy, talk);
            return Ok(());
        };
        let copies_key = self.copies_of(key)?;
        let was_acked = self.jobs[key].is_acked();
        let grown = self.merge(copies_key, pairs)?;
        self.copies[copies_key].holders.add(talk.from);
        self.jobs[key].attempt = self.jobs[key].attempt.max(attempt);
        if !was_acked {
            self.end_add(key, talk.now, talk.fx);
            self.become_acked(key, talk.now);
            self.record_acked(key, talk.fx);
        }
        if grown || !was_acked {
            self.record_holders(key, talk.fx);
        }
        if dummy {
            self.copies[copies_key].holders.confirm(talk.from);
        }
        let list = self.holder_list(key);
        talk.answer(&Message::GotAck {
            id: *id,
            known: true,
            holders: list.pairs(),
        });
        if dummy {
            // Whoever holds nothing but the acknowledgement leaves the rest to this
            // node.
            self.copies[copies_key].tries = 0;
            self.collect(key, talk.now, talk.fx);
        }
        Ok(())
    }

    fn take_set_ack_unknown(&mut self, id: &JobId, dummy: bool, talk: &mut Talk<'_, '_>) {
        match self.acks.find(id) {
            None => self.remember_settled(*id, talk.now),
            Some(key) if !dummy => {
                // A holder collects: its DELJOB ends this as well.
                if let Some(ack) = self.acks.get_mut(key) {
                    ack.collector = Some(talk.from);
                }
            }
            Some(_) => {}
        }
        talk.answer(&Message::GotAck {
            id: *id,
            known: false,
            holders: Pairs::NONE,
        });
    }

    /// GOTACK.
    pub(super) fn take_got_ack(
        &mut self,
        id: &JobId,
        known: bool,
        pairs: Pairs<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.jobs.find(id) else {
            self.take_got_ack_dummy(id, known, talk);
            return Ok(());
        };
        if !self.jobs[key].is_acked() {
            return Ok(());
        }
        let copies_key = self.copies_of(key)?;
        let grown = known && self.merge(copies_key, pairs)?;
        let copies = &mut self.copies[copies_key];
        let listed = copies.holders.contains(talk.from);
        if known || listed {
            copies.holders.confirm(talk.from);
        }
        if grown {
            copies.tries = 0;
            self.record_holders(key, talk.fx);
        }
        // Another node may be the one that collects: it alone ends this then.
        let collects = self.copies[copies_key].duty == Duty::Collect;
        if collects && (grown || self.copies[copies_key].holders.is_complete()) {
            self.collect(key, talk.now, talk.fx);
        }
        Ok(())
    }

    fn take_got_ack_dummy(&mut self, id: &JobId, known: bool, talk: &mut Talk<'_, '_>) {
        let Some(key) = self.acks.find(id) else {
            return;
        };
        let Some(ack) = self.acks.get_mut(key) else {
            return;
        };
        if known {
            ack.collector = Some(talk.from);
            return;
        }
        if ack.collector == Some(talk.from) {
            self.forget_dummy(key, talk.fx);
            return;
        }
        if !ack.denied.contains(&talk.from) {
            ack.denied.push(talk.from);
        }
        if self.all_deny(key, talk.now) {
            self.forget_dummy(key, talk.fx);
        }
    }

    /// Whether every node of the table has said that it does not have the job; when
    /// memory is nearly full, every one that is reached.
    fn all_deny(&mut self, key: u32, now: Now) -> bool {
        let present = self.present();
        let Some(ack) = self.acks.get(key) else {
            return false;
        };
        let urgent = self.pressure() >= Pressure::Critical;
        let counts = |one: &&Holder| !urgent || self.reach(**one, now).is_some();
        let asked: SmallVec<[&Holder; 8]> = present.iter().filter(counts).collect();
        let all = present.len() == self.cluster.peers().count();
        let somebody = !urgent || !asked.is_empty();
        all && somebody && asked.iter().all(|holder| ack.denied.contains(holder))
    }

    pub(in crate::node) fn forget_dummy(&mut self, key: u32, fx: &mut Effects) {
        if let Some(ack) = self.acks.remove(key) {
            fx.records.push(&Record::DummyGone { id: ack.id });
        }
    }

    /// DELJOB.
    pub(super) fn take_del_job(&mut self, id: &JobId, talk: &mut Talk<'_, '_>) {
        if let Some(key) = self.jobs.find(id) {
            if !self.jobs[key].is_acked() {
                // A FASTACK. Who has it by way of this node is unknown to the speaker.
                self.end_add(key, talk.now, talk.fx);
                let message = Message::DelJob { id: *id };
                self.tell_others(key, talk.now, &message, Gate::Written, talk.fx);
            }
            self.forget_settled(key, talk.now, talk.fx);
            return;
        }
        if let Some(key) = self.acks.find(id) {
            self.forget_dummy(key, talk.fx);
        }
        self.remember_settled(*id, talk.now);
    }

    /// ACKJOB of a job that is not here. It may be elsewhere: the others are told,
    /// and the acknowledgement is kept until one of them takes it over.
    pub(in crate::node) fn ack_unknown(&mut self, id: JobId, now: Now, fx: &mut Effects) {
        // That it is remembered as settled may come from a FASTACK, of which not all
        // were told.
        if self.cluster.is_alone() || self.acks.find(&id).is_some() {
            return;
        }
        if id.is_retried() {
            let expire_at = match id.ttl_field() {
                LONGEST_TTL_FIELD.. => NEVER,
                minutes => now.after(u64::from(minutes) * 60_000 + KEPT_MS),
            };
            self.keep_dummy(id, expire_at, now, fx);
        } else {
            self.send_dummy(&id, None, now, fx);
        }
    }

    /// Keeps the acknowledgement of a job that is not here, and asks all about it.
    pub(in crate::node) fn keep_dummy(
        &mut self,
        id: JobId,
        expire_at: u64,
        now: Now,
        fx: &mut Effects,
    ) {
        if self.acks.find(&id).is_some() {
            return;
        }
        let Ok(key) = self.acks.insert(id, expire_at) else {
            return;
        };
        fx.records.push(&Record::DummyAck {
            id,
            until: now.to_wall(expire_at),
        });
        self.ask_about(key, now, fx);
    }

    /// Tells all nodes of a dummy ack, or the one that collects.
    pub(super) fn ask_about(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let Some(ack) = self.acks.get_mut(key) else {
            return;
        };
        if ack.expire_at <= now.mono_ms {
            self.forget_dummy(key, fx);
            return;
        }
        let wait = wait_after(ack.tries);
        ack.tries = ack.tries.saturating_add(1);
        let (id, collector) = (ack.id, ack.collector);
        if collector.is_none() && self.all_deny(key, now) {
            self.forget_dummy(key, fx);
            return;
        }
        let collector = match collector.map(|holder| self.standing(holder, now)) {
            Some(Standing::Gone) => None,
            Some(Standing::Reachable(peer)) => Some(peer),
            Some(_) => {
                // It alone can end this, once it is back.
                self.acks.schedule(key, now.after(wait));
                return;
            }
            None => None,
        };
        if collector.is_none() {
            if let Some(ack) = self.acks.get_mut(key) {
                ack.collector = None;
            }
        }
        self.send_dummy(&id, collector, now, fx);
        self.acks.schedule(key, now.after(wait));
    }

    fn send_dummy(&mut self, id: &JobId, only: Option<PeerKey>, now: Now, fx: &mut Effects) {
        let message = Message::SetAck {
            id: *id,
            attempt: 0,
            dummy: true,
            holders: Pairs::NONE,
        };
        let asked = |peer: &PeerKey| only.is_none_or(|only| only == *peer);
        let peers = self.reachable_peers(now).filter(asked);
        fx.send_to(peers, &message, Gate::Open);
    }

    /// FASTACK: the others are told once.
    pub(in crate::node) fn tell_fast_ack(&mut self, id: JobId, now: Now, fx: &mut Effects) {
        let message = Message::DelJob { id };
        match self.jobs.find(&id) {
            Some(key) => self.tell_others(key, now, &message, Gate::Written, fx),
            None => fx.send_to(self.reachable_peers(now), &message, Gate::Written),
        }
    }

    /// A node that has, or had, a copy of an acknowledged job has come up: it has to
    /// confirm as well.
    pub(super) fn name_to_collection(&mut self, key: u32, holds: bool, talk: &mut Talk<'_, '_>) {
        let Ok(copies_key) = self.copies_of(key) else {
            return;
        };
        let copies = &mut self.copies[copies_key];
        if !holds {
            if copies.holders.contains(talk.from) {
                copies.holders.confirm(talk.from);
            }
        } else if copies.holders.add(talk.from) {
            self.record_holders(key, talk.fx);
        }
    }
}

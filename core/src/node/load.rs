//! Taking back what was written down: a snapshot, the append only file, the
//! stream of a primary.

use super::requeue::Counter;
use super::{Identity, Node};
use crate::body::{Body, Parts};
use crate::clock::{Now, NEVER};
use crate::collections::Full;
use crate::copies::{Copies, Duty, NO_COPIES};
use crate::effects::Effects;
use crate::holders::{Pair, Pairs};
use crate::job::{Job, State};
use crate::job_id::JobId;
use crate::mutants::Mutant;
use crate::queue::Pause;
use crate::record::{CopiesImage, JobImage, Malformed, Record, Records};
use rand::RngCore;
use std::fmt;

/// Whether data that was loaded is known to hold every delivery that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Each delivery was written down before it left: the server stopped
    /// cleanly, or the append only file was synced before each reply.
    Complete,
    /// The last deliveries may be missing.
    MayLackDeliveries,
}

/// Why a record that was understood is not taken.
enum Unfit {
    /// There is no room for it.
    Full(Full),
    /// It gives this node a name that a job of it gives to another holder.
    OthersName,
}

impl From<Full> for Unfit {
    fn from(full: Full) -> Unfit {
        Unfit::Full(full)
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Full(full) => full.fmt(f),
            Unfit::OthersName => f.write_str("the node is said to be another holder of its jobs"),
        }
    }
}

/// Copies of which a record says nothing.
const BARE: CopiesImage<'static> = CopiesImage {
    holders: Pairs::NONE,
    turn: 0,
    responsible: None,
};

impl Node {
    /// Applies a batch of records. On an error, what came before the bad record
    /// stays applied; the caller says which it was and gives up or goes on.
    pub fn apply<'a>(&mut self, now: Now, batch: impl Into<Parts<'a>>) -> Result<(), Malformed> {
        self.count_batch();
        let mut records = Records::read(batch)?;
        while let Some(record) = records.next() {
            let applied = self.apply_record(now, record?);
            applied.map_err(|unfit| records.malformed(unfit.to_string()))?;
        }
        Ok(())
    }

    /// Records of jobs that are unknown change nothing: a snapshot may be newer
    /// than the first records that follow it.
    fn apply_record(&mut self, now: Now, record: Record<'_>) -> Result<(), Unfit> {
        match record {
            Record::Node(identity) => self.load_identity(identity)?,
            Record::Job(image) => self.load_job(now, &image)?,
            Record::Paused { queue, pause } => {
                self.set_pause(now, queue, Pause::from_bits(pause))?
            }
            Record::Flushed => self.clear(now),
            Record::Delivered { id, requeue_at } => {
                if let Some(key) = self.live(&id) {
                    self.load_delivery(key, now.from_wall(requeue_at));
                }
            }
            Record::Returned { id } => {
                if let Some(key) = self.live(&id) {
                    self.take_turn(key);
                    self.take_back(key);
                }
            }
            Record::Requeued { id, nack } => {
                if let Some(key) = self.live(&id) {
                    self.take_turn(key);
                    self.count_and_queue(key, Counter::of(nack));
                }
            }
            Record::Postponed { id, requeue_at } => {
                if let Some(key) = self.live(&id) {
                    self.move_job(key, State::Active, now.from_wall(requeue_at));
                }
            }
            Record::Removed { id } => {
                if let Some(key) = self.jobs.find(&id) {
                    self.remove_job(key, now);
                }
            }
            Record::Known(listing) => self.load_peer(&listing),
            Record::Reset => {
                self.cluster.clear();
            }
            Record::Position { batches } => self.batches = batches,
            Record::NodeGone { id } => {
                self.cluster.remove(&id);
            }
            Record::Forgotten { id, epoch, until } => {
                self.cluster.forget(id, epoch, until);
                // Other data of it may have been known then, which no record says.
                if self.cluster.peer(&id).is_some_and(|p| p.epoch == epoch) {
                    self.cluster.remove(&id);
                }
            }
            Record::Holders { id, holders } => self.load_holders(now, &id, holders)?,
            Record::Acked { id } => {
                if let Some(key) = self.live(&id) {
                    self.load_acked(now, key)?;
                }
            }
            Record::DummyAck { id, until } => {
                if self.acks.find(&id).is_none() && self.jobs.find(&id).is_none() {
                    self.acks.insert(id, now.from_wall(until))?;
                }
            }
            Record::DummyGone { id } => {
                if let Some(key) = self.acks.find(&id) {
                    self.acks.remove(key);
                }
            }
            Record::Withheld { id } => {
                if let Some(key) = self.live(&id) {
                    self.withhold(key);
                }
            }
        }
        Ok(())
    }

    fn load_identity(&mut self, identity: Identity) -> Result<(), Unfit> {
        let pair = Pair::from(&identity);
        if !self.copies.is_empty() && self.holders.is_other(pair, self.own) {
            return Err(Unfit::OthersName);
        }
        self.set_identity(identity);
        // A RESET has emptied the table that the nodes file gave, though the file is as
        // young as the last change.
        self.restore_table();
        Ok(())
    }

    fn load_delivery(&mut self, key: u32, requeue_at: u64) {
        self.lift(key);
        let job = &mut self.jobs[key];
        if job.state == State::Active && job.attempt > 0 {
            // It was queued again by its RETRY, which is not recorded.
            job.additional_deliveries = job.additional_deliveries.saturating_add(1);
        }
        job.attempt = job.attempt.saturating_add(1);
        self.place(key, State::Active, requeue_at);
    }

    fn load_job(&mut self, now: Now, image: &JobImage<'_>) -> Result<(), Full> {
        if let Some(key) = self.jobs.find(&image.id) {
            self.remove_job(key, now);
        }
        let queue = self.queues.find_or_create(image.queue, now)?;
        let mut job = Job::new(
            image.id,
            queue,
            image.ctime,
            image.options,
            Body::from(&image.body),
        );
        job.expire_at = now.from_wall(image.expire_at);
        job.requeue_at = now.from_wall(image.requeue_at);
        job.state = image.state;
        job.attempt = image.attempt;
        job.nacks = image.nacks;
        job.additional_deliveries = image.additional_deliveries;
        job.withheld = image.withheld;
        self.last_ctime = self.last_ctime.max(image.ctime);
        if job.is_acked() {
            job.body = Body::default();
        }
        if let Some(ack) = self.acks.find(&image.id) {
            self.acks.remove(ack);
        }
        let needs_copies = matches!(job.state, State::WaitRepl | State::Acked);
        let key = self.insert_job(job)?;
        match &image.copies {
            Some(copies) => self.load_copies(now, key, copies),
            None if needs_copies => self.load_copies(now, key, &BARE),
            None => Ok(()),
        }
    }

    fn load_copies(&mut self, now: Now, key: u32, image: &CopiesImage<'_>) -> Result<(), Full> {
        let mut copies = Copies::new(key, self.own);
        // A pair that cannot be numbered any more is left out: what it holds it
        // tells of itself.
        copies.holders = self.holders.set(image.holders).unwrap_or_default();
        copies.holders.confirm(self.own);
        copies.named = true;
        copies.turn = image.turn;
        copies.heard_at = now.mono_ms;
        copies.responsible = image
            .responsible
            .and_then(|pair| self.holders.number(pair).ok());
        let state = self.jobs[key].state;
        if matches!(state, State::Queued | State::Delayed) {
            copies.responsible = Some(self.own);
        }
        let copies = self.copies.insert(copies)?;
        self.jobs[key].copies = copies;
        if state == State::Acked {
            self.await_collection(key, now);
        }
        Ok(())
    }

    fn load_acked(&mut self, now: Now, key: u32) -> Result<(), Full> {
        if self.jobs[key].copies == NO_COPIES {
            self.load_copies(now, key, &BARE)?;
        }
        self.become_acked(key, now);
        Ok(())
    }

    fn load_holders(&mut self, now: Now, id: &JobId, pairs: Pairs<'_>) -> Result<(), Full> {
        let Some(key) = self.jobs.find(id) else {
            return Ok(());
        };
        if self.jobs[key].copies == NO_COPIES {
            self.load_copies(now, key, &BARE)?;
        }
        let copies = &mut self.copies[self.jobs[key].copies];
        copies.holders = self.holders.set(pairs).unwrap_or_default();
        copies.holders.confirm(self.own);
        let enough = copies.holders.confirmed_len() >= usize::from(self.jobs[key].options.sync);
        // Where another node has taken it over, that one was to queue it.
        let own = copies.responsible == Some(self.own);
        if self.jobs[key].state == State::WaitRepl && own && enough {
            self.release(key, now);
        }
        Ok(())
    }

    /// How many batches of records this line of data has taken so far: the same
    /// number for the same data, whether they were written or read. Tells data from
    /// older data.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// The records of a call were handed over to be written.
    pub fn count_batch(&mut self) {
        self.batches = self.batches.saturating_add(1);
    }

    /// The data are older than what this node has written, or gone: from now on they
    /// are another line of data. Not of a node that was forgotten: its data have
    /// been given up.
    pub fn renew_epoch(&mut self, fx: &mut Effects) {
        if self.was_forgotten() {
            return;
        }
        let epoch = self.rng.next_u64();
        let term = self.identity.term.max(self.known_term());
        self.set_identity(Identity {
            epoch,
            term,
            ..self.identity
        });
        fx.records.push(&Record::Node(self.identity));
    }

    /// The term that this node had before the start, by the nodes file.
    fn known_term(&self) -> u64 {
        let file = self.restored.as_ref();
        let own = file.filter(|file| file.identity.id == self.identity.id);
        own.map_or(0, |file| file.identity.term)
    }

    /// This server was a replica and is the node from now on, in place of its
    /// primary. What that did last may be missing here.
    pub fn promote(&mut self, now: Now, fx: &mut Effects) {
        self.set_identity(self.identity.promoted());
        fx.records.push(&Record::Node(self.identity));
        self.finish_load(now, Completeness::MayLackDeliveries, fx);
    }

    /// The load is over and this node serves from now on. At-most-once jobs
    /// that may have been delivered are kept from being delivered again, unless
    /// `disque.at-most-once-after-crash deliver` says otherwise.
    ///
    /// Jobs of which others may have copies are asked about before they are queued
    /// or handed out: see `vigil`.
    pub fn finish_load(&mut self, now: Now, completeness: Completeness, fx: &mut Effects) {
        if self.known_term() > self.identity.term {
            // The record of its promotion was lost: others would take it for the
            // primary that it has followed.
            self.renew_epoch(fx);
        }
        self.vigil.doubt(now);
        self.vigil.look_at_all();
        self.resume_copies(now);
        let unclean = completeness == Completeness::MayLackDeliveries;
        if unclean && !self.is_mutant(Mutant::UncleanStartTrusted) {
            self.vigil.unclean_start = self.incarnation;
            self.cluster.doubt_all();
        }
        let delivers = self.settings.deliver_after_crash || self.is_mutant(Mutant::CrashForgotten);
        if completeness == Completeness::Complete || delivers {
            return;
        }
        let mut from = 0;
        while let Some(key) = self.jobs.next_occupied(from) {
            from = key + 1;
            let job = &self.jobs[key];
            let may_come = !job.is_acked() && !job.withheld;
            if may_come && job.at_most_once() && job.attempt == 0 {
                let id = job.id;
                self.withhold(key);
                self.stats.withheld += 1;
                fx.records.push(&Record::Withheld { id });
            }
        }
    }

    /// Takes up what is left to do about the copies of jobs that were loaded.
    fn resume_copies(&mut self, now: Now) {
        let mut from = 0;
        while let Some(copies_key) = self.copies.next_occupied(from) {
            from = copies_key + 1;
            let key = self.copies[copies_key].job;
            match self.jobs[key].state {
                State::Acked => self.copies.schedule(copies_key, Duty::Collect, now.mono_ms),
                State::WaitRepl => {
                    // Whether its producer was answered is not known.
                    let at = self.retry_deadline(key, now);
                    let at = at.max(self.jobs[key].delay_ends_at());
                    self.move_job(key, State::Active, at);
                    self.copies[copies_key].responsible = None;
                }
                State::Active => self.copies[copies_key].responsible = None,
                State::Queued | State::Delayed => {
                    self.copies[copies_key].responsible = Some(self.own)
                }
            }
        }
    }

    fn withhold(&mut self, key: u32) {
        self.lift(key);
        self.jobs[key].withheld = true;
        self.place(key, State::Active, NEVER);
    }
}

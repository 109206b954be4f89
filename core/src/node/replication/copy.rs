//! One copy: how it is sent, and how it is kept.

use super::{Arrival, Talk};
use crate::body::Body;
use crate::clock::{Now, NEVER};
use crate::copies::Copies;
use crate::effects::Effects;
use crate::holders::{Holder, HolderSet, PairList};
use crate::job::{Job, Options, State};
use crate::memory::Pressure;
use crate::message::{CopyImage, Message};
use crate::node::Node;
use crate::record::Record;
use smallvec::SmallVec;

/// Why a job of another node is not taken.
pub(in crate::node) struct Refusal {
    /// For want of memory.
    pub full: bool,
}

impl Node {
    pub(in crate::node) fn copy_image<'a>(
        &'a self,
        key: u32,
        list: &'a PairList,
        now: Now,
    ) -> CopyImage<'a> {
        let job = &self.jobs[key];
        let delay_at = job.delay_ends_at();
        let first = job.attempt == 0 && !job.options.delay.is_zero();
        CopyImage {
            id: job.id,
            queue: &self.queues[job.queue].name,
            body: Some(job.body.carried()),
            ctime: job.ctime,
            ttl_left_ms: job.expire_at.saturating_sub(now.mono_ms),
            delay_left_ms: if first {
                delay_at.saturating_sub(now.mono_ms)
            } else {
                0
            },
            options: job.options,
            nacks: job.nacks,
            additional_deliveries: job.additional_deliveries,
            claim: self.claim(key),
            holders: list.pairs(),
        }
    }

    /// REPLJOB.
    pub(super) fn take_copy(
        &mut self,
        copy: &CopyImage<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let id = copy.id;
        if let Some(key) = self.jobs.find(&id) {
            let copies = self.copies_of(key)?;
            self.merge(copies, copy.holders)?;
            if self.read_set(copy.holders)?.is_confirmed(talk.from) {
                self.confirm(key, talk.from, talk.now, talk.fx);
            }
            self.believe(key, &copy.claim, talk)?;
            self.check_copies(key, talk.now, talk.fx);
            if self.keeps_none(key) {
                talk.answer(&Message::NotKept { id, full: true });
                return Ok(());
            }
        } else if let Some(Refusal { full }) = self.refuses(copy, Pressure::High) {
            talk.answer(&Message::NotKept { id, full });
            return Ok(());
        } else {
            self.keep_copy(copy, Arrival::Hold, talk)?;
        }
        talk.answer(&Message::GotJob { id });
        Ok(())
    }

    /// Whether the job is refused: copies from [`Pressure::High`] on, jobs that consumers
    /// wait for not before there is no room at all.
    pub(in crate::node) fn refuses(&self, copy: &CopyImage<'_>, from: Pressure) -> Option<Refusal> {
        let queue = self.queues.find(copy.queue);
        let paused = queue.is_some_and(|key| self.queues[key].pause.input);
        let long = self.check_queue_name(copy.queue).is_err()
            || copy
                .body
                .is_some_and(|body| body.bytes().len() as u64 > self.settings.max_body);
        let full = self.pressure() >= from
            || !self.jobs.has_room(1)
            || self.check_room_for_queue(copy.queue).is_err();
        let refused = self.leaving || paused || long || full || copy.ttl_left_ms == 0;
        refused.then_some(Refusal { full })
    }

    /// Takes in a job that another node sends.
    pub(in crate::node) fn keep_copy(
        &mut self,
        copy: &CopyImage<'_>,
        arrival: Arrival,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let now = talk.now;
        let options = copy.options;
        let body = copy.body.as_ref().ok_or("a job without its body")?;
        let number = body.number();
        let holders = self.read_set(copy.holders)?;
        let queue = self.queues.find_or_create(copy.queue, now)?;
        let mut job = Job::new(copy.id, queue, copy.ctime, options, Body::from(body));
        job.expire_at = now.after(copy.ttl_left_ms);
        job.attempt = copy.claim.attempt;
        job.nacks = copy.nacks;
        job.additional_deliveries = copy.additional_deliveries;
        let begin = now.after(copy.delay_left_ms);
        if options.retry.is_zero() {
            // It moves: there is no other copy.
            (job.state, job.requeue_at) = match copy.delay_left_ms {
                0 => (State::Queued, NEVER),
                _ => (State::Delayed, begin),
            };
            let key = self.insert_job(job)?;
            self.record_given_job(key, number, now, talk.fx);
            return Ok(());
        }
        let deadline = self.deadline_after(options.retry, now);
        job.requeue_at = deadline.saturating_add(begin - now.mono_ms);
        let key = self.insert_job(job)?;
        self.note_copies(key, copy, &holders, now)?;
        if arrival == Arrival::Queue {
            self.take_turn(key);
            self.move_job(key, State::Queued, NEVER);
        }
        self.record_given_job(key, number, now, talk.fx);
        self.check_copies(key, now, talk.fx);
        Ok(())
    }

    /// Notes what the sender of a job knew of its copies.
    fn note_copies(
        &mut self,
        key: u32,
        copy: &CopyImage<'_>,
        holders: &HolderSet,
        now: Now,
    ) -> Result<(), String> {
        let mut copies = Copies::new(key, self.own);
        copies.holders.add_all(holders);
        let Options {
            replicate, sync, ..
        } = copy.options;
        let first = copy.claim.turn <= 1 && holders.len() == usize::from(replicate);
        let sure = if sync == replicate && first {
            // The producer is answered only when all of these hold it.
            holders.iter().collect::<SmallVec<[Holder; 8]>>()
        } else {
            holders.confirmed().collect()
        };
        for holder in sure {
            copies.holders.confirm(holder);
        }
        copies.asked = self.vigil.doubts;
        copies.heard_at = now.mono_ms;
        copies.turn = copy.claim.turn;
        copies.responsible = match copy.claim.responsible {
            Some(pair) => self.holders.number(pair).ok(),
            None => None,
        };
        self.jobs[key].copies = self.copies.insert(copies)?;
        Ok(())
    }

    /// Writes down a whole job.
    pub(in crate::node) fn record_job(&mut self, key: u32, now: Now, fx: &mut Effects) {
        self.record_given_job(key, None, now, fx);
    }

    /// The same for one whose body came with the call, under this number.
    pub(in crate::node) fn record_given_job(
        &mut self,
        key: u32,
        number: Option<usize>,
        now: Now,
        fx: &mut Effects,
    ) {
        let list = self.recorded_holders(key);
        let image = self.image(key, now, &list);
        fx.records.push_given(&Record::Job(image), number);
    }
}

//! ADDJOB, and ADDJOBS: one batch, of which all jobs are added or none.

use super::replication::Plan;
use super::{check_length, check_size, Node};
use crate::clock::Now;
use crate::copies::Copies;
use crate::effects::{Effects, WaiterId};
use crate::error::Error;
use crate::job::{Job, Options, State};
use crate::job_id::{Ids, JobId};
use crate::memory::Pressure;
use crate::mutants::Mutant;
use crate::span::Span;
use smallvec::smallvec;

/// What ADDJOB or ADDJOBS asks for, with every value in its range already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddJob<'a> {
    /// The queue's name.
    pub queue: &'a [u8],
    /// The bodies: a job for each, and there is one at least.
    pub bodies: &'a [&'a [u8]],
    /// How long to wait for copies, in milliseconds; 0 for no limit.
    pub timeout_ms: u64,
    /// REPLICATE, 1 to 65535, if given.
    pub replicate: Option<u16>,
    /// SYNC or ASYNC, if given.
    pub sync: Option<Sync>,
    /// DELAY.
    pub delay: Span,
    /// RETRY, if given.
    pub retry: Option<Span>,
    /// TTL, above zero.
    pub ttl: Span,
    /// MAXLEN, at least 1, if given.
    pub max_len: Option<u64>,
}

/// How many copies the producer wants to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// This many.
    Copies(u16),
    /// All of them but this many.
    AllBut(u16),
}

/// Where the copies of a new job are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One of them here.
    Here,
    /// At other nodes only: this one has no room, or leaves.
    Elsewhere,
}

/// What came of an ADDJOB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// The jobs are there, in the order of their bodies.
    Done(Ids),
    /// Their copies have to be waited for.
    Waits {
        /// The jobs, in the same order.
        ids: Ids,
        /// The producer that will be answered.
        waiter: WaiterId,
    },
}

/// What the jobs of one command have in common.
struct Common {
    queue: u32,
    options: Options,
    place: Place,
    /// The producer, if it waits for copies.
    waiter: Option<WaiterId>,
    /// Where the copies go, if there are to be some.
    plan: Option<Plan>,
}

/// RETRY where a job does not say, unless a tenth of its TTL is less.
const DEFAULT_RETRY_MS: u64 = 300_000;
const MIN_DEFAULT_RETRY_MS: u64 = 1_000;
/// How many jobs may be dropped to make room for one.
const MAX_RELIEF: usize = 16;

impl Node {
    /// ADDJOB and ADDJOBS: new jobs, queued or delayed.
    pub fn add_job(
        &mut self,
        now: Now,
        add: &AddJob<'_>,
        can_wait: bool,
        fx: &mut Effects,
    ) -> Result<Added, Error> {
        let added = self.try_to_add(now, add, can_wait, fx);
        if let Err(error) = &added {
            self.count_refused_add(error);
        }
        added
    }

    /// Counts an ADDJOB that is answered with an error, at once or when it has waited.
    pub(super) fn count_refused_add(&mut self, error: &Error) {
        if *error == Error::OutOfMemory {
            self.stats.refused_for_memory += 1;
        }
    }

    fn try_to_add(
        &mut self,
        now: Now,
        add: &AddJob<'_>,
        can_wait: bool,
        fx: &mut Effects,
    ) -> Result<Added, Error> {
        self.check_limits(add)?;
        let place = self.place_of_new()?;
        let options = self.options_of(now, add, place)?;
        let count = add.bodies.len();
        self.check_copies_possible(now, &options, place, count, can_wait)?;
        let existing = self.queues.find(add.queue);
        self.check_lets_in(existing, count as u64, add.max_len)?;
        self.make_room(place, &options, add.bodies, now, fx)?;
        if existing.is_none() {
            self.check_room_for_queue(add.queue)?;
        }

        let queue = match existing {
            Some(key) => key,
            None => self.queues.find_or_create(add.queue, now)?,
        };
        let ids = self.new_ids(count, &options);
        let waiter = if options.sync > 1 || place == Place::Elsewhere {
            Some(self.wait_for_copies(ids.clone(), add.timeout_ms, now)?)
        } else {
            None
        };
        let moves = options.retry.is_zero();
        let stays = place == Place::Here && options.replicate == 1;
        let common = Common {
            queue,
            options,
            place,
            waiter,
            plan: (!moves && !stays).then(|| self.plan_copies(queue, &options, place, waiter, now)),
        };
        for (number, body) in add.bodies.iter().enumerate() {
            self.add_one(ids[number], (number, body), &common, now, fx)?;
        }
        self.queues[queue].used_at = now.mono_ms;
        self.stats.added += count as u64;
        let replicate = u64::from(options.replicate);
        if add.replicate.is_none() && self.settings.default_replicate > replicate {
            self.stats.added_below_default += count as u64;
        }
        Ok(match waiter {
            Some(waiter) => Added::Waits { ids, waiter },
            None => Added::Done(ids),
        })
    }

    #[inline]
    fn new_ids(&mut self, count: usize, options: &Options) -> Ids {
        let retried = !options.retry.is_zero();
        let mut next = || self.ids.next(options.ttl, retried);
        match count {
            1 => smallvec![next()],
            _ => (0..count).map(|_| next()).collect(),
        }
    }

    /// One of the jobs: there is room for all of them.
    fn add_one(
        &mut self,
        id: JobId,
        (number, body): (usize, &[u8]),
        common: &Common,
        now: Now,
        fx: &mut Effects,
    ) -> Result<(), Error> {
        let options = common.options;
        let ctime = self.next_ctime(now);
        let mut job = Job::new(id, common.queue, ctime, options, body.into());
        job.expire_at = now.after(options.ttl.ms());
        if options.delay.is_zero() {
            job.state = State::Queued;
        } else {
            job.state = State::Delayed;
            job.requeue_at = now.after(options.delay.ms());
        }
        if common.waiter.is_some() {
            job.state = State::WaitRepl;
        }
        let key = self.insert_job(job)?;
        match (&common.plan, common.place) {
            (Some(plan), place) => {
                self.start_spreading(key, place, common.waiter, plan, now, fx)?
            }
            (None, Place::Elsewhere) => self.start_moving(key, common.waiter, now, fx)?,
            (None, Place::Here) => {}
        }
        self.record_given_job(key, Some(number), now, fx);
        Ok(())
    }

    /// Refuses jobs whose queue is paused in, or would become longer than MAXLEN.
    fn check_lets_in(
        &self,
        queue: Option<u32>,
        count: u64,
        max_len: Option<u64>,
    ) -> Result<(), Error> {
        let mut len = 0;
        if let Some(key) = queue {
            let queue = &self.queues[key];
            if queue.pause.input {
                return Err(Error::Paused);
            }
            len = queue.order.len() as u64;
        }
        match max_len {
            Some(max) if len.saturating_add(count) > max => Err(Error::MaxLen),
            _ => Ok(()),
        }
    }

    /// Whether new jobs are kept here too. A node that knows no other keeps them as
    /// long as it can.
    pub(super) fn place_of_new(&self) -> Result<Place, Error> {
        let alone = self.cluster.is_alone();
        if self.leaving && alone {
            return Err(Error::Leaving);
        }
        let short_of_memory = self.pressure() >= Pressure::High;
        Ok(if !alone && (self.leaving || short_of_memory) {
            Place::Elsewhere
        } else {
            Place::Here
        })
    }

    /// Refuses jobs whose copies there are no nodes for.
    fn check_copies_possible(
        &self,
        now: Now,
        options: &Options,
        place: Place,
        count: usize,
        can_wait: bool,
    ) -> Result<(), Error> {
        let here = place == Place::Here;
        if here && options.replicate == 1 {
            return Ok(());
        }
        let known = usize::from(options.replicate) <= self.cluster.size();
        if !known || options.copies_to_wait_for() > self.nodes_for_copies(place, now) {
            return Err(Error::NoRepl);
        }
        if !self.copies.has_room(count) {
            return Err(Error::OutOfMemory);
        }
        if here && options.sync <= 1 {
            return Ok(());
        }
        if !can_wait {
            return Err(Error::MayNotWait);
        }
        if self.adders.len() as u64 >= self.settings.max_blocked_clients {
            return Err(Error::TooManyBlocked);
        }
        Ok(())
    }

    fn options_of(&self, now: Now, add: &AddJob<'_>, place: Place) -> Result<Options, Error> {
        let default_retry = (add.ttl.ms() / 10).clamp(MIN_DEFAULT_RETRY_MS, DEFAULT_RETRY_MS);
        let retry = add.retry.unwrap_or(Span::from_ms(default_retry));
        if add.delay.ms() >= add.ttl.ms() {
            return Err(Error::DelayAboveTtl);
        }
        let replicate = match add.replicate {
            Some(replicate) => replicate,
            None => self.default_replicate(place, now)?,
        };
        if retry.is_zero() && replicate != 1 {
            return Err(Error::RetryZeroReplicated);
        }
        let sync = match add.sync {
            None => replicate,
            // The default is as many copies as there can be: too few nodes.
            Some(Sync::Copies(n)) if n > replicate && add.replicate.is_none() => {
                return Err(Error::NoRepl)
            }
            Some(Sync::Copies(n) | Sync::AllBut(n)) if n > replicate => {
                return Err(Error::SyncAboveReplicate)
            }
            Some(Sync::Copies(n)) => n,
            Some(Sync::AllBut(n)) => replicate - n,
        };
        let sync = match self.is_mutant(Mutant::ReplyBeforeReplication) {
            true => sync.min(1),
            false => sync,
        };
        Ok(Options {
            replicate,
            sync,
            ttl: add.ttl,
            delay: add.delay,
            retry,
        })
    }

    /// As many copies as the setting says, as far as there are nodes for them.
    fn default_replicate(&self, place: Place, now: Now) -> Result<u16, Error> {
        let reachable = self.nodes_for_copies(place, now) as u64;
        let copies = self.settings.default_replicate.min(reachable);
        if copies < self.settings.default_replicate_min.max(1) {
            return Err(Error::NoRepl);
        }
        Ok(copies as u16)
    }

    fn check_limits(&self, add: &AddJob<'_>) -> Result<(), Error> {
        self.check_queue_name(add.queue)?;
        for body in add.bodies {
            check_length("a job's body", body, self.settings.max_body)?;
        }
        if add.bodies.len() == 1 {
            return Ok(());
        }
        self.check_count(("the number of bodies", "bodies"), add.bodies.len())?;
        let bytes: usize = add.bodies.iter().map(|body| body.len()).sum();
        check_size("all bodies together", bytes, self.settings.max_batch)
    }

    /// Refuses jobs that are to be kept here when memory is full, as it would be for
    /// the last of them if they came one by one. What may go is dropped first.
    fn make_room(
        &mut self,
        place: Place,
        options: &Options,
        bodies: &[&[u8]],
        now: Now,
        fx: &mut Effects,
    ) -> Result<(), Error> {
        let before_last = match bodies.split_last() {
            Some((_, others)) if place == Place::Here => memory_of(others, options),
            _ => 0,
        };
        for _ in 0..MAX_RELIEF * bodies.len() {
            let pressure = self.own_pressure_with(before_last);
            if pressure < Pressure::Critical || !self.relieve_memory(now, fx) {
                break;
            }
        }
        let full = place == Place::Here && self.pressure_with(before_last) == Pressure::Full;
        if full || !self.jobs.has_room(bodies.len()) || self.queues.is_full() {
            return Err(Error::OutOfMemory);
        }
        Ok(())
    }

    /// A creation time that is higher than any this node gave out or read.
    fn next_ctime(&mut self, now: Now) -> u64 {
        let clock = now.wall_ms.saturating_mul(1_000_000);
        self.last_ctime = clock.max(self.last_ctime.saturating_add(1));
        self.last_ctime
    }
}

/// Bytes that jobs with these bodies take, near enough.
fn memory_of(bodies: &[&[u8]], options: &Options) -> usize {
    let copies = match options.replicate {
        1 => 0,
        _ => std::mem::size_of::<Copies>(),
    };
    let each = Job::OVERHEAD + copies;
    bodies.iter().map(|body| each + body.len()).sum()
}

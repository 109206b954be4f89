//! ADDJOB.

use super::{check_length, Node};
use crate::clock::Now;
use crate::effects::Effects;
use crate::error::Error;
use crate::job::{Job, Options, State};
use crate::job_id::JobId;
use crate::memory::Pressure;
use crate::record::Record;
use crate::span::Span;

/// What ADDJOB asks for, with every value in its range already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddJob<'a> {
    /// The queue's name.
    pub queue: &'a [u8],
    /// The body.
    pub body: &'a [u8],
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

/// RETRY where a job does not say, unless a tenth of its TTL is less.
const DEFAULT_RETRY_MS: u64 = 300_000;
const MIN_DEFAULT_RETRY_MS: u64 = 1_000;
/// How many jobs one ADDJOB may drop to make room.
const MAX_RELIEF: usize = 16;
/// A node without peers reaches itself.
const REACHABLE_NODES: u64 = 1;

impl Node {
    /// ADDJOB: a new job, queued or delayed.
    pub fn add_job(
        &mut self,
        now: Now,
        add: &AddJob<'_>,
        fx: &mut Effects,
    ) -> Result<JobId, Error> {
        let options = self.options_of(add)?;
        self.check_limits(add)?;
        if self.leaving {
            return Err(Error::Leaving);
        }
        if u64::from(options.replicate) > REACHABLE_NODES {
            return Err(Error::NoRepl);
        }
        let existing = self.queues.find(add.queue);
        if let Some(queue) = existing.map(|key| &self.queues[key]) {
            if queue.pause.input {
                return Err(Error::Paused);
            }
            if add
                .max_len
                .is_some_and(|max| queue.order.len() as u64 >= max)
            {
                return Err(Error::MaxLen);
            }
        }
        self.make_room(now, fx)?;
        if existing.is_none() {
            self.check_room_for_queue(add.queue)?;
        }

        let queue = match existing {
            Some(key) => key,
            None => self.queues.find_or_create(add.queue, now)?,
        };
        let id = self.ids.next(options.ttl, !options.retry.is_zero());
        let ctime = self.next_ctime(now);
        let mut job = Job::new(id, queue, ctime, options, add.body.into());
        job.expire_at = now.after(options.ttl.ms());
        if options.delay.is_zero() {
            job.state = State::Queued;
        } else {
            job.state = State::Delayed;
            job.requeue_at = now.after(options.delay.ms());
        }
        let key = self.insert_job(job)?;
        self.queues[queue].used_at = now.mono_ms;
        self.stats.added += 1;
        if add.replicate.is_none() && self.settings.default_replicate > REACHABLE_NODES {
            self.stats.added_below_default += 1;
        }
        let image = self.image(key, now);
        fx.records.push(&Record::Job(image));
        Ok(id)
    }

    fn options_of(&self, add: &AddJob<'_>) -> Result<Options, Error> {
        let default_retry = (add.ttl.ms() / 10).clamp(MIN_DEFAULT_RETRY_MS, DEFAULT_RETRY_MS);
        let retry = add.retry.unwrap_or(Span::from_ms(default_retry));
        if add.delay.ms() >= add.ttl.ms() {
            return Err(Error::DelayAboveTtl);
        }
        let replicate = match add.replicate {
            Some(replicate) => replicate,
            None => self.default_replicate()?,
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
        Ok(Options {
            replicate,
            sync,
            ttl: add.ttl,
            delay: add.delay,
            retry,
        })
    }

    /// As many copies as the setting says, as far as there are nodes for them.
    fn default_replicate(&self) -> Result<u16, Error> {
        let copies = self.settings.default_replicate.min(REACHABLE_NODES);
        if copies < self.settings.default_replicate_min {
            return Err(Error::NoRepl);
        }
        Ok(copies as u16)
    }

    fn check_limits(&self, add: &AddJob<'_>) -> Result<(), Error> {
        self.check_queue_name(add.queue)?;
        check_length("a job's body", add.body, self.settings.max_body)
    }

    /// Refuses a job when memory is full. What may go is dropped first.
    fn make_room(&mut self, now: Now, fx: &mut Effects) -> Result<(), Error> {
        for _ in 0..MAX_RELIEF {
            if self.own_pressure() < Pressure::Critical || !self.relieve_memory(now, fx) {
                break;
            }
        }
        if self.pressure() == Pressure::Full || self.jobs.is_full() || self.queues.is_full() {
            self.stats.refused_for_memory += 1;
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

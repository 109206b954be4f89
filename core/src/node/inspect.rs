//! SHOW, QLEN, QPEEK, QSTAT: looking without touching.

use super::get::MAX_REPLY_BYTES;
use super::stats::Stats;
use super::Node;
use crate::clock::Now;
use crate::job::{Job, State};
use crate::job_id::{hex_text, JobId};
use crate::queue::Queue;

/// What SHOW tells of a job beside what the job itself holds.
pub struct JobView<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its queue's name.
    pub queue: &'a [u8],
    /// What is left of its TTL, in ms.
    pub ttl_left_ms: u64,
    /// Time until it is queued, in ms; `None` when no time is set.
    pub requeue_within_ms: Option<u64>,
    /// Time until this node looks at it again, in ms.
    pub awake_within_ms: Option<u64>,
}

/// What SHOW finds.
pub enum Shown<'a> {
    /// A job.
    Job(JobView<'a>),
    /// No more than the acknowledgement of a job that is not here.
    DummyAck {
        /// How long it is kept at most, in ms.
        ttl_left_ms: u64,
        /// Time until this node looks at it again, in ms.
        awake_within_ms: Option<u64>,
    },
}

/// What QSTAT tells of a queue. Times in ms.
pub struct QueueView<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Jobs that can be delivered.
    pub len: usize,
    /// Time since it came to be.
    pub age_ms: u64,
    /// Time since a client last used it.
    pub idle_ms: u64,
    /// Clients that wait on it.
    pub blocked: usize,
    /// Ids of nodes from which jobs come.
    pub import_from: Vec<String>,
    /// Jobs that come from other nodes a second.
    pub import_rate: u64,
    /// Jobs that entered it.
    pub jobs_in: u64,
    /// Jobs that were delivered from it.
    pub jobs_out: u64,
    /// The word of PAUSE.
    pub pause: &'static str,
}

/// Totals for INFO.
pub struct Totals {
    /// Jobs by [`State`].
    pub jobs: [u64; State::COUNT],
    /// Queues.
    pub queues: usize,
    /// Blocked clients.
    pub blocked_clients: usize,
    /// Producers that wait for copies.
    pub waiting_producers: usize,
    /// Acknowledgements of jobs that are not here.
    pub dummy_acks: usize,
    /// Settled jobs that are remembered.
    pub settled: usize,
    /// Bytes that queues take, without their jobs.
    pub queue_bytes: usize,
    /// Bytes that jobs take.
    pub job_bytes: usize,
    /// What was done since the start.
    pub stats: Stats,
}

impl Node {
    /// SHOW.
    pub fn show(&self, now: Now, id: &JobId) -> Option<Shown<'_>> {
        if let Some(key) = self.jobs.find(id) {
            return Some(Shown::Job(self.view(now, key)));
        }
        let ack = self.acks.get(self.acks.find(id)?)?;
        Some(Shown::DummyAck {
            ttl_left_ms: ack.expire_at.saturating_sub(now.mono_ms),
            awake_within_ms: now.until(ack.ask_at.min(ack.expire_at)),
        })
    }

    /// Ids of the nodes that may have a copy of a job; of those only that surely do,
    /// or surely know that it is acknowledged, if `confirmed`.
    pub fn holders(&self, job: &Job, confirmed: bool) -> Vec<String> {
        let name = |holder| hex_text(&self.holders.pair(holder).id);
        match self.copies.get(job.copies) {
            Some(copies) if confirmed => copies.holders.confirmed().map(name).collect(),
            Some(copies) => copies.holders.iter().map(name).collect(),
            None if confirmed => Vec::new(),
            None => vec![self.identity.hex()],
        }
    }

    /// What SHOW and JSCAN REPLY all tell of the job with this key.
    pub fn view(&self, now: Now, key: u32) -> JobView<'_> {
        let job = &self.jobs[key];
        JobView {
            job,
            queue: &self.queue_of(job).name,
            ttl_left_ms: job.expire_at.saturating_sub(now.mono_ms),
            requeue_within_ms: now.until(job.requeue_at),
            awake_within_ms: now.until(job.expire_at.min(job.requeue_at)),
        }
    }

    /// QLEN.
    pub fn queue_len(&self, queue: &[u8]) -> usize {
        self.queues
            .find(queue)
            .map_or(0, |key| self.queues[key].order.len())
    }

    /// QPEEK: keys of up to `count` queued jobs, oldest or newest first. Never
    /// more than `disque.max-ids`, and no more bodies than GETJOB would give.
    pub fn peek(&self, queue: &[u8], count: u64, newest_first: bool) -> Vec<u32> {
        let Some(key) = self.queues.find(queue) else {
            return Vec::new();
        };
        let order = &self.queues[key].order;
        let count = count.min(self.settings.max_ids) as usize;
        let mut bytes = 0;
        let fits = |key: &u32| {
            let fits = bytes <= MAX_REPLY_BYTES;
            bytes += self.jobs[*key].body.len();
            fits
        };
        if newest_first {
            order.iter().rev().take(count).take_while(fits).collect()
        } else {
            order.iter().take(count).take_while(fits).collect()
        }
    }

    /// QSTAT.
    pub fn queue_stat(&self, now: Now, queue: &[u8]) -> Option<QueueView<'_>> {
        let queue: &Queue = &self.queues[self.queues.find(queue)?];
        Some(QueueView {
            name: &queue.name,
            len: queue.order.len(),
            age_ms: now.mono_ms.saturating_sub(queue.created_at),
            idle_ms: now.mono_ms.saturating_sub(queue.used_at),
            blocked: queue.waiters.len(),
            import_from: self.sources(queue, now),
            import_rate: queue.import_rate(now),
            jobs_in: queue.jobs_in,
            jobs_out: queue.jobs_out,
            pause: queue.pause.name(),
        })
    }

    fn sources(&self, queue: &Queue, now: Now) -> Vec<String> {
        let imports = queue.imports.as_ref();
        let sources = imports.map_or(&[][..], |imports| imports.sources(now.mono_ms));
        let known = sources.iter().filter_map(|key| self.cluster.by_key(*key));
        known.map(|peer| hex_text(&peer.id)).collect()
    }

    /// What INFO tells.
    pub fn totals(&self) -> Totals {
        Totals {
            jobs: self.job_counts,
            queues: self.queues.len(),
            blocked_clients: self.waiters.len(),
            queue_bytes: self.queues.bytes(),
            job_bytes: self.jobs.bytes() + self.copies.bytes(),
            waiting_producers: self.adders.len(),
            dummy_acks: self.acks.len(),
            settled: self.settled.len(),
            stats: self.stats,
        }
    }
}

//! Taking back what was written down: a snapshot, the append only file, the
//! stream of a primary.

use super::requeue::Counter;
use super::{Identity, Node};
use crate::clock::{Now, NEVER};
use crate::collections::Full;
use crate::effects::Effects;
use crate::job::{Job, Options, State};
use crate::queue::Pause;
use crate::record::{JobImage, Malformed, Record, Records, StateImage};
use crate::span::Span;

/// Whether data that was loaded is known to hold every delivery that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Each delivery was written down before it left: the server stopped
    /// cleanly, or the append only file was synced before each reply.
    Complete,
    /// The last deliveries may be missing.
    MayLackDeliveries,
}

impl Node {
    /// Applies a batch of records. On an error, what came before the bad record
    /// stays applied; the caller says which it was and gives up or goes on.
    pub fn apply(&mut self, now: Now, batch: &[u8]) -> Result<(), Malformed> {
        let mut records = Records::read(batch)?;
        while let Some(record) = records.next() {
            let applied = self.apply_record(now, record?);
            applied.map_err(|full| records.malformed(full.to_string()))?;
        }
        Ok(())
    }

    /// Records of jobs that are unknown change nothing: a snapshot may be newer
    /// than the first records that follow it.
    fn apply_record(&mut self, now: Now, record: Record<'_>) -> Result<(), Full> {
        match record {
            Record::Node(image) => {
                self.set_identity(Identity {
                    id: image.id,
                    epoch: image.epoch,
                    term: image.term,
                });
                // A RESET has emptied the table that the nodes file gave, though
                // the file is as young as the last change.
                self.restore_table();
            }
            Record::Job(image) => self.load_job(now, &image)?,
            Record::Paused { queue, pause } => {
                self.set_pause(now, queue, Pause::from_bits(pause))?
            }
            Record::Flushed => self.clear(now),
            Record::Delivered { id, requeue_at } => {
                if let Some(key) = self.jobs.find(&id) {
                    self.lift(key);
                    let job = &mut self.jobs[key];
                    if job.state == State::Active && job.attempt > 0 {
                        // It was queued again by its RETRY, which is not recorded.
                        job.additional_deliveries = job.additional_deliveries.saturating_add(1);
                    }
                    job.attempt = job.attempt.saturating_add(1);
                    self.place(key, State::Active, now.from_wall(requeue_at));
                }
            }
            Record::Returned { id } => {
                if let Some(key) = self.jobs.find(&id) {
                    self.take_back(key);
                }
            }
            Record::Requeued { id, nack } => {
                if let Some(key) = self.jobs.find(&id) {
                    self.count_and_queue(key, Counter::of(nack));
                }
            }
            Record::Postponed { id, requeue_at } => {
                if let Some(key) = self.jobs.find(&id) {
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
            Record::Withheld { id } => {
                if let Some(key) = self.jobs.find(&id) {
                    self.withhold(key);
                }
            }
        }
        Ok(())
    }

    fn load_job(&mut self, now: Now, image: &JobImage<'_>) -> Result<(), Full> {
        if let Some(key) = self.jobs.find(&image.id) {
            self.remove_job(key, now);
        }
        let options = Options {
            replicate: image.replicate,
            sync: image.sync,
            ttl: Span::from_bits(image.ttl),
            delay: Span::from_bits(image.delay),
            retry: Span::from_bits(image.retry),
        };
        let queue = self.queues.find_or_create(image.queue, now)?;
        let mut job = Job::new(image.id, queue, image.ctime, options, image.body.into());
        job.expire_at = now.from_wall(image.expire_at);
        job.requeue_at = now.from_wall(image.requeue_at);
        job.state = match image.state {
            StateImage::Delayed => State::Delayed,
            StateImage::Active => State::Active,
            StateImage::Queued => State::Queued,
        };
        job.attempt = image.attempt;
        job.nacks = image.nacks;
        job.additional_deliveries = image.additional_deliveries;
        job.withheld = image.withheld;
        self.last_ctime = self.last_ctime.max(image.ctime);
        self.insert_job(job).map(|_| ())
    }

    /// The load is over and this node serves from now on. At-most-once jobs
    /// that may have been delivered are kept from being delivered again, unless
    /// `disque.at-most-once-after-crash deliver` says otherwise.
    pub fn finish_load(&mut self, completeness: Completeness, fx: &mut Effects) {
        if completeness == Completeness::Complete || self.settings.deliver_after_crash {
            return;
        }
        let mut from = 0;
        while let Some(key) = self.jobs.next_occupied(from) {
            from = key + 1;
            let job = &self.jobs[key];
            if job.at_most_once() && job.attempt == 0 && !job.withheld {
                let id = job.id;
                self.withhold(key);
                fx.records.push(&Record::Withheld { id });
            }
        }
    }

    fn withhold(&mut self, key: u32) {
        self.lift(key);
        self.jobs[key].withheld = true;
        self.place(key, State::Active, NEVER);
        self.stats.withheld += 1;
    }
}

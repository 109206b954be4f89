//! Writing the whole state down.

use super::Node;
use crate::body::Carried;
use crate::clock::Now;
use crate::holders::PairList;
use crate::job::State;
use crate::record::{JobImage, Record, RecordBatch};

/// Batches are cut at about this size.
const BATCH_BYTES: usize = 64 << 10;

impl Node {
    /// Writes everything as batches of records of about 64 KiB, each handed to
    /// `write`, which may stop the walk with an error. Queued jobs are written
    /// queue by queue in their order: a load then appends at the tail.
    pub fn snapshot<E>(
        &self,
        now: Now,
        write: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut out = Batches {
            batch: RecordBatch::default(),
            write,
        };
        out.push(&Record::Node(self.identity))?;
        for peer in self.cluster.peers() {
            out.push(&Record::Known(peer.listing()))?;
        }
        if let Some((identity, contact)) = self.superseded_line() {
            out.push(&Record::Known(contact.listing(&identity)))?;
        }
        for (id, epoch, until) in self.cluster.forgotten() {
            out.push(&Record::Forgotten { id, epoch, until })?;
        }
        for (_, queue) in self.queues.iter() {
            if !queue.pause.is_none() {
                out.push(&Record::Paused {
                    queue: &queue.name,
                    pause: queue.pause.to_bits(),
                })?;
            }
            for key in queue.order.iter() {
                self.write_job(key, now, &mut out)?;
            }
        }
        let mut from = 0;
        while let Some(key) = self.jobs.next_occupied(from) {
            from = key + 1;
            if self.jobs[key].state != State::Queued {
                self.write_job(key, now, &mut out)?;
            }
        }
        let mut from = 0;
        while let Some(key) = self.acks.next_occupied(from) {
            from = key + 1;
            if let Some(ack) = self.acks.get(key) {
                out.push(&Record::DummyAck {
                    id: ack.id,
                    until: now.to_wall(ack.expire_at),
                })?;
            }
        }
        out.push(&Record::Position {
            batches: self.batches,
        })?;
        out.finish()
    }

    fn write_job<E>(&self, key: u32, now: Now, out: &mut Batches<'_, E>) -> Result<(), E> {
        let list = self.recorded_holders(key);
        let mut image = self.image(key, now, &list);
        image.body = Carried::Within(image.body.bytes());
        out.push(&Record::Job(image))
    }

    /// A job as records carry it; `list` names its possible holders.
    pub(super) fn image<'a>(&'a self, key: u32, now: Now, list: &'a PairList) -> JobImage<'a> {
        let job = &self.jobs[key];
        JobImage {
            id: job.id,
            queue: &self.queues[job.queue].name,
            body: job.body.carried(),
            ctime: job.ctime,
            expire_at: now.to_wall(job.expire_at),
            requeue_at: now.to_wall(job.requeue_at),
            options: job.options,
            state: job.state,
            attempt: job.attempt,
            nacks: job.nacks,
            additional_deliveries: job.additional_deliveries,
            withheld: job.withheld,
            copies: self.copies_image(key, list),
        }
    }
}

struct Batches<'a, E> {
    batch: RecordBatch,
    write: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
}

impl<E> Batches<'_, E> {
    fn push(&mut self, record: &Record<'_>) -> Result<(), E> {
        self.batch.push(record);
        if self.batch.len() < BATCH_BYTES {
            return Ok(());
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<(), E> {
        let written = match self.batch.bytes() {
            [] => Ok(()),
            bytes => (self.write)(bytes),
        };
        self.batch.clear();
        written
    }
}

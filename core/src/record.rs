//! What is written down: the changes of a node and its whole state, as bytes.
//!
//! One format serves the append only file, Redis replicas and the snapshot in
//! the RDB: a *batch*, that is one version byte, the CRC-32 of what follows (four
//! bytes, little endian), and records end to end. Large bodies may stand beside it, see
//! [`crate::body`]: each with a CRC-32 in its record, so that the record is named whose
//! body is damaged. In a snapshot all bodies are in their records. The order of the
//! variants of [`Record`] and of their fields *is* the format: append at the end, never
//! reorder; `tests/fixtures` holds a batch of each released version.
//!
//! Times in records are wall-clock milliseconds (0 for none), since another
//! process reads them.

use crate::body::{Bodies, Carried, LargeBody, NextBody, Packet, Parts};
use crate::encoding::{append, decode};
use crate::holders::{Pair, Pairs};
use crate::job::{Options, State};
use crate::job_id::JobId;
use crate::message::Listing;
use crate::node::Identity;
use bincode::{BorrowDecode, Encode};
use std::fmt;

/// The version of a batch that has all bodies in its records.
const VERSION: u8 = 1;
/// The version of a batch with bodies beside it; but for these it is the same.
const VERSION_BESIDE: u8 = 2;

/// Version and checksum.
const HEADER: usize = 5;

/// One change, or one piece of state.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
#[bincode(decode_context = "NextBody<'a>")]
pub enum Record<'a> {
    /// Who this node is. First in every snapshot.
    Node(Identity),
    /// A job as it stands, new or in a snapshot.
    Job(JobImage<'a>),
    /// A job was given to a consumer.
    Delivered {
        /// Which.
        id: JobId,
        /// When it comes back, 0 for never.
        requeue_at: u64,
    },
    /// A delivery did not reach its consumer: it never happened.
    Returned {
        /// Of which job.
        id: JobId,
    },
    /// A client put a job back on its queue.
    Requeued {
        /// Which.
        id: JobId,
        /// Whether a NACK counts; else it is one more delivery.
        nack: bool,
    },
    /// A job was taken off its queue, or its next delivery was postponed.
    Postponed {
        /// Which.
        id: JobId,
        /// When it comes back, 0 for never.
        requeue_at: u64,
    },
    /// A job is gone: acknowledged, deleted or expired.
    Removed {
        /// Which.
        id: JobId,
    },
    /// A queue was paused or resumed.
    Paused {
        /// Its name.
        queue: &'a [u8],
        /// See [`crate::queue::Pause::to_bits`].
        pause: u8,
    },
    /// All jobs and queues are gone.
    Flushed,
    /// An at-most-once job stays undelivered: it may have been delivered before.
    Withheld {
        /// Which.
        id: JobId,
    },
    /// A node of the cluster.
    Known(Listing<'a>),
    /// A node is no longer in the table.
    NodeGone {
        /// Its id.
        id: [u8; 20],
    },
    /// A node was forgotten, with its data.
    Forgotten {
        /// Its id.
        id: [u8; 20],
        /// The data epoch that is gone.
        epoch: u64,
        /// Up to when this is remembered.
        until: u64,
    },
    /// The node became a new one: its table is empty.
    Reset,
    /// Who has copies of a job changed. A job whose producer waited for these is
    /// queued with it.
    Holders {
        /// Of which job.
        id: JobId,
        /// All possible holders.
        holders: Pairs<'a>,
    },
    /// A job is settled, and kept until all holders know.
    Acked {
        /// Which.
        id: JobId,
    },
    /// The acknowledgement of a job that is not here.
    DummyAck {
        /// Of which job.
        id: JobId,
        /// When it is of no use any more.
        until: u64,
    },
    /// Such an acknowledgement is forgotten.
    DummyGone {
        /// Of which job.
        id: JobId,
    },
    /// How many batches these data stand for. Last in every snapshot.
    Position {
        /// See [`crate::node::Node::batches`].
        batches: u64,
    },
}

/// The copies of a job, as written down.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct CopiesImage<'a> {
    /// All possible holders.
    pub holders: Pairs<'a>,
    /// The highest turn that is known.
    pub turn: u32,
    /// Who had it.
    pub responsible: Option<Pair>,
}

/// A whole job, as written down.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
#[bincode(decode_context = "NextBody<'a>")]
pub struct JobImage<'a> {
    /// Its id.
    pub id: JobId,
    /// The name of its queue.
    pub queue: &'a [u8],
    /// Its body.
    pub body: Carried<'a>,
    /// Creation, wall-clock ms x 10^6.
    pub ctime: u64,
    /// When its TTL passes.
    pub expire_at: u64,
    /// When it will be queued; 0 for never, or because it is.
    pub requeue_at: u64,
    /// What its producer asked for.
    pub options: Options,
    /// Where it stands.
    pub state: State,
    /// Deliveries so far.
    pub attempt: u32,
    /// Negative acknowledgements.
    pub nacks: u16,
    /// Times it was queued again.
    pub additional_deliveries: u16,
    /// Kept undelivered, see [`Record::Withheld`].
    pub withheld: bool,
    /// What is known of other copies, if there can be any.
    pub copies: Option<CopiesImage<'a>>,
}

impl<'a> Record<'a> {
    /// Its body, if it stands beside.
    fn beside(&self) -> Option<&Carried<'a>> {
        match self {
            Record::Job(image) => Some(&image.body).filter(|body| body.is_beside()),
            _ => None,
        }
    }
}

/// Records end to end, ready to be written.
#[derive(Default)]
pub struct RecordBatch {
    packet: Packet,
    /// Of each of its bodies, see [`RecordBatch::push_given`].
    given: Vec<Option<usize>>,
}

impl RecordBatch {
    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.packet.bytes.is_empty()
    }

    /// How many bytes there are to write, without bodies that stand beside.
    pub fn len(&self) -> usize {
        self.packet.bytes.len()
    }

    /// What is to be written, version and checksum included; empty if nothing was
    /// recorded. The checksum is made here, once for all records: for one after the
    /// other it costs more than they do.
    pub fn packet(&mut self) -> &Packet {
        let Packet { bytes, bodies } = &mut self.packet;
        if let Some((header, records)) = bytes.split_first_chunk_mut::<HEADER>() {
            header[0] = match bodies.is_empty() {
                true => VERSION,
                false => VERSION_BESIDE,
            };
            header[1..].copy_from_slice(&crc32fast::hash(records).to_le_bytes());
        }
        &self.packet
    }

    /// The bytes of it.
    pub fn bytes(&mut self) -> &[u8] {
        &self.packet().bytes
    }

    /// The bodies that stand beside, each with its number among those that came with
    /// the call, if it is one of them.
    pub fn bodies(&self) -> impl Iterator<Item = (&[u8], Option<usize>)> {
        let bodies = self.packet.bodies.iter().map(LargeBody::as_ref);
        bodies.zip(self.given.iter().copied())
    }

    /// Empties the batch. Room that a large body took is given back.
    pub fn clear(&mut self) {
        const KEEP: usize = 64 << 10;
        self.packet.bytes.clear();
        self.packet.bytes.shrink_to(KEEP);
        self.packet.bodies.clear();
        self.given.clear();
    }

    /// Adds a record.
    pub fn push(&mut self, record: &Record<'_>) {
        self.push_given(record, None);
    }

    /// Adds a record with the body that came with the call under this number: whoever
    /// writes it may have it at hand in another form.
    pub fn push_given(&mut self, record: &Record<'_>, number: Option<usize>) {
        let bytes = &mut self.packet.bytes;
        if bytes.is_empty() {
            bytes.extend([0; HEADER]);
        }
        append(record, bytes);
        if let Some(body) = record.beside().and_then(Carried::to_large) {
            self.packet.bodies.push(body);
            self.given.push(number);
        }
    }
}

/// Why bytes are no batch of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where in the batch the bad record starts.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record at byte {}: {}", self.offset, self.reason)
    }
}

/// Reads a batch, record by record. After an error there is nothing more.
pub struct Records<'a> {
    batch: &'a [u8],
    offset: usize,
    bodies: Bodies<'a>,
}

impl<'a> Records<'a> {
    /// Checks version and checksum, and starts at the first record.
    pub fn read(batch: impl Into<Parts<'a>>) -> Result<Records<'a>, Malformed> {
        let malformed = |reason: &str| Malformed {
            offset: 0,
            reason: reason.into(),
        };
        let Parts { bytes, bodies } = batch.into();
        let Some((header, records)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(malformed("shorter than its header"));
        };
        let [version, checksum @ ..] = *header;
        if version != VERSION && version != VERSION_BESIDE {
            return Err(malformed("unknown format version"));
        }
        if crc32fast::hash(records) != u32::from_le_bytes(checksum) {
            return Err(malformed("wrong checksum"));
        }
        Ok(Records {
            batch: bytes,
            offset: HEADER,
            bodies,
        })
    }

    /// The end: no body may be left.
    fn end(&mut self) -> Option<Malformed> {
        let left = std::mem::take(&mut self.bodies).left();
        (left > 0).then(|| self.malformed(format!("{left} bodies that belong to no record")))
    }
}

impl Records<'_> {
    /// The error for the record read last, or for what follows it.
    pub fn malformed(&self, reason: String) -> Malformed {
        Malformed {
            offset: self.offset,
            reason,
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.batch[self.offset..];
        if rest.is_empty() {
            return self.end().map(Err);
        }
        match decode(rest, self.bodies.next()) {
            Ok((record, len)) => {
                self.offset += len;
                if Record::beside(&record).is_some() {
                    self.bodies.advance();
                }
                Some(Ok(record))
            }
            Err(error) => {
                let offset = std::mem::replace(&mut self.offset, self.batch.len());
                self.bodies = Bodies::default();
                Some(Err(Malformed {
                    offset,
                    reason: error.to_string(),
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests;

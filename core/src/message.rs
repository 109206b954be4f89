//! What nodes tell each other, as bytes.
//!
//! A *frame* goes over one connection: a [`Header`] that says who speaks on which
//! connection, then messages end to end. Its *answer* has a header of its own and
//! the messages that go back. The order of the variants of [`Message`] and of
//! their fields *is* the format: append at the end, never reorder.
//!
//! Large bodies stand beside the frame, see [`crate::body`].
//!
//! A header is the same for the life of a connection and stands alone in front,
//! so that a frame is put together without encoding anything twice.

use crate::body::{Carried, NextBody, Packet};
use crate::encoding::append;
use crate::holders::{Pair, Pairs};
use crate::job::Options;
use crate::job_id::JobId;
use crate::node::Identity;
use bincode::{BorrowDecode, Encode};
use std::fmt;

mod reading;

pub use reading::{read_answer, read_frame, Messages};

/// The version that is spoken. Another one is refused.
pub const PROTOCOL: u8 = 1;

/// What a frame may hold beside one single larger message.
pub const MAX_FRAME: usize = 256 << 10;
/// Messages in a frame; what comes behind them is refused.
pub const MAX_MESSAGES: usize = 512;
/// Messages in an answer: more, since some are answered by several.
const MAX_ANSWERS: usize = 16 * MAX_MESSAGES;

/// Who speaks, and on which connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Header {
    /// The speaker.
    pub from: Speaker,
    /// Whom the speaker takes the listener for; `None` when it asks who is there.
    pub to: Option<[u8; 20]>,
    /// Grows with each connection that the speaker makes.
    pub connection: u64,
}

/// A node as it presents itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Speaker {
    /// Its id.
    pub id: [u8; 20],
    /// Its data epoch.
    pub epoch: u64,
    /// Its term.
    pub term: u64,
    /// How often it started.
    pub incarnation: u64,
    /// Tells this process from every other one; 0 where it does not speak itself.
    pub process: u64,
    /// The port at which its clients reach it.
    pub port: u16,
}

impl Speaker {
    /// What makes the speaker who it is.
    pub fn identity(&self) -> Identity {
        Identity {
            id: self.id,
            epoch: self.epoch,
            term: self.term,
        }
    }
}

/// A node as the table of another one lists it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Listing<'a> {
    /// Its id.
    pub id: [u8; 20],
    /// Its data epoch.
    pub epoch: u64,
    /// Its term.
    pub term: u64,
    /// Where its clients reach it: a name or an address.
    pub host: &'a str,
    /// See `host`.
    pub port: u16,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
#[bincode(decode_context = "NextBody<'a>")]
pub enum Message<'a> {
    /// Sent all the time, and answered with the same.
    Heartbeat(Heartbeat),
    /// A node that the sender knows. Sent, all of them, to whom has another table.
    Known(Listing<'a>),
    /// A node that is gone for good, with its data epoch.
    Forgotten {
        /// Its id.
        id: [u8; 20],
        /// The data that are gone with it.
        epoch: u64,
        /// Wall-clock ms up to which this is remembered.
        until: u64,
    },
    /// PAUSE with BCAST.
    Pause {
        /// The queue's name.
        queue: &'a [u8],
        /// See [`crate::queue::Pause::to_bits`].
        pause: u8,
    },
    /// The address that the speaker wants others to use; empty if it has no wish.
    Address {
        /// A name or an address.
        host: &'a str,
    },
    /// Last in an answer: the frame was not taken beyond a bad message.
    Stopped {
        /// What was wrong with it.
        reason: &'a str,
    },
    /// REPLJOB: keep a copy of this job.
    ReplJob(CopyImage<'a>),
    /// GOTJOB: the speaker keeps a copy.
    GotJob {
        /// Of which job.
        id: JobId,
    },
    /// The speaker keeps no copy: it has no memory, leaves, or takes no jobs for
    /// the queue.
    NotKept {
        /// Of which job.
        id: JobId,
        /// Whether it is for want of memory.
        full: bool,
    },
    /// HOLDERS: who has copies of a job, or may have. A speaker that is not among
    /// them has none any more.
    Holders {
        /// Of which job.
        id: JobId,
        /// The speaker's list.
        holders: Pairs<'a>,
    },
    /// ENQUEUE: the job is the receiver's to queue from now on. Answered with
    /// `GotYourJob`, `NotTaken`, `SetAck` or `Unknown`.
    Enqueue {
        /// Which.
        id: JobId,
        /// In how many ms.
        delay_ms: u64,
        /// What the speaker believed.
        claim: Claim,
        /// The speaker's list.
        holders: Pairs<'a>,
    },
    /// WILLQUEUE: the speaker is about to queue a job again. Answered with
    /// `Queued`, `Postpone`, `SetAck`, `Unknown` or `GoAhead`, perhaps after
    /// `Holders`.
    WillQueue {
        /// Which.
        id: JobId,
        /// What the speaker believes.
        claim: Claim,
        /// The speaker's list.
        holders: Pairs<'a>,
    },
    /// The speaker has nothing against it.
    GoAhead {
        /// Which job.
        id: JobId,
        /// The highest turn that it knows.
        turn: u32,
    },
    /// The speaker does not have the job.
    Unknown {
        /// Which.
        id: JobId,
    },
    /// POSTPONE: the job is not to be queued yet.
    Postpone {
        /// Which.
        id: JobId,
        /// Ask again in so many ms.
        ms: u64,
        /// What the speaker believes.
        claim: Claim,
    },
    /// QUEUED: the job was queued again, or will be by the one responsible.
    Queued {
        /// Which.
        id: JobId,
        /// What counts for it.
        counter: Bump,
        /// In how many ms it is queued; 0 for now.
        ms: u64,
        /// Who queues it.
        claim: Claim,
        /// The speaker's list.
        holders: Pairs<'a>,
    },
    /// WORKING: a consumer is at it still.
    Working {
        /// Which job.
        id: JobId,
        /// What the speaker believes.
        claim: Claim,
        /// The speaker's list.
        holders: Pairs<'a>,
    },
    /// SETACK: the job is settled.
    SetAck {
        /// Which.
        id: JobId,
        /// The highest delivery that the speaker knows.
        attempt: u32,
        /// The speaker keeps nothing but the acknowledgement, and perhaps not even
        /// that.
        dummy: bool,
        /// The speaker's list.
        holders: Pairs<'a>,
    },
    /// GOTACK: the answer to it.
    GotAck {
        /// Which job.
        id: JobId,
        /// Whether the speaker has it, settled now.
        known: bool,
        /// The speaker's list.
        holders: Pairs<'a>,
    },
    /// HAVE: whether the receiver has these jobs, and is the one to queue them. What
    /// is settled there is answered with `SetAck`, the rest with `Lacking`.
    Have {
        /// The speaker has them, and believes that the receiver does.
        ids: JobIds<'a>,
        /// Those of them for which it believes itself responsible.
        mine: JobIds<'a>,
    },
    /// The answer to it.
    Lacking {
        /// Jobs that the speaker does not have.
        missing: JobIds<'a>,
        /// Jobs that it has, and for which it is not responsible.
        not_mine: JobIds<'a>,
    },
    /// NEEDJOBS: clients of the speaker wait for jobs. It replaces what was said of
    /// this queue before, and lapses if it is not repeated.
    NeedJobs {
        /// The queue's name.
        queue: &'a [u8],
        /// For how many; 0 for none any more.
        count: u32,
        /// Grows with each request of the speaker.
        serial: u64,
    },
    /// YOURJOBS: a job for the receiver to deliver. Answered with `GotYourJob`,
    /// `NotTaken`, `SetAck` or `NeedBody`.
    YourJob {
        /// Grows with each job that the speaker gives away: one that comes twice is
        /// taken once.
        serial: u64,
        /// The job.
        copy: CopyImage<'a>,
    },
    /// GOTJOBS: the job is the speaker's now.
    GotYourJob {
        /// Which.
        id: JobId,
        /// With its turn.
        claim: Claim,
    },
    /// GOTJOBS: the speaker does not take it.
    NotTaken {
        /// Which.
        id: JobId,
        /// Whether it is for want of memory.
        full: bool,
    },
    /// GOTJOBS: the job came without its body, and the speaker does not have it.
    NeedBody {
        /// Which.
        id: JobId,
    },
    /// DELJOB: all that may have had the job know that it is settled.
    DelJob {
        /// Which.
        id: JobId,
    },
    /// The speaker leaves: the receiver is to see to it that all possible holders
    /// hear of this acknowledgement. Answered with `AckKept`.
    KeepAck {
        /// Of which job.
        id: JobId,
        /// For how long it matters.
        ttl_left_ms: u64,
        /// The speaker's list.
        holders: Pairs<'a>,
    },
    /// The answer to it.
    AckKept {
        /// Of which job.
        id: JobId,
    },
    /// WILLDROP: the speaker gives its copy of a job up once the receiver knows who else
    /// may have one. Answered with `Holders`, `SetAck` or `Unknown`.
    WillDrop {
        /// Of which job.
        id: JobId,
        /// The speaker's list.
        holders: Pairs<'a>,
    },
}

/// Ids of jobs end to end, as they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct JobIds<'a>(&'a [u8]);

impl JobIds<'_> {
    /// The list of these ids.
    pub fn encode(ids: &[JobId]) -> JobIdList {
        JobIdList(ids.iter().flat_map(JobId::to_bytes).collect())
    }

    /// The ids; what is left over at the end is none.
    pub fn iter(&self) -> impl Iterator<Item = JobId> + '_ {
        let ids = self.0.chunks_exact(JobId::BYTES);
        ids.filter_map(|bytes| bytes.try_into().ok().map(JobId::from_bytes))
    }
}

/// An owned [`JobIds`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobIdList(Vec<u8>);

impl JobIdList {
    /// The list to be encoded.
    pub fn ids(&self) -> JobIds<'_> {
        JobIds(&self.0)
    }
}

impl Message<'_> {
    /// Whether one that says this about a job has it.
    pub fn speaker_holds_it(&self) -> bool {
        !matches!(
            self,
            Message::NotKept { .. }
                | Message::NotTaken { .. }
                | Message::NeedBody { .. }
                | Message::Unknown { .. }
        )
    }

    /// The job that the message is about.
    pub fn job(&self) -> Option<&JobId> {
        match self {
            Message::ReplJob(copy) | Message::YourJob { copy, .. } => Some(&copy.id),
            Message::GotJob { id }
            | Message::NotKept { id, .. }
            | Message::GotYourJob { id, .. }
            | Message::NotTaken { id, .. }
            | Message::NeedBody { id }
            | Message::Holders { id, .. }
            | Message::Enqueue { id, .. }
            | Message::WillQueue { id, .. }
            | Message::GoAhead { id, .. }
            | Message::Unknown { id }
            | Message::Postpone { id, .. }
            | Message::Queued { id, .. }
            | Message::Working { id, .. }
            | Message::SetAck { id, .. }
            | Message::GotAck { id, .. }
            | Message::KeepAck { id, .. }
            | Message::AckKept { id }
            | Message::WillDrop { id, .. }
            | Message::DelJob { id } => Some(id),
            Message::Heartbeat(_)
            | Message::Known(_)
            | Message::Forgotten { .. }
            | Message::Pause { .. }
            | Message::Address { .. }
            | Message::Stopped { .. }
            | Message::Have { .. }
            | Message::Lacking { .. }
            | Message::NeedJobs { .. } => None,
        }
    }
}

/// What counts when a job is queued again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub enum Bump {
    /// Nothing: it is known already.
    None,
    /// A negative acknowledgement.
    Nack,
    /// One more delivery.
    Delivery,
}

/// Whom a node believes responsible for queueing a job again.
///
/// Each queueing is one turn more, and the highest turn is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Claim {
    /// The turn that it knows.
    pub turn: u32,
    /// Who has it, if anybody is believed.
    pub responsible: Option<Pair>,
    /// The highest delivery that it knows of.
    pub attempt: u32,
}

/// A job for another node. Times are what is left, in ms: clocks differ.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
#[bincode(decode_context = "NextBody<'a>")]
pub struct CopyImage<'a> {
    /// Its id.
    pub id: JobId,
    /// The name of its queue.
    pub queue: &'a [u8],
    /// Its body; left out where the receiver surely has it.
    pub body: Option<Carried<'a>>,
    /// Creation, wall-clock ms x 10^6.
    pub ctime: u64,
    /// Until its TTL passes.
    pub ttl_left_ms: u64,
    /// Until it is queued first.
    pub delay_left_ms: u64,
    /// What its producer asked for.
    pub options: Options,
    /// Negative acknowledgements.
    pub nacks: u16,
    /// Times it was queued again.
    pub additional_deliveries: u16,
    /// What the speaker believes.
    pub claim: Claim,
    /// The speaker's list, the receiver in it.
    pub holders: Pairs<'a>,
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Heartbeat {
    /// DISQUE LEAVING yes was said.
    pub leaving: bool,
    /// The sender was answered by the receiver within node-timeout.
    pub answered: bool,
    /// The incarnation of the sender that started last without the one before
    /// having stopped; 0 for none that is known.
    pub unclean_start: u64,
    /// A fingerprint of the sender's table.
    pub table: u64,
}

/// Why bytes are no frame or answer. The position says how much was good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The header as the first bytes of a frame.
pub fn encode_header(header: &Header) -> Vec<u8> {
    let mut bytes = vec![PROTOCOL];
    append(header, &mut bytes);
    bytes
}

/// The first bytes of an answer.
pub fn encode_answer(speaker: &Speaker) -> Vec<u8> {
    let mut bytes = vec![PROTOCOL];
    append(speaker, &mut bytes);
    bytes
}

/// The bytes of a message that will be part of a frame.
pub fn encode_message(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.room());
    append(message, &mut bytes);
    bytes
}

/// The same with the body that stands beside.
pub fn pack_message(message: &Message<'_>) -> Packet {
    let body = message.beside().and_then(Carried::to_large);
    Packet {
        bytes: encode_message(message),
        bodies: body.into_iter().collect(),
    }
}

/// A message as part of an answer.
pub(crate) fn append_message(message: &Message<'_>, answer: &mut Vec<u8>) {
    append(message, answer);
}

impl<'a> Message<'a> {
    /// Its body, if it stands beside.
    fn beside(&self) -> Option<&Carried<'a>> {
        match self {
            Message::ReplJob(copy) | Message::YourJob { copy, .. } => {
                copy.body.as_ref().filter(|body| body.is_beside())
            }
            _ => None,
        }
    }

    /// Room enough for it, so that what is written never has to move.
    fn room(&self) -> usize {
        /// A message without what can be long, and a copy without that.
        const REST: usize = 160;
        match self {
            Message::ReplJob(copy) | Message::YourJob { copy, .. } => {
                let body = match copy.body {
                    Some(Carried::Within(bytes)) => bytes.len(),
                    _ => 0,
                };
                REST + copy.queue.len() + body + copy.holders.size()
            }
            _ => REST,
        }
    }
}

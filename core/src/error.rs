//! Every error that a client can see, with its exact text.

use crate::collections::Full;
use std::fmt;

/// An error reply. `Display` gives its text without the leading `-`; the first
/// word is the code that clients depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An argument that should be a job id does not have the form of one.
    BadId,
    /// More copies were asked for than there are nodes.
    NoRepl,
    /// Copies would have to be waited for where nothing may wait.
    MayNotWait,
    /// The queue would hold more jobs than MAXLEN allows.
    MaxLen,
    /// The queue takes no jobs now.
    Paused,
    /// The cluster has forgotten this node.
    Forgotten,
    /// A promoted replica is this node now.
    Superseded,
    /// Another server has this node's id and term.
    Doubled,
    /// DISQUE MEET names an address of this node.
    MeetsItself,
    /// DISQUE MEET found a node that was forgotten.
    MeetsForgotten,
    /// DISQUE MEET found no node that can be met; says why.
    CannotMeet(String),
    /// DISQUE FORGET names this node.
    ForgetsItself,
    /// No node of the table has this id.
    UnknownNode,
    /// The table of nodes is full.
    TooManyNodes,
    /// This node is leaving its cluster.
    Leaving,
    /// No such job on this node.
    NoJob,
    /// The job was acknowledged already.
    Acked,
    /// More than half of the job's TTL has passed.
    TooLate,
    /// A scan with BUSYLOOP would hold too much at a time.
    TooMuchToScan,
    /// This server is a replica.
    ReadOnly,
    /// Memory is full.
    OutOfMemory,
    /// The server is set so that jobs would not survive.
    Misconfigured,
    /// A blocked call was ended by CLIENT UNBLOCK ... ERROR.
    Unblocked,
    /// An option's value is not a number in its range.
    OutOfRange(Range),
    /// A word that is no option of the command, or an option without its value.
    Syntax(&'static str),
    /// SYNC and ASYNC exclude each other.
    SyncWithAsync,
    /// SYNC asks for more copies than REPLICATE makes.
    SyncAboveReplicate,
    /// DELAY is not below TTL.
    DelayAboveTtl,
    /// At-most-once jobs have one copy.
    RetryZeroReplicated,
    /// GETJOB without FROM or without a queue name.
    NoQueueGiven,
    /// A queue name or body is longer than the setting allows.
    TooLong(Range),
    /// A command names more ids or queues than the setting allows.
    TooMany(Range),
    /// As many clients are blocked as the setting allows.
    TooManyBlocked,
    /// The internal command came from a client.
    InternalCommand,
    /// A frame came in a transaction: its answer would not be held back for the disk.
    BusInTransaction,
    /// The user's key patterns do not cover the queue of a job. Which one that is,
    /// is not for the user to know.
    NoPermission,
    /// The user's key patterns do not cover a queue that the command names.
    NoPermissionFor(Box<[u8]>),
    /// A defect of this module was caught; see the log.
    Internal,
    /// A defect left the node's state in doubt: it serves no more.
    Stopped,
}

/// What a number may be, for the texts of range errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The option or thing that was out of range.
    pub what: &'static str,
    /// The unit, as plural: `seconds`, `bytes`, `jobs`.
    pub unit: &'static str,
    /// The smallest value allowed, as text.
    pub min: &'static str,
    /// The largest value allowed.
    pub max: u64,
}

/// Bytes of a queue's name that an error shows.
const MAX_SHOWN: usize = 200;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Error::BadId => "BADID Invalid Job ID format.",
            Error::MayNotWait => {
                "ERR copies cannot be waited for in a transaction or script: use SYNC 0 or SYNC 1, \
                 on a node that has room and does not leave"
            }
            Error::NoRepl => {
                "NOREPL Not enough reachable nodes for the requested replication level"
            }
            Error::MaxLen => "MAXLEN Queue would become longer than MAXLEN allows",
            Error::Paused => "PAUSED Queue is paused in: it takes no jobs now, try later",
            Error::Forgotten => {
                "FORGOTTEN The cluster has forgotten this node: DISQUE RESET makes it a new one"
            }
            Error::Superseded => {
                "SUPERSEDED A promoted replica is this node now: make this server its replica, \
                 or DISQUE RESET"
            }
            Error::Doubled => {
                "SUPERSEDED Another server is this node as well: stop one of them, or DISQUE RESET"
            }
            Error::MeetsItself => "ERR this node cannot meet itself: give another node's address",
            Error::MeetsForgotten => {
                "ERR that node was forgotten: DISQUE RESET there makes it a new one"
            }
            Error::CannotMeet(why) => return write!(f, "ERR cannot meet: {why}"),
            Error::ForgetsItself => "ERR this node cannot forget itself: use another node",
            Error::UnknownNode => "ERR unknown node, see DISQUE NODES",
            Error::TooManyNodes => "ERR the cluster has as many nodes as it can (256)",
            Error::Leaving => "LEAVING This node is leaving its cluster, use another one",
            Error::NoJob => "NOJOB Job not known on this node",
            Error::Acked => "ACKED Job is already acknowledged",
            Error::TooLate => {
                "TOOLATE Half of the job's TTL has passed: it can no longer be postponed"
            }
            Error::TooMuchToScan => {
                "ERR too much for one answer, or too many such scans at a time: scan with a cursor"
            }
            Error::ReadOnly => "READONLY This server is a replica: jobs are its primary's",
            Error::OutOfMemory => {
                "OOM Memory is full: consume jobs or raise maxmemory or disque.max-memory"
            }
            Error::Misconfigured => {
                "MISCONF With 'aof-use-rdb-preamble no' a rewrite of the append only file would \
                 lose all jobs: set it to yes"
            }
            Error::Unblocked => "UNBLOCKED client unblocked via CLIENT UNBLOCK",
            Error::OutOfRange(range) => return write!(f, "ERR {range}"),
            Error::Syntax(usage) => return write!(f, "ERR syntax error, usage: {usage}"),
            Error::SyncWithAsync => "ERR SYNC and ASYNC cannot be used together",
            Error::SyncAboveReplicate => "ERR SYNC must not exceed REPLICATE",
            Error::DelayAboveTtl => "ERR DELAY must be less than TTL",
            Error::RetryZeroReplicated => {
                "ERR RETRY 0 (at most once) needs an explicit REPLICATE 1"
            }
            Error::NoQueueGiven => "ERR GETJOB needs FROM and at least one queue name",
            Error::TooLong(range) => return write!(f, "ERR {range}"),
            Error::TooMany(range) => return write!(f, "ERR {range}"),
            Error::TooManyBlocked => {
                "ERR too many blocked clients, see the setting disque.max-blocked-clients"
            }
            Error::InternalCommand => {
                "ERR internal command: only the append only file and a primary may send it"
            }
            Error::BusInTransaction => "ERR DISQUE.BUS is not allowed in a transaction",
            Error::NoPermission => "NOPERM No permissions to access the queue of a job",
            Error::NoPermissionFor(queue) => {
                let (shown, more) = match queue.get(..MAX_SHOWN) {
                    Some(start) => (start, "..."),
                    None => (&queue[..], ""),
                };
                let shown = shown.escape_ascii();
                return write!(
                    f,
                    "NOPERM No permissions to access the queue '{shown}{more}'"
                );
            }
            Error::Stopped => {
                "ERR the job queue has stopped after an internal error, see the server's log: \
                 restart the server"
            }
            Error::Internal => "ERR internal error, see the server's log",
        };
        f.write_str(text)
    }
}

impl std::error::Error for Error {}

impl From<Full> for Error {
    fn from(_: Full) -> Error {
        Error::OutOfMemory
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range {
            what,
            unit,
            min,
            max,
        } = self;
        write!(f, "{what} must be from {min} to {max} {unit}")
    }
}

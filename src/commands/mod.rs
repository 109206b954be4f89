//! The commands. [`TABLE`] says everything that Redis and HELP need to know of
//! them; each family has a file that reads the arguments into a typed command,
//! runs it on the node, and writes the reply.

pub mod addjob;
pub mod cluster;
pub mod disque;
pub mod getjob;
pub mod ids;
pub mod queues;
pub mod reply;
pub mod scan;
pub mod words;

use crate::ffi::{register, register_container, Args, Call, CommandSpec, Ctx, Entry};
use crate::host::RECORD_COMMAND;
use disque_core::body::Parts;
use disque_core::error::Error;
use smallvec::SmallVec;
use std::ffi::CStr;

/// One command of the table.
pub struct Listed {
    /// The syntax, as errors, HELP and the manual show it.
    pub usage: &'static str,
    /// What is registered.
    pub spec: CommandSpec,
}

impl Listed {
    /// A line for HELP.
    pub fn help(&self) -> String {
        format!("{} -- {}", self.usage, self.spec.summary.to_string_lossy())
    }

    fn is_subcommand(&self) -> bool {
        self.usage.starts_with("DISQUE ")
    }
}

/// The version that had all of the commands below first.
const SINCE: &CStr = c"0.1.0";

/// Each entry: syntax; name, flags, arity, complexity; summary; handler.
const fn listed(
    usage: &'static str,
    (name, flags, arity, complexity): (&'static CStr, &'static CStr, i32, &'static CStr),
    summary: &'static CStr,
    entry: Entry,
) -> Listed {
    Listed {
        usage,
        spec: CommandSpec {
            name,
            flags,
            arity,
            summary,
            complexity,
            since: SINCE,
            categories: categories(flags),
            entry,
        },
    }
}

const WRITE: &CStr = c"write";
const FAST_WRITE: &CStr = c"write fast";
const BLOCKING: &CStr = c"write blocking";
const READ: &CStr = c"readonly";
const FAST_READ: &CStr = c"readonly fast";
const ADMIN: &CStr = c"admin write";
const BUS: &CStr = c"write no-monitor no-slowlog deny-script";
const INTERNAL: &CStr = c"write no-monitor no-slowlog deny-script allow-loading";

/// The ACL categories that go with the flags.
const fn categories(flags: &'static CStr) -> &'static CStr {
    match flags.to_bytes() {
        b"write" => c"write slow",
        b"write fast" => c"write fast",
        b"write blocking" => c"write slow blocking",
        b"readonly" => c"read slow",
        b"readonly fast" => c"read fast",
        _ => c"admin dangerous slow",
    }
}

/// Every command that clients may use.
pub static TABLE: &[Listed] = &[
    listed(
        addjob::USAGE,
        (
            c"addjob",
            FAST_WRITE,
            -4,
            c"O(log N) in the jobs queued, O(1) for the youngest",
        ),
        c"Adds a job to a queue and returns its id",
        Entry::of(addjob::addjob),
    ),
    listed(
        addjob::BATCH_USAGE,
        (
            c"addjobs",
            FAST_WRITE,
            -5,
            c"O(log N) in the jobs queued, O(1) for the youngest, for each body",
        ),
        c"Adds jobs to a queue, all or none, and returns their ids",
        Entry::of(addjob::addjobs),
    ),
    listed(
        getjob::USAGE,
        (c"getjob", BLOCKING, -3, c"O(1) for each job"),
        c"Takes jobs from queues, and waits for one if there is none",
        Entry::of(getjob::run),
    ),
    listed(
        "ACKJOB id [id ...]",
        (c"ackjob", FAST_WRITE, -2, c"O(1) for each id"),
        c"Acknowledges jobs: they are done and not delivered again",
        Entry::of(ids::ackjob),
    ),
    listed(
        "FASTACK id [id ...]",
        (c"fastack", FAST_WRITE, -2, c"O(1) for each id"),
        c"Acknowledges jobs, best effort and with less traffic",
        Entry::of(ids::fastack),
    ),
    listed(
        "NACK id [id ...]",
        (
            c"nack",
            FAST_WRITE,
            -2,
            c"O(log N) in the jobs queued, for each id",
        ),
        c"Puts jobs back on their queues: the consumer could not do them",
        Entry::of(ids::nack),
    ),
    listed(
        "ENQUEUE id [id ...]",
        (
            c"enqueue",
            FAST_WRITE,
            -2,
            c"O(log N) in the jobs queued, for each id",
        ),
        c"Puts jobs on their queues if they are not there",
        Entry::of(ids::enqueue),
    ),
    listed(
        "DEQUEUE id [id ...]",
        (
            c"dequeue",
            FAST_WRITE,
            -2,
            c"O(log N) in the jobs queued, for each id",
        ),
        c"Takes jobs off their queues",
        Entry::of(ids::dequeue),
    ),
    listed(
        "DELJOB id [id ...]",
        (c"deljob", FAST_WRITE, -2, c"O(1) for each id"),
        c"Deletes jobs on this node",
        Entry::of(ids::deljob),
    ),
    listed(
        "WORKING id",
        (c"working", FAST_WRITE, 2, c"O(1)"),
        c"Puts the next delivery of a job off by one RETRY",
        Entry::of(ids::working),
    ),
    listed(
        "SHOW id",
        (c"show", FAST_READ, 2, c"O(1)"),
        c"Tells everything about a job",
        Entry::of(ids::show),
    ),
    listed(
        "QLEN queue",
        (c"qlen", FAST_READ, 2, c"O(1)"),
        c"Returns the number of jobs queued",
        Entry::of(queues::qlen),
    ),
    listed(
        queues::QPEEK_USAGE,
        (c"qpeek", READ, 3, c"O(1) for each job"),
        c"Returns jobs of a queue without taking them",
        Entry::of(queues::qpeek),
    ),
    listed(
        "QSTAT queue",
        (c"qstat", FAST_READ, 2, c"O(1)"),
        c"Returns the figures of a queue",
        Entry::of(queues::qstat),
    ),
    listed(
        queues::PAUSE_USAGE,
        (c"pause", WRITE, -3, c"O(1)"),
        c"Stops jobs from entering or leaving a queue, or lets them again",
        Entry::of(queues::pause),
    ),
    listed(
        scan::QSCAN_USAGE,
        (c"qscan", READ, -1, c"O(1) for each queue looked at"),
        c"Goes through the queues of this node",
        Entry::of(scan::qscan),
    ),
    listed(
        scan::JSCAN_USAGE,
        (c"jscan", READ, -1, c"O(1) for each job looked at"),
        c"Goes through the jobs of this node",
        Entry::of(scan::jscan),
    ),
    listed(
        "DISQUE HELLO",
        (c"hello", FAST_READ, 2, c"O(1)"),
        c"Returns the nodes of the cluster, this one included",
        Entry::of(cluster::hello),
    ),
    listed(
        "DISQUE MYID",
        (c"myid", FAST_READ, 2, c"O(1)"),
        c"Returns the id of this node",
        Entry::of(disque::myid),
    ),
    listed(
        "DISQUE NODES",
        (c"nodes", FAST_READ, 2, c"O(1)"),
        c"Returns what this node knows of each node, a line each",
        Entry::of(cluster::nodes),
    ),
    listed(
        cluster::MEET_USAGE,
        (c"meet", ADMIN, 4, c"O(1)"),
        c"Makes this node and the one at the address one cluster",
        Entry::of(cluster::meet),
    ),
    listed(
        "DISQUE FORGET id",
        (c"forget", ADMIN, 3, c"O(N) in the nodes"),
        c"Takes a node out of the cluster for good, with its data",
        Entry::of(cluster::forget),
    ),
    listed(
        "DISQUE RESET",
        (c"reset", ADMIN, 2, c"O(N) in the nodes"),
        c"Makes this node a new one, without jobs and without a cluster",
        Entry::of(cluster::reset),
    ),
    listed(
        disque::INFO_USAGE,
        (c"info", FAST_READ, -2, c"O(1)"),
        c"Returns the figures of this node",
        Entry::of(disque::info),
    ),
    listed(
        "DISQUE FLUSHALL",
        (
            c"flushall",
            ADMIN,
            2,
            c"O(1), and the memory is freed in small steps afterwards",
        ),
        c"Deletes all jobs and queues of this node",
        Entry::of(disque::flushall),
    ),
    listed(
        disque::LEAVING_USAGE,
        (
            c"leaving",
            ADMIN,
            -2,
            c"O(1), or O(N) in the clients that wait",
        ),
        c"Gives what this node has to the others, or tells how far that has come",
        Entry::of(disque::leaving),
    ),
    listed(
        "DISQUE HELP",
        (c"help", FAST_READ, 2, c"O(1)"),
        c"Returns the commands with their syntax",
        Entry::of(disque::help),
    ),
];

/// Registers all commands.
pub fn register_all(ctx: &Ctx) -> Result<(), String> {
    let (subcommands, commands): (Vec<&Listed>, Vec<_>) =
        TABLE.iter().partition(|listed| listed.is_subcommand());
    let internal = CommandSpec {
        name: RECORD_COMMAND,
        flags: INTERNAL,
        arity: -2,
        summary: c"Internal: carries changes to the append only file and to replicas",
        complexity: c"O(1) for each record",
        since: SINCE,
        categories: categories(INTERNAL),
        entry: Entry::of(disque::record),
    };
    register(ctx, commands.iter().map(|listed| &listed.spec))?;
    let bus = CommandSpec {
        name: c"disque.bus",
        flags: BUS,
        arity: -2,
        summary: c"Internal: a frame of messages from another node",
        complexity: c"O(1) for each message",
        since: SINCE,
        categories: categories(BUS),
        entry: Entry::of(cluster::bus),
    };
    register(ctx, [&internal, &bus])?;
    let specs = subcommands.iter().map(|listed| &listed.spec);
    register_container(ctx, c"disque", c"The node and its cluster", specs)
}

/// Encoded bytes with the bodies behind them.
pub fn parts_of(args: Args<'_>) -> Result<Parts<'_>, Error> {
    Ok(Parts {
        bytes: args.get(0).ok_or(Error::Internal)?,
        bodies: args.from(1).iter().collect(),
    })
}

/// The words after a command's name.
pub fn words_of<'a>(call: &Call<'a>) -> SmallVec<[&'a [u8]; 16]> {
    call.args().from(1).iter().collect()
}

//! One node of the queue: the state machine.
//!
//! The caller brings what happens, with the time, and carries out what comes
//! back in [`Effects`]. There are four kinds of calls:
//!
//! - **commands** of clients: one file per family ([`add`], [`get`],
//!   [`settle`], [`requeue`], [`pause`], [`scan`]). Each validates everything
//!   before it changes anything: an error leaves no trace.
//! - **time**: [`Node::next_wake`] says when, [`Node::run_due`] does the work,
//!   in slices.
//! - **waiting clients**: [`Node::block`] registers one, [`Node::serve`] answers
//!   those for whom there are jobs, [`Node::forget_waiter`] drops one.
//! - **loading**: [`Node::apply`] takes back what was written down,
//!   [`Node::snapshot`] writes it all.
//!
//! The caller calls [`Node::serve`] at the end of each command, unless the
//! command is part of a transaction or script: then it lets the timer do it.

pub mod add;
mod federation;
pub mod get;
pub mod inspect;
mod invariants;
mod leaving;
pub mod load;
pub mod membership;
mod moves;
pub mod pause;
pub mod peers;
pub mod replication;
pub mod requeue;
pub mod scan;
pub mod settle;
pub mod snapshot;
pub mod stats;
mod succession;
#[cfg(test)]
mod tests;
mod timers;
mod waiters;

use crate::acks::{AckTable, SettledMemory};
use crate::clock::Now;
use crate::cluster::Cluster;
use crate::collections::{HashSeed, NIL};
use crate::copies::CopiesTable;
use crate::effects::{Answer, Effects};
use crate::error::{Error, Range};
use crate::holders::{Holder, HolderTable, Pair};
use crate::job::{Job, State};
use crate::job_id::{hex_text, hex_to, IdGenerator, JobId};
use crate::memory::Pressure;
use crate::nodes_file::NodesFile;
use crate::queue::Queue;
use crate::record::Record;
use crate::settings::Settings;
use crate::succession::Successor;
use crate::tables::{JobTable, QueueTable, WaiterTable};
use bincode::{BorrowDecode, Encode};
use federation::Federation;
use leaving::Drain;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use replication::Vigil;
use stats::Stats;
use std::collections::{BTreeSet, VecDeque};
use succession::Doubled;

/// The bits of a node's id as 40 digits.
pub fn hex(id: &[u8; 20]) -> String {
    hex_text(id)
}

/// Who a node is. Lives as long as its data, and stands in them: the order of the fields
/// is the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Identity {
    /// 160 random bits, the node's name.
    pub id: [u8; 20],
    /// The line of data that this node holds.
    pub epoch: u64,
    /// How often the id moved to a promoted replica.
    pub term: u64,
}

impl Identity {
    /// The name as 40 hex digits.
    pub fn hex(&self) -> String {
        hex_text(&self.id)
    }

    /// The bits of a name of 40 lowercase hex digits.
    pub fn parse_hex(text: &[u8]) -> Option<[u8; 20]> {
        let mut id = [0; 20];
        (text.len() == 40).then_some(())?;
        hex_to(text, &mut id).map(|()| id)
    }
}

/// A node. See the module's head for how to drive it.
pub struct Node {
    identity: Identity,
    settings: Settings,
    hash_seed: HashSeed,
    rng: ChaCha8Rng,
    ids: IdGenerator,
    last_ctime: u64,
    jobs: JobTable,
    copies: CopiesTable,
    acks: AckTable,
    settled: SettledMemory,
    queues: QueueTable,
    waiters: WaiterTable,
    /// Producers that wait for copies.
    adders: WaiterTable,
    holders: HolderTable,
    /// This node among the holders.
    own: Holder,
    /// Jobs by state, kept as they move.
    job_counts: [u64; State::COUNT],
    /// Queues whose waiters can perhaps be served.
    ready: VecDeque<u32>,
    /// At-most-once jobs that were delivered: nothing is lost when they go.
    disposable: BTreeSet<(u64, u32)>,
    /// What a flush or load has left, freed slice by slice.
    discarded: Vec<Discarded>,
    vigil: Vigil,
    federation: Federation,
    server_pressure: Pressure,
    cluster: Cluster,
    /// The server that is this node in place of this one.
    successor: Option<Successor>,
    /// The server that is this node as well.
    doubled: Option<Doubled>,
    /// Tells this process from others of the node.
    process: u64,
    incarnation: u64,
    /// The nodes file of before the start.
    restored: Option<NodesFile>,
    leaving: bool,
    drain: Drain,
    batches: u64,
    stats: Stats,
}

impl Node {
    /// An empty node. All randomness comes from `seed`; two nodes with one seed
    /// make the same ids.
    pub fn new(identity: Identity, settings: Settings, seed: [u8; 32], now: Now) -> Node {
        let mut rng = ChaCha8Rng::from_seed(seed);
        let (mut key, mut id_seed) = ([0; 16], [0; 32]);
        rng.fill_bytes(&mut key);
        rng.fill_bytes(&mut id_seed);
        let hash_seed = HashSeed::new(&key);
        let (holders, own) = HolderTable::starting_with(Pair::from(&identity));
        Node {
            ids: IdGenerator::new(first_four(&identity.id), id_seed),
            identity,
            settings,
            hash_seed: hash_seed.clone(),
            last_ctime: 0,
            jobs: JobTable::new(hash_seed.clone(), now),
            copies: CopiesTable::new(now),
            acks: AckTable::new(hash_seed.clone(), now),
            settled: SettledMemory::new(hash_seed.clone()),
            queues: QueueTable::new(hash_seed, now),
            waiters: WaiterTable::for_consumers(now),
            adders: WaiterTable::for_producers(now),
            holders,
            own,
            job_counts: [0; State::COUNT],
            ready: VecDeque::new(),
            disposable: BTreeSet::new(),
            discarded: Vec::new(),
            vigil: Vigil::default(),
            federation: Federation::default(),
            server_pressure: Pressure::None,
            cluster: Cluster::new(),
            successor: None,
            doubled: None,
            process: rng.next_u64().max(1),
            incarnation: 0,
            restored: None,
            leaving: false,
            drain: Drain::default(),
            batches: 0,
            stats: Stats::default(),
            rng,
        }
    }

    /// Who this node is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Becomes another node: for an identity that was read from written data.
    pub fn set_identity(&mut self, identity: Identity) {
        let mut id_seed = [0; 32];
        self.rng.fill_bytes(&mut id_seed);
        self.ids = IdGenerator::new(first_four(&identity.id), id_seed);
        let same_id = identity.id == self.identity.id;
        self.identity = identity;
        self.own = self.holders.rename(self.own, Pair::from(&identity));
        // Others may have told of the node that this one is now.
        self.cluster.remove(&identity.id);
        let is_over = |other: &mut Successor| !same_id || other.term <= identity.term;
        self.successor.take_if(is_over);
        self.doubled = None;
    }

    /// The other nodes.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Whether the cluster has forgotten this node: it serves nothing until it is
    /// reset.
    pub fn was_forgotten(&self) -> bool {
        self.cluster.is_forgotten(&self.identity)
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes the settings, from the next call on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Tells how full the server's memory is. The caller does so before each
    /// ADDJOB; `disque.max-memory` is watched here.
    pub fn set_server_pressure(&mut self, pressure: Pressure) {
        self.server_pressure = pressure;
    }

    /// How near memory is to the nearest limit.
    pub fn pressure(&self) -> Pressure {
        self.pressure_with(0)
    }

    /// The same if jobs took so many bytes more.
    fn pressure_with(&self, more: usize) -> Pressure {
        self.own_pressure_with(more).max(self.server_pressure)
    }

    /// How near the jobs and so many bytes more are to `disque.max-memory`.
    fn own_pressure_with(&self, more: usize) -> Pressure {
        let bytes = self.jobs.bytes() + self.copies.bytes() + more;
        Pressure::of(bytes as u64, self.settings.max_memory)
    }

    /// A job by its key, as a delivery or scan names it.
    pub fn job(&self, key: u32) -> &Job {
        &self.jobs[key]
    }

    /// The queue of a job.
    pub fn queue_of(&self, job: &Job) -> &Queue {
        &self.queues[job.queue]
    }

    /// The names of the queues of those jobs that are here, in the order of the ids; a
    /// name is not repeated while the jobs stay in one queue.
    pub fn queue_names<'a>(&'a self, ids: &'a [JobId]) -> impl Iterator<Item = &'a [u8]> + 'a {
        let mut last = NIL;
        let queues = self.jobs.find_all(ids).map(|key| self.jobs[key].queue);
        queues
            .filter(move |&queue| std::mem::replace(&mut last, queue) != queue)
            .map(|queue| &*self.queues[queue].name)
    }

    /// How many jobs there are.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// How many acknowledgements are kept: of jobs that are still here, and of
    /// others.
    pub fn ack_count(&self) -> usize {
        self.job_counts[State::Acked as usize] as usize + self.acks.len()
    }

    /// Whether DISQUE LEAVING yes was said.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// DISQUE FLUSHALL: all jobs and queues are gone when this returns; their
    /// memory is freed by [`Node::run_due`], in slices.
    pub fn flush(&mut self, now: Now, fx: &mut Effects) {
        self.answer_all_waiters(&Answer::Null, now, fx);
        self.clear(now);
        self.refuse_all_adders(&Error::NoRepl, now, fx);
        fx.records.push(&Record::Flushed);
    }

    /// Before a load: forgets everything. Clients that wait get null.
    pub fn begin_load(&mut self, now: Now, fx: &mut Effects) {
        self.answer_all_waiters(&Answer::Null, now, fx);
        self.clear(now);
        self.refuse_all_adders(&Error::NoRepl, now, fx);
        self.batches = 0;
    }

    fn clear(&mut self, now: Now) {
        let jobs = JobTable::new(self.hash_seed.clone(), now);
        let queues = QueueTable::new(self.hash_seed.clone(), now);
        let acks = AckTable::new(self.hash_seed.clone(), now);
        self.discarded.push(Discarded {
            jobs: std::mem::replace(&mut self.jobs, jobs),
            copies: std::mem::replace(&mut self.copies, CopiesTable::new(now)),
            queues: std::mem::replace(&mut self.queues, queues),
            acks: std::mem::replace(&mut self.acks, acks),
            disposable: std::mem::take(&mut self.disposable),
        });
        self.settled = SettledMemory::new(self.hash_seed.clone());
        self.job_counts = [0; State::COUNT];
        self.ready.clear();
        self.vigil.under_replicated = 0;
        self.federation = std::mem::take(&mut self.federation).emptied();
        // Waiters hold keys of queues that are gone now: both callers have
        // answered them, and on a replica, which takes the record of a flush,
        // nobody waits.
        debug_assert!(self.waiters.is_empty());
    }

    /// Refuses to make a queue of this name when queues take all they may.
    pub(crate) fn check_room_for_queue(&self, name: &[u8]) -> Result<(), Error> {
        let full = self.queues.bytes() as u64 >= self.settings.max_queue_memory;
        if full && self.queues.find(name).is_none() {
            return Err(Error::OutOfMemory);
        }
        Ok(())
    }

    /// Refuses a queue name that is longer than the setting allows.
    pub fn check_queue_name(&self, name: &[u8]) -> Result<(), Error> {
        check_length("a queue's name", name, self.settings.max_queue_name)
    }

    /// Refuses more ids or names in one command than the setting allows.
    pub fn check_count(
        &self,
        (what, unit): (&'static str, &'static str),
        count: usize,
    ) -> Result<(), Error> {
        let max = self.settings.max_ids;
        if count as u64 <= max {
            return Ok(());
        }
        Err(Error::TooMany(Range {
            what,
            unit,
            min: "1",
            max,
        }))
    }
}

/// All of which there may be as many as there are jobs, of before a flush or load.
struct Discarded {
    jobs: JobTable,
    copies: CopiesTable,
    queues: QueueTable,
    acks: AckTable,
    disposable: BTreeSet<(u64, u32)>,
}

impl Discarded {
    /// Frees up to `max` of each; whether nothing is left.
    fn free_some(&mut self, max: usize) -> bool {
        for _ in 0..max {
            if self.disposable.pop_first().is_none() {
                break;
            }
        }
        self.jobs.free_some(max)
            && self.copies.free_some(max)
            && self.queues.free_some(max)
            && self.acks.free_some(max)
            && self.disposable.is_empty()
    }
}

fn first_four(id: &[u8; 20]) -> [u8; 4] {
    [id[0], id[1], id[2], id[3]]
}

fn check_length(what: &'static str, bytes: &[u8], max: u64) -> Result<(), Error> {
    check_size(what, bytes.len(), max)
}

fn check_size(what: &'static str, bytes: usize, max: u64) -> Result<(), Error> {
    if bytes as u64 <= max {
        return Ok(());
    }
    Err(Error::TooLong(Range {
        what,
        unit: "bytes",
        min: "0",
        max,
    }))
}

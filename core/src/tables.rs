//! The jobs, the queues and the waiting clients of a node: each a slab with a
//! timer wheel, and an index by name where there are names, kept in step.

use crate::clock::Now;
use crate::collections::{Full, HashSeed, KeyTable, Poll, Slab, Timed, TimerLinks, Wheel};
use crate::effects::WaiterId;
use crate::error::Error;
use crate::holders::Holder;
use crate::job::Job;
use crate::job_id::{Ids, JobId};
use crate::queue::Queue;
use smallvec::SmallVec;
use std::ops::{Index, IndexMut};

/// Jobs that are looked up together.
const FETCHED: usize = 16;

/// All jobs of a node, by id and by deadline.
pub struct JobTable {
    slab: Slab<Job>,
    by_id: KeyTable,
    timers: Wheel,
    bytes: usize,
}

impl JobTable {
    /// An empty table whose time begins at `now`.
    pub fn new(seed: HashSeed, now: Now) -> JobTable {
        JobTable {
            slab: Slab::new(),
            by_id: KeyTable::new(seed),
            timers: Wheel::new(now.mono_ms),
            bytes: 0,
        }
    }

    /// How many jobs there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Whether so many more fit.
    pub fn has_room(&self, count: usize) -> bool {
        self.slab.has_room(count)
    }

    /// Bytes that the jobs take, see [`Job::memory`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The job with this id.
    pub fn find(&self, id: &JobId) -> Option<u32> {
        self.find_hashed(id, self.by_id.seed().hash(id.random()))
    }

    /// The jobs with these ids, those that are there. Faster than one by one.
    pub fn find_all<'a>(&'a self, ids: &'a [JobId]) -> impl Iterator<Item = u32> + 'a {
        ids.chunks(FETCHED).flat_map(move |ids| {
            let hash = |id: &JobId| self.by_id.seed().hash(id.random());
            let hashes: SmallVec<[u64; FETCHED]> = ids.iter().map(hash).collect();
            if hashes.len() > 1 {
                self.by_id.fetch(hashes.iter().copied());
            }
            ids.iter()
                .zip(hashes)
                .filter_map(|(id, hash)| self.find_hashed(id, hash))
        })
    }

    fn find_hashed(&self, id: &JobId, hash: u64) -> Option<u32> {
        self.by_id.find(&self.slab, hash, |job| job.id == *id)
    }

    /// Takes in a job whose id is not in the table. Its timer is not started.
    pub fn insert(&mut self, job: Job) -> Result<u32, Full> {
        let hash = self.by_id.seed().hash(job.id.random());
        let bytes = job.memory();
        let key = self.slab.insert(job)?;
        self.by_id.insert(key, hash);
        self.bytes += bytes;
        Ok(key)
    }

    /// Takes a job out. Its timer has been stopped.
    pub fn remove(&mut self, key: u32) -> Option<Job> {
        let hash = self.by_id.seed().hash(self.slab.get(key)?.id.random());
        self.by_id.remove(key, hash);
        let job = self.slab.remove(key)?;
        self.bytes -= job.memory();
        Some(job)
    }

    /// Frees the body of a job that is settled.
    pub fn drop_body(&mut self, key: u32) {
        let body = std::mem::take(&mut self[key].body);
        self.bytes -= body.len();
    }

    /// Starts the timer of a job for the deadline that the job names.
    pub fn start_timer(&mut self, key: u32) {
        self.timers.insert(&mut self.slab, key);
    }

    /// Stops it again, if it runs.
    pub fn stop_timer(&mut self, key: u32) {
        self.timers.remove(&mut self.slab, key);
    }

    /// How many timers run.
    pub fn timer_count(&self) -> usize {
        self.timers.len()
    }

    /// The next job that is due; its timer is stopped.
    pub fn poll(&mut self, now: Now, budget: &mut u32) -> Poll {
        self.timers.poll(&mut self.slab, now.mono_ms, budget)
    }

    /// When to poll next.
    pub fn next_wake(&self) -> Option<u64> {
        self.timers.next_wake()
    }

    /// The first job at or after a key.
    pub fn next_occupied(&self, from: u32) -> Option<u32> {
        self.slab.next_occupied(from)
    }

    /// What orders the jobs of a queue.
    pub fn rank(&self, key: u32) -> (u64, u32) {
        (self[key].ctime, key)
    }

    /// Frees up to `max` jobs of a table that is no longer used; whether none
    /// is left.
    pub fn free_some(&mut self, max: usize) -> bool {
        free_some(&mut self.slab, max)
    }
}

impl Index<u32> for JobTable {
    type Output = Job;

    /// The job of a key that the node itself keeps. A stale key is a defect.
    fn index(&self, key: u32) -> &Job {
        self.slab.get(key).expect("a job's key outlived the job")
    }
}

impl IndexMut<u32> for JobTable {
    fn index_mut(&mut self, key: u32) -> &mut Job {
        self.slab
            .get_mut(key)
            .expect("a job's key outlived the job")
    }
}

/// All queues of a node, by name and by the time when they may be dropped.
pub struct QueueTable {
    slab: Slab<Queue>,
    by_name: KeyTable,
    timers: Wheel,
    bytes: usize,
}

impl QueueTable {
    /// An empty table whose time begins at `now`.
    pub fn new(seed: HashSeed, now: Now) -> QueueTable {
        QueueTable {
            slab: Slab::new(),
            by_name: KeyTable::new(seed),
            timers: Wheel::new(now.mono_ms),
            bytes: 0,
        }
    }

    /// Bytes that the queues take without their jobs, see [`Queue::memory`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many queues there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Whether not one more fits.
    pub fn is_full(&self) -> bool {
        !self.slab.has_room(1)
    }

    /// The queue with this key, if it still exists.
    pub fn get(&self, key: u32) -> Option<&Queue> {
        self.slab.get(key)
    }

    /// The queue with this key, if it still exists.
    pub fn get_mut(&mut self, key: u32) -> Option<&mut Queue> {
        self.slab.get_mut(key)
    }

    /// The queue with this name.
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        let hash = self.by_name.seed().hash(name);
        self.by_name
            .find(&self.slab, hash, |queue| *queue.name == *name)
    }

    /// The queue with this name, made if it does not exist.
    pub fn find_or_create(&mut self, name: &[u8], now: Now) -> Result<u32, Full> {
        match self.find(name) {
            Some(key) => Ok(key),
            None => self.create(name, now),
        }
    }

    fn create(&mut self, name: &[u8], now: Now) -> Result<u32, Full> {
        let hash = self.by_name.seed().hash(name);
        let queue = Queue::new(name, now.mono_ms);
        let bytes = queue.memory();
        let key = self.slab.insert(queue)?;
        self.bytes += bytes;
        self.by_name.insert(key, hash);
        Ok(key)
    }

    /// Drops a queue that nothing depends on and nobody watches.
    pub fn remove(&mut self, key: u32) {
        if let Some(queue) = self.slab.get(key) {
            debug_assert!(queue.is_unused());
            let hash = self.by_name.seed().hash(&queue.name);
            self.bytes -= queue.memory();
            self.by_name.remove(key, hash);
            self.slab.remove(key);
        }
    }

    /// Has the queue looked at, at a time.
    pub fn watch(&mut self, key: u32, at: u64) {
        self[key].check_at = at;
        self.timers.insert(&mut self.slab, key);
    }

    /// Whether it will be looked at.
    pub fn is_watched(&self, key: u32) -> bool {
        self[key].links().is_scheduled()
    }

    /// The next queue to look at; it is no longer watched.
    pub fn poll(&mut self, now: Now, budget: &mut u32) -> Poll {
        self.timers.poll(&mut self.slab, now.mono_ms, budget)
    }

    /// When to poll next.
    pub fn next_wake(&self) -> Option<u64> {
        self.timers.next_wake()
    }

    /// The first queue at or after a key.
    pub fn next_occupied(&self, from: u32) -> Option<u32> {
        self.slab.next_occupied(from)
    }

    /// All queues.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Queue)> + '_ {
        self.slab.iter()
    }

    /// Frees up to `max` queues of a table that is no longer used; whether none
    /// is left.
    pub fn free_some(&mut self, max: usize) -> bool {
        free_some(&mut self.slab, max)
    }
}

impl Index<u32> for QueueTable {
    type Output = Queue;

    /// The queue of a key that the node itself keeps. A stale key is a defect.
    fn index(&self, key: u32) -> &Queue {
        self.slab
            .get(key)
            .expect("a queue's key outlived the queue")
    }
}

impl IndexMut<u32> for QueueTable {
    fn index_mut(&mut self, key: u32) -> &mut Queue {
        self.slab
            .get_mut(key)
            .expect("a queue's key outlived the queue")
    }
}

/// Frees up to `max` items of a slab that is no longer used; whether none is left.
pub(crate) fn free_some<T>(slab: &mut Slab<T>, max: usize) -> bool {
    for _ in 0..max {
        match slab.next_occupied(0) {
            Some(key) => slab.remove(key),
            None => return true,
        };
    }
    slab.is_empty()
}

/// A client that waits.
pub struct Waiter {
    /// Keys of the queues, in the client's order.
    pub queues: SmallVec<[u32; 2]>,
    /// How many jobs it takes at once.
    pub count: u64,
    /// Whether its reply shows the counters.
    pub with_counters: bool,
    /// When it gets null, on the monotonic clock.
    pub deadline: u64,
    /// What it waits for if it is a producer.
    pub producer: Option<Box<Producer>>,
    id: WaiterId,
    timer: TimerLinks,
}

/// A client that waits for copies of a job, or of all jobs of a batch.
pub struct Producer {
    /// The jobs, in the order in which they were given.
    pub jobs: Ids,
    /// How many of them are not on enough nodes yet.
    pub waiting: usize,
    /// Nodes that keep no copy. Those of one batch are alike to a node.
    pub refused: SmallVec<[Holder; 4]>,
    /// Whether all of them have no memory, and none can have one of the jobs.
    pub all_full: bool,
}

impl Producer {
    /// What it is told when all nodes that are reached have refused.
    pub fn error(&self) -> Error {
        if self.all_full {
            Error::OutOfMemory
        } else {
            Error::NoRepl
        }
    }
}

impl Waiter {
    /// A client that does not wait yet.
    pub fn new(
        queues: SmallVec<[u32; 2]>,
        count: u64,
        with_counters: bool,
        deadline: u64,
    ) -> Waiter {
        Waiter {
            queues,
            count,
            with_counters,
            deadline,
            producer: None,
            id: WaiterId(0),
            timer: TimerLinks::default(),
        }
    }

    /// A producer that does not wait yet.
    pub fn for_copies(jobs: Ids, deadline: u64) -> Waiter {
        // At-most-once jobs move: while one is refused, others are on their way.
        let move_together = jobs.len() > 1 && !jobs[0].is_retried();
        let producer = Producer {
            waiting: jobs.len(),
            jobs,
            refused: SmallVec::new(),
            all_full: !move_together,
        };
        Waiter {
            producer: Some(Box::new(producer)),
            ..Waiter::new(SmallVec::new(), 0, false, deadline)
        }
    }
}

impl Timed for Waiter {
    fn links(&self) -> TimerLinks {
        self.timer
    }

    fn links_mut(&mut self) -> &mut TimerLinks {
        &mut self.timer
    }

    fn deadline(&self) -> u64 {
        self.deadline
    }
}

/// Waiting clients of a node: consumers in one table, producers in another.
///
/// An id holds the client's place in the slab and, above it, a serial number:
/// ids order clients by arrival, and no id is used twice, in neither table.
pub struct WaiterTable {
    slab: Slab<Waiter>,
    timers: Wheel,
    next_serial: u64,
}

const KEY_BITS: u32 = 24;

impl WaiterTable {
    /// The most clients that can wait at a time.
    pub const LIMIT: usize = 1 << KEY_BITS;

    /// An empty table for consumers whose time begins at `now`.
    pub fn for_consumers(now: Now) -> WaiterTable {
        Self::starting_at(2, now)
    }

    /// An empty table for producers whose time begins at `now`.
    pub fn for_producers(now: Now) -> WaiterTable {
        Self::starting_at(1, now)
    }

    fn starting_at(next_serial: u64, now: Now) -> WaiterTable {
        WaiterTable {
            slab: Slab::with_limit(Self::LIMIT),
            timers: Wheel::new(now.mono_ms),
            next_serial,
        }
    }

    /// How many clients wait.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Lets a client wait.
    pub fn insert(&mut self, waiter: Waiter) -> Result<WaiterId, Full> {
        let timed = waiter.deadline != crate::clock::NEVER;
        let key = self.slab.insert(waiter)?;
        let id = WaiterId(self.next_serial << KEY_BITS | u64::from(key));
        self.next_serial += 2;
        if let Some(waiter) = self.slab.get_mut(key) {
            waiter.id = id;
        }
        if timed {
            self.timers.insert(&mut self.slab, key);
        }
        Ok(id)
    }

    /// See [`WaiterTable::get`].
    pub fn get_mut(&mut self, id: WaiterId) -> Option<&mut Waiter> {
        let waiter = self.slab.get_mut(key_of(id));
        waiter.filter(|waiter| waiter.id == id)
    }

    /// A waiting client; `None` once it no longer waits.
    pub fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.slab.get(key_of(id)).filter(|waiter| waiter.id == id)
    }

    /// Lets a client wait no longer.
    pub fn remove(&mut self, id: WaiterId) -> Option<Waiter> {
        self.get(id)?;
        self.timers.remove(&mut self.slab, key_of(id));
        self.slab.remove(key_of(id))
    }

    /// All waiting clients.
    pub fn iter(&self) -> impl Iterator<Item = (WaiterId, &Waiter)> + '_ {
        self.slab.iter().map(|(_, waiter)| (waiter.id, waiter))
    }

    /// How many of them have a time limit.
    pub fn timer_count(&self) -> usize {
        self.timers.len()
    }

    /// Any of the waiting clients.
    pub fn any(&self) -> Option<WaiterId> {
        let key = self.slab.next_occupied(0)?;
        self.slab.get(key).map(|waiter| waiter.id)
    }

    /// The next client whose time is over; it still waits.
    pub fn poll(&mut self, now: Now, budget: &mut u32) -> Option<WaiterId> {
        match self.timers.poll(&mut self.slab, now.mono_ms, budget) {
            Poll::Due(key) => self.slab.get(key).map(|waiter| waiter.id),
            _ => None,
        }
    }

    /// When to poll next.
    pub fn next_wake(&self) -> Option<u64> {
        self.timers.next_wake()
    }
}

fn key_of(id: WaiterId) -> u32 {
    (id.0 & ((1 << KEY_BITS) - 1)) as u32
}

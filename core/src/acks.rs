//! Acknowledgements of jobs that this node does not hold: kept until the holders
//! know them (*dummy acks*), and what it remembers of jobs that were settled.

use crate::clock::{Now, NEVER};
use crate::collections::{Full, HashSeed, KeyTable, Poll, Slab, Timed, TimerLinks, Wheel};
use crate::holders::Holder;
use crate::job_id::JobId;
use crate::tables::free_some;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// An acknowledgement of a job that is not here.
pub struct DummyAck {
    /// The job.
    pub id: JobId,
    /// When nothing can come of it any more, monotonic ms.
    pub expire_at: u64,
    /// When to ask again.
    pub ask_at: u64,
    /// How often all were asked.
    pub tries: u8,
    /// A holder that has said that it collects: it alone is asked.
    pub collector: Option<Holder>,
    /// Who said that it does not know the job.
    pub denied: SmallVec<[Holder; 4]>,
    timer: TimerLinks,
}

impl Timed for DummyAck {
    fn links(&self) -> TimerLinks {
        self.timer
    }

    fn links_mut(&mut self) -> &mut TimerLinks {
        &mut self.timer
    }

    fn deadline(&self) -> u64 {
        self.expire_at.min(self.ask_at)
    }
}

/// All dummy acks of a node.
pub struct AckTable {
    slab: Slab<DummyAck>,
    by_id: KeyTable,
    timers: Wheel,
}

impl AckTable {
    /// An empty table whose time begins at `now`.
    pub fn new(seed: HashSeed, now: Now) -> AckTable {
        AckTable {
            slab: Slab::new(),
            by_id: KeyTable::new(seed),
            timers: Wheel::new(now.mono_ms),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// The dummy ack of a job.
    pub fn find(&self, id: &JobId) -> Option<u32> {
        if self.is_empty() {
            return None; // As nearly always, and most messages ask.
        }
        let hash = self.by_id.seed().hash(id.random());
        self.by_id.find(&self.slab, hash, |ack| ack.id == *id)
    }

    /// A dummy ack by its key.
    pub fn get(&self, key: u32) -> Option<&DummyAck> {
        self.slab.get(key)
    }

    /// See [`AckTable::get`]. Its times are set by [`AckTable::schedule`].
    pub fn get_mut(&mut self, key: u32) -> Option<&mut DummyAck> {
        self.slab.get_mut(key)
    }

    /// Keeps an acknowledgement of a job that has none yet.
    pub fn insert(&mut self, id: JobId, expire_at: u64) -> Result<u32, Full> {
        let hash = self.by_id.seed().hash(id.random());
        let key = self.slab.insert(DummyAck {
            id,
            expire_at,
            ask_at: NEVER,
            tries: 0,
            collector: None,
            denied: SmallVec::new(),
            timer: TimerLinks::default(),
        })?;
        self.by_id.insert(key, hash);
        self.timers.insert(&mut self.slab, key);
        Ok(key)
    }

    /// Forgets one.
    pub fn remove(&mut self, key: u32) -> Option<DummyAck> {
        let hash = self.by_id.seed().hash(self.slab.get(key)?.id.random());
        self.by_id.remove(key, hash);
        self.timers.remove(&mut self.slab, key);
        self.slab.remove(key)
    }

    /// When to ask again.
    pub fn schedule(&mut self, key: u32, ask_at: u64) {
        self.timers.remove(&mut self.slab, key);
        if let Some(ack) = self.slab.get_mut(key) {
            ack.ask_at = ask_at;
            self.timers.insert(&mut self.slab, key);
        }
    }

    /// The next that is due; its timer is stopped.
    pub fn poll(&mut self, now: Now, budget: &mut u32) -> Poll {
        self.timers.poll(&mut self.slab, now.mono_ms, budget)
    }

    /// When to poll next.
    pub fn next_wake(&self) -> Option<u64> {
        self.timers.next_wake()
    }

    /// The first at or after a key.
    pub fn next_occupied(&self, from: u32) -> Option<u32> {
        self.slab.next_occupied(from)
    }

    /// Frees up to `max` of a table that is no longer used; whether none is left.
    pub fn free_some(&mut self, max: usize) -> bool {
        free_some(&mut self.slab, max)
    }
}

/// Ids of jobs that were settled here and are gone: late messages about them are
/// answered from this.
pub struct SettledMemory {
    slab: Slab<Settled>,
    by_id: KeyTable,
    oldest: VecDeque<u32>,
}

struct Settled {
    id: JobId,
    until: u64,
}

impl SettledMemory {
    /// An empty memory.
    pub fn new(seed: HashSeed) -> SettledMemory {
        SettledMemory {
            slab: Slab::new(),
            by_id: KeyTable::new(seed),
            oldest: VecDeque::new(),
        }
    }

    /// How many ids are remembered.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Whether a job was settled not long ago.
    pub fn contains(&self, id: &JobId) -> bool {
        self.find(id).is_some()
    }

    fn find(&self, id: &JobId) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let hash = self.by_id.seed().hash(id.random());
        self.by_id
            .find(&self.slab, hash, |settled| settled.id == *id)
    }

    /// Remembers a job for so long, and of more than `max` jobs the latest. One that
    /// is remembered is so no longer for that, unless its time is over already.
    pub fn remember(&mut self, id: JobId, now: Now, memory_ms: u64, max: u64) {
        let until = now.after(memory_ms);
        if let Some(known) = self.find(&id).and_then(|key| self.slab.get_mut(key)) {
            if known.until <= now.mono_ms {
                known.until = until;
            }
            return;
        }
        if max == 0 {
            return;
        }
        while self.slab.len() as u64 >= max {
            self.forget_oldest();
        }
        let hash = self.by_id.seed().hash(id.random());
        if let Ok(key) = self.slab.insert(Settled { id, until }) {
            self.by_id.insert(key, hash);
            self.oldest.push_back(key);
        }
    }

    /// Forgets what has been remembered long enough, at most `max` ids.
    pub fn forget_old(&mut self, now: Now, max: usize) {
        for _ in 0..max {
            match self.next_wake() {
                Some(until) if until <= now.mono_ms => self.forget_oldest(),
                _ => return,
            };
        }
    }

    /// When to call [`SettledMemory::forget_old`] next.
    pub fn next_wake(&self) -> Option<u64> {
        let oldest = self.slab.get(*self.oldest.front()?)?;
        Some(oldest.until)
    }

    /// Forgets the id that it has known longest; whether there was one.
    pub fn forget_oldest(&mut self) -> bool {
        let Some(key) = self.oldest.pop_front() else {
            return false;
        };
        if let Some(Settled { id, .. }) = self.slab.remove(key) {
            let hash = self.by_id.seed().hash(id.random());
            self.by_id.remove(key, hash);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono_ms: u64) -> Now {
        Now {
            mono_ms,
            wall_ms: 1_700_000_000_000,
        }
    }

    #[test]
    fn what_is_told_again_is_remembered_anew_only_when_its_time_was_over() {
        let id = JobId::from_bytes(&[7; JobId::BYTES]);
        let mut settled = SettledMemory::new(HashSeed::new(&[3; 16]));
        settled.remember(id, at(0), 5_000, 10);
        settled.remember(id, at(4_000), 5_000, 10);
        assert_eq!(settled.next_wake(), Some(5_000));
        // Nobody came by to forget it.
        settled.remember(id, at(6_000), 5_000, 10);
        settled.forget_old(at(6_000), 10);
        assert!(settled.contains(&id));
        settled.forget_old(at(11_000), 10);
        assert!(settled.is_empty());
    }
}

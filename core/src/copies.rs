//! What a node knows of the other copies of a job.
//!
//! Only jobs of which other nodes may hold a copy have this beside the job itself:
//! a job with one copy pays four bytes for it.

use crate::clock::{Now, NEVER};
use crate::collections::{Full, Poll, Slab, Timed, TimerLinks, Wheel, NIL};
use crate::effects::WaiterId;
use crate::holders::{Holder, HolderSet};
use crate::tables::free_some;
use smallvec::SmallVec;
use std::ops::{Index, IndexMut};

/// What a node has to do about the copies of a job, again and again until it is
/// done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Nothing.
    None,
    /// To get as many copies as were asked for: the node that took the job.
    Spread,
    /// The same where another one took it: copies have been lost, or its node has.
    Repair,
    /// To have another holder queue it, and to drop it here: no copy is kept.
    Entrust,
    /// To drop it here, once the other possible holders know of each other.
    Part,
    /// To have an acknowledgement confirmed by every possible holder.
    Collect,
    /// To see whether another node collects, and to do it if not.
    AwaitCollection,
    /// To give up an at-most-once job of which nobody says that it has arrived.
    HandOver,
}

/// WILLQUEUE is under way: the node wants to queue the job, and asks first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Who has not answered.
    pub unanswered: SmallVec<[Holder; 4]>,
    /// When the job is queued if all answer, monotonic ms.
    pub due: u64,
    /// When it is queued even if some do not.
    pub limit: u64,
}

/// WILLDROP is under way: the node gives its copy up once all have answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// Whom they all have to know.
    pub holders: HolderSet,
    /// Who has not said so.
    pub unanswered: SmallVec<[Holder; 4]>,
}

/// The copies of one job.
pub struct Copies {
    /// Who may hold one, this node included. Where it is not sure of itself it keeps
    /// none: it has the job only until another node has taken it.
    pub holders: HolderSet,
    /// The key of the job.
    pub job: u32,
    /// Orders responsibility: the highest is believed.
    pub turn: u32,
    /// Who queues the job again; `None` if nobody is believed.
    pub responsible: Option<Holder>,
    /// The producer that waits for copies.
    pub adder: Option<WaiterId>,
    /// Enough nodes have one: its producer waits for other jobs of the batch.
    pub held: bool,
    /// To whom the job was given, while that is not answered.
    pub handed: Option<Holder>,
    /// The question before queueing, if one is open.
    pub asking: Option<Box<Asking>>,
    /// The question before parting, only while that is to be done.
    pub parting: Option<Box<Parting>>,
    /// What is to be done at `act_at`.
    pub duty: Duty,
    /// How often it was done in vain.
    pub tries: u8,
    /// This node set the job's deadline: it delivered this attempt, or a client
    /// said so here. Only then may it keep others from queueing.
    pub own_deadline: bool,
    /// For how many of this node's [`crate::node::Node::doubts`] the others have
    /// been asked whether the job is still this node's.
    pub asked: u32,
    /// Whether fewer copies are known than were asked for.
    pub short: bool,
    /// Whether holders were named to the others that the job did not name itself.
    pub grown: bool,
    /// Possible holders came to be known, or may have before a restart, of whom not all
    /// others need know.
    pub named: bool,
    /// The job was sent again to one that may have got it before.
    pub resent: bool,
    /// A holder could not be told that this node has queued the job.
    pub untold: bool,
    /// When HOLDERS last came for the job, or it came itself.
    pub heard_at: u64,
    act_at: u64,
    timer: TimerLinks,
}

impl Copies {
    /// No copies but one here.
    pub fn new(job: u32, own: Holder) -> Copies {
        Copies {
            holders: HolderSet::of(own),
            job,
            turn: 0,
            responsible: None,
            adder: None,
            held: false,
            handed: None,
            asking: None,
            parting: None,
            duty: Duty::None,
            tries: 0,
            own_deadline: false,
            asked: 0,
            short: false,
            grown: false,
            named: false,
            resent: false,
            untold: false,
            heard_at: 0,
            act_at: NEVER,
            timer: TimerLinks::default(),
        }
    }

    /// Adds a possible holder that others do not know from the job itself; whether it
    /// is new.
    pub fn name(&mut self, holder: Holder) -> bool {
        let new = self.holders.add(holder);
        self.named |= new;
        new
    }

    /// Adds possible holders of which another node has told; whether one of them is
    /// new.
    pub fn learn(&mut self, of: &HolderSet) -> bool {
        of.iter().fold(false, |any, holder| self.name(holder) | any)
    }
}

impl Timed for Copies {
    fn links(&self) -> TimerLinks {
        self.timer
    }

    fn links_mut(&mut self) -> &mut TimerLinks {
        &mut self.timer
    }

    fn deadline(&self) -> u64 {
        self.act_at
    }
}

/// The copies of all jobs that have some elsewhere, by when to act on them.
pub struct CopiesTable {
    slab: Slab<Copies>,
    timers: Wheel,
}

/// The key of no copies.
pub const NO_COPIES: u32 = NIL;

impl CopiesTable {
    /// An empty table whose time begins at `now`.
    pub fn new(now: Now) -> CopiesTable {
        CopiesTable {
            slab: Slab::new(),
            timers: Wheel::new(now.mono_ms),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether so many more fit.
    pub fn has_room(&self, count: usize) -> bool {
        self.slab.has_room(count)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// How many have a duty that is due some time.
    pub fn timer_count(&self) -> usize {
        self.timers.len()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.slab.len() * std::mem::size_of::<Copies>()
    }

    /// Takes in what is known of a job's copies.
    pub fn insert(&mut self, copies: Copies) -> Result<u32, Full> {
        self.slab.insert(copies)
    }

    /// Takes it out.
    pub fn remove(&mut self, key: u32) -> Option<Copies> {
        self.timers.remove(&mut self.slab, key);
        self.slab.remove(key)
    }

    /// What is known under a key; `None` for [`NO_COPIES`].
    pub fn get(&self, key: u32) -> Option<&Copies> {
        self.slab.get(key)
    }

    /// See [`CopiesTable::get`].
    pub fn get_mut(&mut self, key: u32) -> Option<&mut Copies> {
        self.slab.get_mut(key)
    }

    /// When to act on it: [`NEVER`] for not at all.
    pub fn act_at(&self, key: u32) -> u64 {
        self[key].act_at
    }

    /// Sets a duty and when to see to it.
    pub fn schedule(&mut self, key: u32, duty: Duty, at: u64) {
        self.timers.remove(&mut self.slab, key);
        let copies = &mut self[key];
        copies.duty = duty;
        copies.act_at = at;
        if duty != Duty::Part {
            copies.parting = None;
        }
        if at != NEVER {
            self.timers.insert(&mut self.slab, key);
        }
    }

    /// The next that is due; its timer is stopped.
    pub fn poll(&mut self, now: Now, budget: &mut u32) -> Poll {
        let poll = self.timers.poll(&mut self.slab, now.mono_ms, budget);
        if let Poll::Due(key) = poll {
            self[key].act_at = NEVER;
        }
        poll
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

impl Index<u32> for CopiesTable {
    type Output = Copies;

    /// What is known under a key that a job keeps. A stale key is a defect.
    fn index(&self, key: u32) -> &Copies {
        self.slab.get(key).expect("a key of copies outlived them")
    }
}

impl IndexMut<u32> for CopiesTable {
    fn index_mut(&mut self, key: u32) -> &mut Copies {
        self.slab
            .get_mut(key)
            .expect("a key of copies outlived them")
    }
}

//! Deadlines: which item is due next.

use super::{Slab, KEY_LIMIT, NIL};

/// Bits of the time that one level tells apart.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Enough for every bit of a `u64`.
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;
/// The list of items that only wait to be polled, behind those of the slots.
const DUE: usize = LEVELS * SLOTS;

/// An item that a [`Wheel`] can hold.
pub trait Timed {
    fn links(&self) -> TimerLinks;
    fn links_mut(&mut self) -> &mut TimerLinks;

    /// When the item is due, in milliseconds. It must not change while the item
    /// is scheduled: remove the item, change what the deadline depends on,
    /// insert it again.
    fn deadline(&self) -> u64;
}

/// The neighbours of an item in its list.
///
/// Each list is a ring closed by a sentinel, whose number lies above all keys
/// and names the list. So an item can leave without knowing where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerLinks {
    prev: u32,
    next: u32,
}

impl TimerLinks {
    pub const UNSCHEDULED: Self = Self {
        prev: NIL,
        next: NIL,
    };

    pub fn is_scheduled(self) -> bool {
        self.prev != NIL
    }
}

impl Default for TimerLinks {
    fn default() -> Self {
        Self::UNSCHEDULED
    }
}

/// What [`Wheel::poll`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// This item is due. It is no longer scheduled.
    Due(u32),
    /// Nothing is due.
    Idle,
    /// Items have to be sorted further before the next one is known. Poll again
    /// with a new budget.
    OutOfBudget,
}

/// A hierarchical timing wheel over the items of a [`Slab`], with a resolution
/// of one millisecond.
///
/// A slot of level `n` spans 64^n ms. An item lies at the level of the highest
/// digit, to the base 64, in which its deadline differs from the time the wheel
/// has reached. Hence every slot in use begins later than that time, and all
/// slots of a level begin before those of the levels above: the next slot is the
/// first of the lowest level in use. When its time comes, a slot of level 0 is
/// due as a whole, and the items of a higher slot are spread over the levels
/// below. An item moves once per level at most.
///
/// Items come out in the order of their deadlines, and in the order of their
/// insertion where these are equal. An item that is late when inserted counts as
/// due at the time the wheel has reached.
///
/// All operations are O(1), `poll` but for the moves that its budget allows.
/// Memory is eight bytes of links in each item and 6 KiB for the wheel.
pub struct Wheel {
    /// The sentinels: `next` is the first item, `prev` the last.
    lists: Box<[TimerLinks]>,
    /// For each level, the slots that are not empty.
    occupied: [u64; LEVELS],
    /// All slots that begin up to this time are dealt with.
    reached: u64,
    /// The latest time that was told. Ahead of `reached` while items wait.
    now: u64,
    /// The slot that is being spread. Until it is empty `reached` stands just
    /// before it: an item that belongs to the slot then joins its end, which
    /// keeps the order of insertion, and the lists below are used by the
    /// spreading alone.
    spreading: Option<Slot>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    level: usize,
    index: usize,
    begin: u64,
}

impl Wheel {
    pub fn new(now: u64) -> Self {
        let sentinel = |list| TimerLinks {
            prev: link_to(list),
            next: link_to(list),
        };
        Self {
            lists: (0..=DUE).map(sentinel).collect(),
            occupied: [0; LEVELS],
            reached: now,
            now,
            spreading: None,
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Schedules an item that is not scheduled.
    pub fn insert<T: Timed>(&mut self, items: &mut Slab<T>, key: u32) {
        let item = &items[key];
        debug_assert!(!item.links().is_scheduled());
        let deadline = item.deadline();
        let list = if deadline <= self.reached {
            DUE
        } else {
            list_for(deadline, self.reached)
        };
        self.push(items, list, key);
        self.len += 1;
    }

    /// Takes an item out. Returns whether it was scheduled.
    pub fn remove<T: Timed>(&mut self, items: &mut Slab<T>, key: u32) -> bool {
        if !items[key].links().is_scheduled() {
            return false;
        }
        self.unlink(items, key);
        self.len -= 1;
        true
    }

    /// Takes out the next item that is due at `now`. A `now` before an earlier
    /// one counts as that one.
    ///
    /// `budget` is the number of items that may be moved to find it, and is
    /// lowered by those that were.
    pub fn poll<T: Timed>(&mut self, items: &mut Slab<T>, now: u64, budget: &mut u32) -> Poll {
        self.now = self.now.max(now);
        loop {
            if let Some(key) = self.first(DUE) {
                self.remove(items, key);
                return Poll::Due(key);
            }
            if let Some(slot) = self.spreading {
                if !self.spread(items, slot, budget) {
                    return Poll::OutOfBudget;
                }
            }
            match self.next_slot() {
                Some(slot) if slot.begin <= self.now => self.enter(items, slot),
                _ => {
                    self.reached = self.now;
                    return Poll::Idle;
                }
            }
        }
    }

    /// When to poll next; in the past if there is something to do at once.
    ///
    /// This is the deadline of the next item if that is less than 64 ms away,
    /// else perhaps earlier: the time at which its slot has to be spread. Each
    /// item causes at most as many early wake-ups as its level, three if it is
    /// due in four hours.
    pub fn next_wake(&self) -> Option<u64> {
        if self.first(DUE).is_some() || self.spreading.is_some() {
            return Some(self.reached);
        }
        Some(self.next_slot()?.begin)
    }

    fn next_slot(&self) -> Option<Slot> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let index = self.occupied[level].trailing_zeros() as usize;
        let shift = BITS * level as u32;
        let span = (SLOTS as u64 - 1) << shift | ((1 << shift) - 1);
        let begin = self.reached & !span | (index as u64) << shift;
        Some(Slot {
            level,
            index,
            begin,
        })
    }

    /// Moves the time to a slot that has come. Nothing is due or being spread.
    fn enter<T: Timed>(&mut self, items: &mut Slab<T>, slot: Slot) {
        if slot.level > 0 {
            self.reached = slot.begin - 1;
            self.spreading = Some(slot);
            return;
        }
        self.reached = slot.begin;
        let TimerLinks { prev, next } = self.lists[slot.index];
        self.lists[DUE] = TimerLinks { prev, next };
        items[next].links_mut().prev = link_to(DUE);
        items[prev].links_mut().next = link_to(DUE);
        self.reset(slot.index);
    }

    /// Moves the items of a slot to the levels below. Returns whether that is
    /// finished.
    fn spread<T: Timed>(&mut self, items: &mut Slab<T>, slot: Slot, budget: &mut u32) -> bool {
        while let Some(key) = self.first(slot.level * SLOTS + slot.index) {
            let Some(rest) = budget.checked_sub(1) else {
                return false;
            };
            *budget = rest;
            self.unlink(items, key);
            let deadline = items[key].deadline();
            debug_assert!(deadline >= slot.begin, "deadline changed while scheduled");
            let list = list_for(deadline.max(slot.begin), slot.begin);
            self.push(items, list, key);
        }
        self.reached = slot.begin;
        self.spreading = None;
        true
    }

    fn first(&self, list: usize) -> Option<u32> {
        let key = self.lists[list].next;
        (key < KEY_LIMIT).then_some(key)
    }

    fn push<T: Timed>(&mut self, items: &mut Slab<T>, list: usize, key: u32) {
        let end = link_to(list);
        let last = self.lists[list].prev;
        *items[key].links_mut() = TimerLinks {
            prev: last,
            next: end,
        };
        self.lists[list].prev = key;
        self.links_mut(items, last).next = key;
        if list != DUE {
            self.occupied[list / SLOTS] |= 1 << (list % SLOTS);
        }
    }

    fn unlink<T: Timed>(&mut self, items: &mut Slab<T>, key: u32) {
        let links = items[key].links_mut();
        let TimerLinks { prev, next } = *links;
        *links = TimerLinks::UNSCHEDULED;
        self.links_mut(items, prev).next = next;
        self.links_mut(items, next).prev = prev;
        if prev == next && prev >= KEY_LIMIT {
            self.reset((prev - KEY_LIMIT) as usize);
        }
    }

    /// Makes a list empty, whatever its sentinel says.
    fn reset(&mut self, list: usize) {
        self.lists[list] = TimerLinks {
            prev: link_to(list),
            next: link_to(list),
        };
        if list != DUE {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    fn links_mut<'a, T: Timed>(
        &'a mut self,
        items: &'a mut Slab<T>,
        link: u32,
    ) -> &'a mut TimerLinks {
        match link.checked_sub(KEY_LIMIT) {
            Some(list) => &mut self.lists[list as usize],
            None => items[link].links_mut(),
        }
    }
}

fn link_to(list: usize) -> u32 {
    KEY_LIMIT + list as u32
}

/// The slot for a deadline when the wheel has reached `from`.
fn list_for(deadline: u64, from: u64) -> usize {
    let level = (deadline ^ from).checked_ilog2().unwrap_or(0) / BITS;
    let index = (deadline >> (BITS * level)) as usize % SLOTS;
    level as usize * SLOTS + index
}

#[cfg(test)]
mod tests;

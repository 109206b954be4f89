//! A sorted sequence of item keys.

use std::collections::VecDeque;

/// Entries in a block. Small enough that an insert moves little, large enough
/// that the directory is a small fraction.
const BLOCK: usize = 256;
/// Neighbours that together hold no more than this become one.
const MERGE: usize = BLOCK / 2;
/// A full block is split only if the one before has less room than this.
const POUR: usize = BLOCK / 4;
/// A block is not shrunk below this.
const SMALL: usize = 8;
/// What a sequence may own while it is empty.
const KEPT: usize = size_of::<Block>() + SMALL * size_of::<u32>();

type Block = VecDeque<u32>;

/// Slab keys in the order of a sort key, which the caller computes from the
/// item whenever it is asked for.
///
/// The sort key is a total order: no two entries have the same. It must not
/// change while the item is in the sequence.
///
/// The entries lie in blocks, so that adding at the end and taking from the
/// front are O(1) and touch memory in sequence. Any other insert or removal is a
/// binary search, the move of at most half a block, and once in a while a new or
/// freed block: then the directory, 32 bytes per block, moves up to half of
/// itself.
///
/// Four bytes per entry when filled at the end, six when filled at random. Two
/// neighbours, but for the first block, always hold more than 128 entries
/// together, so memory follows the number of entries down as well. A sequence
/// that was never used owns no heap memory, one that became empty 64 bytes at
/// most.
#[derive(Default)]
pub struct OrderedKeys {
    /// No block is empty, unless it is the only one.
    blocks: VecDeque<Block>,
    len: usize,
}

impl OrderedKeys {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn front(&self) -> Option<u32> {
        self.blocks.front()?.front().copied()
    }

    pub fn back(&self) -> Option<u32> {
        self.blocks.back()?.back().copied()
    }

    /// Adds `key` at its place, which is checked for at the two ends first.
    pub fn insert<K: Ord>(&mut self, key: u32, key_of: impl Fn(u32) -> K) {
        let sort = key_of(key);
        let (Some(front), Some(back)) = (self.front(), self.back()) else {
            return self.push_back(key);
        };
        if sort > key_of(back) {
            self.push_back(key);
        } else if sort < key_of(front) {
            self.push_front(key);
        } else {
            self.insert_between(key, &sort, &key_of);
        }
    }

    pub fn pop_front(&mut self) -> Option<u32> {
        let block = self.blocks.front_mut()?;
        let key = block.pop_front()?;
        self.len -= 1;
        if block.is_empty() {
            self.drop_block(0);
        }
        if let (1, Some(block)) = (self.blocks.len(), self.blocks.front_mut()) {
            shrink(block, SMALL);
        }
        Some(key)
    }

    /// Takes `key` out. Returns whether it was present.
    pub fn remove<K: Ord>(&mut self, key: u32, key_of: impl Fn(u32) -> K) -> bool {
        if self.front() == Some(key) {
            self.pop_front();
            return true;
        }
        let sort = key_of(key);
        let Some(at) = self.block_of(&sort, &key_of) else {
            return false;
        };
        let block = &mut self.blocks[at];
        let place = block.partition_point(|entry| key_of(*entry) < sort);
        if block.get(place) != Some(&key) {
            return false;
        }
        block.remove(place);
        self.len -= 1;
        self.settle(at);
        true
    }

    /// All entries, from either end.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.blocks.iter().flatten().copied()
    }

    /// Heap memory held. Walks over the blocks.
    pub fn allocated_bytes(&self) -> usize {
        let blocks = self.blocks.iter();
        self.blocks.capacity() * size_of::<Block>()
            + blocks.map(Block::capacity).sum::<usize>() * size_of::<u32>()
    }

    /// The last block that begins at or before `sort`, none if all begin later.
    fn block_of<K: Ord>(&self, sort: &K, key_of: &impl Fn(u32) -> K) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let begins = |block: &Block| key_of(block[0]) <= *sort;
        // Most of what does not go to an end belongs near one: a job delivered
        // again at the front, one that comes from another node at the back.
        match self.blocks.len() {
            count @ 2.. if begins(&self.blocks[count - 1]) => Some(count - 1),
            2.. if !begins(&self.blocks[1]) => begins(&self.blocks[0]).then_some(0),
            _ => self.blocks.partition_point(begins).checked_sub(1),
        }
    }

    fn push_back(&mut self, key: u32) {
        match self.blocks.back_mut() {
            Some(block) if block.len() < BLOCK => block.push_back(key),
            _ => {
                let block = self.new_block(key);
                self.blocks.push_back(block);
            }
        }
        self.len += 1;
    }

    fn push_front(&mut self, key: u32) {
        match self.blocks.front_mut() {
            Some(block) if block.len() < BLOCK => block.push_front(key),
            _ => {
                let block = self.new_block(key);
                self.blocks.push_front(block);
            }
        }
        self.len += 1;
    }

    /// A block at one of the ends. The first one starts small, as most queues
    /// are short; the others will be filled.
    fn new_block(&mut self, key: u32) -> Block {
        let mut block = if self.blocks.is_empty() {
            self.blocks.reserve_exact(1);
            Block::new()
        } else {
            Block::with_capacity(BLOCK)
        };
        block.push_back(key);
        block
    }

    fn insert_between<K: Ord>(&mut self, key: u32, sort: &K, key_of: &impl Fn(u32) -> K) {
        let at = self.block_of(sort, key_of).expect("not before the front");
        let block = &mut self.blocks[at];
        let place = block.partition_point(|entry| key_of(*entry) < *sort);
        debug_assert!(block.get(place) != Some(&key), "inserted twice");
        if block.len() < BLOCK {
            block.insert(place, key);
        } else if place == BLOCK {
            // Nothing has to be split: a run of ascending inserts, the tail of
            // one priority among others, leaves full blocks behind.
            match self.blocks.get_mut(at + 1) {
                Some(next) if next.len() < BLOCK => next.push_front(key),
                _ => self.blocks.insert(at + 1, Block::from([key])),
            }
        } else {
            self.make_room(at);
            return self.insert_between(key, sort, key_of);
        }
        self.len += 1;
    }

    /// Splits a full block, or moves a part of it to the one before.
    fn make_room(&mut self, at: usize) {
        let room = match at.checked_sub(1) {
            Some(before) => BLOCK - self.blocks[before].len(),
            None => 0,
        };
        if room >= POUR {
            let poured: Block = self.blocks[at].drain(..room / 2).collect();
            append(&mut self.blocks[at - 1], poured);
        } else {
            let upper = self.blocks[at].split_off(BLOCK / 2);
            self.blocks.insert(at + 1, upper);
        }
    }

    /// After a removal: merges the block with a neighbour, or frees what it no
    /// longer needs.
    fn settle(&mut self, at: usize) {
        let len = self.blocks[at].len();
        if len == 0 {
            return self.drop_block(at);
        }
        let fits = |other: Option<&Block>| other.is_some_and(|other| len + other.len() <= MERGE);
        let lower = if fits(self.blocks.get(at + 1)) {
            at
        } else if at > 0 && fits(self.blocks.get(at - 1)) {
            at - 1
        } else {
            return shrink(&mut self.blocks[at], SMALL);
        };
        let upper = self.blocks.remove(lower + 1).unwrap_or_default();
        append(&mut self.blocks[lower], upper);
        shrink(&mut self.blocks[lower], SMALL);
        shrink(&mut self.blocks, 1);
    }

    /// Frees an empty block. The only one is kept if it is small, for a queue
    /// that is empty every other moment.
    fn drop_block(&mut self, at: usize) {
        if self.blocks.len() > 1 {
            self.blocks.remove(at);
            shrink(&mut self.blocks, 1);
        } else if self.allocated_bytes() > KEPT {
            *self = Self::default();
        }
    }
}

/// Adds entries at the end. Capacities stay powers of two, so that doubling
/// them ends at `BLOCK`.
fn append(block: &mut Block, entries: Block) {
    let len = block.len() + entries.len();
    block.reserve_exact(len.next_power_of_two() - block.len());
    block.extend(entries);
}

/// Shrinks what has become three quarters empty to twice its content, so that
/// neither growing nor shrinking again is near.
fn shrink<T>(entries: &mut VecDeque<T>, least: usize) {
    let capacity = entries.capacity();
    if capacity > least && entries.len() <= capacity / 4 {
        entries.shrink_to((2 * entries.len()).next_power_of_two().max(least));
    }
}

#[cfg(test)]
mod tests;

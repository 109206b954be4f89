//! From an identifier to the key of its item.

use super::{HashSeed, Slab, NIL};

/// Buckets in a segment, 4 KiB.
const SEGMENT: usize = 1024;
/// Buckets that are split or merged together. Their chains are walked side by
/// side: at ten million items nearly every step is a cache miss, and the misses
/// of different chains overlap.
const BATCH: usize = 16;

/// An item that a [`HashIndex`] can hold.
pub trait Hashed {
    /// The hash of what identifies the item. It must not change while the item
    /// is in an index.
    fn hash(&self, seed: &HashSeed) -> u64;

    /// The link of the chain, meaningful only while the item is in an index.
    fn hash_next(&self) -> u32;
    fn set_hash_next(&mut self, next: u32);
}

/// A hash table over the items of a [`Slab`], chained through the items.
///
/// It grows by linear hashing: every sixteenth insert splits the next sixteen
/// buckets, and removals merge them again. So the work of growing is spread
/// evenly, and no call ever rehashes more than some twenty items. There is at
/// most one item per bucket on average; the table begins to shrink when there is
/// less than half an item. Splitting asks the items of the chains for their hash
/// again.
///
/// Memory is four bytes for the link of each item and four for each bucket:
/// eight bytes per item while growing, up to twelve after it has shrunk.
pub struct HashIndex {
    seed: HashSeed,
    segments: Vec<Box<[u32; SEGMENT]>>,
    /// A multiple of `BATCH`, zero before the first insert.
    buckets: usize,
    len: usize,
}

impl HashIndex {
    pub fn new(seed: HashSeed) -> Self {
        Self {
            seed,
            segments: Vec::new(),
            buckets: 0,
            len: 0,
        }
    }

    pub fn seed(&self) -> &HashSeed {
        &self.seed
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item with this hash for which `eq` holds.
    pub fn find<T: Hashed>(
        &self,
        items: &Slab<T>,
        hash: u64,
        eq: impl Fn(&T) -> bool,
    ) -> Option<u32> {
        let mut key = self.head(self.bucket(hash)?);
        while key != NIL {
            let item = &items[key];
            if eq(item) {
                return Some(key);
            }
            key = item.hash_next();
        }
        None
    }

    /// Adds the item `key`. The caller has made sure that neither it nor its
    /// equal is present.
    pub fn insert<T: Hashed>(&mut self, items: &mut Slab<T>, key: u32, hash: u64) {
        debug_assert_eq!(items[key].hash(&self.seed), hash);
        if self.len >= self.buckets {
            self.grow(items);
        }
        let bucket = self.bucket(hash).expect("grown");
        items[key].set_hash_next(self.head(bucket));
        self.set_head(bucket, key);
        self.len += 1;
    }

    /// Takes the item `key` out. Returns whether it was present.
    pub fn remove<T: Hashed>(&mut self, items: &mut Slab<T>, key: u32, hash: u64) -> bool {
        let Some(bucket) = self.bucket(hash) else {
            return false;
        };
        let mut before = NIL;
        let mut at = self.head(bucket);
        while at != key {
            if at == NIL {
                return false;
            }
            before = at;
            at = items[at].hash_next();
        }
        let next = items[key].hash_next();
        if before == NIL {
            self.set_head(bucket, next);
        } else {
            items[before].set_hash_next(next);
        }
        self.len -= 1;
        if self.buckets > BATCH && self.len < (self.buckets - BATCH) / 2 {
            self.shrink(items);
        }
        true
    }

    /// Forgets all items at once, without touching them.
    pub fn clear(&mut self) {
        self.segments = Vec::new();
        self.buckets = 0;
        self.len = 0;
    }

    /// Heap memory held, without the links in the items.
    pub fn allocated_bytes(&self) -> usize {
        self.segments.len() * size_of::<[u32; SEGMENT]>()
            + self.segments.capacity() * size_of::<usize>()
    }

    /// The bucket of a hash: as many of its low bits as there are buckets, one
    /// bit less where that bucket is not split yet.
    fn bucket(&self, hash: u64) -> Option<usize> {
        if self.buckets == 0 {
            return None;
        }
        let mask = self.buckets.next_power_of_two() - 1;
        let bucket = hash as usize & mask;
        Some(if bucket < self.buckets {
            bucket
        } else {
            bucket & (mask >> 1)
        })
    }

    fn head(&self, bucket: usize) -> u32 {
        self.segments[bucket / SEGMENT][bucket % SEGMENT]
    }

    fn set_head(&mut self, bucket: usize, key: u32) {
        self.segments[bucket / SEGMENT][bucket % SEGMENT] = key;
    }

    /// Adds the next batch of buckets.
    fn grow<T: Hashed>(&mut self, items: &mut Slab<T>) {
        let first = self.buckets;
        if first / SEGMENT == self.segments.len() {
            self.segments.push(Box::new([NIL; SEGMENT]));
        }
        self.buckets += BATCH;
        if first == 0 {
            return;
        }
        self.fetch(items, partner(first).0);
        for upper in first..self.buckets {
            self.split(items, upper);
        }
    }

    /// Takes the last batch of buckets away.
    fn shrink<T: Hashed>(&mut self, items: &mut Slab<T>) {
        let first = self.buckets - BATCH;
        self.fetch(items, first);
        for upper in first..self.buckets {
            self.merge(items, upper);
        }
        self.buckets = first;
        // The distance keeps a table that wavers around a border from
        // allocating and freeing.
        if self.segments.len() * SEGMENT >= self.buckets + SEGMENT + SEGMENT / 2 {
            self.segments.pop();
            if self.segments.len() < self.segments.capacity() / 4 {
                self.segments.shrink_to(self.segments.capacity() / 2);
            }
        }
    }

    /// Brings the items of a batch of buckets into the cache.
    fn fetch<T: Hashed>(&self, items: &Slab<T>, first: usize) {
        let mut keys: [u32; BATCH] = std::array::from_fn(|i| self.head(first + i));
        while keys.iter().any(|key| *key != NIL) {
            for key in keys.iter_mut().filter(|key| **key != NIL) {
                *key = items[*key].hash_next();
            }
        }
    }

    /// Moves to the new bucket `upper` what belongs there from the bucket that
    /// has held it so far. Writes to an item only where its link changes.
    fn split<T: Hashed>(&mut self, items: &mut Slab<T>, upper: usize) {
        let (lower, bit) = partner(upper);
        let mut heads = [NIL; 2];
        let mut tails = [NIL; 2];
        let mut before = NIL;
        let mut at = self.head(lower);
        while at != NIL {
            let item = &items[at];
            let next = item.hash_next();
            let side = usize::from(item.hash(&self.seed) as usize & bit != 0);
            if tails[side] == NIL {
                heads[side] = at;
            } else if tails[side] != before {
                items[tails[side]].set_hash_next(at);
            }
            tails[side] = at;
            before = at;
            at = next;
        }
        for tail in tails {
            if tail != NIL && tail != before {
                items[tail].set_hash_next(NIL);
            }
        }
        self.set_head(lower, heads[0]);
        self.set_head(upper, heads[1]);
    }

    /// Undoes the split that made `upper`.
    fn merge<T: Hashed>(&mut self, items: &mut Slab<T>, upper: usize) {
        let (lower, _) = partner(upper);
        let moved = self.head(upper);
        if moved == NIL {
            return;
        }
        let mut tail = moved;
        while items[tail].hash_next() != NIL {
            tail = items[tail].hash_next();
        }
        items[tail].set_hash_next(self.head(lower));
        self.set_head(lower, moved);
        self.set_head(upper, NIL);
    }
}

/// The bucket that `upper` is split from, and the bit of the hash that decides.
fn partner(upper: usize) -> (usize, usize) {
    let bit = 1 << upper.ilog2();
    (upper - bit, bit)
}

#[cfg(test)]
mod tests;

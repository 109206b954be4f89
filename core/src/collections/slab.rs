//! Storage for items under small integer keys.

use super::bitset::BitSet;
use super::KEY_LIMIT;
use std::fmt;
use std::ops::{Index, IndexMut};

/// With slots of 96 to 128 bytes a chunk takes 24 to 32 KiB, and exactly one
/// allocator size class where the size of a slot is a multiple of 16.
const CHUNK: usize = 256;
const WORDS: usize = CHUNK / 64;

type Chunk<T> = Box<[Option<T>; CHUNK]>;

/// Items in chunks that never move.
///
/// A new item goes into the lowest chunk that has room, so that the upper
/// chunks drain and are given back after a backlog. An emptied chunk is freed
/// unless it is the only empty one: that one is kept, so that adding and
/// removing around a border does not allocate.
///
/// All operations are O(1) up to the directory, which holds eight bytes for
/// every 256 slots and may be reallocated by an insert. Besides the slots, an
/// item costs about a fifth of a byte. A slot is an `Option<T>`: a type without
/// a niche pays for the tag.
///
/// A key is valid until its item is removed and may then name another item;
/// whoever keeps keys across removals has to recognise the item itself.
pub struct Slab<T> {
    chunks: Vec<Option<Chunk<T>>>,
    /// Slots that hold an item.
    occupied: BitSet,
    /// Allocated chunks with at least one free slot.
    roomy: BitSet,
    /// Chunks of the directory that are not allocated.
    missing: BitSet,
    /// The empty chunk that is kept.
    spare: Option<u32>,
    allocated: usize,
    len: usize,
    limit: usize,
}

/// All keys are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all keys are in use")
    }
}

impl std::error::Error for Full {}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    pub fn new() -> Self {
        Self::with_limit(KEY_LIMIT as usize)
    }

    /// A slab that takes at most `limit` items, and never more than there are
    /// keys.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            chunks: Vec::new(),
            occupied: BitSet::default(),
            roomy: BitSet::default(),
            missing: BitSet::default(),
            spare: None,
            allocated: 0,
            len: 0,
            limit: limit.min(KEY_LIMIT as usize),
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether so many more fit.
    pub fn has_room(&self, count: usize) -> bool {
        count <= self.limit - self.len
    }

    /// Stores `value` and returns its key.
    pub fn insert(&mut self, value: T) -> Result<u32, Full> {
        if !self.has_room(1) {
            return Err(Full);
        }
        let chunk = match self.roomy.next(0) {
            Some(chunk) => chunk,
            None => self.allocate(),
        };
        let (word, bits) = self
            .words(chunk)
            .into_iter()
            .enumerate()
            .find(|(_, bits)| *bits != !0)
            .expect("a roomy chunk has a free slot");
        let slot = word * 64 + bits.trailing_ones() as usize;
        let key = chunk * CHUNK as u32 + slot as u32;

        let slots = self.chunks[chunk as usize].as_mut();
        slots.expect("a roomy chunk is allocated")[slot] = Some(value);
        self.occupied.set(key);
        self.len += 1;
        if self.spare == Some(chunk) {
            self.spare = None;
        }
        if self.words(chunk) == [!0; WORDS] {
            self.roomy.clear(chunk);
        }
        Ok(key)
    }

    pub fn get(&self, key: u32) -> Option<&T> {
        let chunk = self.chunks.get(key as usize / CHUNK)?.as_ref()?;
        chunk[key as usize % CHUNK].as_ref()
    }

    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(key as usize / CHUNK)?.as_mut()?;
        chunk[key as usize % CHUNK].as_mut()
    }

    /// Takes the item out and frees its key.
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let slots = self.chunks.get_mut(key as usize / CHUNK)?.as_mut()?;
        let value = slots[key as usize % CHUNK].take()?;
        let chunk = key / CHUNK as u32;
        self.occupied.clear(key);
        self.roomy.set(chunk);
        self.len -= 1;
        if self.words(chunk) == [0; WORDS] {
            self.retire(chunk);
        }
        Some(value)
    }

    /// The lowest key in use that is not below `from`. Empty stretches are
    /// skipped in constant time, so a walk costs what it finds.
    pub fn next_occupied(&self, from: u32) -> Option<u32> {
        self.occupied.next(from)
    }

    /// All items in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let key = self.next_occupied(from)?;
            from = key + 1;
            Some((key, &self[key]))
        })
    }

    /// Heap memory held, without what the items themselves own.
    #[cfg(test)]
    pub fn allocated_bytes(&self) -> usize {
        self.allocated * size_of::<[Option<T>; CHUNK]>()
            + self.chunks.capacity() * size_of::<Option<Chunk<T>>>()
            + self.occupied.allocated_bytes()
            + self.roomy.allocated_bytes()
            + self.missing.allocated_bytes()
    }

    fn words(&self, chunk: u32) -> [u64; WORDS] {
        std::array::from_fn(|word| self.occupied.word(chunk as usize * WORDS + word))
    }

    /// Makes room for one more chunk, in the lowest place.
    #[cold]
    fn allocate(&mut self) -> u32 {
        let chunk = match self.missing.next(0) {
            Some(chunk) => chunk,
            None => {
                self.chunks.push(None);
                (self.chunks.len() - 1) as u32
            }
        };
        self.chunks[chunk as usize] = Some(empty_chunk());
        self.missing.clear(chunk);
        self.roomy.set(chunk);
        self.allocated += 1;
        chunk
    }

    /// Frees an empty chunk, or keeps it as the spare one. Of two the lower is
    /// kept.
    #[cold]
    fn retire(&mut self, chunk: u32) {
        let Some(spare) = self.spare else {
            self.spare = Some(chunk);
            return;
        };
        let freed = chunk.max(spare);
        self.spare = Some(chunk.min(spare));
        self.chunks[freed as usize] = None;
        self.roomy.clear(freed);
        self.missing.set(freed);
        self.allocated -= 1;
    }
}

/// Built on the heap: as an array it would pass over the stack.
fn empty_chunk<T>() -> Chunk<T> {
    let slots: Box<[Option<T>]> = (0..CHUNK).map(|_| None).collect();
    match slots.try_into() {
        Ok(chunk) => chunk,
        Err(_) => unreachable!("collected CHUNK slots"),
    }
}

/// For keys that are known to be in use.
impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, key: u32) -> &T {
        self.get(key).expect("slab key in use")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, key: u32) -> &mut T {
        self.get_mut(key).expect("slab key in use")
    }
}

#[cfg(test)]
mod tests;

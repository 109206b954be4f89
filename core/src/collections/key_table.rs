//! From an identifier to the key of its item.

use super::{Slab, NIL};
use siphasher::sip::SipHasher13;

/// Entries per page at which a page is split. The pages that are next to be
/// split hold up to twice as many: 4 KiB.
const LOAD: usize = 256;
/// Entries that wait for their places together.
const YOUNG: usize = 32;
/// Pages in a segment of the directory.
const SEGMENT: usize = 128;
/// A page is at most 7/8 full, then it grows; under 1/2 it shrinks.
const FULL: (usize, usize) = (7, 8);
/// The capacity of the first page, and what growing rounds to.
const SMALL: usize = 8;

/// The secret that keeps whoever chooses identifiers from choosing collisions.
#[derive(Clone)]
pub struct HashSeed(SipHasher13);

impl HashSeed {
    pub fn new(secret: &[u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(secret))
    }

    pub fn hash(&self, bytes: &[u8]) -> u64 {
        self.0.hash(bytes)
    }
}

/// A part of the directory, boxed so that growing the directory moves little.
type Segment = Box<[Page]>;

/// A hash table of item keys that grows page by page.
///
/// The low bits of the hash choose a page by linear hashing; its high bits
/// choose a place in the page, which is a small table with open addressing. An
/// entry keeps 32 bits of the hash beside the key. So growing never looks at an
/// item, and a search looks at none but the one that it finds: with millions of
/// items each look is a cache miss, and these are what a table costs.
///
/// An insert rebuilds at most two pages of some 4 KiB, every few hundred times.
/// Pages shrink and are merged as entries leave. About 10.5 bytes per entry; no
/// heap memory before the first.
pub struct KeyTable {
    seed: HashSeed,
    directory: Vec<Segment>,
    pages: usize,
    /// Entries in pages.
    filed: usize,
    /// Entries that are not in a page yet, see [`KeyTable::file_young`].
    young: Vec<Entry>,
}

impl KeyTable {
    pub fn new(seed: HashSeed) -> Self {
        Self {
            seed,
            directory: Vec::new(),
            pages: 0,
            filed: 0,
            young: Vec::new(),
        }
    }

    pub fn seed(&self) -> &HashSeed {
        &self.seed
    }

    /// The item with this hash for which `eq` holds.
    pub fn find<T>(&self, items: &Slab<T>, hash: u64, eq: impl Fn(&T) -> bool) -> Option<u32> {
        let hash = hash as u32;
        let young = |entry: &&Entry| entry.hash == hash && eq(&items[entry.key]);
        if let Some(entry) = self.young.iter().find(young) {
            return Some(entry.key);
        }
        let (_, key) = self.page_of(hash)?.search(hash, |key| eq(&items[key]))?;
        Some(key)
    }

    /// Has the processor fetch the places of these entries, a few dozen at a time.
    ///
    /// With millions of entries each page and each place in it is a cache miss. The
    /// processor waits for many of them at once if nothing stands between one and the
    /// next: hence first all pages, then all places, and the hashes are known before.
    pub fn fetch(&self, hashes: impl Iterator<Item = u64> + Clone) {
        let pages = hashes
            .clone()
            .filter_map(|hash| Some(self.page_of(hash as u32)?.entries.len()));
        std::hint::black_box(pages.fold(0, |all, len| all ^ len));
        let places = hashes.filter_map(|hash| {
            let page = self.page_of(hash as u32)?;
            page.entries.get(page.home(hash as u32))
        });
        std::hint::black_box(places.fold(0, |all, entry| all ^ entry.hash));
    }

    /// Adds `key`. The caller has made sure that neither it nor its equal is
    /// present.
    pub fn insert(&mut self, key: u32, hash: u64) {
        let hash = hash as u32;
        if self.young.len() >= YOUNG {
            self.file_young();
        }
        self.young.push(Entry { key, hash });
    }

    /// Moves the young entries to their pages, all at once, see [`KeyTable::fetch`];
    /// and an entry that leaves soon never needs a place.
    fn file_young(&mut self) {
        let mut young = std::mem::take(&mut self.young);
        self.fetch(young.iter().map(|entry| u64::from(entry.hash)));
        for entry in young.drain(..) {
            if self.filed >= self.pages * LOAD {
                self.add_page();
            }
            let page = self.page_number(entry.hash);
            self.page_mut(page).insert(entry);
            self.filed += 1;
        }
        self.young = young;
    }

    /// Takes `key` out. Returns whether it was present.
    pub fn remove(&mut self, key: u32, hash: u64) -> bool {
        let hash = hash as u32;
        if let Some(place) = self.young.iter().position(|entry| entry.key == key) {
            self.young.swap_remove(place);
            return true;
        }
        let found = |page: &Page| page.search(hash, |entry| entry == key);
        let Some((place, _)) = self.page_of(hash).and_then(found) else {
            return false;
        };
        let page = self.page_number(hash);
        self.page_mut(page).remove(place);
        self.filed -= 1;
        if self.filed < (self.pages - 1) * LOAD / 2 {
            self.drop_page();
        }
        true
    }

    /// Heap memory held. Walks over the pages.
    #[cfg(test)]
    pub fn allocated_bytes(&self) -> usize {
        let pages = self.directory.iter().flat_map(|segment| segment.iter());
        self.young.capacity() * size_of::<Entry>()
            + self.directory.capacity() * size_of::<Segment>()
            + self.directory.len() * SEGMENT * size_of::<Page>()
            + pages.map(|page| size_of_val(&*page.entries)).sum::<usize>()
    }

    /// As many low bits of the hash as the pages need, one bit less where that
    /// page does not exist yet.
    fn page_number(&self, hash: u32) -> usize {
        let mask = self.pages.next_power_of_two() - 1;
        let page = hash as usize & mask;
        if page < self.pages {
            page
        } else {
            page & (mask >> 1)
        }
    }

    fn page_of(&self, hash: u32) -> Option<&Page> {
        if self.pages == 0 {
            return None;
        }
        let page = self.page_number(hash);
        Some(&self.directory[page / SEGMENT][page % SEGMENT])
    }

    fn page_mut(&mut self, page: usize) -> &mut Page {
        &mut self.directory[page / SEGMENT][page % SEGMENT]
    }

    /// Adds a page and moves to it what belongs there from the page that has
    /// held it so far.
    #[cold]
    fn add_page(&mut self) {
        let upper = self.pages;
        if upper / SEGMENT == self.directory.len() {
            let segment = (0..SEGMENT).map(|_| Page::default());
            self.directory.push(segment.collect());
        }
        self.pages += 1;
        if upper > 0 {
            let (lower, bit) = partner(upper);
            let (stays, goes) = std::mem::take(self.page_mut(lower)).split(bit);
            *self.page_mut(lower) = stays;
            *self.page_mut(upper) = goes;
        }
    }

    /// Undoes the last `add_page`.
    #[cold]
    fn drop_page(&mut self) {
        let upper = self.pages - 1;
        let (lower, _) = partner(upper);
        let goes = std::mem::take(self.page_mut(upper));
        let stays = std::mem::take(self.page_mut(lower));
        *self.page_mut(lower) = Page::of(stays.len() + goes.len(), stays.iter().chain(goes.iter()));
        self.pages = upper;
        // The distance keeps a table that wavers around a border from
        // allocating and freeing.
        if self.directory.len() * SEGMENT >= self.pages + SEGMENT + SEGMENT / 2 {
            self.directory.pop();
        }
    }
}

/// The page that `upper` is split from, and the bit of the hash that decides.
fn partner(upper: usize) -> (usize, u32) {
    let bit = 1 << upper.ilog2();
    (upper - bit, bit as u32)
}

#[derive(Clone, Copy)]
struct Entry {
    key: u32,
    hash: u32,
}

const VACANT: Entry = Entry { key: NIL, hash: 0 };

impl Entry {
    fn is_vacant(self) -> bool {
        self.key == NIL
    }
}

/// A table with linear probing. At least one place is vacant, unless there is
/// none at all.
#[derive(Default)]
struct Page {
    entries: Box<[Entry]>,
    len: u32,
}

impl Page {
    /// A page with room for `len` entries and some more.
    fn of(len: usize, entries: impl Iterator<Item = Entry>) -> Self {
        let mut capacity = SMALL;
        while len * 8 > capacity * 6 {
            capacity = larger(capacity);
        }
        let mut page = Self {
            entries: vec![VACANT; capacity].into_boxed_slice(),
            len: 0,
        };
        for entry in entries {
            page.place(entry);
        }
        page
    }

    fn len(&self) -> usize {
        self.len as usize
    }

    fn iter(&self) -> impl Iterator<Item = Entry> + '_ {
        let all = self.entries.iter().copied();
        all.filter(|entry| !entry.is_vacant())
    }

    /// Where an entry belongs. The high bits decide: the low ones are the same
    /// in all of the page.
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.entries.len() as u64) >> 32) as usize
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 < self.entries.len() {
            place + 1
        } else {
            0
        }
    }

    fn search(&self, hash: u32, eq: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let mut place = self.home(hash);
        loop {
            let entry = *self.entries.get(place)?;
            if entry.is_vacant() {
                return None;
            }
            if entry.hash == hash && eq(entry.key) {
                return Some((place, entry.key));
            }
            place = self.after(place);
        }
    }

    fn insert(&mut self, entry: Entry) {
        if (self.len() + 1) * FULL.1 > self.entries.len() * FULL.0 {
            *self = Self::of(self.len() + 1, self.iter());
        }
        self.place(entry);
    }

    fn place(&mut self, entry: Entry) {
        let mut place = self.home(entry.hash);
        while !self.entries[place].is_vacant() {
            place = self.after(place);
        }
        self.entries[place] = entry;
        self.len += 1;
    }

    /// Empties a place, and moves back what was pushed beyond it.
    fn remove(&mut self, mut hole: usize) {
        let capacity = self.entries.len();
        let mut place = self.after(hole);
        while !self.entries[place].is_vacant() {
            let home = self.home(self.entries[place].hash);
            let around = |from| if from > place { capacity } else { 0 };
            if home + around(hole) <= hole + around(home) {
                self.entries[hole] = self.entries[place];
                hole = place;
            }
            place = self.after(place);
        }
        self.entries[hole] = VACANT;
        self.len -= 1;
        if self.len() * 2 < capacity && capacity > SMALL {
            *self = Self::of(self.len(), self.iter());
        }
    }

    /// The entries whose hash does not have `bit`, and those that do.
    fn split(self, bit: u32) -> (Self, Self) {
        let goes = |entry: &Entry| entry.hash & bit != 0;
        let count = self.iter().filter(goes).count();
        (
            Self::of(self.len() - count, self.iter().filter(|entry| !goes(entry))),
            Self::of(count, self.iter().filter(goes)),
        )
    }
}

/// The next capacity, a fifth or so above. These steps are those of the size
/// classes of the allocator.
fn larger(capacity: usize) -> usize {
    capacity + (1 << capacity.ilog2()) / 4
}

#[cfg(test)]
mod tests;

//! Who holds copies of a job.
//!
//! A holder is a *pair*: a node and the line of data that it has. A node that
//! comes back without its data is another holder, and whatever the old one held is
//! gone. A pair takes 28 bytes, and a job names several: a node numbers the pairs
//! that it has heard of, and works with the numbers.

use crate::job_id::JobId;
use crate::node::Identity;
use crate::succession::{ancestors, descendants};
use bincode::{BorrowDecode, Encode};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;

/// A node and the data epoch that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, BorrowDecode)]
pub struct Pair {
    /// The node's id.
    pub id: [u8; 20],
    /// Its data epoch.
    pub epoch: u64,
}

impl Pair {
    /// Bytes of a pair in a list of pairs.
    pub const BYTES: usize = 28;

    /// What decides between nodes with an equal claim to a job: another order for
    /// each job, so that no node is favoured.
    pub fn rank(&self, job: &JobId) -> [u8; 18] {
        let mut rank = [0; 18];
        for (place, byte) in rank.iter_mut().enumerate() {
            *byte = self.id[place] ^ job.random()[place];
        }
        rank
    }

    fn to_bytes(self) -> [u8; Pair::BYTES] {
        let mut bytes = [0; Pair::BYTES];
        bytes[..20].copy_from_slice(&self.id);
        bytes[20..].copy_from_slice(&self.epoch.to_le_bytes());
        bytes
    }
}

impl From<&Identity> for Pair {
    fn from(identity: &Identity) -> Pair {
        Pair {
            id: identity.id,
            epoch: identity.epoch,
        }
    }
}

/// The number of a pair on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(u16);

impl Holder {
    /// The place of the holder in tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// More pairs came than this node can number; a restart forgets the old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyHolders;

impl fmt::Display for TooManyHolders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more nodes with changed data than can be told apart: restart this one")
    }
}

/// All pairs that a node has heard of. Numbers are never used anew.
pub struct HolderTable {
    pairs: Vec<Pair>,
    numbers: BTreeMap<Pair, Holder>,
}

impl HolderTable {
    /// A table with this pair alone, and its number.
    pub fn starting_with(pair: Pair) -> (HolderTable, Holder) {
        let table = HolderTable {
            pairs: vec![pair],
            numbers: BTreeMap::from([(pair, Holder(0))]),
        };
        (table, Holder(0))
    }

    /// A holder has got another name. Returns its number: where the name was
    /// known, that of the name.
    pub fn rename(&mut self, holder: Holder, pair: Pair) -> Holder {
        if let Some(known) = self.find(pair) {
            self.advance(pair);
            return known;
        }
        let before = std::mem::replace(&mut self.pairs[holder.index()], pair);
        self.numbers.remove(&before);
        self.numbers.insert(pair, holder);
        holder
    }

    /// The number of a pair that was heard of, or of its line of data: what a
    /// promoted replica has took the place of what its primary had, so both have one
    /// number, and lists that name either mean the later one.
    fn find(&mut self, pair: Pair) -> Option<Holder> {
        if let Some(&holder) = self.numbers.get(&pair) {
            return Some(holder);
        }
        let line = descendants(pair.epoch).chain(ancestors(pair.epoch));
        let known = |epoch| self.numbers.get(&Pair { epoch, ..pair });
        let holder = line.filter_map(known).next().copied()?;
        self.numbers.insert(pair, holder);
        Some(holder)
    }

    /// A promoted replica is its node from now on: what its primary held goes by the
    /// name of the pair that took its place.
    pub fn advance(&mut self, pair: Pair) {
        if let Some(holder) = self.find(pair) {
            let named = &mut self.pairs[holder.index()];
            if descendants(named.epoch).any(|epoch| epoch == pair.epoch) {
                *named = pair;
            }
        }
    }

    /// Whether data of this pair are those of a holder.
    pub fn is_line_of(&self, pair: &Pair, holder: Holder) -> bool {
        self.pair(holder) == *pair || self.numbers.get(pair) == Some(&holder)
    }

    /// Whether a pair was heard of, and not as this holder.
    pub fn is_other(&mut self, pair: Pair, holder: Holder) -> bool {
        self.find(pair).is_some_and(|known| known != holder)
    }

    /// The number of a pair, new if it was never heard of.
    pub fn number(&mut self, pair: Pair) -> Result<Holder, TooManyHolders> {
        if let Some(holder) = self.find(pair) {
            return Ok(holder);
        }
        let number = u16::try_from(self.pairs.len()).map_err(|_| TooManyHolders)?;
        self.pairs.push(pair);
        self.numbers.insert(pair, Holder(number));
        Ok(Holder(number))
    }

    /// The numbers of pairs; one that cannot be numbered any more is left out.
    pub fn numbers<P: Iterator<Item = Pair>>(
        &mut self,
        pairs: P,
    ) -> impl Iterator<Item = Holder> + use<'_, P> {
        pairs.filter_map(|pair| self.number(pair).ok())
    }

    /// The pair behind a number.
    pub fn pair(&self, holder: Holder) -> Pair {
        self.pairs[holder.index()]
    }

    /// A set as it is sent and written down.
    pub fn list(&self, set: &HolderSet) -> PairList {
        let mut bytes = Vec::with_capacity(set.len() * Pair::BYTES);
        for holder in set.iter() {
            bytes.extend_from_slice(&self.pair(holder).to_bytes());
        }
        PairList {
            bytes,
            confirmed: set.confirmed,
        }
    }

    /// The set behind a list that came from elsewhere.
    pub fn set(&mut self, pairs: Pairs<'_>) -> Result<HolderSet, TooManyHolders> {
        let mut set = HolderSet::default();
        for (place, pair) in pairs.iter().enumerate() {
            let holder = self.number(pair)?;
            if place < usize::from(pairs.confirmed) {
                set.confirm(holder);
            } else {
                set.add(holder);
            }
        }
        Ok(set)
    }
}

/// Pairs end to end, as they are sent: those that surely hold a copy first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Pairs<'a> {
    bytes: &'a [u8],
    confirmed: u16,
}

impl Pairs<'_> {
    /// How many bytes the pairs take.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The pairs in these bytes, the first `confirmed` of them sure.
    pub fn new(bytes: &[u8], confirmed: u16) -> Pairs<'_> {
        Pairs { bytes, confirmed }
    }

    /// None at all.
    pub const NONE: Pairs<'static> = Pairs {
        bytes: &[],
        confirmed: 0,
    };

    fn iter(&self) -> impl Iterator<Item = Pair> + '_ {
        self.bytes.chunks_exact(Pair::BYTES).map(|bytes| {
            let mut pair = Pair {
                id: [0; 20],
                epoch: 0,
            };
            let (id, epoch) = bytes.split_at(20);
            pair.id.copy_from_slice(id);
            pair.epoch = epoch
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u64::from(*byte));
            pair
        })
    }
}

/// An owned [`Pairs`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairList {
    bytes: Vec<u8>,
    confirmed: u16,
}

impl PairList {
    /// The list to be encoded.
    pub fn pairs(&self) -> Pairs<'_> {
        Pairs {
            bytes: &self.bytes,
            confirmed: self.confirmed,
        }
    }
}

/// The possible holders of one job, those that surely hold it (or, once it is
/// acknowledged, surely know that) before the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HolderSet {
    list: SmallVec<[Holder; 8]>,
    confirmed: u16,
}

impl HolderSet {
    /// A set of one that surely holds the job.
    pub fn of(holder: Holder) -> HolderSet {
        let mut set = HolderSet::default();
        set.confirm(holder);
        set
    }

    /// How many possible holders there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many of them are sure.
    pub fn confirmed_len(&self) -> usize {
        usize::from(self.confirmed)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Holder> + '_ {
        self.list.iter().copied()
    }

    /// Those that are sure.
    pub fn confirmed(&self) -> impl Iterator<Item = Holder> + '_ {
        self.list[..self.confirmed_len()].iter().copied()
    }

    /// Those that may hold it.
    pub fn unconfirmed(&self) -> impl Iterator<Item = Holder> + '_ {
        self.list[self.confirmed_len()..].iter().copied()
    }

    /// Whether this may be a holder.
    pub fn contains(&self, holder: Holder) -> bool {
        self.list.contains(&holder)
    }

    /// Whether this is surely one.
    pub fn is_confirmed(&self, holder: Holder) -> bool {
        self.list[..self.confirmed_len()].contains(&holder)
    }

    /// Whether all possible holders of another set are in this one.
    pub fn includes(&self, other: &HolderSet) -> bool {
        other.iter().all(|holder| self.contains(holder))
    }

    /// Adds a possible holder; whether it is new.
    pub fn add(&mut self, holder: Holder) -> bool {
        let is_new = !self.contains(holder);
        if is_new {
            self.list.push(holder);
        }
        is_new
    }

    /// Adds all possible holders of another set; whether one of them is new.
    pub fn add_all(&mut self, other: &HolderSet) -> bool {
        other
            .iter()
            .fold(false, |any, holder| self.add(holder) | any)
    }

    /// Makes a holder sure, added if need be; whether it was not.
    pub fn confirm(&mut self, holder: Holder) -> bool {
        if self.is_confirmed(holder) {
            return false;
        }
        self.add(holder);
        let from = self.list.iter().position(|&one| one == holder);
        let to = self.confirmed_len();
        if let Some(from) = from {
            self.list.swap(from, to);
            self.confirmed += 1;
        }
        true
    }

    /// Makes a holder unsure again; whether it was sure.
    pub fn doubt(&mut self, holder: Holder) -> bool {
        let sure = self.list[..self.confirmed_len()].iter();
        let Some(from) = sure.clone().position(|&one| one == holder) else {
            return false;
        };
        self.confirmed -= 1;
        self.list.swap(from, usize::from(self.confirmed));
        true
    }

    /// Makes all unsure.
    pub fn doubt_all(&mut self) {
        self.confirmed = 0;
    }

    /// Takes a holder out; whether it was in.
    pub fn remove(&mut self, holder: Holder) -> bool {
        self.doubt(holder);
        let Some(place) = self.list.iter().position(|&one| one == holder) else {
            return false;
        };
        self.list.remove(place);
        true
    }

    /// Whether all are sure.
    pub fn is_complete(&self) -> bool {
        self.confirmed_len() == self.list.len()
    }
}

#[cfg(test)]
mod tests;

//! A set of `u32` numbers with a fast search for the next member.

/// 64^6 numbers, more than a `u32` can name.
const DEPTH: usize = 6;
const SEGMENT: usize = 64;

/// A hierarchical bit set: a bit of one level says that the word with that
/// index, one level below, is not zero.
///
/// `set` and `clear` touch one word unless it becomes, or was, zero. `next`
/// reads at most two words of each level, whatever the gap. The words lie in
/// segments that never move and are kept when they empty: one bit for each
/// number up to the highest that was ever a member.
#[derive(Default)]
pub(super) struct BitSet {
    levels: [Words; DEPTH],
}

/// Boxed so that growing moves little.
type Segment = Box<[u64; SEGMENT]>;

#[derive(Default)]
struct Words {
    segments: Vec<Segment>,
}

impl BitSet {
    pub fn set(&mut self, bit: u32) {
        let mut index = bit as usize;
        for level in &mut self.levels {
            let word = level.grow_to(index / 64);
            let before = *word;
            *word |= 1 << (index % 64);
            if before != 0 {
                return;
            }
            index /= 64;
        }
    }

    pub fn clear(&mut self, bit: u32) {
        let mut index = bit as usize;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(index / 64) else {
                return;
            };
            *word &= !(1 << (index % 64));
            if *word != 0 {
                return;
            }
            index /= 64;
        }
    }

    /// The lowest member that is not below `from`.
    pub fn next(&self, from: u32) -> Option<u32> {
        let mut index = from as usize;
        for (height, level) in self.levels.iter().enumerate() {
            let rest = level.get(index / 64) & (!0 << (index % 64));
            if rest != 0 {
                index = index / 64 * 64 + rest.trailing_zeros() as usize;
                for below in self.levels[..height].iter().rev() {
                    index = index * 64 + below.get(index).trailing_zeros() as usize;
                }
                return Some(index as u32);
            }
            index = index / 64 + 1;
        }
        None
    }

    /// The members from `64 * index` to `64 * index + 63`.
    pub fn word(&self, index: usize) -> u64 {
        self.levels[0].get(index)
    }

    #[cfg(test)]
    pub fn allocated_bytes(&self) -> usize {
        let of = |words: &Words| {
            words.segments.len() * size_of::<[u64; SEGMENT]>()
                + words.segments.capacity() * size_of::<Segment>()
        };
        self.levels.iter().map(of).sum()
    }
}

impl Words {
    fn get(&self, index: usize) -> u64 {
        match self.segments.get(index / SEGMENT) {
            Some(segment) => segment[index % SEGMENT],
            None => 0,
        }
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut u64> {
        let segment = self.segments.get_mut(index / SEGMENT)?;
        Some(&mut segment[index % SEGMENT])
    }

    fn grow_to(&mut self, index: usize) -> &mut u64 {
        while self.segments.len() <= index / SEGMENT {
            self.segments.push(Box::new([0; SEGMENT]));
        }
        &mut self.segments[index / SEGMENT][index % SEGMENT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_empty_set_has_no_next() {
        let set = BitSet::default();
        assert_eq!(set.next(0), None);
        assert_eq!(set.next(u32::MAX), None);
    }

    #[test]
    fn finds_across_wide_gaps() {
        let mut set = BitSet::default();
        for bit in [0, 63, 64, 4095, 4096, 262_144, 9_999_999] {
            set.set(bit);
        }
        assert_eq!(set.next(1), Some(63));
        assert_eq!(set.next(65), Some(4095));
        assert_eq!(set.next(262_145), Some(9_999_999));
        assert_eq!(set.next(10_000_000), None);
        set.clear(9_999_999);
        set.clear(123_456_789);
        assert_eq!(set.next(262_145), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_btree_set(
            steps in prop::collection::vec((any::<bool>(), 0u32..70_000, 0u32..80_000), 1..300)
        ) {
            let mut set = BitSet::default();
            let mut model = BTreeSet::new();
            for (add, bit, from) in steps {
                // A dense and a sparse region.
                let bit = if bit % 2 == 0 { bit % 200 } else { bit };
                if add {
                    set.set(bit);
                    model.insert(bit);
                } else {
                    set.clear(bit);
                    model.remove(&bit);
                }
                prop_assert_eq!(set.next(from), model.range(from..).next().copied());
                prop_assert_eq!(set.next(0), model.first().copied());
            }
        }
    }
}

//! The one source of chance in a run.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A generator; every choice of a run comes from one seed.
pub struct Random(ChaCha8Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number from `least` to `most`, both included.
    pub fn range(&mut self, least: u64, most: u64) -> u64 {
        let span = most - least + 1;
        least + self.0.next_u64() % span
    }

    /// Whether something of this chance in a thousand happens.
    pub fn chance(&mut self, of_1000: u64) -> bool {
        self.range(0, 999) < of_1000
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.range(0, from.len() as u64 - 1) as usize]
    }

    /// One of these, by weight.
    pub fn weighted<T: Copy>(&mut self, from: &[(u64, T)]) -> T {
        let total = from.iter().map(|(weight, _)| weight).sum::<u64>();
        let mut left = self.range(0, total - 1);
        for &(weight, choice) in from {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return choice,
            }
        }
        from[0].1
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}

/// Another number for each number (the last step of splitmix64).
pub fn scatter(number: u64) -> u64 {
    let mut bits = number;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

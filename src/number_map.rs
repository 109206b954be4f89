//! Tables whose keys are numbers that no client can choose: addresses, serial
//! numbers. They need no secret in their hash, and one multiplication does.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table under such a number.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// An empty table.
pub const fn number_map<K, V>() -> NumberMap<K, V> {
    HashMap::with_hasher(BuildHasherDefault::new())
}

/// Hashes a number.
#[derive(Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // The table looks at the highest and the lowest bits.
        let product = u128::from(value) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

//! What happened in a run: a digest of all of it, and the last lines as text.

use std::collections::VecDeque;

/// How many lines a failure shows.
const SHOWN: usize = 50;

/// The trace of one run.
pub struct Trace {
    digest: u64,
    recent: VecDeque<String>,
}

impl Trace {
    pub fn new() -> Trace {
        Trace {
            digest: 0xcbf2_9ce4_8422_2325,
            recent: VecDeque::with_capacity(SHOWN),
        }
    }

    /// Adds bytes to the digest (FNV-1a, 64 bits).
    pub fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn line(&mut self, line: String) {
        self.bytes(line.as_bytes());
        if self.recent.len() == SHOWN {
            self.recent.pop_front();
        }
        self.recent.push_back(line);
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub fn recent(&self) -> impl Iterator<Item = &str> {
        self.recent.iter().map(String::as_str)
    }
}

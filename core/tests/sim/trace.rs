//! What happened in a run: a digest of all of it, and the last lines as text.

use std::collections::VecDeque;

/// How many lines a failure shows, unless `DISQUE_SIM_LINES` says.
const SHOWN: usize = 50;

/// The trace of one run.
pub struct Trace {
    digest: u64,
    shown: usize,
    recent: VecDeque<String>,
}

impl Trace {
    pub fn new() -> Trace {
        let shown = std::env::var("DISQUE_SIM_LINES").ok();
        let shown = shown.and_then(|lines| lines.parse().ok()).unwrap_or(SHOWN);
        Trace {
            shown,
            digest: 0xcbf2_9ce4_8422_2325,
            recent: VecDeque::new(),
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
        if self.recent.len() >= self.shown {
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

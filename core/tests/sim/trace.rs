//! What happened in a run: a digest of all of it, and the last lines as text.

use disque_core::message::{read_answer, Message};
use std::collections::VecDeque;

/// How many lines a failure shows, unless `DISQUE_SIM_LINES` says.
const SHOWN: usize = 50;

/// The trace of one run.
pub struct Trace {
    digest: u64,
    shown: usize,
    /// Whether all messages are shown: `DISQUE_SIM_MESSAGES` says so.
    messages: bool,
    recent: VecDeque<String>,
}

impl Trace {
    pub fn new() -> Trace {
        let shown = std::env::var("DISQUE_SIM_LINES").ok();
        let shown = shown.and_then(|lines| lines.parse().ok()).unwrap_or(SHOWN);
        Trace {
            shown,
            messages: std::env::var_os("DISQUE_SIM_MESSAGES").is_some(),
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

    /// A message that arrives; only if all of them are to be seen.
    pub fn message(&mut self, message: &Message<'_>) {
        if self.messages && !matches!(message, Message::Heartbeat(_) | Message::Known(_)) {
            self.line(format!("{:>9}   {message:?}", ""));
        }
    }

    /// The messages of an answer that is given.
    pub fn answer(&mut self, answer: &[u8]) {
        let words = read_answer(answer).ok().filter(|_| self.messages);
        for word in words.into_iter().flat_map(|(_, words)| words).flatten() {
            if !matches!(word, Message::Heartbeat(_) | Message::Known(_)) {
                self.line(format!("{:>9}   answers {word:?}", ""));
            }
        }
    }

    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub fn recent(&self) -> impl Iterator<Item = &str> {
        self.recent.iter().map(String::as_str)
    }
}

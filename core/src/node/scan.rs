//! QSCAN and JSCAN: going through everything bit by bit.
//!
//! The cursor is the key after the last one that was looked at. A job or queue
//! never changes its key, so whatever lives throughout a scan is seen, however
//! much comes and goes meanwhile.

use super::Node;
use crate::clock::Now;

/// What QSCAN leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueFilter {
    /// Shorter queues.
    pub min_len: Option<u64>,
    /// Longer queues.
    pub max_len: Option<u64>,
    /// Queues that import fewer jobs a second from other nodes.
    pub import_rate: Option<u64>,
}

/// What JSCAN leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Jobs of other queues.
    pub queue: Option<Box<[u8]>>,
    /// Jobs of other states; empty for any. Words that clients know.
    pub states: Vec<&'static str>,
}

/// When a part of a scan ends. It always gets on by at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// So much was found.
    pub count: usize,
    /// So much was looked at.
    pub visits: usize,
    /// The names or bodies found have so many bytes.
    pub bytes: usize,
}

/// A part of a scan.
pub struct Page {
    /// Keys of what was found.
    pub keys: Vec<u32>,
    /// Where to go on; 0 when all was seen.
    pub cursor: u64,
}

impl Node {
    /// QSCAN: from `cursor` on, up to the limits.
    pub fn scan_queues(&self, now: Now, cursor: u64, limits: Limits, filter: &QueueFilter) -> Page {
        let matches = |key: u32| {
            let len = self.queues[key].order.len() as u64;
            filter.min_len.is_none_or(|min| len >= min)
                && filter.max_len.is_none_or(|max| len <= max)
                && filter
                    .import_rate
                    .is_none_or(|rate| self.queues[key].import_rate(now) >= rate)
        };
        let next = |from| self.queues.next_occupied(from);
        let bytes = |key: u32| self.queues[key].name.len();
        scan(cursor, limits, next, matches, bytes)
    }

    /// JSCAN, in the same way.
    pub fn scan_jobs(&self, cursor: u64, limits: Limits, filter: &JobFilter) -> Page {
        let queue = filter.queue.as_ref().map(|name| self.queues.find(name));
        let matches = |key: u32| {
            let job = &self.jobs[key];
            queue.is_none_or(|wanted| wanted == Some(job.queue))
                && (filter.states.is_empty() || filter.states.contains(&job.state.name()))
        };
        let next = |from| self.jobs.next_occupied(from);
        let bytes = |key: u32| self.jobs[key].body.len();
        scan(cursor, limits, next, matches, bytes)
    }

    /// The name of the queue with this key, as a scan names it.
    pub fn queue_name_at(&self, key: u32) -> &[u8] {
        &self.queues[key].name
    }
}

/// The states by which JSCAN can filter.
pub const STATE_NAMES: [&str; 4] = ["wait-repl", "active", "queued", "acked"];

fn scan(
    cursor: u64,
    limits: Limits,
    next: impl Fn(u32) -> Option<u32>,
    matches: impl Fn(u32) -> bool,
    bytes: impl Fn(u32) -> usize,
) -> Page {
    let (mut keys, mut found_bytes) = (Vec::new(), 0);
    let Ok(mut from) = u32::try_from(cursor) else {
        return Page { keys, cursor: 0 };
    };
    for _ in 0..limits.visits {
        let Some(key) = next(from) else {
            return Page { keys, cursor: 0 };
        };
        if matches(key) {
            keys.push(key);
            found_bytes += bytes(key);
        }
        from = key + 1;
        if keys.len() >= limits.count || found_bytes >= limits.bytes {
            break;
        }
    }
    let done = next(from).is_none();
    let cursor = if done { 0 } else { u64::from(from) };
    Page { keys, cursor }
}

/// Looks a state's name up, whatever its case.
pub fn state_name(word: &[u8]) -> Option<&'static str> {
    STATE_NAMES
        .into_iter()
        .find(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}

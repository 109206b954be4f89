//! What is counted for each peer. The thread counts, anyone reads.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::Arc;
use std::time::Duration;

/// Counters of one peer. They grow over all its connections, but for the gauges
/// and the round trip.
pub struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) answers: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    round_trip_us: AtomicU64,
    /// Gauge: bytes that wait to be written.
    queued: AtomicUsize,
    /// Gauge: bytes of answers that the owner has not taken.
    unread: AtomicUsize,
    /// Nothing is read from the peer until so few bytes are unread;
    /// [`NOT_HELD_BACK`] when it is read.
    resume_at: AtomicUsize,
}

/// No number of unread bytes is larger.
const NOT_HELD_BACK: usize = usize::MAX;

/// A reading of [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerStats {
    /// Handshakes that succeeded.
    pub connections: u64,
    /// Frames sent, PINGs included, handshakes not.
    pub frames: u64,
    /// Messages in them.
    pub messages: u64,
    /// Frames answered.
    pub answers: u64,
    /// Frames and handshakes answered with an error.
    pub refused: u64,
    /// Messages that were not written, or whose frame was refused or never
    /// answered.
    pub dropped: u64,
    /// Bytes written to the socket.
    pub bytes_out: u64,
    /// Bytes read from it.
    pub bytes_in: u64,
    /// The smoothed time from sending a frame to its answer; 0 before the
    /// first. Microseconds.
    pub round_trip_us: u64,
    /// Bytes that wait to be written.
    pub queued_bytes: usize,
    /// Bytes of answers that the owner has not taken.
    pub unread_bytes: usize,
}

impl Counters {
    /// All zero.
    pub fn new() -> Arc<Counters> {
        let zero = || AtomicU64::new(0);
        Arc::new(Counters {
            connections: zero(),
            frames: zero(),
            messages: zero(),
            answers: zero(),
            refused: zero(),
            dropped: zero(),
            bytes_out: zero(),
            bytes_in: zero(),
            round_trip_us: zero(),
            queued: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            resume_at: AtomicUsize::new(NOT_HELD_BACK),
        })
    }

    /// Reads all counters, one after the other.
    pub fn read(&self) -> PeerStats {
        PeerStats {
            connections: self.connections.load(Relaxed),
            frames: self.frames.load(Relaxed),
            messages: self.messages.load(Relaxed),
            answers: self.answers.load(Relaxed),
            refused: self.refused.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            round_trip_us: self.round_trip_us.load(Relaxed),
            queued_bytes: self.queued.load(Relaxed),
            unread_bytes: self.unread.load(Relaxed),
        }
    }

    /// Takes `bytes` into the queue of the peer, if they fit below `limit` or
    /// the queue is empty. They leave it when the charge is dropped. Only one
    /// thread admits.
    pub fn admit(self: &Arc<Counters>, bytes: usize, limit: usize) -> Option<Charge> {
        let queued = self.queued.load(Relaxed);
        if queued > 0 && queued.saturating_add(bytes) > limit {
            count(&self.dropped, 1);
            return None;
        }
        Some(Charge::new(self, Gauge::Queued, bytes))
    }

    /// Takes `bytes` into account as not yet read by the owner.
    pub(crate) fn unread(self: &Arc<Counters>, bytes: usize) -> Charge {
        Charge::new(self, Gauge::Unread, bytes)
    }

    /// Whether the owner has fallen so far behind that nothing more should be
    /// read for it. It goes on when half of the limit is taken: the owner's
    /// [`Charge::release`] tells when.
    pub(crate) fn hold_back(&self, limit: usize) -> bool {
        let held_back = self.resume_at.load(SeqCst) != NOT_HELD_BACK;
        if !held_back && self.unread.load(SeqCst) <= limit {
            return false;
        }
        // First say that one waits, then look: the owner does the reverse.
        self.resume_at.store(limit / 2, SeqCst);
        if self.unread.load(SeqCst) > limit / 2 {
            return true;
        }
        self.resume_at.store(NOT_HELD_BACK, SeqCst);
        false
    }

    /// Smooths the way TCP does: an eighth of the difference each time. Only
    /// the thread measures.
    pub(crate) fn measured(&self, round_trip: Duration) {
        let new = u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX);
        let smoothed = match self.round_trip_us.load(Relaxed) {
            0 => new,
            old => old - old / 8 + new / 8,
        };
        self.round_trip_us.store(smoothed.max(1), Relaxed);
    }
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Relaxed);
}

#[derive(Clone, Copy)]
enum Gauge {
    Queued,
    Unread,
}

/// Bytes held for a peer; given back when it is dropped, on whichever way.
pub struct Charge {
    counters: Arc<Counters>,
    gauge: Gauge,
    bytes: usize,
}

impl Charge {
    fn new(counters: &Arc<Counters>, gauge: Gauge, bytes: usize) -> Charge {
        let charge = Charge {
            counters: counters.clone(),
            gauge,
            bytes,
        };
        charge.cell().fetch_add(bytes, Relaxed);
        charge
    }

    fn cell(&self) -> &AtomicUsize {
        match self.gauge {
            Gauge::Queued => &self.counters.queued,
            Gauge::Unread => &self.counters.unread,
        }
    }
}

impl Charge {
    /// Gives the bytes back; whether the thread waits for that to read on.
    pub(crate) fn release(self) -> bool {
        let counters = self.counters.clone();
        drop(self);
        let resume_at = counters.resume_at.load(SeqCst);
        resume_at != NOT_HELD_BACK && counters.unread.load(SeqCst) <= resume_at
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.cell().fetch_sub(self.bytes, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_bounded_but_takes_one_of_any_size() {
        let counters = Counters::new();
        let first = counters.admit(90, 100);
        assert!(first.is_some());
        assert!(counters.admit(11, 100).is_none());
        let second = counters.admit(10, 100);
        assert!(second.is_some());
        assert_eq!(counters.read().queued_bytes, 100);
        assert_eq!(counters.read().dropped, 1);
        drop((first, second));
        assert_eq!(counters.read().queued_bytes, 0);
        let huge = counters.admit(1000, 100);
        assert!(huge.is_some());
        assert!(counters.admit(0, 100).is_none());
        assert!(counters.admit(usize::MAX, 100).is_none());
    }

    #[test]
    fn who_waits_for_the_owner_is_told_once_it_has_caught_up() {
        let counters = Counters::new();
        let charges: Vec<Charge> = (0..5).map(|_| counters.unread(10)).collect();
        assert!(!counters.hold_back(50));
        let more = counters.unread(1);
        assert!(counters.hold_back(50));
        assert!(!more.release());
        assert!(counters.hold_back(50), "until half of it is taken");
        let told: Vec<bool> = charges.into_iter().map(Charge::release).collect();
        assert_eq!(told, [false, false, true, true, true]);
        assert!(!counters.hold_back(50));
    }

    #[test]
    fn the_round_trip_is_smoothed() {
        let counters = Counters::new();
        let measured = |us| {
            counters.measured(Duration::from_micros(us));
            counters.read().round_trip_us
        };
        assert_eq!(measured(800), 800);
        assert_eq!(measured(1600), 900);
        for _ in 0..100 {
            measured(0);
        }
        assert!(measured(0) < 10);
        assert!(measured(0) >= 1);
    }
}

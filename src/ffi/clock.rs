//! The two clocks. Deadlines use the monotonic one; the wall clock is for
//! creation times, persisted times and replies.
//!
//! A reading costs about a hundredth of a command. So the wall clock is read once in
//! each round of the event loop; within the round it goes with the monotonic one.

use std::sync::atomic::{AtomicI64, Ordering};

/// By how much the wall clock was ahead at the start of this round.
static AHEAD: AtomicI64 = AtomicI64::new(UNKNOWN);
/// No round has begun yet: a server that does not tell about them, or its start.
const UNKNOWN: i64 = i64::MIN;

/// A round of the event loop begins.
pub(super) fn round_begins() {
    AHEAD.store(ahead(), Ordering::Relaxed);
}

fn ahead() -> i64 {
    read(libc::CLOCK_REALTIME) as i64 - mono_ms() as i64
}

/// Milliseconds of `CLOCK_MONOTONIC`: never steps back, not comparable between
/// machines or boots. The timer of [`super::arm`] counts on the same clock.
pub fn mono_ms() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Milliseconds since 1970 of `CLOCK_REALTIME` at `mono_ms`, which is now: may jump
/// either way.
pub fn wall_ms(mono_ms: u64) -> u64 {
    let ahead = match AHEAD.load(Ordering::Relaxed) {
        UNKNOWN => ahead(),
        ahead => ahead,
    };
    mono_ms.saturating_add_signed(ahead)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to. Both clocks exist on
    // every Linux, so the call cannot fail; on failure the time reads as 0.
    unsafe { libc::clock_gettime(clock, &mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1000 + time.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance() {
        let (mono, wall) = (mono_ms(), wall_ms(mono_ms()));
        assert!(mono > 0);
        assert!(wall > 1_600_000_000_000);
        assert!(mono_ms() >= mono);
    }
}

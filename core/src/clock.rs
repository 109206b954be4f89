//! Time, as the core sees it: two readings that come in with each call.

/// A deadline that never comes.
pub const NEVER: u64 = u64::MAX;

/// The time of a call. The core never reads a clock of its own.
///
/// Deadlines are kept on the monotonic clock, so that a stepped wall clock
/// neither requeues nor expires anything. The wall clock serves for creation
/// times and for what is written down and read back by another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a clock that never goes back.
    pub mono_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
}

impl Now {
    /// The wall-clock time at which a monotonic deadline will pass; 0 for
    /// [`NEVER`]. Written records carry times in this form.
    pub fn to_wall(self, deadline: u64) -> u64 {
        if deadline == NEVER {
            return 0;
        }
        let ahead = deadline.saturating_sub(self.mono_ms);
        let late = self.mono_ms.saturating_sub(deadline);
        self.wall_ms
            .saturating_add(ahead)
            .saturating_sub(late)
            .max(1)
    }

    /// The reverse of [`Now::to_wall`]. A time that has passed becomes now.
    pub fn from_wall(self, wall_ms: u64) -> u64 {
        if wall_ms == 0 {
            return NEVER;
        }
        self.after(wall_ms.saturating_sub(self.wall_ms))
    }

    /// The monotonic deadline `ms` from now.
    pub fn after(self, ms: u64) -> u64 {
        // One below NEVER: however long the wait, it is not "no deadline".
        self.mono_ms.saturating_add(ms).min(NEVER - 1)
    }

    /// Milliseconds until `deadline`; 0 when it has passed, `None` for [`NEVER`].
    pub fn until(self, deadline: u64) -> Option<u64> {
        (deadline != NEVER).then(|| deadline.saturating_sub(self.mono_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now {
        mono_ms: 5_000,
        wall_ms: 1_700_000_000_000,
    };

    #[test]
    fn wall_times_round_trip() {
        for deadline in [5_000, 5_001, 90_000, NEVER] {
            assert_eq!(NOW.from_wall(NOW.to_wall(deadline)), deadline);
        }
    }

    #[test]
    fn what_is_past_becomes_now() {
        assert_eq!(NOW.to_wall(4_000), 1_699_999_999_000);
        assert_eq!(NOW.from_wall(1_699_999_999_000), 5_000);
    }

    #[test]
    fn nothing_overflows() {
        assert_eq!(NOW.after(u64::MAX), NEVER - 1);
        assert!(NOW.to_wall(NEVER - 1) > 0);
        assert_eq!(NOW.from_wall(u64::MAX), u64::MAX - NOW.wall_ms + 5_000);
    }
}

//! Durations of a job in four bytes.

use bincode::{BorrowDecode, Encode};

/// The TTL, DELAY or RETRY of a job.
///
/// Up to [`Span::MAX_EXACT_MS`] (24.8 days) a span is kept to the millisecond,
/// above it in whole seconds, rounded up; the longest is 2^31 - 1 seconds.
/// Jobs are many and have three of these each, hence the four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Encode, BorrowDecode)]
pub struct Span(u32);

const SECONDS: u32 = 1 << 31;

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span that is exact to the millisecond, in milliseconds.
    pub const MAX_EXACT_MS: u64 = (SECONDS - 1) as u64;
    /// The longest span, in seconds (68 years).
    pub const MAX_SECONDS: u64 = (SECONDS - 1) as u64;

    /// A span of `ms` milliseconds; what is longer than the longest becomes it.
    pub fn from_ms(ms: u64) -> Span {
        if ms <= Self::MAX_EXACT_MS {
            return Span(ms as u32);
        }
        Span(SECONDS | ms.div_ceil(1000).min(Self::MAX_SECONDS) as u32)
    }

    /// A span of whole seconds.
    pub fn from_secs(secs: u64) -> Span {
        Span::from_ms(secs.saturating_mul(1000))
    }

    /// The span in milliseconds.
    pub fn ms(self) -> u64 {
        if self.0 & SECONDS == 0 {
            u64::from(self.0)
        } else {
            u64::from(self.0 & !SECONDS) * 1000
        }
    }

    /// The span in whole seconds, rounded up: what is not zero never shows as 0.
    pub fn secs_rounded_up(self) -> u64 {
        self.ms().div_ceil(1000)
    }

    /// Whether this is no time at all.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_below_and_rounded_up_above() {
        for ms in [0, 1, 999, 1000, Span::MAX_EXACT_MS] {
            assert_eq!(Span::from_ms(ms).ms(), ms);
        }
        assert_eq!(Span::from_ms(Span::MAX_EXACT_MS + 1).ms(), 2_147_484_000);
        assert_eq!(Span::from_ms(u64::MAX).ms(), Span::MAX_SECONDS * 1000);
    }

    #[test]
    fn seconds_round_up() {
        assert_eq!(Span::from_ms(1).secs_rounded_up(), 1);
        assert_eq!(Span::from_ms(1000).secs_rounded_up(), 1);
        assert_eq!(Span::from_ms(1001).secs_rounded_up(), 2);
        assert_eq!(Span::ZERO.secs_rounded_up(), 0);
    }

    #[test]
    fn whole_seconds_are_exact() {
        for secs in [0, 1, 86_400, 86_400 * 365 * 50] {
            assert_eq!(Span::from_secs(secs).ms(), secs * 1000);
        }
    }
}

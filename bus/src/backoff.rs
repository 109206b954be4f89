//! How long to wait before the next attempt.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Pauses that double with each failure. Each is spread over its upper half, so
/// that nodes that lost the same peer at the same time do not come back to it
/// all at once.
pub(crate) struct Backoff {
    failures: u32,
    random: ChaCha8Rng,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Backoff {
        Backoff {
            failures: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Forgets earlier failures: the peer has answered.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The pause after one more failure.
    pub(crate) fn next(&mut self, min: Duration, max: Duration) -> Duration {
        let doublings = self.failures.min(20);
        self.failures = self.failures.saturating_add(1);
        let pause = min.saturating_mul(1 << doublings).min(max);
        pause.mul_f64(0.5 + 0.5 * self.fraction())
    }

    /// From 0 to 1.
    fn fraction(&mut self) -> f64 {
        f64::from(self.random.next_u32()) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(10);

    #[test]
    fn pauses_double_up_to_the_limit() {
        let mut backoff = Backoff::new(1);
        for expected in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            let pause = backoff.next(MIN, MAX).as_millis();
            assert!((expected / 2..=expected).contains(&pause), "{pause}");
        }
        for _ in 0..100 {
            assert!(backoff.next(MIN, MAX) <= MAX);
        }
        backoff.reset();
        assert!(backoff.next(MIN, MAX) <= MIN);
    }

    #[test]
    fn nodes_do_not_come_back_together() {
        let pause = |seed| Backoff::new(seed).next(MIN, MAX);
        assert_eq!(pause(1), pause(1));
        assert_ne!(pause(1), pause(2));
    }
}

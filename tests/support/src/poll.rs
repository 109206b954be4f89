//! Waiting for a condition.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);

/// A limit for what ought to come much sooner, `DISQUE_TEST_PATIENCE` times as long: for
/// servers that run under a memory checker.
pub(crate) fn patient(limit: Duration) -> Duration {
    static FACTOR: OnceLock<u32> = OnceLock::new();
    limit
        * *FACTOR.get_or_init(|| match std::env::var("DISQUE_TEST_PATIENCE") {
            Ok(text) => text.parse().expect("DISQUE_TEST_PATIENCE must be a number"),
            Err(_) => 1,
        })
}

/// Polls until `ready` says true; panics with `what` once `limit`, which ought to be
/// far more than it takes, has passed.
#[track_caller]
pub fn eventually(limit: Duration, what: &str, mut ready: impl FnMut() -> bool) {
    wait_for(limit, what, || ready().then_some(()));
}

/// Polls until `probe` returns a value; panics with `what` once `limit` has passed.
#[track_caller]
pub fn wait_for<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let limit = patient(limit);
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

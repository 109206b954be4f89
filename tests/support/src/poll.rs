//! Waiting for a condition.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);

/// Polls until `ready` says true; panics with `what` once `limit` has passed.
#[track_caller]
pub fn eventually(limit: Duration, what: &str, mut ready: impl FnMut() -> bool) {
    wait_for(limit, what, || ready().then_some(()));
}

/// Polls until `probe` returns a value; panics with `what` once `limit` has passed.
#[track_caller]
pub fn wait_for<T>(limit: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

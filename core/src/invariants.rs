//! Helpers of the checks of what must hold between two calls.

use crate::clock::Now;

/// Fails with a text unless a condition holds.
macro_rules! hold {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(crate) use hold;

/// A table wakes when its first deadline comes or before; at once, if that has
/// passed. With nothing to wait for it does not wake, but for a poll that ran
/// out of its budget and is to be ended.
pub(crate) fn wakes_in_time(
    what: &str,
    wake: Option<u64>,
    earliest: Option<u64>,
    now: Now,
) -> Result<(), String> {
    let in_time = match (wake, earliest) {
        (None, None) => true,
        (Some(wake), None) => wake <= now.mono_ms,
        (Some(wake), Some(earliest)) => wake <= earliest.max(now.mono_ms),
        (None, Some(_)) => false,
    };
    hold!(
        in_time,
        "{what}: the first deadline is {earliest:?}, the wake-up {wake:?}, the time {}",
        now.mono_ms
    );
    Ok(())
}

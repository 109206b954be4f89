//! The one place where panics are caught before they could reach C.

use super::context::{log_raw, Level};
use redis_module::raw::RedisModuleCtx;
use std::panic::{catch_unwind, AssertUnwindSafe, PanicHookInfo};

/// Runs the body of an entry from C. When it panics, `name` is logged and
/// `fallback` is the result.
///
/// `AssertUnwindSafe` is justified by [`super::MainCell`], which refuses to
/// hand out state that a panic may have left half changed.
pub(super) fn guard<R>(
    ctx: *mut RedisModuleCtx,
    name: impl FnOnce() -> String,
    fallback: R,
    body: impl FnOnce() -> R,
) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => {
            // Dropping a foreign payload may itself panic: leak it.
            std::mem::forget(payload);
            // Logging allocates; if even that panics there is nothing to say.
            let logged = catch_unwind(AssertUnwindSafe(|| {
                let text = format!("internal error in {}: a panic was caught", name());
                log_raw(ctx, Level::Warning, text.as_bytes());
            }));
            if let Err(payload) = logged {
                std::mem::forget(payload);
            }
            fallback
        }
    }
}

/// Sends panic messages to the server's log instead of standard error, which
/// a daemon does not have.
pub(super) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        let text = format!("panic: {info}");
        log_raw(std::ptr::null_mut(), Level::Warning, text.as_bytes());
    }));
}

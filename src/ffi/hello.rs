//! A bare `HELLO`, which clients of the old server send to learn of its nodes.

use super::api::need;
use super::context::{Ctx, Level};
use super::guard::guard;
use super::string::string_bytes;
use redis_module::raw;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Whether a `HELLO` without arguments is to run as `DISQUE HELLO`. With
/// arguments it always stays the server's own. The filter costs every command of
/// the server a little, so it is there only once it was wanted.
pub fn redirect_bare_hello(ctx: &Ctx, on: bool) {
    ON.store(on, Ordering::Relaxed);
    if !on || REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: a valid context; the callback stays loaded.
    let filter =
        unsafe { need(raw::RedisModule_RegisterCommandFilter)(ctx.as_ptr(), Some(on_command), 0) };
    if filter.is_null() {
        ctx.log(
            Level::Warning,
            "the server takes no command filter: HELLO stays its own",
        );
    }
}

unsafe extern "C" fn on_command(filter: *mut raw::RedisModuleCommandFilterCtx) {
    if !ON.load(Ordering::Relaxed) {
        return;
    }
    guard(
        ptr::null_mut(),
        || "the filter for HELLO".into(),
        (),
        || {
            // SAFETY: Redis' filter context, valid during the callback; argument 0
            // exists when the count says so, and lives as long as the command.
            unsafe {
                if need(raw::RedisModule_CommandFilterArgsCount)(filter) != 1 {
                    return;
                }
                let name = need(raw::RedisModule_CommandFilterArgGet)(filter, 0);
                let Some(name) = NonNull::new(name) else {
                    return;
                };
                if !string_bytes(name).eq_ignore_ascii_case(b"HELLO") {
                    return;
                }
                let container = b"DISQUE";
                let container = need(raw::RedisModule_CreateString)(
                    ptr::null_mut(),
                    container.as_ptr().cast(),
                    container.len(),
                );
                // The server takes the string over.
                need(raw::RedisModule_CommandFilterArgInsert)(filter, 0, container);
            }
        },
    );
}

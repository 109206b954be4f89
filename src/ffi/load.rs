//! The entry of the library.

use super::alloc::switch_to_redis;
use super::api::{missing_function, ok};
use super::args::Args;
use super::context::{Ctx, Level};
use super::guard::{guard, install_panic_hook};
use super::main_cell::MainThread;
use redis_module::raw;
use std::ffi::c_int;

/// The version shown by `MODULE LIST`: major * 10000 + minor * 100 + patch.
const VERSION: c_int = 100;

const REFUSE: c_int = raw::REDISMODULE_ERR as c_int;

/// Called by the server when the library is loaded: gets the API, switches the
/// allocator, and lets the module register what it has.
///
/// # Safety
///
/// Called by Redis only, on the main thread, with its context and arguments.
#[no_mangle]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // Nothing may be allocated before the switch, so nothing is guarded either:
    // a panic would allocate. Neither call can panic.
    // SAFETY: Redis' context; the name ends in NUL.
    let status = unsafe {
        raw::Export_RedisModule_Init(
            ctx,
            c"disque".as_ptr(),
            VERSION,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if !ok(status) {
        return REFUSE;
    }
    let switched = switch_to_redis();
    guard(
        ctx,
        || "the load of the module".into(),
        REFUSE,
        || {
            MainThread::adopt();
            install_panic_hook();
            // SAFETY: Redis' context and arguments, valid during the load.
            let (ctx, args) = unsafe {
                let Some(ctx) = Ctx::new(ctx) else {
                    return REFUSE;
                };
                (ctx, Args::new(argv, argc))
            };
            if !switched && !cfg!(feature = "system-alloc") {
                ctx.log(
                    Level::Warning,
                    "memory of jobs is not counted in used_memory",
                );
            }
            match missing_function() {
                Some(name) => {
                    let text = format!("needs Redis 7.0 or later: the server has no {name}");
                    ctx.log(Level::Warning, &text);
                    REFUSE
                }
                None => match crate::load(&ctx, args) {
                    Ok(()) => raw::REDISMODULE_OK as c_int,
                    Err(text) => {
                        ctx.log(Level::Warning, &text);
                        REFUSE
                    }
                },
            }
        },
    )
}

//! Access to the functions that the server lends to the module.
//!
//! `Export_RedisModule_Init` fills one static pointer per function; what the
//! server does not have stays empty. The functions that the module cannot do
//! without are checked once at load ([`missing_function`]), so that an old
//! server gets a clear refusal instead of a surprise later.

use redis_module::raw;
use std::ffi::c_int;

/// The function behind a pointer of the API.
///
/// # Panics
///
/// When the server does not offer it. For the functions that are checked at
/// load this cannot happen; the panic is caught by the entry guard anyhow.
#[inline(always)]
pub(super) fn need<F>(function: Option<F>) -> F {
    match function {
        Some(function) => function,
        None => absent(),
    }
}

#[cold]
#[inline(never)]
fn absent() -> ! {
    panic!("the server lacks a function of the module API")
}

/// Whether the server offers a function.
pub(super) fn has<F>(function: Option<F>) -> bool {
    function.is_some()
}

/// Whether a call of the API reported success.
#[inline]
pub(super) fn ok(status: c_int) -> bool {
    status as isize == raw::REDISMODULE_OK
}

/// The first function of Redis 7.0's API that this server does not have.
///
/// Must be called after `Export_RedisModule_Init`, on the main thread.
pub(super) fn missing_function() -> Option<&'static str> {
    // SAFETY: the pointers are written once, by Export_RedisModule_Init during
    // the load on this thread, and only read from then on.
    let needed = unsafe {
        [
            ("EventLoopAdd", has(raw::RedisModule_EventLoopAdd)),
            ("CreateSubcommand", has(raw::RedisModule_CreateSubcommand)),
            ("SetCommandInfo", has(raw::RedisModule_SetCommandInfo)),
            (
                "RegisterNumericConfig",
                has(raw::RedisModule_RegisterNumericConfig),
            ),
            ("LoadConfigs", has(raw::RedisModule_LoadConfigs)),
            (
                "ACLCheckKeyPermissions",
                has(raw::RedisModule_ACLCheckKeyPermissions),
            ),
            (
                "GetTypeMethodVersion",
                has(raw::RedisModule_GetTypeMethodVersion),
            ),
            (
                "ReplyWithNullArray",
                has(raw::RedisModule_ReplyWithNullArray),
            ),
            (
                "GetThreadSafeContext",
                has(raw::RedisModule_GetThreadSafeContext),
            ),
        ]
    };
    needed
        .iter()
        .find(|(_, there)| !there)
        .map(|(name, _)| *name)
}

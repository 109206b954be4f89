//! The module's part of `INFO`.

use super::api::{need, ok};
use super::context::Ctx;
use super::guard::guard;
use redis_module::raw;
use std::ffi::{c_int, CStr};
use std::marker::PhantomData;
use std::ptr;
use std::sync::OnceLock;

/// Why the server asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A client sent `INFO`, or a module asked.
    Command,
    /// The server has crashed and writes its last report. It may have crashed
    /// in the middle of anything, on any thread: the state can be out of reach
    /// ([`super::MainThread::here`], [`super::MainCell::with`]).
    Crash,
}

/// Takes sections and fields. Redis puts `disque_` in front of both names.
pub struct Info<'a> {
    ctx: *mut raw::RedisModuleInfoCtx,
    life: PhantomData<&'a mut ()>,
}

impl Info<'_> {
    /// Begins a section. False if the client did not ask for it: then its
    /// fields need not be worked out. The empty name is the section `disque`
    /// itself.
    pub fn section(&mut self, name: &CStr) -> bool {
        let name = if name.is_empty() {
            ptr::null()
        } else {
            name.as_ptr()
        };
        // SAFETY: a live report during the hook; null or a name that ends in
        // NUL.
        ok(unsafe { need(raw::RedisModule_InfoAddSection)(self.ctx, name) })
    }

    /// Adds a number.
    pub fn number(&mut self, name: &CStr, value: u64) {
        // SAFETY: a live report; the name ends in NUL.
        unsafe { need(raw::RedisModule_InfoAddFieldULongLong)(self.ctx, name.as_ptr(), value) };
    }

    /// Adds a text. Control characters become spaces.
    pub fn text(&mut self, name: &CStr, value: &str) {
        let line: Vec<u8> = value
            .bytes()
            .map(|byte| if byte < b' ' { b' ' } else { byte })
            .chain([0])
            .collect();
        // SAFETY: a live report; name and line end in NUL, and are copied.
        unsafe {
            need(raw::RedisModule_InfoAddFieldCString)(
                self.ctx,
                name.as_ptr(),
                line.as_ptr().cast(),
            )
        };
    }
}

static HOOK: OnceLock<fn(&mut Info<'_>, Reason)> = OnceLock::new();

/// Says what answers `INFO`. Called once, at load.
pub fn register_info(ctx: &Ctx, hook: fn(&mut Info<'_>, Reason)) -> Result<(), String> {
    HOOK.set(hook).map_err(|_| "INFO is registered twice")?;
    // SAFETY: a valid context during load; the callback stays loaded.
    let status = unsafe { need(raw::RedisModule_RegisterInfoFunc)(ctx.as_ptr(), Some(on_info)) };
    ok(status)
        .then_some(())
        .ok_or_else(|| "the server refuses the section of INFO".into())
}

unsafe extern "C" fn on_info(ctx: *mut raw::RedisModuleInfoCtx, crash: c_int) {
    guard(
        ptr::null_mut(),
        || "INFO".into(),
        (),
        || {
            let reason = if crash == 0 {
                Reason::Command
            } else {
                Reason::Crash
            };
            if let (Some(hook), false) = (HOOK.get(), ctx.is_null()) {
                let mut info = Info {
                    ctx,
                    life: PhantomData,
                };
                hook(&mut info, reason);
            }
        },
    );
}

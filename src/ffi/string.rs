//! An owned reference to a server string.

use super::api::need;
use redis_module::raw;
use std::ptr::{self, NonNull};

/// A reference-counted string of the server. Keeps its bytes alive; never
/// changes them. Main thread only: the count is not atomic.
pub struct RString {
    raw: NonNull<raw::RedisModuleString>,
}

impl RString {
    /// A new string with a copy of the bytes.
    pub fn new(bytes: &[u8]) -> Self {
        // SAFETY: pointer and length describe `bytes`; without a context the
        // string belongs to the caller alone. The server aborts rather than
        // return null when memory is out.
        unsafe {
            let raw = need(raw::RedisModule_CreateString)(
                ptr::null_mut(),
                bytes.as_ptr().cast(),
                bytes.len(),
            );
            Self::from_owned(raw).unwrap_or_else(|| panic!("no memory for a string"))
        }
    }

    /// Takes over a reference that the server gave away; `None` for null.
    ///
    /// # Safety
    ///
    /// `raw` is null or a live string whose reference the caller owns and
    /// that is not subject to automatic memory management.
    pub(super) unsafe fn from_owned(raw: *mut raw::RedisModuleString) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self { raw })
    }

    /// One more reference to a string that somebody else holds.
    ///
    /// # Safety
    ///
    /// `raw` is a live string.
    pub(super) unsafe fn shared(raw: NonNull<raw::RedisModuleString>) -> Self {
        // SAFETY: live by contract; without a context nobody but this value drops the
        // reference. A string that cannot be shared is copied.
        let held = unsafe { need(raw::RedisModule_HoldString)(ptr::null_mut(), raw.as_ptr()) };
        // SAFETY: the reference was just taken.
        unsafe { Self::from_owned(held).unwrap_or_else(|| panic!("no memory for a string")) }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the string lives as long as `self`, and is never changed.
        unsafe { string_bytes(self.raw) }
    }

    pub(super) fn as_raw(&self) -> NonNull<raw::RedisModuleString> {
        self.raw
    }

    /// Gives the reference to the server.
    pub(super) fn into_raw(self) -> *mut raw::RedisModuleString {
        let raw = self.raw.as_ptr();
        std::mem::forget(self);
        raw
    }
}

impl Drop for RString {
    fn drop(&mut self) {
        // SAFETY: this value owns exactly one reference.
        unsafe { need(raw::RedisModule_FreeString)(ptr::null_mut(), self.raw.as_ptr()) }
    }
}

/// The bytes of a server string, without a copy.
///
/// # Safety
///
/// The string lives and is not changed for `'a`.
pub(super) unsafe fn string_bytes<'a>(string: NonNull<raw::RedisModuleString>) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: a live string by contract; `len` is a valid place for its length.
    let start = unsafe { need(raw::RedisModule_StringPtrLen)(string.as_ptr(), &mut len) };
    if start.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the server guarantees `len` initialised bytes at `start`, which
    // stay in place for `'a` by contract.
    unsafe { std::slice::from_raw_parts(start.cast(), len) }
}

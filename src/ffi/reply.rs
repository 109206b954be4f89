//! Writing a reply.
//!
//! A [`Reply`] knows how many values it still owes: one to begin with, `n`
//! more after `array(n)`. So a handler that fails half way cannot leave a
//! client with a broken protocol stream: what is missing is filled up with
//! errors, and one value too many is never sent.

use super::api::need;
use super::context::{log_raw, Level};
use redis_module::raw;
use std::ffi::c_long;
use std::marker::PhantomData;

/// The text for a client whose command failed in a way that was not foreseen.
pub(super) const INTERNAL_ERROR: &str = "ERR internal error";

/// Writes one reply, to the client of the running command or to a blocked one.
pub struct Reply<'a> {
    ctx: *mut raw::RedisModuleCtx,
    /// Values owed at the current level.
    owed: u64,
    /// Arrays of yet unknown length that are open, innermost last.
    open: Vec<OpenArray>,
    started: bool,
    life: PhantomData<&'a ()>,
}

struct OpenArray {
    /// Values owed at the level that the array interrupts.
    owed_outside: u64,
    /// Elements written so far.
    elements: u64,
}

impl<'a> Reply<'a> {
    /// # Safety
    ///
    /// `ctx` is a context that may be replied to during `'a`, and no other
    /// `Reply` writes to it.
    pub(super) unsafe fn new(ctx: *mut raw::RedisModuleCtx) -> Self {
        Self {
            ctx,
            owed: 1,
            open: Vec::new(),
            started: false,
            life: PhantomData,
        }
    }

    /// An integer.
    pub fn integer(&mut self, value: i64) {
        if self.step() {
            // SAFETY: `ctx` accepts replies, see `new`.
            unsafe { need(raw::RedisModule_ReplyWithLongLong)(self.ctx, value) };
        }
    }

    /// A bulk string; any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        if self.step() {
            let bytes = bytes.as_ref();
            // SAFETY: `ctx` accepts replies, see `new`; pointer and length
            // describe `bytes`, which the server copies.
            unsafe {
                need(raw::RedisModule_ReplyWithStringBuffer)(
                    self.ctx,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                )
            };
        }
    }

    /// A simple string (`+OK`).
    pub fn simple(&mut self, text: &str) {
        if self.step() {
            let line = Line::new(text);
            // SAFETY: `ctx` accepts replies, see `new`; `line` ends in NUL and
            // has no line break. The server copies it.
            unsafe { need(raw::RedisModule_ReplyWithSimpleString)(self.ctx, line.as_ptr()) };
        }
    }

    /// An error: its code, a space, its text (`ERR no such thing`), without the
    /// leading `-`. Control characters are sent as spaces.
    pub fn error(&mut self, text: &str) {
        if self.step() {
            let line = Line::new(text);
            // SAFETY: as in `simple`. The server formats it with "-%s", so a
            // percent sign has no meaning.
            unsafe { need(raw::RedisModule_ReplyWithError)(self.ctx, line.as_ptr()) };
        }
    }

    /// Null: `$-1`, in RESP3 `_`.
    pub fn null(&mut self) {
        if self.step() {
            // SAFETY: `ctx` accepts replies, see `new`.
            unsafe { need(raw::RedisModule_ReplyWithNull)(self.ctx) };
        }
    }

    /// The null array: `*-1`, in RESP3 `_`.
    pub fn null_array(&mut self) {
        if self.step() {
            // SAFETY: `ctx` accepts replies, see `new`.
            unsafe { need(raw::RedisModule_ReplyWithNullArray)(self.ctx) };
        }
    }

    /// The head of an array: `len` values must follow.
    pub fn array(&mut self, len: usize) {
        if self.step() {
            // SAFETY: `ctx` accepts replies, see `new`.
            unsafe { need(raw::RedisModule_ReplyWithArray)(self.ctx, len as c_long) };
            self.owed += len as u64;
        }
    }

    /// Opens an array whose length is not known yet. What is written up to
    /// [`Reply::end_array`] are its elements. Costs the client's output buffer
    /// a node: prefer [`Reply::array`] where the length is known.
    pub fn begin_array(&mut self) {
        if self.step() {
            let len = c_long::from(raw::REDISMODULE_POSTPONED_LEN);
            // SAFETY: `ctx` accepts replies, see `new`. `end_array` or
            // `finish` sets the length.
            unsafe { need(raw::RedisModule_ReplyWithArray)(self.ctx, len) };
            self.open.push(OpenArray {
                owed_outside: std::mem::take(&mut self.owed),
                elements: 0,
            });
        }
    }

    /// Ends the array that [`Reply::begin_array`] opened last.
    pub fn end_array(&mut self) {
        self.fill_level();
        if let Some(array) = self.open.pop() {
            self.owed = array.owed_outside;
            // SAFETY: `ctx` accepts replies, see `new`, and has a postponed
            // length, because each entry of `open` stands for one.
            unsafe {
                need(raw::RedisModule_ReplySetArrayLength)(self.ctx, array.elements as c_long)
            };
        }
    }

    /// Whether anything was written.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Whether all that was promised has been written.
    pub fn is_complete(&self) -> bool {
        self.owed == 0 && self.open.is_empty()
    }

    /// Writes an error for each value that is still owed, so that the client's
    /// stream stays in step. Says so in the log: it is a defect.
    pub(super) fn finish(&mut self) {
        if self.is_complete() {
            return;
        }
        while !self.open.is_empty() {
            self.end_array();
        }
        self.fill_level();
    }

    fn fill_level(&mut self) {
        while self.owed > 0 {
            self.error(INTERNAL_ERROR);
        }
    }

    /// Accounts for one more value at this level; false if none is owed.
    #[inline]
    fn step(&mut self) -> bool {
        self.started = true;
        if self.owed > 0 {
            self.owed -= 1;
            return true;
        }
        match self.open.last_mut() {
            Some(array) => {
                array.elements += 1;
                true
            }
            None => {
                log_raw(
                    self.ctx,
                    Level::Warning,
                    b"internal error: a reply had more values than announced",
                );
                false
            }
        }
    }
}

/// A line of text as C wants it: no control characters, a NUL at the end.
/// Short ones, that is nearly all, take no allocation.
struct Line {
    short: [u8; Self::SHORT],
    long: Vec<u8>,
}

impl Line {
    const SHORT: usize = 128;

    fn new(text: &str) -> Self {
        let clean = |&byte: &u8| if byte < b' ' { b' ' } else { byte };
        let mut line = Self {
            short: [0; Self::SHORT],
            long: Vec::new(),
        };
        if text.len() < Self::SHORT {
            for (to, from) in line.short.iter_mut().zip(text.as_bytes()) {
                *to = clean(from);
            }
        } else {
            line.long = text.as_bytes().iter().map(clean).chain([0]).collect();
        }
        line
    }

    fn as_ptr(&self) -> *const std::ffi::c_char {
        if self.long.is_empty() {
            self.short.as_ptr().cast()
        } else {
            self.long.as_ptr().cast()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Line;
    use std::ffi::CStr;

    fn text(line: &Line) -> &str {
        // SAFETY: what `as_ptr` points to ends in NUL.
        unsafe { CStr::from_ptr(line.as_ptr()) }.to_str().unwrap()
    }

    #[test]
    fn lines_are_cleaned() {
        assert_eq!(text(&Line::new("ERR a\r\nb\0c")), "ERR a  b c");
        assert_eq!(text(&Line::new("")), "");
        for len in 126..131 {
            let long = "x".repeat(len);
            assert_eq!(text(&Line::new(&long)), long);
        }
    }
}

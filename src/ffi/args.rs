//! The arguments of a command, read in place.

use super::string::{string_bytes, RString};
use redis_module::raw;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// All arguments of a command, the command's name included, as bytes that are
/// borrowed from the client's query. Copying an `Args` copies a pointer.
///
/// A subcommand keeps its container's name: `DISQUE HELLO` has two arguments.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    first: *const *mut raw::RedisModuleString,
    len: usize,
    life: PhantomData<&'a [u8]>,
}

impl<'a> Args<'a> {
    /// # Safety
    ///
    /// `argv` holds `argc` live strings that nobody changes for `'a`, as Redis
    /// guarantees for the time of a command. (Nothing in this crate redacts or
    /// rewrites arguments.)
    pub(super) unsafe fn new(argv: *mut *mut raw::RedisModuleString, argc: i32) -> Self {
        Self {
            first: argv,
            len: if argv.is_null() {
                0
            } else {
                usize::try_from(argc).unwrap_or(0)
            },
            life: PhantomData,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of argument `index`, counted from the command's name at 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        if index >= self.len {
            return None;
        }
        // SAFETY: `index` is within the `len` entries promised to `new`.
        let string = NonNull::new(unsafe { *self.first.add(index) })?;
        // SAFETY: live and unchanged for `'a`, see `new`.
        Some(unsafe { string_bytes(string) })
    }

    /// Argument `index` as the server's own string, which is shared and not copied.
    pub fn string(&self, index: usize) -> Option<RString> {
        if index >= self.len {
            return None;
        }
        // SAFETY: `index` is within the `len` entries promised to `new`.
        let string = NonNull::new(unsafe { *self.first.add(index) })?;
        // SAFETY: live, see `new`.
        Some(unsafe { RString::shared(string) })
    }

    /// The arguments in order, as [`Args::string`] gives them.
    pub fn strings(&self) -> impl Iterator<Item = RString> + use<'a> {
        let args = *self;
        (0..self.len).filter_map(move |index| args.string(index))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The arguments from `start` on.
    pub fn from(&self, start: usize) -> Args<'a> {
        let start = start.min(self.len);
        Args {
            // SAFETY: at most one past the end of the promised entries.
            first: unsafe { self.first.add(start) },
            len: self.len - start,
            life: PhantomData,
        }
    }

    /// The arguments in order, as bytes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let args = *self;
        (0..self.len).map(move |index| match args.get(index) {
            Some(bytes) => bytes,
            None => panic!("the server passed an argument without a string"),
        })
    }
}

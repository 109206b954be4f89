//! The allocator: memory of the module counts in the server's `used_memory`.
//!
//! Before the server has lent its functions (and in tests, where there is no
//! server) memory comes from the system. A block must go back to where it
//! came from, and a header that says so would cost 16 bytes for each. Instead
//! all blocks come from one place: [`switch_to_redis`] changes the place only
//! if no block of the system is alive at that moment, which is so in practice,
//! because nothing in this library allocates before it is called. If one were
//! alive the module would stay with the system's allocator, correct though
//! invisible in `used_memory`.
//!
//! Redis promises no more than 8-byte alignment (with an allocator that cannot
//! tell a block's size it puts 8 bytes in front). For larger alignments, that
//! is hash tables and cache-line aligned arrays, a block is taken larger and
//! the start of the real one is kept in front of the aligned part.

use super::api::has;
use redis_module::raw;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What every `zmalloc` guarantees.
const REDIS_ALIGN: usize = 8;

/// Whether blocks come from the server. Changes once, at load, while there is
/// no block and no second thread.
static FROM_REDIS: AtomicBool = AtomicBool::new(false);

/// Blocks of the system that are alive. Only counted before the change.
static SYSTEM_BLOCKS: AtomicUsize = AtomicUsize::new(0);

/// The allocator of the module.
pub struct RedisAlloc;

/// Takes memory from the server from now on, if that is possible. Called at
/// load, after the API is there. False if the system's allocator stays.
pub(super) fn switch_to_redis() -> bool {
    if cfg!(feature = "system-alloc") {
        return false;
    }
    // SAFETY: the pointers are written once, by this thread, before this call.
    let there = unsafe {
        has(raw::RedisModule_Alloc)
            && has(raw::RedisModule_Calloc)
            && has(raw::RedisModule_Realloc)
            && has(raw::RedisModule_Free)
    };
    if !FROM_REDIS.load(Ordering::Relaxed) && there && SYSTEM_BLOCKS.load(Ordering::Relaxed) == 0 {
        FROM_REDIS.store(true, Ordering::Relaxed);
    }
    FROM_REDIS.load(Ordering::Relaxed)
}

#[inline(always)]
fn from_redis() -> bool {
    FROM_REDIS.load(Ordering::Relaxed)
}

// SAFETY: blocks are returned to the allocator that they came from, see above;
// sizes and alignments are honoured by the functions below.
unsafe impl GlobalAlloc for RedisAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !from_redis() {
            SYSTEM_BLOCKS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller's contract is the same.
            return unsafe { System.alloc(layout) };
        }
        if layout.align() <= REDIS_ALIGN {
            redis_alloc(layout.size())
        } else {
            align_up(redis_alloc(layout.size() + layout.align()), layout.align())
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !from_redis() {
            SYSTEM_BLOCKS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller's contract is the same.
            return unsafe { System.alloc_zeroed(layout) };
        }
        if layout.align() <= REDIS_ALIGN {
            redis_calloc(layout.size())
        } else {
            align_up(redis_calloc(layout.size() + layout.align()), layout.align())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !from_redis() {
            SYSTEM_BLOCKS.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: no block of Redis exists before the change.
            unsafe { System.dealloc(block, layout) }
        } else if layout.align() <= REDIS_ALIGN {
            redis_free(block);
        } else {
            // SAFETY: a block with this alignment was made by `align_up`.
            redis_free(unsafe { real_start(block) });
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !from_redis() {
            // SAFETY: no block of Redis exists before the change.
            return unsafe { System.realloc(block, layout, new_size) };
        }
        if layout.align() <= REDIS_ALIGN {
            return redis_realloc(block, new_size);
        }
        // The distance from the real start to the aligned part may change, so
        // the server's realloc is of no use.
        // SAFETY: the new layout is valid by the caller's contract; both blocks
        // hold at least the bytes copied, and do not overlap.
        unsafe {
            let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
            let new = self.alloc(new_layout);
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[inline]
fn redis_alloc(size: usize) -> *mut u8 {
    // SAFETY: the pointer was checked by `switch_to_redis` and never changes.
    match unsafe { raw::RedisModule_Alloc } {
        // SAFETY: any size is allowed, from any thread.
        Some(alloc) => unsafe { alloc(size) }.cast(),
        None => ptr::null_mut(),
    }
}

#[inline]
fn redis_calloc(size: usize) -> *mut u8 {
    // SAFETY: as in `redis_alloc`.
    match unsafe { raw::RedisModule_Calloc } {
        // SAFETY: as in `redis_alloc`.
        Some(calloc) => unsafe { calloc(1, size) }.cast(),
        None => ptr::null_mut(),
    }
}

#[inline]
fn redis_realloc(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: as in `redis_alloc`.
    match unsafe { raw::RedisModule_Realloc } {
        // SAFETY: `block` came from `redis_alloc` or its siblings; `size` is
        // not 0 by the contract of `GlobalAlloc`.
        Some(realloc) => unsafe { realloc(block.cast::<c_void>(), size) }.cast(),
        None => ptr::null_mut(),
    }
}

#[inline]
fn redis_free(block: *mut u8) {
    // SAFETY: as in `redis_alloc`.
    if let Some(free) = unsafe { raw::RedisModule_Free } {
        // SAFETY: `block` came from `redis_alloc` or its siblings and is freed
        // once, by the contract of `GlobalAlloc`.
        unsafe { free(block.cast::<c_void>()) };
    }
}

/// The aligned part of a block that is `align` bytes larger than wanted, with
/// the block's start kept in the word before it.
fn align_up(start: *mut u8, align: usize) -> *mut u8 {
    if start.is_null() {
        return start;
    }
    // At least a word (`start` is aligned to 8, `align` to 16 or more), at most
    // `align` bytes.
    let offset = align - (start as usize & (align - 1));
    // SAFETY: within the block: `offset` is at most `align`, which the block is
    // larger, and at least 8, so the word before it is within it, too.
    unsafe {
        let aligned = start.add(offset);
        aligned.cast::<*mut u8>().sub(1).write(start);
        aligned
    }
}

/// The inverse of [`align_up`].
///
/// # Safety
///
/// `aligned` is a live result of `align_up`.
unsafe fn real_start(aligned: *mut u8) -> *mut u8 {
    // SAFETY: `align_up` wrote the word.
    unsafe { aligned.cast::<*mut u8>().sub(1).read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_alignment_round_trips() {
        for align in [16usize, 32, 64, 4096] {
            for shift in [8usize, 16, 24] {
                let mut room = vec![0u64; (3 * align + 64) / 8];
                let room = room.as_mut_ptr().cast::<u8>();
                // SAFETY: within the room.
                let start = unsafe { room.add(shift) };
                let aligned = align_up(start, align);
                assert_eq!(aligned as usize % align, 0);
                assert!(aligned as usize - start as usize <= align);
                assert!(aligned as usize - start as usize >= 8);
                // SAFETY: just made.
                assert_eq!(unsafe { real_start(aligned) }, start);
            }
        }
    }

    #[test]
    fn stays_with_the_system_without_a_server() {
        assert!(!switch_to_redis());
        let mut words = vec![1u8; 10];
        words.extend_from_slice(&[2; 5000]);
        assert_eq!(words.len(), 5010);
    }
}

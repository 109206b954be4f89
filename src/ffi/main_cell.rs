//! State that belongs to the main thread.
//!
//! Redis runs commands, timers and callbacks on one thread. [`MainThread`] is
//! the proof of being on it, [`MainCell`] the static that only the holder of
//! the proof can open, one opener at a time.

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `pthread_self` of the thread that loaded the module; 0 before that.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Proof that the code runs on the server's main thread. Cannot leave it.
#[derive(Clone, Copy)]
pub struct MainThread {
    not_send: PhantomData<*const ()>,
}

impl MainThread {
    /// The proof, if this is the main thread (or the only thread of a forked
    /// child). Crash reports, for one, may run on any thread.
    #[inline]
    pub fn here() -> Option<Self> {
        (MAIN.load(Ordering::Relaxed) == this_thread()).then_some(Self::token())
    }

    /// Declares the calling thread the main thread. Called once, at load.
    pub(super) fn adopt() -> Self {
        MAIN.store(this_thread(), Ordering::Relaxed);
        Self::token()
    }

    #[inline]
    pub(super) fn token() -> Self {
        Self {
            not_send: PhantomData,
        }
    }
}

#[inline]
fn this_thread() -> usize {
    // SAFETY: pthread_self has no precondition. It is never 0, and a forked
    // child's only thread has the value of the thread that forked.
    unsafe { libc::pthread_self() as usize }
}

/// Why a [`MainCell`] did not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateError {
    /// Nothing was put in yet.
    Empty,
    /// It is open further up the stack: a callback came while it was in use.
    Busy,
    /// A panic went through it: what it holds may be half changed.
    Poisoned,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    Closed,
    Open,
    Poisoned,
}

/// A static that holds a `T` of the main thread.
pub struct MainCell<T> {
    content: UnsafeCell<Option<T>>,
    door: Cell<Door>,
}

// SAFETY: every method that reaches the content or the door asks for a
// `MainThread`, which only exists on the main thread and cannot be sent. So
// the cell is shared between threads by address only, whatever `T` is.
unsafe impl<T> Sync for MainCell<T> {}

impl<T> MainCell<T> {
    /// An empty cell, to be filled at load.
    pub const fn empty() -> Self {
        Self {
            content: UnsafeCell::new(None),
            door: Cell::new(Door::Closed),
        }
    }

    /// A cell that holds `content` from the start.
    pub const fn new(content: T) -> Self {
        Self {
            content: UnsafeCell::new(Some(content)),
            door: Cell::new(Door::Closed),
        }
    }

    /// Puts the content in, in place of what was there. Also the way out of
    /// [`StateError::Poisoned`].
    pub fn put(&self, _main: MainThread, content: T) -> Result<(), StateError> {
        if self.door.get() == Door::Open {
            return Err(StateError::Busy);
        }
        // SAFETY: on the main thread (the token) and not open (the door), so
        // no reference to the content exists. The old content is dropped after
        // the new one is in place: its destructor finds a consistent cell.
        let old = unsafe { (*self.content.get()).replace(content) };
        self.door.set(Door::Closed);
        drop(old);
        Ok(())
    }

    /// Takes the content out, unless it is open.
    pub fn take(&self, _main: MainThread) -> Option<T> {
        if self.door.get() == Door::Open {
            return None;
        }
        // SAFETY: as in `put`; the cell is empty before the content is dropped.
        unsafe { (*self.content.get()).take() }
    }

    /// Opens the cell for the duration of `visit`. Refused, rather than
    /// undefined, when it is open already. A panic in `visit` poisons it.
    #[inline]
    pub fn with<R>(
        &self,
        _main: MainThread,
        visit: impl FnOnce(&mut T) -> R,
    ) -> Result<R, StateError> {
        match self.door.get() {
            Door::Closed => {}
            Door::Open => return Err(StateError::Busy),
            Door::Poisoned => return Err(StateError::Poisoned),
        }
        // SAFETY: on the main thread (the token) and closed (the door), so
        // this is the only reference; `Opening` keeps the door open until it
        // is gone, also when `visit` unwinds.
        let content = unsafe { &mut *self.content.get() };
        let Some(content) = content.as_mut() else {
            return Err(StateError::Empty);
        };
        let opening = Opening::new(&self.door);
        let result = visit(content);
        opening.close();
        Ok(result)
    }

    /// Whether a panic went through the content.
    #[cfg(test)]
    fn is_poisoned(&self, _main: MainThread) -> bool {
        self.door.get() == Door::Poisoned
    }
}

/// Keeps the door open; unless closed properly, leaves it poisoned.
struct Opening<'a>(&'a Cell<Door>);

impl<'a> Opening<'a> {
    fn new(door: &'a Cell<Door>) -> Self {
        door.set(Door::Open);
        Self(door)
    }

    fn close(self) {
        self.0.set(Door::Closed);
        std::mem::forget(self);
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.set(Door::Poisoned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_reentrance() {
        let main = MainThread::token();
        let cell = MainCell::new(1);
        let inner = cell.with(main, |n| {
            *n += 1;
            cell.with(main, |n| *n)
        });
        assert_eq!(inner, Ok(Err(StateError::Busy)));
        assert_eq!(cell.with(main, |n| *n), Ok(2));
        assert_eq!(
            cell.with(main, |_| cell.put(main, 7)),
            Ok(Err(StateError::Busy))
        );
    }

    #[test]
    fn empty_until_put() {
        let main = MainThread::token();
        let cell = MainCell::empty();
        assert_eq!(cell.with(main, |n: &mut i32| *n), Err(StateError::Empty));
        cell.put(main, 3).unwrap();
        assert_eq!(cell.with(main, |n| *n), Ok(3));
        assert_eq!(cell.with(main, |_| cell.take(main)), Ok(None));
        assert_eq!(cell.take(main), Some(3));
        assert_eq!(cell.with(main, |n| *n), Err(StateError::Empty));
    }

    #[test]
    fn a_panic_poisons_until_put() {
        let main = MainThread::token();
        let cell = MainCell::new(1);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = cell.with(main, |_| panic!("on purpose"));
        }));
        assert!(caught.is_err());
        assert!(cell.is_poisoned(main));
        assert_eq!(cell.with(main, |n| *n), Err(StateError::Poisoned));
        cell.put(main, 5).unwrap();
        assert_eq!(cell.with(main, |n| *n), Ok(5));
    }
}

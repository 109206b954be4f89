//! Waking up: by the monotonic clock, by another thread, or at once.
//!
//! All three ways end in the same place, a *turn*: a function of the module
//! that runs from a 0 ms timer of Redis, where state may change and be
//! recorded. Nothing else may be done in the handlers of file descriptors:
//! they also run inside long scripts and while data are being loaded.
//!
//! - Redis' own timers follow the wall clock, which can stand still for an
//!   hour when it is set back. So the alarm is a `timerfd` on the monotonic
//!   clock; when it rings, its handler starts a 0 ms timer, which fires in the
//!   same round of the event loop.
//! - Other threads ring an `eventfd` through a [`Waker`].
//! - [`poke`] starts the 0 ms timer from a command or a callback.
//!
//! However often they ring, there is one turn per round. A poke from within a
//! turn goes through the alarm, not through a new timer: Redis would let 1 ms
//! pass before a timer that was started inside a timer.

use super::api::{need, ok};
use super::context::{Ctx, Origin, Turn};
use super::guard::guard;
use super::main_cell::MainThread;
use redis_module::raw;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::OnceLock;

/// What a turn does.
static WORK: OnceLock<fn(&Turn)> = OnceLock::new();
/// A context of the module's own for starting timers where there is none.
static CTX: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(ptr::null_mut());
static TIMER_FD: AtomicI32 = AtomicI32::new(-1);
static EVENT_FD: AtomicI32 = AtomicI32::new(-1);
/// A 0 ms timer is waiting.
static PENDING: AtomicBool = AtomicBool::new(false);
/// A turn is running.
static IN_TURN: AtomicBool = AtomicBool::new(false);
/// The running turn wants another one.
static AGAIN: AtomicBool = AtomicBool::new(false);
/// When the alarm rings, in monotonic ms; `u64::MAX` for never.
static ARMED: AtomicU64 = AtomicU64::new(u64::MAX);
/// The eventfd was rung and not yet heard.
static RUNG: AtomicBool = AtomicBool::new(false);

/// Prepares alarm and waker. Called once, at load. After an error nothing of it is left.
pub fn install(ctx: &Ctx, work: fn(&Turn)) -> Result<(), String> {
    let failed = |what: &str| format!("{what}: {}", std::io::Error::last_os_error());
    WORK.set(work).map_err(|_| "the timer is installed twice")?;
    // SAFETY: no preconditions.
    let timer = own(unsafe {
        libc::timerfd_create(
            libc::CLOCK_MONOTONIC,
            libc::TFD_NONBLOCK | libc::TFD_CLOEXEC,
        )
    });
    // SAFETY: no preconditions.
    let event = own(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) });
    let (Some(timer), Some(event)) = (timer, event) else {
        return Err(failed("cannot create the alarm"));
    };
    if !watch(&timer, on_alarm) {
        return Err(failed("cannot watch the alarm"));
    }
    if !watch(&event, on_wake) {
        let error = failed("cannot watch the waker");
        // SAFETY: the descriptor was added just now.
        unsafe {
            need(raw::RedisModule_EventLoopDel)(
                timer.as_raw_fd(),
                raw::REDISMODULE_EVENTLOOP_READABLE as c_int,
            )
        };
        return Err(error);
    }
    // The descriptors are kept for ever.
    TIMER_FD.store(timer.into_raw_fd(), Ordering::Relaxed);
    EVENT_FD.store(event.into_raw_fd(), Ordering::Relaxed);
    // SAFETY: a valid context; the new one is kept for ever.
    let own = unsafe { need(raw::RedisModule_GetDetachedThreadSafeContext)(ctx.as_ptr()) };
    CTX.store(own, Ordering::Relaxed);
    Ok(())
}

fn own(fd: c_int) -> Option<OwnedFd> {
    // SAFETY: a descriptor that was just opened, if it is one.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

type OnReadable = unsafe extern "C" fn(c_int, *mut c_void, c_int);

/// Has the event loop tell when a descriptor is readable; whether it will.
fn watch(fd: &OwnedFd, handler: OnReadable) -> bool {
    // SAFETY: an open descriptor; a handler that stays loaded and does not use its
    // user data.
    ok(unsafe {
        need(raw::RedisModule_EventLoopAdd)(
            fd.as_raw_fd(),
            raw::REDISMODULE_EVENTLOOP_READABLE as c_int,
            Some(handler),
            ptr::null_mut(),
        )
    })
}

/// Asks for a turn at `at_ms` of the monotonic clock ([`super::mono_ms`]) or
/// earlier. An alarm that is set for an earlier time stays: it causes a turn
/// that finds nothing to do and sets the next one, which is cheaper than a
/// system call for each change of plan.
pub fn arm(main: MainThread, at_ms: u64) {
    if at_ms >= ARMED.load(Ordering::Relaxed) {
        return;
    }
    set_alarm(main, at_ms);
}

/// Takes the alarm back.
pub fn disarm(main: MainThread) {
    if ARMED.load(Ordering::Relaxed) != u64::MAX {
        set_alarm(main, u64::MAX);
    }
}

/// Asks for a turn as soon as the running command or callback is over; from
/// within a turn: for another one in the next round of the event loop.
pub fn poke(_main: MainThread) {
    if IN_TURN.load(Ordering::Relaxed) {
        AGAIN.store(true, Ordering::Relaxed);
        return;
    }
    let ctx = CTX.load(Ordering::Relaxed);
    if ctx.is_null() || PENDING.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the module's own context, on the main thread (the token); the
    // callback stays loaded and does not use its data.
    unsafe { need(raw::RedisModule_CreateTimer)(ctx, 0, Some(on_turn), ptr::null_mut()) };
}

/// A handle with which any thread can ask for a turn.
pub fn waker() -> Waker {
    Waker(())
}

/// Asks for a turn from another thread.
#[derive(Clone)]
pub struct Waker(());

impl Waker {
    /// Rings. What the caller published before (a message in a queue) is
    /// visible to the turn that follows. One system call at most per turn.
    pub fn wake(&self) {
        if RUNG.swap(true, Ordering::AcqRel) {
            return;
        }
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes, as an eventfd wants them. The write
        // only fails when the counter is full, and then it rings anyhow; on a
        // descriptor of -1 it does nothing.
        unsafe { libc::write(EVENT_FD.load(Ordering::Relaxed), one.as_ptr().cast(), 8) };
    }
}

fn set_alarm(_main: MainThread, at_ms: u64) {
    let fd = TIMER_FD.load(Ordering::Relaxed);
    if fd < 0 {
        return;
    }
    ARMED.store(at_ms, Ordering::Relaxed);
    // A zero time disarms; a time in the past rings at once.
    let (seconds, nanoseconds) = match at_ms {
        u64::MAX => (0, 0),
        0 => (0, 1),
        ms => (
            i64::try_from(ms / 1000).unwrap_or(i64::MAX),
            (ms % 1000) * 1_000_000,
        ),
    };
    let time = libc::itimerspec {
        it_interval: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: libc::timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds as i64,
        },
    };
    // SAFETY: an open timerfd and a valid time; the old time is not wanted.
    unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &time, ptr::null_mut()) };
}

/// Reads the eight bytes of a timerfd or eventfd, so that it falls silent.
fn drain(fd: c_int) {
    let mut count = [0u8; 8];
    // SAFETY: eight writable bytes; the descriptors do not block.
    unsafe { libc::read(fd, count.as_mut_ptr().cast(), 8) };
}

unsafe extern "C" fn on_alarm(fd: c_int, _data: *mut c_void, _mask: c_int) {
    guard(
        ptr::null_mut(),
        || "the alarm".into(),
        (),
        || {
            drain(fd);
            ARMED.store(u64::MAX, Ordering::Relaxed);
            // Event loop handlers run on the main thread.
            poke(MainThread::token());
        },
    );
}

unsafe extern "C" fn on_wake(fd: c_int, _data: *mut c_void, _mask: c_int) {
    guard(
        ptr::null_mut(),
        || "the waker".into(),
        (),
        || {
            drain(fd);
            // Before the turn looks at any queue: whoever comes later rings again.
            RUNG.swap(false, Ordering::AcqRel);
            poke(MainThread::token());
        },
    );
}

unsafe extern "C" fn on_turn(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    PENDING.store(false, Ordering::Relaxed);
    IN_TURN.store(true, Ordering::Relaxed);
    guard(
        ctx,
        || "a timer turn".into(),
        (),
        || {
            // SAFETY: the context of a timer, valid during this call.
            if let (Some(work), Some(turn)) = (WORK.get(), unsafe { Turn::new(ctx, Origin::Timer) })
            {
                work(&turn);
            }
        },
    );
    IN_TURN.store(false, Ordering::Relaxed);
    if AGAIN.swap(false, Ordering::Relaxed) {
        // Timers run on the main thread.
        set_alarm(MainThread::token(), 0);
    }
}

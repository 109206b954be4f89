//! Ports of 127.0.0.1 that no other test holds.
//!
//! A lock file per port, held as long as the reservation lives, keeps tests of
//! this and of other processes apart, also while a server is down between a
//! `kill9` and a `restart`. Programs that know nothing of the locks are met by a
//! bind probe here, and by a retry where the server itself finds the port taken.
//! The range ends below Linux' ephemeral ports, so that no outgoing connection
//! is given one of them.

use std::fs::File;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::fs::{flock, FlockOperation};

const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

/// Reserves the next free port.
pub(crate) fn reserve() -> Port {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes start at different places, so that they seldom meet.
    let base = (std::process::id() % 97) as u16 * 101;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let number = FIRST + base.wrapping_add(step) % COUNT;
        let lock = crate::lock::open_lock(&format!("port-{number}"));
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if TcpListener::bind(("127.0.0.1", number)).is_ok() {
            return Port {
                number,
                _lock: lock,
            };
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

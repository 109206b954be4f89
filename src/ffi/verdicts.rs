//! Remembering that a client may touch a queue.
//!
//! Asking the server costs some 140 ns for each name (it copies the user's
//! name, looks the user up and makes and frees objects), which is felt where
//! one client sends many commands at once. The answer cannot change while
//! nothing but this module's own commands run, so it is remembered that long
//! and no longer:
//!
//! - a command filter counts every command that the server takes up; when
//!   another one than the module's own is among them (AUTH, ACL SETUSER, EXEC,
//!   EVAL, another module's, whatever it is), all answers are forgotten at the
//!   next command of the module;
//! - they are forgotten after each sleep of the event loop, so what runs
//!   outside of commands (other modules' threads and timers, clients that go on
//!   after a wait), during the sleep and before it, is covered, too. With a
//!   server that does not tell about its sleep nothing is remembered at all;
//! - commands inside transactions and scripts and those called by modules pass
//!   no filter or another one before them: they find nothing and, being
//!   without a connection or in a transaction, leave nothing.
//!
//! Only permissions are remembered, per client, kind of access and full name.
//! The filter costs every command of the server some nanoseconds.

use super::acl::Access;
use super::api::need;
use super::context::{Ctx, Level};
use super::main_cell::{MainCell, MainThread};
use redis_module::raw;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Commands that the server has taken up. Only touched on the main thread,
/// like all of this; atomics are a safe way to have statics, at no cost.
static SEEN: AtomicU64 = AtomicU64::new(0);
/// What `SEEN` was at the module's last command.
static AT_LAST: AtomicU64 = AtomicU64::new(0);
/// Entries of an earlier age are forgotten.
static AGE: AtomicU64 = AtomicU64::new(1);
/// Whether the filter counts.
static COUNTING: AtomicBool = AtomicBool::new(false);
/// Whether the event loop's sleep is told.
static ROUNDS_TOLD: AtomicBool = AtomicBool::new(false);

static ENTRIES: MainCell<[Entry; SLOTS]> = MainCell::new([Entry::EMPTY; SLOTS]);

const SLOTS: usize = 64;
const LONGEST: usize = 46;

#[derive(Clone, Copy)]
struct Entry {
    age: u64,
    client: u64,
    access: Access,
    len: u8,
    name: [u8; LONGEST],
}

impl Entry {
    const EMPTY: Entry = Entry {
        age: 0,
        client: 0,
        access: Access::Read,
        len: 0,
        name: [0; LONGEST],
    };
}

/// Starts counting commands. Called once, at load; without it the server is
/// asked each time.
pub fn remember_verdicts(ctx: &Ctx) {
    // SAFETY: a valid context during load; the callback stays loaded.
    let filter =
        unsafe { need(raw::RedisModule_RegisterCommandFilter)(ctx.as_ptr(), Some(on_command), 0) };
    if filter.is_null() {
        ctx.log(Level::Notice, "the server takes no command filter");
    }
    COUNTING.store(!filter.is_null(), Ordering::Relaxed);
}

/// Counts. Too small to panic, so it needs no guard.
unsafe extern "C" fn on_command(_filter: *mut raw::RedisModuleCommandFilterCtx) {
    SEEN.store(SEEN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// A command of the module begins.
#[inline]
pub(super) fn command_begins() {
    let seen = SEEN.load(Ordering::Relaxed);
    if AT_LAST.swap(seen, Ordering::Relaxed) + 1 != seen {
        forget();
    }
}

/// Forgets all: other things than the module's commands may have run. Called after
/// each sleep of the event loop, too.
pub(super) fn forget() {
    AGE.store(AGE.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// The server will tell when its event loop sleeps.
pub(super) fn rounds_are_told() {
    ROUNDS_TOLD.store(true, Ordering::Relaxed);
}

#[inline]
fn usable() -> bool {
    COUNTING.load(Ordering::Relaxed) && ROUNDS_TOLD.load(Ordering::Relaxed)
}

#[inline]
fn slot(client: u64, name: &[u8]) -> usize {
    let last = name.last().copied().unwrap_or(0);
    let mixed = client
        .wrapping_mul(31)
        .wrapping_add(u64::from(last))
        .wrapping_add((name.len() as u64) << 3);
    mixed as usize % SLOTS
}

/// Whether the client was found to be allowed this.
#[inline]
pub(super) fn allowed(main: MainThread, client: u64, access: Access, name: &[u8]) -> bool {
    if !usable() {
        return false;
    }
    let found = ENTRIES.with(main, |entries| {
        let entry = &entries[slot(client, name)];
        entry.age == AGE.load(Ordering::Relaxed)
            && entry.client == client
            && entry.access == access
            && entry.name.get(..usize::from(entry.len)) == Some(name)
    });
    found.unwrap_or(false)
}

/// Remembers that the client is allowed this. Only for a connection that runs
/// a command of its own, outside of transactions and scripts.
pub(super) fn remember(main: MainThread, client: u64, access: Access, name: &[u8]) {
    if !usable() || name.len() > LONGEST {
        return;
    }
    let mut entry = Entry {
        age: AGE.load(Ordering::Relaxed),
        client,
        access,
        len: name.len() as u8,
        name: [0; LONGEST],
    };
    entry.name[..name.len()].copy_from_slice(name);
    // An entry that could not be noted is asked for again.
    let _ = ENTRIES.with(main, |entries| entries[slot(client, name)] = entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because the statics are shared.
    #[test]
    fn remembers_while_only_own_commands_run() {
        let main = MainThread::token();
        let filter = || {
            // SAFETY: the filter does not look at its argument.
            unsafe { on_command(std::ptr::null_mut()) };
        };
        let own = || {
            filter();
            command_begins();
        };
        let name = b"mail:1";
        let known = |client, name: &[u8]| allowed(main, client, Access::Write, name);

        own();
        remember(main, 7, Access::Write, name);
        assert!(!known(7, name), "off until both sources are there");
        COUNTING.store(true, Ordering::Relaxed);
        rounds_are_told();
        remember(main, 7, Access::Write, name);
        assert!(known(7, name));
        assert!(!known(8, name));
        assert!(!known(7, b"mail:2"));
        assert!(!known(7, b"mail:11"));
        assert!(!allowed(main, 7, Access::Read, name));

        own();
        assert!(known(7, name), "own commands keep it");
        filter();
        own();
        assert!(!known(7, name), "a foreign command ends it");

        remember(main, 7, Access::Write, name);
        command_begins();
        assert!(!known(7, name), "a command without a filter ends it");

        own();
        remember(main, 7, Access::Write, name);
        forget();
        assert!(!known(7, name), "a sleep ends it");

        let long = [b'x'; LONGEST + 1];
        remember(main, 7, Access::Write, &long);
        assert!(!known(7, &long));
        remember(main, 7, Access::Write, &long[1..]);
        assert!(known(7, &long[1..]));
        remember(main, 7, Access::Write, b"");
        assert!(known(7, b""));
    }
}

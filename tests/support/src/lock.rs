//! Sharing the machine between tests that run at the same time.
//!
//! A test that measures latency or processor time is worth something only while
//! the other tests do not compete with it. File locks serve threads of one
//! process and separate test processes alike.

use std::fs::{self, File};
use std::path::PathBuf;

use rustix::fs::{flock, FlockOperation};

/// Held while a test uses the machine; see [`shared_machine`], [`quiet_machine`].
pub struct MachineShare {
    _file: File,
}

/// A directory for locks that all test processes of this user share.
pub(crate) fn lock_dir() -> PathBuf {
    let dir = std::env::temp_dir().join(format!(
        "disque-test-locks-{}",
        rustix::process::getuid().as_raw()
    ));
    fs::create_dir_all(&dir).expect("cannot create the lock directory");
    dir
}

pub(crate) fn open_lock(name: &str) -> File {
    let path = lock_dir().join(name);
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .unwrap_or_else(|e| panic!("cannot open {}: {e}", path.display()))
}

/// Takes part with others. Every [`crate::Server`] holds one unless its test
/// holds the machine alone.
pub fn shared_machine() -> MachineShare {
    take(FlockOperation::LockShared)
}

/// Waits until no other test has a server, and keeps it so. Take it first in a
/// test, and start its servers with [`crate::Options::alone`].
pub fn quiet_machine() -> MachineShare {
    take(FlockOperation::LockExclusive)
}

fn take(kind: FlockOperation) -> MachineShare {
    let file = open_lock("machine");
    flock(&file, kind).expect("flock");
    MachineShare { _file: file }
}

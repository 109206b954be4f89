//! How a server's process fares on the machine.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

use super::Server;

/// The process of a server, whichever that is, for another thread.
#[derive(Clone, Default)]
pub struct Pulse(Arc<AtomicU32>);

impl Pulse {
    pub(super) fn set(&self, pid: u32) {
        self.0.store(pid, Ordering::Relaxed);
    }

    /// The process; none while the server is down.
    pub fn pid(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }
}

/// How long the threads of a process were ready to run and had no processor, each so
/// far; empty where the system does not tell.
pub fn waits_for_processor(pid: u32) -> Vec<(u32, Duration)> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let read = |path: std::path::PathBuf| {
        let thread = path.file_name()?.to_str()?.parse().ok()?;
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        let waited = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some((thread, Duration::from_nanos(waited)))
    };
    threads
        .filter_map(|entry| read(entry.ok()?.path()))
        .collect()
}

impl Server {
    /// Its process, for another thread.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }
}

//! What the system says of a server's process.

use std::fs;
use std::time::Duration;

use crate::Server;

/// What Linux counts processor time in, on every platform that it runs on.
const TICKS_PER_SECOND: f64 = 100.0;

impl Server {
    /// Processor time used so far, user and system.
    pub fn cpu_time(&self) -> Duration {
        let stat = self.read_proc("stat");
        // The name, in parentheses, may hold blanks.
        let fields = stat.rsplit(')').next().expect("no fields");
        let ticks: u64 = fields
            .split_ascii_whitespace()
            .skip(11)
            .take(2)
            .map(|n| n.parse::<u64>().expect("no number in /proc"))
            .sum();
        Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND)
    }

    /// How often the process gave up the processor to wait: for an event loop, how
    /// often it was woken.
    pub fn wakeups(&self) -> u64 {
        self.status("voluntary_ctxt_switches")
    }

    pub fn threads(&self) -> u64 {
        self.status("Threads")
    }

    /// Bytes of memory that the process has in use, by the system's count.
    pub fn resident_bytes(&self) -> u64 {
        self.status("VmRSS") * 1024
    }

    /// Open file descriptors.
    pub fn open_files(&self) -> u64 {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid()));
        entries.expect("no /proc").count() as u64
    }

    /// A number in the status of the process, without its unit.
    fn status(&self, name: &str) -> u64 {
        let status = self.read_proc("status");
        let value = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = value.and_then(|value| value.split_ascii_whitespace().next());
        let number = number.and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("no number {name} in /proc"))
    }

    fn read_proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.pid())).expect("no /proc")
    }
}

//! Fault runs: real servers under load, to which everything happens that can, and
//! whose clients' history is judged by the checker of the simulation.
//!
//!     make faults SECONDS=60 SEED=7
//!
//! A run starts servers and clients, does one thing after the other to them as its
//! seed says, heals all, has all jobs consumed, and judges. The seed decides what is
//! done and in which order, not what the threads and the network make of it: a run
//! cannot be replayed, but a history can be judged again.
#![forbid(unsafe_code)]

mod clients;
mod drain;
mod gate;
mod history;
mod injectors;
mod modes;
mod nodes;
mod run;
mod summary;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use summary::Table;

/// How long things happen where nothing is said.
const SECONDS: u64 = 60;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.trim().parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number: {text:?}")))
}

fn main() {
    let seconds = number("SECONDS").unwrap_or(SECONDS);
    let seed = number("SEED").unwrap_or_else(|| {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        time.map_or(1, |time| time.as_millis() as u64)
    });
    println!("{seconds} s of faults from SEED={seed}");
    println!("skipped: network namespaces; links are cut and slowed by a proxy before each node");
    let start = Instant::now();
    let mut table = Table::default();
    let mut next = seed;
    while start.elapsed() < Duration::from_secs(seconds) {
        let left = Duration::from_secs(seconds).saturating_sub(start.elapsed());
        let (outcome, wrong) = run::run(next, left.min(run::LONGEST));
        println!("seed {next}: {}", outcome.line());
        table.add(outcome);
        if let Some(wrong) = wrong {
            println!("{wrong}\n{table}");
            println!("again: make faults SECONDS={seconds} SEED={next}");
            std::process::exit(1);
        }
        next = next.wrapping_add(1);
    }
    println!("{table}");
}

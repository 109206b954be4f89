//! Fault runs: real servers under load, to which everything happens that can, and
//! whose clients' history is judged by the checker of the simulation.
//!
//!     make faults SECONDS=60 SEED=7
//!     make faults ONLY=FlipBit,Leave
//!
//! A run starts servers and clients, does one thing after the other to them as its
//! seed says, heals all, has all jobs consumed, and judges. The seed decides what is
//! done and in which order, not what the threads and the network make of it: a run
//! cannot be replayed, but a history can be judged again.
#![forbid(unsafe_code)]

mod clients;
mod drain;
mod history;
mod injectors;
mod keep;
mod modes;
mod net;
mod nodes;
mod run;
mod summary;
mod surroundings;
mod watch;

use injectors::{acts_named, ACTS};
use run::Wishes;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use summary::Table;
use surroundings::Surroundings;

/// How long things happen where nothing is said.
const SECONDS: u64 = 60;
/// How long things happen in one run at most; then the servers begin anew.
const LONGEST: Duration = Duration::from_secs(40);
/// The longest time that a process stands still is this part of all the time, and this
/// at most.
const PART_PAUSED: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

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
    let acts = std::env::var("ONLY").map_or_else(|_| ACTS.to_vec(), |only| acts_named(&only));
    let surroundings = Surroundings::explore();
    println!("{seconds} s of faults from SEED={seed}");
    let all = Duration::from_secs(seconds);
    let start = Instant::now();
    let mut table = Table::default();
    let mut next = seed;
    while start.elapsed() < all {
        let wishes = Wishes {
            acts: acts.clone(),
            faults: all.saturating_sub(start.elapsed()).min(LONGEST),
            longest_pause: (all / PART_PAUSED).min(LONGEST_PAUSE),
        };
        let (outcome, wrong) = run::run(next, &wishes, &surroundings);
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

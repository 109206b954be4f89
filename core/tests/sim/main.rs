//! The simulation: nodes, disks, clocks, links and clients in one thread under
//! virtual time, every choice from one seed. After each event the node's inside
//! is checked, and what clients saw is checked against the promises. In the end
//! everything heals, and the nodes must be one cluster, and quiet.
//!
//!     make sim                2,000 seeds from a random start
//!     make sim SEEDS=20000    that many
//!     make sim SEED=123       one seed again
//!     make sim SEED=123 SEEDS=10    that one and the nine after it
//!
//! By hand: `DISQUE_SIM_SEED=123 cargo test --release -p disque-core --test sim
//! -- --nocapture seeds`; `DISQUE_SIM_LINES=1000` shows more of what came before a
//! failure, `DISQUE_SIM_MESSAGES=1` with it what nodes told each other, and
//! `DISQUE_SIM_HISTORY=file` writes down what clients of a replicated world saw.
//!
//! A world is of one of two kinds. In most, each job stays at its node, and each
//! node is judged alone, strictly. In a *replicated* one jobs have copies, clients
//! go to any node, and the checker of clusters judges what they saw as a whole.
//! `DISQUE_SIM_REPLICATED=1000` makes all clusters so, `DISQUE_SIM_NODES=5` makes them of
//! five, and `DISQUE_SIM_SEVERITY=0` to `4` says what befalls them: see `profile.rs`.

mod client;
mod disk;
mod drain;
mod ending;
mod fault;
mod ghost;
mod guard;
mod ledger;
mod links;
#[cfg(mutants)]
mod mutants;
mod net;
mod operator;
mod oracle;
mod profile;
mod random;
mod reach;
mod site;
mod trace;
mod workers;
mod world;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use world::World;

/// How many seeds, where nothing is said.
const DEFAULT_SEEDS: u64 = 2_000;

/// Runs one seed; the digest of all that happened, or a report.
fn run(seed: u64) -> Result<u64, String> {
    let mut world = World::new(seed);
    let Err(wrong) = run_world(&mut world) else {
        return Ok(world.digest());
    };
    let events: Vec<&str> = world.trace.recent().collect();
    Err(format!(
        "{}\n\nseed {seed}: {wrong}\nreplay: make sim SEED={seed}",
        events.join("\n")
    ))
}

/// Runs a world to its end; what did not hold, a panic too.
fn run_world(world: &mut World) -> Result<(), String> {
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    result.unwrap_or_else(|panic| {
        Err(match panic.downcast_ref::<String>() {
            Some(text) => format!("panic: {text}"),
            None => format!("panic: {:?}", panic.downcast_ref::<&str>()),
        })
    })
}

/// A number from the environment, under either name.
fn number(names: [&str; 2]) -> Option<u64> {
    let value = names.iter().find_map(|name| std::env::var(name).ok())?;
    match value.trim().parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{} must be a number: {value:?}", names[0]),
    }
}

/// The first of many seeds. `DISQUE_SIM_START=random` draws it from the clock.
fn first_seed() -> u64 {
    match std::env::var("DISQUE_SIM_START").as_deref() {
        Ok("random") => {
            let time = SystemTime::now().duration_since(UNIX_EPOCH);
            time.map_or(1, |time| random::scatter(time.as_nanos() as u64))
        }
        Ok(start) => start.parse().expect("DISQUE_SIM_START: a number or random"),
        Err(_) => 1,
    }
}

#[test]
fn every_seed_keeps_every_promise() {
    let named = number(["DISQUE_SIM_SEED", "SEED"]);
    let seeds = number(["DISQUE_SIM_SEEDS", "SEEDS"]);
    let (first, seeds) = match (named, seeds) {
        (Some(first), seeds) => (first, seeds.unwrap_or(1)),
        (None, seeds) => (first_seed(), seeds.unwrap_or(DEFAULT_SEEDS)),
    };
    if seeds == 1 {
        match run(first) {
            Ok(digest) => println!("seed {first} digest {digest:016x}"),
            Err(report) => panic!("{report}"),
        }
        return;
    }
    println!("{seeds} seeds from {first}");
    let start = Instant::now();
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || {
        let mut digest = 0u64;
        while !failed.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= seeds {
                break;
            }
            let seed = first.wrapping_add(number);
            match run(seed) {
                Ok(one) => digest ^= one.rotate_left((seed % 64) as u32),
                Err(report) => {
                    failed.store(true, Ordering::Relaxed);
                    return Err(report);
                }
            }
        }
        Ok(digest)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<Result<u64, String>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|joined| joined.expect("a worker panicked"))
            .collect()
    });
    let mut digest = 0;
    for result in results {
        match result {
            Ok(part) => digest ^= part,
            Err(report) => panic!("{report}"),
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds ok in {seconds:.1} s ({:.0} per second), digest {digest:016x}",
        seeds as f64 / seconds
    );
}

#[test]
fn one_seed_makes_one_history() {
    for seed in (1..20).chain([u64::MAX]) {
        let (first, second) = (run(seed), run(seed));
        assert!(first.is_ok(), "{first:?}");
        assert_eq!(first, second, "seed {seed}");
    }
}

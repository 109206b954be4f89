//! Whether the simulation sees anything at all: nodes that break one rule each must
//! be found out. See `core/src/mutants.rs`; built and run by `make mutants`.

use crate::run_world;
use crate::world::World;
use disque_core::mutants::Mutant;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many seeds may pass before one shows that a rule is broken.
const SEEDS: u64 = 200;
/// Where they begin.
const FIRST_SEED: u64 = 1_001;

/// The first seed that finds a mutant out, and what it saw. One in which sound nodes
/// fail as well would show nothing.
fn first_caught(mutant: Mutant) -> Option<(u64, String)> {
    (FIRST_SEED..FIRST_SEED + SEEDS).find_map(|seed| {
        let mut world = World::new(seed);
        world.breed(mutant);
        let wrong = run_world(&mut world).err()?;
        let sound = run_world(&mut World::new(seed));
        assert!(
            sound.is_ok(),
            "seed {seed} fails without a mutant: {sound:?}"
        );
        Some((seed, wrong))
    })
}

#[test]
fn every_mutant_is_caught() {
    let named = std::env::var("MUTANT").unwrap_or_default();
    let chosen = Mutant::ALL.iter().copied();
    let chosen: Vec<Mutant> = chosen
        .filter(|mutant| named.is_empty() || named == format!("{mutant:?}"))
        .collect();
    assert!(!chosen.is_empty(), "there is no mutant {named}");
    // A mutant may trip over an assertion: that is one way to be caught.
    std::panic::set_hook(Box::new(|_| {}));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut escaped = Vec::new();
        while let Some(&mutant) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            match first_caught(mutant) {
                Some((seed, wrong)) => {
                    let wrong: String = wrong.chars().take(60).collect();
                    println!(
                        "caught {mutant:?} seed {seed} ({})",
                        wrong.replace('\n', " ")
                    );
                }
                None => escaped.push(mutant),
            }
        }
        escaped
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let escaped: Vec<Mutant> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|escaped| escaped.expect("a worker panicked"))
            .collect()
    });
    let _ = std::panic::take_hook();
    assert!(
        escaped.is_empty(),
        "not caught by {SEEDS} seeds: {escaped:?}"
    );
    println!("{} mutants caught", chosen.len());
}

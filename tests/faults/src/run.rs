//! One run, from its seed.

use crate::clients::{produce, Consumer, World};
use crate::drain;
use crate::history::History;
use crate::injectors::{Act, Injector};
use crate::modes::modes;
use crate::nodes::{Nodes, NODE_TIMEOUT_MS};
use crate::summary::Outcome;
use disque_checker::{check, Event, Limits, Op, Phase, Report};
use disque_testing::Persistence;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long things happen in one run at most; then the servers begin anew.
pub const LONGEST: Duration = Duration::from_secs(40);
const PRODUCERS: u64 = 4;
const CONSUMERS: u64 = 12;

/// Runs one seed. What happened, and what was wrong with it.
pub fn run(seed: u64, time: Duration) -> (Outcome, Option<String>) {
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    let shared = outcome.clone();
    // On a thread of its own: one that panics keeps what its servers have written.
    let thread = thread::Builder::new().name(format!("faults-{seed}"));
    let running = thread.spawn(move || Run::new(seed).go(time, &shared));
    let ended = running.expect("cannot start a thread").join();
    let wrong = ended
        .err()
        .map(|panic| match panic.downcast_ref::<String>() {
            Some(text) => text.clone(),
            None => format!("{:?}", panic.downcast_ref::<&str>()),
        });
    let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
    (outcome.clone(), wrong)
}

struct Run {
    nodes: Nodes,
    world: World,
    random: ChaCha8Rng,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let count = [3, 3, 5][random.random_range(0..3)];
        let persistence = [
            Persistence::AofAlways,
            Persistence::AofAlways,
            Persistence::Aof,
            Persistence::None,
        ][random.random_range(0..4)];
        let nodes = Nodes::start(count, persistence);
        let world = World {
            history: History::new(),
            doors: nodes.doors(),
            modes: modes(),
            seed,
            closing: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            over: AtomicBool::new(false),
        };
        Run {
            nodes,
            world,
            random,
        }
    }

    /// All of it. Panics if something is wrong, so that the servers' files stay.
    fn go(mut self, time: Duration, outcome: &Mutex<Outcome>) {
        drain::note_left(&self.nodes, &self.world);
        let mut acts = Vec::new();
        let wrong = thread::scope(|scope| {
            let world = &self.world;
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|number| scope.spawn(move || produce(world, number)))
                .collect();
            for number in 0..CONSUMERS {
                scope.spawn(move || Consumer::new(world, PRODUCERS + number).consume());
            }
            let (nodes, random) = (&mut self.nodes, &mut self.random);
            let end = Instant::now() + time;
            let wrong = happen(nodes, world, random, end, &mut acts).and_then(|()| {
                nodes.between.clear();
                nodes.wait_connected();
                world
                    .history
                    .note(Event::new(world.history.now(), 0, Phase::Info, Op::Heal));
                world.closing.store(true, Ordering::Relaxed);
                producers
                    .into_iter()
                    .for_each(|one| one.join().expect("a producer"));
                world.draining.store(true, Ordering::Relaxed);
                drain::drain(nodes, world)
            });
            world.closing.store(true, Ordering::Relaxed);
            world.over.store(true, Ordering::Relaxed);
            wrong
        });
        if wrong.is_ok() {
            drain::look_at_what_is_left(&self.nodes, &self.world);
        }
        let report = check(&self.world.history.events(), &limits());
        let mut kept = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Outcome::new(&report, acts, self.nodes.len(), self.nodes.persistence);
        drop(kept);
        if let Some(text) = self.failure(wrong.err(), &report) {
            panic!("{text}");
        }
    }

    /// What was wrong, with where the history is.
    fn failure(&self, wrong: Option<String>, report: &Report) -> Option<String> {
        let violations: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        if wrong.is_none() && violations.is_empty() {
            return None;
        }
        let name = format!("disque-faults-{}.jsonl", self.world.seed);
        let path: PathBuf = std::env::temp_dir().join(name);
        let lines = self.world.history.events();
        let text: String = lines.iter().map(|line| line.to_line() + "\n").collect();
        std::fs::write(&path, text).expect("cannot write the history");
        let directories = self.nodes.servers.iter().map(|server| server.directory());
        let directories: Vec<_> = directories.map(|path| path.display().to_string()).collect();
        Some(format!(
            "{}\n{}\nhistory: {}\nservers: {}",
            wrong.unwrap_or_default(),
            violations.join("\n"),
            path.display(),
            directories.join(" ")
        ))
    }
}

/// One thing after the other, until the time is over.
fn happen(
    nodes: &mut Nodes,
    world: &World,
    random: &mut ChaCha8Rng,
    end: Instant,
    acts: &mut Vec<Act>,
) -> Result<(), String> {
    while Instant::now() < end {
        let pause = random.random_range(200..2_000);
        thread::sleep(Duration::from_millis(pause));
        let mut injector = Injector {
            nodes,
            history: &world.history,
            random,
        };
        let act = injector.any();
        injector
            .inject(act)
            .map_err(|why| format!("{act:?}: {why}"))?;
        acts.push(act);
        // Now and then all has the time to become well again.
        if random.random_range(0..100) < 30 {
            nodes.wait_connected();
        }
    }
    Ok(())
}

/// What is promised, on a machine that is busy with more than one run.
fn limits() -> Limits {
    Limits {
        slack: 300,
        spread: 1_500,
        settle: 10_000 + 3 * NODE_TIMEOUT_MS,
        stuck: 2_000,
        stuck_after_fault: 4_000,
        ..Limits::default()
    }
}

//! One run, from its seed.

use crate::clients::{produce, Consumer, World};
use crate::drain;
use crate::history::History;
use crate::injectors::{Act, Injector};
use crate::keep::keep;
use crate::modes::modes;
use crate::nodes::{Nodes, Plan, NODE_TIMEOUT_MS};
use crate::summary::Outcome;
use crate::surroundings::{Surroundings, MOST_NODES};
use crate::watch::watch;
use disque_checker::{check, Event, Limits, Op, Phase};
use disque_testing::Persistence;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PRODUCERS: u64 = 4;
const CONSUMERS: u64 = 12;

/// The consequences of a fault may show for so long.
const SETTLE_MS: u64 = 10_000 + 3 * NODE_TIMEOUT_MS;
/// Long enough that what is promised where nothing is wrong must hold for a while.
const CALM: Duration = Duration::from_millis(SETTLE_MS + 5_000);

/// What may happen in a run, and for how long.
#[derive(Clone, Debug)]
pub struct Wishes {
    pub acts: Vec<Act>,
    /// How long things happen.
    pub faults: Duration,
    /// How long a process stands still at most.
    pub longest_pause: Duration,
}

/// Runs one seed. What happened, and what was wrong with it.
pub fn run(seed: u64, wishes: &Wishes, surroundings: &Surroundings) -> (Outcome, Option<String>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let plan = plan(&mut random, surroundings);
    let mut nodes = Nodes::start(plan, surroundings);
    let world = World {
        history: History::new(),
        doors: nodes.doors(),
        modes: modes(),
        seed,
        closing: AtomicBool::new(false),
        draining: AtomicBool::new(false),
        over: AtomicBool::new(false),
    };
    let mut acts = Vec::new();
    drain::note_left(&nodes, &world);
    let mut lived = Ok(Duration::ZERO);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        lived = live(&mut nodes, &world, &mut random, wishes, &mut acts);
        match lived.is_ok() {
            true => drain::look_at_what_is_left(&nodes, &world),
            false => Ok(()),
        }
    }));
    let ended = ended.unwrap_or_else(|panic| Err(what(&*panic)));
    let report = check(&world.history.events(), &limits());
    let still = lived.as_ref().copied().unwrap_or_default();
    let outcome = Outcome::new(&report, acts, plan, still);
    let wrong = ended.and(lived.map(drop)).err();
    let wrong = wrong.into_iter().chain(nodes.misbehaviour());
    let broken = report.violations.iter().map(ToString::to_string);
    let wrong: Vec<String> = wrong.chain(broken).collect();
    if wrong.is_empty() {
        return (outcome, None);
    }
    let kept = match keep(seed, &world.history, &mut nodes) {
        Ok(folder) => format!("kept: {}", folder.display()),
        Err(error) => format!("cannot keep what there is: {error}"),
    };
    (outcome, Some(format!("{}\n{kept}", wrong.join("\n"))))
}

/// What nodes there are.
fn plan(random: &mut ChaCha8Rng, surroundings: &Surroundings) -> Plan {
    let count = [3, 3, MOST_NODES][random.random_range(0..3)];
    let persistence = [
        Persistence::AofAlways,
        Persistence::AofAlways,
        Persistence::Aof,
        Persistence::None,
    ][random.random_range(0..4)];
    let (apart, clocks) = (random.random_bool(0.5), random.random_bool(0.3));
    Plan {
        count,
        persistence,
        apart: apart && !surroundings.places.is_empty(),
        clocks: clocks && surroundings.clocks,
        disks: persistence != Persistence::None && surroundings.disks,
    }
}

/// All of it, from the first client to the last. How long nodes were kept from
/// running.
fn live(
    nodes: &mut Nodes,
    world: &World,
    random: &mut ChaCha8Rng,
    wishes: &Wishes,
    acts: &mut Vec<Act>,
) -> Result<Duration, String> {
    let pulses: Vec<_> = nodes.servers.iter().map(|server| server.pulse()).collect();
    thread::scope(|scope| {
        // Whatever ends it, the clients go home.
        let home = GoHome(world);
        let watching = scope.spawn(move || watch(&world.history, &pulses, &world.over));
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|number| scope.spawn(move || produce(world, number)))
            .collect();
        for number in 0..CONSUMERS {
            scope.spawn(move || Consumer::new(world, PRODUCERS + number).consume());
        }
        happen(nodes, world, random, wishes, acts)?;
        heal(nodes, world)?;
        world.closing.store(true, Ordering::Relaxed);
        for producer in producers {
            producer.join().map_err(|panic| what(&*panic))?;
        }
        world.draining.store(true, Ordering::Relaxed);
        drain::drain(nodes, world)?;
        drop(home);
        watching.join().map_err(|panic| what(&*panic))
    })
}

struct GoHome<'a>(&'a World);

impl Drop for GoHome<'_> {
    fn drop(&mut self) {
        self.0.closing.store(true, Ordering::Relaxed);
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// One thing after the other, until the time is over.
fn happen(
    nodes: &mut Nodes,
    world: &World,
    random: &mut ChaCha8Rng,
    wishes: &Wishes,
    acts: &mut Vec<Act>,
) -> Result<(), String> {
    let end = Instant::now() + wishes.faults;
    while Instant::now() < end {
        let pause = random.random_range(200..2_000);
        thread::sleep(Duration::from_millis(pause));
        let mut injector = Injector {
            nodes,
            history: &world.history,
            random,
            longest_pause: wishes.longest_pause,
        };
        let Some(act) = injector.any(&wishes.acts) else {
            continue;
        };
        acts.push(act);
        injector
            .inject(act)
            .map_err(|why| format!("{act:?}: {why}"))?;
        // Now and then all has the time to become well again, and seldom to be so.
        let calm = random.random_range(0..100);
        if calm < 30 {
            nodes.wait_connected()?;
        }
        if calm < 5 {
            thread::sleep(CALM);
        }
    }
    Ok(())
}

/// All nodes reach each other from here on.
fn heal(nodes: &mut Nodes, world: &World) -> Result<(), String> {
    nodes.net.heal()?;
    nodes.wait_connected()?;
    let now = world.history.now();
    world
        .history
        .note(Event::new(now, 0, Phase::Info, Op::Heal));
    Ok(())
}

/// What a panic says.
fn what(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    text.unwrap_or_else(|| "a panic without words".into())
}

/// What is promised, on a machine that is busy with more than one run.
fn limits() -> Limits {
    Limits {
        slack: 500,
        spread: 1_500,
        settle: SETTLE_MS,
        stuck: 2_000,
        stuck_after_fault: 4_000,
        ..Limits::default()
    }
}

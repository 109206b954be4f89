//! Soak: three real servers under steady load for an hour, with rewrites of their append
//! only files, fresh queues and fresh connections all the time. What the load leaves
//! behind is the same after each cycle, so whatever grows is a leak.
//!
//!     make soak                    an hour
//!     make soak SECONDS=600        ten minutes
//!
//! Prints a row of figures for each cycle, then for each figure the line through its
//! samples, and fails if one rises by more than 1 % of its mean in an hour. A short run
//! tells little, since its scatter counts as that of an hour: behind `+-` stands the
//! standard error.
#![forbid(unsafe_code)]

mod load;
mod plan;
mod sample;
mod trend;

use disque_testing::{Cluster, Door, Options, Persistence};
use load::World;
use plan::{CYCLE, MEMORY_S, REWRITE_AT, SAMPLE_AT, SETTLING_CYCLES};
use sample::Figures;
use std::thread;
use std::time::Duration;
use trend::{Trend, LIMIT_PERCENT};

/// How long samples are taken where nothing is said.
const SECONDS: u64 = 3_600;
const NODES: usize = 3;

fn main() {
    let seconds = match std::env::var("SECONDS") {
        Ok(text) => text.parse().expect("SECONDS must be a number"),
        Err(_) => SECONDS,
    };
    let samples = seconds.div_ceil(CYCLE.as_secs()).max(3);
    // What is long in coming, such as the memory that an allocator keeps for itself, has
    // the longer in a longer run.
    let warm_up = SETTLING_CYCLES.max(samples / 4);
    println!("a sample every {CYCLE:?}: {warm_up} to warm up, then {samples}");
    let ended = thread::Builder::new()
        .name("soak".into())
        .spawn(move || run(warm_up, samples))
        .expect("cannot start a thread")
        .join();
    // A panic has said what is wrong.
    if !matches!(ended, Ok(true)) {
        std::process::exit(1);
    }
}

/// Whether nothing grew.
fn run(warm_up: u64, samples: u64) -> bool {
    let cluster = start();
    let doors: Vec<Door> = (0..NODES).map(|node| cluster[node].door()).collect();
    load::flood(&doors).unwrap_or_else(|wrong| panic!("{wrong}"));
    let world = World::new(doors);
    thread::scope(|scope| {
        load::start(scope, &world);
        let taken = watch(&cluster, &world, warm_up + samples);
        let taken = taken.unwrap_or_else(|wrong| panic!("{wrong}"));
        let busy = tell_load(&cluster, &world);
        world.end();
        // Consumers wait until their servers are gone.
        drop(cluster);
        judge(&taken[warm_up as usize..]) && busy
    })
}

fn start() -> Cluster {
    let memory = MEMORY_S.to_string();
    let options = Options::new()
        .persistence(Persistence::Aof)
        .set("disque.settled-memory", &memory)
        .set("disque.queue-idle-seconds", &memory)
        // How well times compress depends on the time: their bits come round in minutes.
        .set("rdbcompression", "no")
        // Redis keeps up to 128 slow commands: it has more of them each hour.
        .set("slowlog-max-len", "0")
        // An hour is too long for tests that want the machine to themselves to wait.
        .alone();
    let cluster = Cluster::start(NODES, options);
    for node in 0..NODES {
        let mut client = cluster[node].client();
        // A machine that stands still for some seconds fails no run.
        client
            .run("CONFIG SET disque.node-timeout 60000")
            .expect_ok();
    }
    cluster
}

/// Takes a sample in each cycle.
fn watch(cluster: &Cluster, world: &World, cycles: u64) -> Result<Vec<Figures>, String> {
    let mut taken = Vec::new();
    for cycle in 0..cycles {
        let begin = CYCLE * cycle as u32;
        world.wait_until(begin + REWRITE_AT)?;
        sample::rewrite_logs(cluster);
        world.wait_until(begin + SAMPLE_AT)?;
        let figures = sample::take(cluster);
        print_row(cycle, &figures);
        taken.push(figures);
    }
    Ok(taken)
}

fn print_row(cycle: u64, figures: &Figures) {
    if cycle == 0 {
        let names: Vec<_> = figures.iter().map(|(name, _)| *name).collect();
        println!("seconds {}", names.join(" "));
    }
    let numbers: Vec<_> = figures.iter().map(|(_, n)| n.to_string()).collect();
    let seconds = (CYCLE * cycle as u32 + SAMPLE_AT).as_secs();
    println!("{seconds} {}", numbers.join(" "));
}

/// Prints the trend of each figure. Whether none of them grows.
fn judge(samples: &[Figures]) -> bool {
    println!(
        "{:24} {:>12} {:>10} {:>8}",
        "figure", "mean", "% an hour", "+-"
    );
    let mut steady = true;
    for (place, (name, _)) in samples[0].iter().enumerate() {
        let hours = |n: usize| (CYCLE * n as u32).as_secs_f64() / 3_600.0;
        let figures = samples.iter().map(|figures| figures[place].1 as f64);
        let points: Vec<_> = figures.enumerate().map(|(n, y)| (hours(n), y)).collect();
        let trend = Trend::of(&points);
        let (percent, error) = (trend.percent(), trend.percent_error());
        let verdict = if trend.grows() { "GROWS" } else { "" };
        println!(
            "{name:24} {:12.0} {percent:+10.3} {error:8.3} {verdict}",
            trend.mean
        );
        steady &= !trend.grows();
    }
    println!(
        "{}",
        match steady {
            true => format!("nothing grows by more than {LIMIT_PERCENT} % an hour"),
            false => format!("what GROWS does so by more than {LIMIT_PERCENT} % an hour"),
        }
    );
    steady
}

/// Prints what was done. Whether there was something of all of it.
fn tell_load(cluster: &Cluster, world: &World) -> bool {
    let done = sample::done(cluster);
    for (name, count) in &done {
        println!("{name:24} {count:12}");
    }
    let busy: Duration = (0..NODES).map(|node| cluster[node].cpu_time()).sum();
    let share = 100.0 * busy.as_secs_f64() / world.start.elapsed().as_secs_f64();
    println!("processor of all servers {share:10.1} % of a core");
    done.iter().all(|(_, count)| *count > 0)
}

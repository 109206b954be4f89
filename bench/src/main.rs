//! The module beside Redis Streams and lists, on this machine: `make bench`.
//!
//! Each workload runs at one server with the module and one without, in turns. What
//! counts is the ratio; the aims stand beside it. `docs/performance.md` explains the
//! figures.
//!
//! Arguments are the names of workloads, all without any. Settings are variables:
//! ROUNDS, COMMANDS of a run, JOBS for memory and restart, DEEP for many jobs, CLIENTS
//! that wait, SECONDS_EACH of a flow, QUEUES.

mod bulk;
mod commands;
mod compare;
mod flow;
mod fork;
mod load;
mod nodes;
mod replies;
mod systems;
mod waiting;

/// How much is done.
pub struct Plan {
    /// Turns of each pair.
    pub rounds: usize,
    /// Commands of one run.
    pub commands: usize,
    /// Jobs for memory, restart and flush.
    pub jobs: usize,
    /// Jobs that are many.
    pub deep: usize,
    /// Clients that wait.
    pub clients: usize,
    /// Seconds of a flow between nodes.
    pub seconds: u64,
    /// Queues that are many.
    pub queues: usize,
}

type Workload = (&'static str, fn(&Plan));

const WORKLOADS: [Workload; 10] = [
    ("w1", commands::adding),
    ("w2", commands::taking),
    ("w3", nodes::copies),
    ("w4", nodes::across),
    ("w5", bulk::memory),
    ("w6", bulk::depth),
    ("w7", bulk::restart),
    ("w7", fork::snapshot),
    ("w8", commands::many_queues),
    ("w8", waiting::wakes),
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let plan = Plan {
        rounds: setting("ROUNDS", 5),
        commands: setting("COMMANDS", 100_000),
        jobs: setting("JOBS", 300_000),
        deep: setting("DEEP", 1_000_000),
        clients: setting("CLIENTS", 2_000),
        seconds: setting("SECONDS_EACH", 3) as u64,
        queues: setting("QUEUES", 10_000),
    };
    systems::pin_load(true);
    for (name, run) in WORKLOADS {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            run(&plan);
        }
    }
}

fn setting(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Err(_) => default,
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}")),
    }
}

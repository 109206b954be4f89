//! The words that the tests here are written in.

pub use std::time::{Duration, Instant};

pub use disque_testing::{
    deliveries, eventually, hello, node_lines, quiet_machine, Client, Cluster, Options,
    Persistence, Server, Show, Value, NODE_TIMEOUT_MS,
};

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Options of a node that is not part of a [`Cluster`] from the start.
pub fn node() -> Options {
    Options::new().set("disque.node-timeout", &NODE_TIMEOUT_MS.to_string())
}

/// DISQUE MEET of a server on this machine.
pub fn meet(host: &str, server: &Server) -> String {
    format!("DISQUE MEET {host} {}", server.port())
}

/// The id of a job that is added.
#[track_caller]
pub fn add(client: &mut Client, queue: &str, body: &str) -> String {
    client.call(&["ADDJOB", queue, body, "0"]).expect_job_id()
}

/// How many lines of a server's log hold `text`.
pub fn logged(server: &Server, text: &str) -> usize {
    let log = server.log();
    log.lines().filter(|line| line.contains(text)).count()
}

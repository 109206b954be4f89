//! The servers that are compared: Redis with the module, and without it for streams and
//! lists.

use crate::load::{load, Run, Shape};
use disque_testing::resp::encode;
use disque_testing::{Options, Persistence, Server};
use std::process::Command;

/// The body of every job.
pub const BODY: &str = concat!(
    "0123456789012345678901234567890123456789012345678901234567890123456789",
    "012345678901234567890123456789"
);

/// Many connections, one command under way on each.
pub const FIFTY: Shape = Shape {
    connections: 50,
    window: 1,
};

/// The same with sixteen.
pub const DEEP: Shape = Shape {
    connections: 50,
    window: 16,
};

/// How every server is set: the append only file on, synced every second, and never
/// rewritten of its own accord.
pub fn options() -> Options {
    Options::new()
        .persistence(Persistence::Aof)
        .set("auto-aof-rewrite-percentage", "0")
        .set("maxclients", "20000")
        .set("disque.node-timeout", "5000")
}

fn plain() -> Options {
    Options::new()
        .persistence(Persistence::Aof)
        .set("auto-aof-rewrite-percentage", "0")
        .set("maxclients", "20000")
        .without_module()
}

/// A server with the module.
pub fn with_module() -> Server {
    pinned(Server::start(options()))
}

/// A server without it.
pub fn without_module() -> Server {
    pinned(Server::start(plain()))
}

/// So many servers without it, the others replicas of the first.
pub fn with_replicas(count: usize) -> Vec<Server> {
    let first = Server::start(plain());
    let port = first.port().to_string();
    let replica = || {
        let server = Server::start(plain());
        server
            .client()
            .call(&["REPLICAOF", "127.0.0.1", &port])
            .expect_ok();
        disque_testing::eventually(std::time::Duration::from_secs(20), "a replica", || {
            server.info("replication")["master_link_status"] == "up"
        });
        server
    };
    let replicas: Vec<Server> = (1..count).map(|_| replica()).collect();
    [first].into_iter().chain(replicas).collect()
}

/// Puts a server on the first core; the load runs on the second. Where there is one
/// core only, or no `taskset`, they share.
fn pinned(server: Server) -> Server {
    pin(server.info_number("server", "process_id") as u32, 0);
    server
}

/// See [`pinned`].
pub fn pin(process: u32, core: usize) {
    let pinned = Command::new("taskset")
        .args(["-a", "-c", "-p", &core.to_string(), &process.to_string()])
        .output();
    drop(pinned);
}

/// Puts this process where it may run anywhere, or on the core of the load.
pub fn pin_load(apart: bool) {
    let cores = if apart { "1" } else { "0-1" };
    let own = std::process::id().to_string();
    let pinned = Command::new("taskset")
        .args(["-a", "-c", "-p", cores, &own])
        .output();
    drop(pinned);
}

/// A command as bytes.
pub fn command(words: &[&str]) -> Vec<u8> {
    encode(words)
}

/// The same command again and again.
pub fn same(count: usize, words: &[&str]) -> Vec<Vec<u8>> {
    vec![encode(words); count]
}

/// ADDJOBS of so many jobs, and what goes before their bodies.
pub fn batch_of(jobs: usize, words: &[&str]) -> Vec<u8> {
    let bodies = std::iter::repeat_n(BODY, jobs);
    let words = words.iter().copied().chain(["BODIES"]).chain(bodies);
    encode(&words.collect::<Vec<_>>())
}

/// Adds so many jobs to a queue.
pub fn add_jobs(server: &Server, queue: &str, count: usize) -> Run {
    let commands = same(count, &["ADDJOB", queue, BODY, "0"]);
    load(server.port(), DEEP, &commands, false)
}

/// Adds so many entries to a stream.
pub fn add_entries(server: &Server, stream: &str, count: usize) -> Run {
    let commands = same(count, &["XADD", stream, "*", "body", BODY]);
    load(server.port(), DEEP, &commands, false)
}

/// Deletes all jobs, and waits until their memory is free.
pub fn empty_jobs(server: &Server) {
    server.client().run("DISQUE FLUSHALL").expect_ok();
    settle(server);
}

/// Deletes all keys; makes the stream `s` with the group `g`.
pub fn empty_keys(server: &Server) {
    let mut client = server.client();
    client.run("FLUSHALL SYNC").expect_ok();
    client.run("XGROUP CREATE s g $ MKSTREAM").expect_ok();
}

/// Waits until memory does not shrink any more.
pub fn settle(server: &Server) {
    let mut before = i64::MAX;
    loop {
        let now = server.used_memory();
        if now >= before - 100_000 {
            return;
        }
        before = now;
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

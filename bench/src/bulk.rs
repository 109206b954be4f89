//! Many jobs on one server: their memory, the rates with them, start and flush.

use crate::commands::{acknowledge, take};
use crate::compare::{head, in_turns, line, measure, median, Aim};
use crate::systems::{
    add_entries, add_jobs, command, empty_jobs, empty_keys, settle, with_module, without_module,
};
use crate::Plan;
use disque_testing::{eventually, Server};
use std::time::{Duration, Instant};

/// How many jobs are measured at each depth.
const SAMPLE: usize = 10_000;
const SLOW: Duration = Duration::from_secs(300);

/// w5: bytes for each job.
pub fn memory(plan: &Plan) {
    println!("\nw5 bytes per job of 100 bytes, {} jobs", plan.jobs);
    let (module, other) = (with_module(), without_module());
    empty_keys(&other);
    let jobs = plan.jobs;
    let each = |server: &Server, before: i64| {
        settle(server);
        (server.used_memory() - before) as f64 / jobs as f64
    };
    let (ours, theirs) = (module.used_memory(), other.used_memory());
    add_jobs(&module, "q", jobs);
    add_entries(&other, "s", jobs);
    let (queued, added) = (each(&module, ours), each(&other, theirs));
    line(
        "queued",
        "bytes",
        queued,
        Some(added),
        &Aim::AtMost(250.0),
        queued,
    );
    take_all(&module, &["GETJOB", "NOHANG", "COUNT", "1000", "FROM", "q"]);
    take_all(
        &other,
        &[
            "XREADGROUP",
            "GROUP",
            "g",
            "c",
            "COUNT",
            "1000",
            "STREAMS",
            "s",
            ">",
        ],
    );
    let (taken, read) = (each(&module, ours), each(&other, theirs));
    line(
        "delivered",
        "bytes",
        taken,
        Some(read),
        &Aim::AtMost(250.0),
        taken,
    );
}

fn take_all(server: &Server, words: &[&str]) {
    let mut client = server.client();
    while !client.call(words).is_null() {}
}

/// w6: the rates with many jobs queued against those with ten thousand.
pub fn depth(plan: &Plan) {
    head(&format!(
        "w6 {} jobs queued (here: module) beside {SAMPLE} (here: other)",
        plan.deep
    ));
    let (deep, shallow) = (with_module(), with_module());
    deep.client()
        .run("CONFIG SET slowlog-log-slower-than 1000 slowlog-max-len 1000");
    add_jobs(&deep, "q", plan.deep);
    add_jobs(&shallow, "q", SAMPLE);
    let aim = || Aim::AtLeast(0.9);
    let add = |server: &Server| measure(server, SAMPLE, || add_jobs(server, "q", SAMPLE));
    let drained = |server: &Server| {
        acknowledge(server, SAMPLE, 100);
    };
    // Each run leaves as many jobs as it found.
    let adding = |server: &Server| {
        let figures = add(server);
        drained(server);
        figures
    };
    let getting = |server: &Server| {
        let figures = take(server, SAMPLE);
        add(server);
        figures
    };
    let settling = |server: &Server, batch| {
        let figures = acknowledge(server, SAMPLE, batch);
        add(server);
        figures
    };
    let rounds = plan.rounds * 3;
    in_turns(
        rounds,
        "add, 50 x 16",
        &aim(),
        || adding(&deep),
        || adding(&shallow),
    );
    in_turns(
        rounds,
        "get, COUNT 1",
        &aim(),
        || getting(&deep),
        || getting(&shallow),
    );
    for (what, batch) in [("acknowledge 1", 1), ("acknowledge 100, in jobs", 100)] {
        let (ours, theirs) = (|| settling(&deep, batch), || settling(&shallow, batch));
        in_turns(rounds, what, &aim(), ours, theirs);
    }
    let (longest, slow) = slow_calls(&deep);
    line(
        "longest call",
        "ms",
        longest,
        None,
        &Aim::AtMost(5.0),
        longest,
    );
    line("calls of more than 1 ms", "", slow, None, &Aim::None, slow);
}

/// The longest of the calls that took more than a millisecond, in milliseconds, and how
/// many there were. What the core did for others is in it.
fn slow_calls(server: &Server) -> (f64, f64) {
    let calls = server.client().run("SLOWLOG GET -1");
    let calls = calls.expect_array();
    let longest = calls.iter().map(|call| call.items()[2].int()).max();
    (longest.unwrap_or_default() as f64 / 1e3, calls.len() as f64)
}

/// w7: start, rewrite and flush.
pub fn restart(plan: &Plan) {
    println!("\nw7 start, rewrite, flush, {} jobs", plan.jobs);
    let (mut module, mut other) = (with_module(), without_module());
    empty_keys(&other);
    add_jobs(&module, "q", plan.jobs);
    add_entries(&other, "s", plan.jobs);
    let mut compare = |what: &str, aim: f64, work: fn(&mut Server) -> f64| {
        let ours = median((0..plan.rounds).map(|_| work(&mut module)));
        let theirs = median((0..plan.rounds).map(|_| work(&mut other)));
        line(
            what,
            "s",
            ours,
            Some(theirs),
            &Aim::AtMost(aim),
            ours / theirs,
        );
    };
    compare("start, from commands (aim: x streams)", 1.8, start);
    compare("rewrite (aim: x streams)", 1.6, rewrite);
    compare("start, after a rewrite (aim: x streams)", 3.3, start);
    let stall = flush(&module);
    line(
        "longest PING during a flush",
        "ms",
        stall,
        None,
        &Aim::AtMost(20.0),
        stall,
    );
    empty_jobs(&module);
}

/// Seconds that a start takes by the server's own account.
fn start(server: &mut Server) -> f64 {
    server.restart();
    let log = server.log();
    let last = log.rsplit("DB loaded from append only file: ").next();
    let seconds = last.and_then(|rest| rest.split(' ').next());
    seconds
        .and_then(|text| text.parse().ok())
        .expect("a load in the log")
}

fn rewrite(server: &mut Server) -> f64 {
    let start = Instant::now();
    server.client().run("BGREWRITEAOF");
    eventually(SLOW, "the rewrite", || {
        let info = server.info("persistence");
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    });
    start.elapsed().as_secs_f64()
}

/// The longest PING while all jobs are freed, in milliseconds.
fn flush(server: &Server) -> f64 {
    let mut client = server.client();
    let mut operator = server.client();
    operator.send_raw(&command(&["DISQUE", "FLUSHALL"]));
    let (mut longest, start) = (0.0_f64, Instant::now());
    while start.elapsed() < Duration::from_secs(2) {
        let sent = Instant::now();
        client.run("PING").expect_status("PONG");
        longest = longest.max(sent.elapsed().as_secs_f64() * 1e3);
    }
    longest
}

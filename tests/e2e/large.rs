//! Large bodies, which stand beside their records.

use crate::common::*;

/// From so many bytes on a body is an argument of its own.
const LARGE: usize = 32 << 10;
const SIZES: [usize; 4] = [LARGE - 1, LARGE, 64 << 10, 1 << 20];

/// A body of some size; no two sizes have bodies that begin alike.
fn body(len: usize) -> String {
    let line = format!("the body of {len} bytes ");
    line.chars().cycle().take(len).collect()
}

/// Adds a job of each size in each way, with the bodies in the order of the queue.
fn add_all(c: &mut Client) -> Vec<String> {
    const SCRIPT: &str = "return redis.call('ADDJOB', 'q', ARGV[1], 0)";
    let bodies = SIZES.map(body);
    for one in &bodies {
        c.add("q", one, "");
    }
    let mut batch = vec!["ADDJOBS", "q", "0", "BODIES", "small"];
    batch.extend(bodies.iter().map(String::as_str));
    assert_eq!(c.call(&batch).expect_array().len(), 5);
    c.run("MULTI").expect_ok();
    for one in &bodies {
        c.call(&["ADDJOB", "q", one, "0"]).expect_status("QUEUED");
    }
    assert_eq!(c.run("EXEC").expect_array().len(), SIZES.len());
    for one in &bodies {
        c.call(&["EVAL", SCRIPT, "0", one]).expect_job_id();
    }
    let batch = std::iter::once("small".to_string()).chain(bodies.clone());
    let all = bodies.iter().cloned().chain(batch);
    all.chain(bodies.clone()).chain(bodies.clone()).collect()
}

#[track_caller]
fn expect_all(server: &Server, expected: &[String], when: &str) {
    let found = server.client().run("QPEEK q 100");
    let found = deliveries(&found);
    assert_eq!(found.len(), expected.len(), "{when}");
    for (job, body) in found.iter().zip(expected) {
        assert!(job.text() == body, "{when}: not the body of {}", body.len());
    }
}

#[test]
fn they_come_back_from_all_kinds_of_data() {
    for persistence in [Persistence::Rdb, Persistence::Aof, Persistence::Both] {
        let mut server = Server::start(Options::new().persistence(persistence));
        let all = add_all(&mut server.client());
        expect_all(&server, &all, "added");
        server.restart();
        expect_all(&server, &all, "after a restart");
        server.client().run("DEBUG RELOAD").expect_ok();
        expect_all(&server, &all, "after a reload");
    }
}

#[test]
fn they_survive_a_kill_before_and_after_a_rewrite() {
    let mut server = Server::start(Options::new().persistence(Persistence::AofAlways));
    let mut all = add_all(&mut server.client());
    server.kill9();
    server.start_again();
    expect_all(&server, &all, "after a kill");
    server.rewrite_log();
    all.extend(add_all(&mut server.client()));
    server.kill9();
    server.start_again();
    expect_all(&server, &all, "after a rewrite and a kill");
}

#[test]
fn the_log_holds_each_body_once_and_as_an_argument_of_its_own() {
    let server = Server::start(Options::new().persistence(Persistence::AofAlways));
    let mut c = server.client();
    for (len, arguments) in [(LARGE - 1, 2), (LARGE, 3)] {
        let before = std::fs::read(append_log(&server)).unwrap().len();
        c.add("q", &body(len), "");
        let log = std::fs::read(append_log(&server)).unwrap();
        let record = String::from_utf8_lossy(&log[before..]);
        assert_eq!(record.matches(&body(len)).count(), 1, "{len}");
        let head = format!("*{arguments}\r\n$13\r\ndisque.record\r\n");
        assert!(record.contains(&head), "{len}: {:.100}", record);
    }
}

#[test]
fn a_damaged_body_is_found_and_its_record_named() {
    let mut server = Server::start(Options::new().persistence(Persistence::AofAlways));
    let mut c = server.client();
    let kept = c.add("q", "x", "");
    let damaged = c.add("q", &body(LARGE), "");
    let after = c.add("q", "y", "");
    server.kill9();
    let path = append_log(&server);
    let mut log = std::fs::read(&path).unwrap();
    let start = body(LARGE).into_bytes()[..100].to_vec();
    let at = log.windows(100).position(|window| window == start);
    log[at.expect("the body is in the log") + 5_000] ^= 1;
    std::fs::write(&path, log).unwrap();
    let text = server.try_start_again().expect_err("the data are damaged");
    assert!(text.contains("wrong checksum of its body"), "{text}");
    assert!(text.contains("\"disque.record\" "), "{text}");
    server.configure("disque.damaged-records", "skip");
    server.start_again();
    let mut c = server.client();
    assert!(c.show(&kept).is_some() && c.show(&after).is_some());
    assert_eq!(c.show(&damaged), None);
}

#[test]
fn replicas_have_them_from_the_sync_and_from_the_stream() {
    let master = Server::new();
    let mut all = add_all(&mut master.client());
    let options = Options::new()
        .persistence(Persistence::AofAlways)
        .set("replicaof", &format!("127.0.0.1 {}", master.port()))
        .set("repl-diskless-sync-delay", "0");
    let mut replica = Server::start(options);
    eventually(secs(20), "the replica is in sync", || {
        replica.info("replication")["master_link_status"] == "up"
    });
    all.extend(add_all(&mut master.client()));
    let offset = master.info_number("replication", "master_repl_offset");
    eventually(secs(10), "the replica catches up", || {
        replica.info_number("replication", "slave_repl_offset") >= offset
    });
    replica.client().run("REPLICAOF NO ONE").expect_ok();
    expect_all(&replica, &all, "promoted");
    replica.configure("replicaof", "no one");
    replica.kill9();
    replica.start_again();
    expect_all(&replica, &all, "from the log that it wrote as a replica");
}

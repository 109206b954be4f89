//! RETRY 0: delivered never or once.

use crate::common::*;

#[test]
fn it_is_delivered_once_and_never_again() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0");
    let job = c.show(&id).unwrap();
    assert_eq!((job.state.as_str(), job.retry), ("queued", 0));
    assert_eq!(c.take("q").id, id);
    let job = c.show(&id).unwrap();
    assert_eq!(
        (job.state.as_str(), job.next_requeue_within),
        ("active", None)
    );
    c.run("GETJOB TIMEOUT 800 FROM q").expect_null_array();
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    c.run(&format!("SHOW {id}")).expect_null_bulk();
}

#[test]
fn nothing_puts_a_delivered_one_back() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0");
    c.take("q");
    for command in ["NACK", "ENQUEUE", "DEQUEUE"] {
        c.run(&format!("{command} {id}")).expect_number(0);
    }
    assert_eq!(c.len("q"), 0);
    c.run("GETJOB NOHANG FROM q").expect_null_array();
    let job = c.show(&id).unwrap();
    assert_eq!((job.nacks, job.additional_deliveries), (0, 0));
}

#[test]
fn a_delayed_one_is_delivered_after_its_delay() {
    let server = Server::new();
    let mut c = server.client();
    let start = Instant::now();
    let id = c.add("q", "x", "RETRY 0 DELAY 1");
    assert_eq!(c.len("q"), 0);
    assert_eq!(c.wait_job("q", secs(5)).expect("lost").id, id);
    expect_between(start.elapsed(), secs(1), LATE);
    c.run("GETJOB TIMEOUT 500 FROM q").expect_null_array();
}

#[test]
fn a_delayed_one_is_queued_even_when_its_queue_is_paused_in() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0 DELAY 0.5");
    c.run("PAUSE q in").expect_status("in");
    assert_eq!(c.wait_job("q", secs(5)).expect("lost").id, id);
}

#[test]
fn a_queued_one_survives_a_clean_restart_and_a_delivered_one_stays_delivered() {
    for persistence in [Persistence::Aof, Persistence::AofAlways, Persistence::Both] {
        let mut server = Server::start(Options::new().persistence(persistence));
        let mut c = server.client();
        let delivered = c.add("q", "1", "RETRY 0");
        let queued = c.add("q", "2", "RETRY 0");
        assert_eq!(c.take("q").id, delivered);
        server.restart();
        let mut c = server.client();
        assert_eq!(c.take("q").id, queued, "{persistence:?}");
        c.run("GETJOB TIMEOUT 300 FROM q").expect_null_array();
        server.restart();
        server
            .client()
            .run("GETJOB TIMEOUT 300 FROM q")
            .expect_null_array();
    }
}

#[test]
fn after_a_kill_it_is_delivered_only_if_each_write_was_synced() {
    for (persistence, comes_back) in [(Persistence::Aof, false), (Persistence::AofAlways, true)] {
        let mut server = Server::start(Options::new().persistence(persistence));
        let mut c = server.client();
        let delivered = c.add("q", "1", "RETRY 0");
        let queued = c.add("q", "2", "RETRY 0");
        c.add("q", "3", "RETRY 0 DELAY 0.3");
        let again = c.add("again", "x", "RETRY 100");
        assert_eq!(c.take("q").id, delivered);
        server.kill9();
        server.start_again();
        let mut c = server.client();
        if comes_back {
            assert_eq!(c.take("q").id, queued);
            assert_eq!(c.wait_job("q", secs(5)).expect("lost").text(), "3");
        }
        c.run("GETJOB TIMEOUT 800 FROM q").expect_null_array();
        assert_eq!(c.take("again").id, again, "others are not concerned");
        // It stays so: the clean restart does not make the doubt go away.
        server.restart();
        server
            .client()
            .run("GETJOB TIMEOUT 600 FROM q")
            .expect_null_array();
    }
}

/// What counts is how the data were written, not how they are read.
#[test]
fn a_policy_that_is_set_after_the_crash_is_not_trusted() {
    let mut server = Server::start(Options::new().persistence(Persistence::Aof));
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0");
    server.kill9();
    server.configure_persistence(Persistence::AofAlways);
    server.start_again();
    let mut c = server.client();
    c.run("GETJOB TIMEOUT 300 FROM q").expect_null_array();
    assert_eq!(c.state(&id), "active");
    // From this start on it is.
    let id = c.add("q", "x", "RETRY 0");
    server.kill9();
    server.start_again();
    assert_eq!(server.client().take("q").id, id);
}

#[test]
fn a_policy_that_was_weaker_for_a_while_is_not_trusted_until_the_next_start() {
    for weaker in [
        "appendfsync everysec",
        "no-appendfsync-on-rewrite yes",
        "appendonly no",
    ] {
        let mut server = Server::start(Options::new().persistence(Persistence::AofAlways));
        let mut c = server.client();
        c.run(&format!("CONFIG SET {weaker}")).expect_ok();
        c.run("CONFIG SET appendonly yes appendfsync always no-appendfsync-on-rewrite no")
            .expect_ok();
        eventually(secs(20), "the log is written again", || {
            server.info("persistence")["aof_rewrite_in_progress"] == "0"
        });
        let id = c.add("q", "x", "RETRY 0");
        server.kill9();
        server.start_again();
        let mut c = server.client();
        c.run("GETJOB TIMEOUT 300 FROM q").expect_null_array();
        assert_eq!(c.state(&id), "active", "{weaker}");
    }
}

#[test]
fn a_replica_that_starts_as_a_primary_is_not_trusted() {
    let always = || {
        Options::new()
            .persistence(Persistence::AofAlways)
            .set("repl-diskless-sync-delay", "0")
    };
    let (primary, mut replica) = (Server::start(always()), Server::start(always()));
    let port = primary.port();
    let mut c = replica.client();
    c.run(&format!("REPLICAOF 127.0.0.1 {port}")).expect_ok();
    eventually(secs(20), "the replica is in sync", || {
        replica.info("replication")["master_link_status"] == "up"
    });
    let id = primary.client().add("q", "x", "RETRY 0");
    eventually(secs(10), "the replica has the job", || c.len("q") == 1);
    eventually(secs(20), "its log is written", || {
        let info = replica.info("persistence");
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    });
    // It comes back without REPLICAOF, as its redis.conf says.
    replica.restart();
    let mut c = replica.client();
    c.run("GETJOB TIMEOUT 300 FROM q").expect_null_array();
    assert_eq!(c.state(&id), "active");
}

/// The mark of a clean stop belongs to the data that were there then.
#[test]
fn an_older_log_after_a_clean_stop_is_not_trusted() {
    let mut server = Server::start(Options::new().persistence(Persistence::Aof));
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0");
    let log = append_log(&server);
    eventually(secs(10), "the job is in the log", || {
        std::fs::metadata(&log).unwrap().len() > 0
    });
    let older = std::fs::read(&log).unwrap();
    assert_eq!(c.take("q").id, id);
    server.stop_clean();
    std::fs::write(&log, older).unwrap();
    server.start_again();
    let mut c = server.client();
    c.run("GETJOB TIMEOUT 300 FROM q").expect_null_array();
    assert_eq!(c.state(&id), "active");
    assert!(server.log_contains("older than what this node has written"));
}

#[test]
fn a_snapshot_alone_leaves_it_undelivered() {
    let mut server = Server::start(Options::new().persistence(Persistence::Rdb));
    let mut c = server.client();
    c.add("q", "x", "RETRY 0");
    c.run("SAVE").expect_ok();
    c.take("q");
    server.kill9();
    server.start_again();
    let mut c = server.client();
    c.run("GETJOB TIMEOUT 500 FROM q").expect_null_array();
}

#[test]
fn the_setting_chooses_delivery_after_a_crash() {
    let mut server = Server::start(
        Options::new()
            .persistence(Persistence::Aof)
            .set("disque.at-most-once-after-crash", "deliver"),
    );
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0");
    server.kill9();
    server.start_again();
    assert_eq!(server.client().take("q").id, id);
}

#[test]
fn working_does_not_bring_it_back() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0");
    c.take("q");
    c.run(&format!("WORKING {id}"));
    c.run("GETJOB TIMEOUT 600 FROM q").expect_null_array();
    assert_eq!(c.state(&id), "active");
}

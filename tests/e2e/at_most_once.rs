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

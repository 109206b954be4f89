//! Links that end, and what HELLO and NODES say meanwhile.

use crate::common::*;

#[test]
fn a_stopped_node_sinks_to_the_end_of_the_list_and_comes_back() {
    let cluster = Cluster::new(3);
    let id = cluster.id(2);
    cluster[2].sigstop();
    cluster.wait_priority(0, &id, &[5, 10]);
    for at in [0, 1] {
        cluster.wait_priority(at, &id, &[100]);
        let line = cluster.line(at, &id).unwrap();
        assert!(line.has("failed") && !line.connected, "{line:?}");
        assert!(line.silent_ms > NODE_TIMEOUT_MS as i64, "{line:?}");
        let other = cluster.id(1 - at);
        assert_eq!(cluster.line(at, &other).unwrap().flags.len(), 0);
    }
    cluster[2].sigcont();
    cluster.wait_connected();
    // Each loss and return is told once.
    for at in [0, 1] {
        assert_eq!(logged(&cluster[at], &format!("link to node {id} is up")), 2);
        let closed = format!("link to node {id} is closed");
        assert_eq!(logged(&cluster[at], &closed), 1);
    }
}

#[test]
fn a_node_that_was_away_for_long_is_connected_at_once_when_it_is_back() {
    let mut cluster = Cluster::new(3);
    let id = cluster.id(2);
    cluster[2].kill9();
    // Long enough for the pauses between attempts to grow.
    std::thread::sleep(secs(7));
    cluster.wait_priority(0, &id, &[100]);
    cluster[2].start_again();
    let back = Instant::now();
    cluster.wait_line(0, &id, "it is connected", |line| line.connected);
    cluster.wait_line(1, &id, "it is connected", |line| line.connected);
    assert!(back.elapsed() < secs(2), "after {:?}", back.elapsed());
}

#[test]
fn closed_connections_are_made_again() {
    let cluster = Cluster::new(3);
    for round in 0..5 {
        for at in 0..3 {
            let mut c = cluster[at].client();
            let killed = c.run("CLIENT KILL TYPE normal SKIPME yes").expect_int();
            assert!(killed >= 2 || round > 0, "{killed} connections");
        }
    }
    cluster.wait_connected();
    let id = cluster.id(1);
    assert!(logged(&cluster[0], &format!("link to node {id} is closed")) >= 1);
}

#[test]
fn links_name_themselves_in_the_list_of_clients() {
    let cluster = Cluster::new(2);
    let name = format!("name=disque:{}", &cluster.id(1)[..8]);
    let list = cluster[0].client().run("CLIENT LIST").expect_text();
    assert_eq!(list.matches(&name).count(), 1, "{list}");
}

#[test]
fn links_are_not_seen_by_monitor_and_slowlog() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    c.run("CONFIG SET slowlog-log-slower-than 0").expect_ok();
    let mut monitor = cluster[0].client();
    monitor.run("MONITOR").expect_ok();
    std::thread::sleep(ms(NODE_TIMEOUT_MS));
    monitor.expect_silence(ms(200));
    let slow = format!("{:?}", c.run("SLOWLOG GET 100"));
    assert!(!slow.to_uppercase().contains("DISQUE.BUS"), "{slow}");
}

/// No test here takes so long: what is noticed, is not by a time-out.
const NO_TIMEOUT: &str = "60000";
const AT_ONCE: Duration = Duration::from_secs(3);

/// Two nodes, of which the first saves in the background for the next half minute: a
/// child of it that has inherited its sockets, and that never looks at them.
fn with_a_child() -> Cluster {
    let options = Options::new().set("disque.node-timeout", NO_TIMEOUT);
    let cluster = Cluster::start(2, options);
    let mut c = cluster[0].client();
    c.run("CONFIG SET rdb-key-save-delay 100000").expect_ok();
    for key in 0..300 {
        c.run(&format!("SET {key} x")).expect_ok();
    }
    c.run("BGSAVE");
    expect_child(&cluster[0]);
    cluster
}

#[track_caller]
fn expect_child(server: &Server) {
    let saves = server.info("persistence")["rdb_bgsave_in_progress"] == "1";
    assert!(saves, "the child is gone");
}

/// Whether `server` has a connection from the node with this id.
fn hears(server: &Server, id: &str) -> bool {
    let list = server.client().run("CLIENT LIST").expect_text();
    list.contains(&format!("name=disque:{} ", &id[..8]))
}

/// Closing a socket does nothing as long as a child has it, too.
#[test]
fn links_end_at_once_though_a_child_has_inherited_them() {
    for ends in ["DISQUE RESET", "DISQUE FORGET"] {
        let cluster = with_a_child();
        let (own, other) = (cluster.id(0), cluster.id(1));
        assert!(hears(&cluster[1], &own));
        let command = match ends {
            "DISQUE FORGET" => format!("{ends} {other}"),
            _ => ends.into(),
        };
        cluster[0].client().run(&command).expect_ok();
        eventually(AT_ONCE, "the other node loses the connection", || {
            !hears(&cluster[1], &own)
        });
        expect_child(&cluster[0]);
    }
}

#[test]
fn a_node_with_a_child_notices_at_once_that_its_links_are_closed() {
    let cluster = with_a_child();
    let (own, other) = (cluster.id(0), cluster.id(1));
    let closed = format!("link to node {other} is closed");
    let up = format!("link to node {other} is up");
    let mut c = cluster[1].client();
    c.run("CLIENT KILL TYPE normal SKIPME yes");
    eventually(AT_ONCE, "the link is closed and made again", || {
        logged(&cluster[0], &closed) >= 1 && logged(&cluster[0], &up) >= 2
    });
    assert!(hears(&cluster[1], &own));
    expect_child(&cluster[0]);
}

#[test]
fn a_node_with_a_child_notices_at_once_that_another_one_is_killed_and_back() {
    let mut cluster = with_a_child();
    let other = cluster.id(1);
    cluster[1].kill9();
    let killed = Instant::now();
    cluster.wait_line(0, &other, "it is closed", |line| !line.connected);
    assert!(killed.elapsed() < AT_ONCE, "{:?}", killed.elapsed());
    cluster[1].start_again();
    let back = Instant::now();
    cluster.wait_line(0, &other, "it is connected", |line| line.connected);
    assert!(back.elapsed() < AT_ONCE, "{:?}", back.elapsed());
    expect_child(&cluster[0]);
}

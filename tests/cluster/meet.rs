//! DISQUE MEET.

use crate::common::*;

#[test]
fn a_node_is_met_by_address_or_by_name_and_in_either_direction() {
    for (host, turned) in [("127.0.0.1", false), ("localhost", true)] {
        let cluster = Cluster::strangers(2, Options::new());
        let (from, to) = if turned { (1, 0) } else { (0, 1) };
        let mut c = cluster[from].client();
        c.run(&meet(host, &cluster[to])).expect_ok();
        // Known at the reply, whether the other one knows it yet or not.
        assert_eq!(node_lines(&mut c).len(), 2);
        cluster.wait_connected();
        for at in [0, 1] {
            let mut ids: Vec<String> = hello(&mut cluster[at].client())
                .into_iter()
                .map(|node| node.id)
                .collect();
            assert_eq!(ids[0], cluster.id(at));
            ids.sort();
            let mut all = cluster.ids();
            all.sort();
            assert_eq!(ids, all);
        }
    }
}

#[test]
fn the_reply_of_nodes_and_hello_names_the_ports_of_clients() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    let listed = hello(&mut c);
    assert_eq!(listed[0].port, cluster[0].port());
    assert_eq!(listed[1].port, cluster[1].port());
    assert_eq!(listed[1].host, "127.0.0.1");
    let lines = node_lines(&mut c);
    assert!(lines[0].has("myself") && !lines[1].has("myself"));
    let address = format!("127.0.0.1:{}", cluster[1].port());
    assert_eq!(lines[1].address, address);
    assert_eq!(lines[1].refusal, None);
    assert!(lines[1].silent_ms >= 0, "{lines:?}");
    // Both name the same data epoch of the same node.
    let own = cluster.line(1, &cluster.id(1)).unwrap();
    assert_eq!(own.epoch, lines[1].epoch);
}

#[test]
fn meeting_again_changes_nothing() {
    let cluster = Cluster::new(3);
    let before = cluster[0].log();
    let joined = |server: &Server| logged(server, " joined");
    let counts: Vec<usize> = (0..3).map(|at| joined(&cluster[at])).collect();
    for host in ["127.0.0.1", "localhost"] {
        for (from, to) in [(0, 1), (1, 0), (2, 1), (0, 1)] {
            let mut c = cluster[from].client();
            c.run(&meet(host, &cluster[to])).expect_ok();
        }
    }
    cluster.wait_connected();
    for at in 0..3 {
        assert_eq!(node_lines(&mut cluster[at].client()).len(), 3);
        assert_eq!(joined(&cluster[at]), counts[at]);
    }
    let closed = "is closed";
    assert_eq!(
        logged(&cluster[0], closed),
        before.matches(closed).count(),
        "a link was closed"
    );
}

#[test]
fn two_that_meet_each_other_at_once_are_one_pair() {
    let cluster = Cluster::strangers(2, Options::new());
    let (mut a, mut b) = (cluster[0].client(), cluster[1].client());
    a.start(&meet("127.0.0.1", &cluster[1]));
    b.start(&meet("127.0.0.1", &cluster[0]));
    a.reply().expect_ok();
    b.reply().expect_ok();
    cluster.wait_connected();
    for at in [0, 1] {
        assert_eq!(node_lines(&mut cluster[at].client()).len(), 2);
    }
}

#[test]
fn what_cannot_be_met_is_told() {
    let a = Server::start(node());
    let plain = Server::start(Options::new().without_module());
    let mut c = a.client();
    let itself = c.run(&meet("127.0.0.1", &a)).expect_error("ERR");
    assert!(itself.contains("itself"), "{itself}");
    let by_name = c.run(&meet("localhost", &a)).expect_error("ERR");
    assert_eq!(by_name, itself);
    let without = c.run(&meet("127.0.0.1", &plain)).expect_error("ERR");
    assert!(without.contains("unknown command"), "{without}");
    // A port at which nobody listens: that of a server that is gone.
    let gone = plain.port();
    drop(plain);
    let closed = c
        .run(&format!("DISQUE MEET 127.0.0.1 {gone}"))
        .expect_error("ERR");
    assert!(closed.contains("refused"), "{closed}");
    let nowhere = c
        .run("DISQUE MEET no-such-host.invalid 7711")
        .expect_error("ERR");
    // How long a lookup takes to fail is not for this node to say.
    assert!(nowhere.starts_with("ERR cannot meet: "), "{nowhere}");
    assert_eq!(node_lines(&mut c).len(), 1);
}

#[test]
fn a_listener_that_says_nothing_is_given_up_after_node_timeout() {
    let a = Server::start(node());
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut waiting = a.client();
    let start = Instant::now();
    waiting.start(&format!("DISQUE MEET 127.0.0.1 {port}"));
    // Others are served meanwhile.
    add(&mut a.client(), "q", "x");
    let text = waiting.reply().expect_error("ERR");
    assert!(text.contains("in time"), "{text}");
    assert!(start.elapsed() >= ms(NODE_TIMEOUT_MS - 50));
    assert!(start.elapsed() < ms(NODE_TIMEOUT_MS * 4));
}

#[test]
fn a_client_that_hangs_up_takes_its_meeting_with_it() {
    let cluster = Cluster::strangers(2, Options::new());
    for _ in 0..20 {
        cluster[0].client().start(&meet("127.0.0.1", &cluster[1]));
    }
    cluster[0].wait_blocked(0);
    // Whether any of them came to its end or not: this one does.
    cluster.join();
}

#[test]
fn in_a_transaction_the_answer_is_ok_at_once_and_the_outcome_is_logged() {
    let cluster = Cluster::strangers(2, Options::new());
    let mut c = cluster[0].client();
    c.run("MULTI").expect_ok();
    c.run(&meet("127.0.0.1", &cluster[1]))
        .expect_status("QUEUED");
    c.run(&meet("127.0.0.1", &cluster[0]))
        .expect_status("QUEUED");
    c.run("EXEC").expect_raw(b"*2\r\n+OK\r\n+OK\r\n");
    cluster.wait_connected();
    eventually(secs(5), "the log tells of the node itself", || {
        cluster[0].log_contains("cannot meet itself")
    });
    let mut c = cluster[1].client();
    let script = format!(
        "return redis.call('DISQUE', 'MEET', '127.0.0.1', '{}')",
        cluster[0].port()
    );
    c.call(&["EVAL", &script, "0"]).expect_ok();
}

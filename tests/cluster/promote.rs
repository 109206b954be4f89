//! Redis replicas of nodes, and their promotion.

use crate::common::*;

/// A replica of a node, once it has all that this has.
#[track_caller]
fn replica_of(primary: &Server, options: Options) -> Server {
    let replica = Server::start(options);
    follow(&replica, primary);
    replica
}

/// REPLICAOF, and until it is in step.
#[track_caller]
fn follow(replica: &Server, primary: &Server) {
    replica
        .client()
        .run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()))
        .expect_ok();
    catch_up(primary, replica);
}

#[track_caller]
fn catch_up(primary: &Server, replica: &Server) {
    eventually(secs(20), "the replica is in step", || {
        let info = replica.info("replication");
        let is_up = info.get("master_link_status").is_some_and(|s| s == "up");
        let offset = |server: &Server, field: &str| server.info_number("replication", field);
        is_up && offset(replica, "slave_repl_offset") >= offset(primary, "master_repl_offset")
    });
}

#[track_caller]
fn promote(replica: &Server) {
    replica.client().run("REPLICAOF NO ONE").expect_ok();
}

/// A field of DISQUE INFO.
#[track_caller]
fn told(server: &Server, field: &str) -> String {
    let reply = server.client().run(&format!("DISQUE INFO {field}"));
    reply.expect_text()
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// The others have a node where this server is.
#[track_caller]
fn wait_moved(cluster: &Cluster, seen_by: &[usize], id: &str, to: &Server) {
    let address = address(to);
    for at in seen_by {
        cluster.wait_line(*at, id, "it is where it was promoted", |line| {
            line.address == address && line.connected
        });
        cluster.wait_priority(*at, id, &[1]);
    }
}

/// All that is saved of a node, in one form for equal ones.
#[track_caller]
fn state_of(server: &Server) -> Vec<String> {
    const FIELDS: [&str; 7] = [
        "node_id",
        "term",
        "data_epoch",
        "known_nodes",
        "registered_jobs",
        "acked_jobs",
        "dummy_acks",
    ];
    let mut c = server.client();
    let scan = c.run("JSCAN 0 COUNT 10000");
    let ids = scan.expect_array()[1].items().iter();
    let mut lines: Vec<String> = ids.map(|id| line_of(server, id.text())).collect();
    lines.sort();
    lines.extend(FIELDS.map(|field| format!("{field} {}", told(server, field))));
    let paused = c.run("QSTAT paused");
    if !paused.value().is_null() {
        lines.push(format!("{:?}", paused.expect_array().last()));
    }
    lines
}

/// What is saved of a job. Of one that is acknowledged it is not who confirmed that.
#[track_caller]
fn line_of(server: &Server, id: &str) -> String {
    let mut job = show(server, id).expect("it was there");
    (job.ttl, job.next_requeue_within, job.next_awake_within) = (0, None, None);
    job.nodes_delivered.sort();
    job.nodes_confirmed.sort();
    if job.state == "acked" {
        job.nodes_confirmed.clear();
    }
    format!("{job:?}")
}

/// A replica, and a job that it got from its primary.
fn replica_with_job(primary: &Server, options: &str) -> (Server, String) {
    let replica = replica_of(primary, node());
    let job = add_with(&mut primary.client(), "q", "x", options);
    catch_up(primary, &replica);
    (replica, job)
}

#[test]
fn a_promoted_one_is_the_node_and_makes_up_for_what_it_had_not_received() {
    let mut cluster = Cluster::new(3);
    let id = cluster.id(1);
    let replica = replica_of(&cluster[1], node());
    let epoch = told(&replica, "data_epoch");
    assert_eq!(epoch, told(&cluster[1], "data_epoch"));
    let mut c = cluster[1].client();
    let copied = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 600");
    let alone = add_with(&mut c, "p", "x", "0 REPLICATE 1 RETRY 1");
    catch_up(&cluster[1], &replica);
    // Of this one it does not hear.
    replica.sigstop();
    let unheard = add_with(
        &mut cluster[0].client(),
        "r",
        "x",
        "0 REPLICATE 3 RETRY 600",
    );
    assert_eq!(holders(&cluster, &unheard), [0, 1, 2]);
    cluster[1].kill9();
    replica.sigcont();
    promote(&replica);
    assert_eq!(replica.client().run("DISQUE MYID").expect_text(), id);
    assert_eq!(
        (told(&replica, "term"), told(&replica, "role")),
        ("1".into(), "primary".into())
    );
    assert_ne!(told(&replica, "data_epoch"), epoch);
    wait_moved(&cluster, &[0, 2], &id, &replica);
    let mut r = replica.client();
    for (queue, job) in [("q", &copied), ("p", &alone)] {
        let delivery = wait_job(&mut r, queue, secs(10)).expect("it is delivered");
        assert_eq!(&delivery.id, job);
        r.run(&format!("ACKJOB {job}")).expect_number(1);
    }
    eventually(secs(20), "the copy is made again", || {
        state(&replica, &unheard) == "active"
    });
    for server in [&cluster[0], &cluster[2], &replica] {
        wait_figure(server, "under_replicated", 0, secs(20));
        wait_figure(server, "registered_jobs", 1, secs(20));
    }
}

#[test]
fn a_primary_that_lives_on_is_superseded_until_it_follows_or_is_reset() {
    let cluster = Cluster::new(3);
    let id = cluster.id(0);
    let (replica, job) = replica_with_job(&cluster[0], "0 REPLICATE 2 RETRY 600");
    let mut waiting = [cluster[0].client(), cluster[0].client()];
    waiting[0].start("GETJOB FROM empty");
    // Its producer waits for a node that does not answer.
    cluster[2].sigstop();
    start_add(&mut waiting[1], "q", "y", "0 REPLICATE 3 RETRY 600");
    cluster[0].wait_blocked(2);
    promote(&replica);
    for c in &mut waiting {
        let error = c.read(secs(20)).expect("it is answered");
        error.expect_error("SUPERSEDED");
    }
    cluster[2].sigcont();
    wait_moved(&cluster, &[1, 2], &id, &replica);
    let mut c = cluster[0].client();
    for command in [
        "ADDJOB q x 0",
        "GETJOB NOHANG FROM q",
        "QLEN q",
        &format!("ACKJOB {job}"),
    ] {
        c.run(command).expect_error("SUPERSEDED");
    }
    assert_eq!(told(&cluster[0], "state"), "superseded");
    assert!(node_lines(&mut c)[0].has("superseded"));
    let line = format!("is this node now, at {}", address(&replica));
    assert_eq!(logged(&cluster[0], &line), 1);

    follow(&cluster[0], &replica);
    assert_eq!(told(&cluster[0], "state"), "follows");
    assert_eq!(told(&cluster[0], "term"), "1");
    eventually(secs(10), "both hold the same", || {
        state_of(&cluster[0]) == state_of(&replica)
    });
    // And back: the term rises again.
    promote(&cluster[0]);
    wait_moved(&cluster, &[1, 2], &id, &cluster[0]);
    assert_eq!(told(&cluster[0], "term"), "2");
    eventually(secs(20), "the other one is told", || {
        told(&replica, "state") == "superseded"
    });
    replica.client().run("DISQUE RESET").expect_ok();
    assert_eq!(told(&replica, "state"), "serves");
    assert_ne!(replica.client().run("DISQUE MYID").expect_text(), id);
    cluster.wait_connected();
}

#[test]
fn a_superseded_one_knows_it_still_after_a_restart() {
    for persistence in [Persistence::None, Persistence::Aof] {
        let mut cluster = Cluster::start(2, Options::new().persistence(persistence));
        let id = cluster.id(0);
        let replica = replica_of(&cluster[0], node());
        promote(&replica);
        wait_moved(&cluster, &[1], &id, &replica);
        eventually(secs(20), "it is told", || {
            told(&cluster[0], "state") == "superseded"
        });
        // Nobody is there to tell it again.
        cluster[1].sigstop();
        cluster[0].restart();
        cluster[0]
            .client()
            .run("ADDJOB q x 0")
            .expect_error("SUPERSEDED");
        cluster[1].sigcont();
    }
}

#[test]
fn a_node_that_becomes_a_replica_stops_its_links_and_refuses_those_of_others() {
    let cluster = Cluster::new(3);
    let id = cluster.id(0);
    let elsewhere = Server::start(node());
    let mut waiting = cluster[0].client();
    waiting.start("GETJOB FROM empty");
    cluster[0].wait_blocked(1);
    let mut c = cluster[0].client();
    let nowhere = format!("REPLICAOF 127.0.0.1 {}", elsewhere.port());
    // It never gets there: its own data stay.
    elsewhere.sigstop();
    c.run(&nowhere).expect_ok();
    waiting.reply().expect_error("UNBLOCKED");
    for at in [1, 2] {
        cluster.wait_line(at, &id, "it refuses", |line| {
            let refusal = line.refusal.as_deref().unwrap_or_default();
            !line.connected && refusal.starts_with("READONLY")
        });
        cluster.wait_priority(at, &id, &[10, 100]);
    }
    eventually(secs(10), "it has no links", || {
        node_lines(&mut c)[1..].iter().all(|line| !line.connected)
    });
    c.run("CONFIG SET replica-read-only no").expect_ok();
    for command in [
        "ADDJOB q x 0",
        "DISQUE RESET",
        "DISQUE FLUSHALL",
        "DISQUE.BUS x",
    ] {
        c.run(command).expect_error("READONLY");
    }
    promote(&cluster[0]);
    assert_eq!(told(&cluster[0], "term"), "1");
    cluster.wait_connected();
    elsewhere.sigcont();
}

#[test]
fn a_replica_is_a_whole_copy_also_after_a_full_and_a_partial_sync() {
    let cluster = Cluster::new(3);
    let primary = &cluster[0];
    let mut c = primary.client();
    c.run("PAUSE paused in").expect_status("in");
    let acked = add_with(&mut c, "q", "acked", "0 REPLICATE 3 RETRY 600");
    let taken = add_with(&mut c, "p", "taken", "0 REPLICATE 2 RETRY 600");
    assert_eq!(take_now(&mut c, "p").expect("it is there").id, taken);
    // It stays acknowledged, and the other a dummy, while one node is away.
    cluster[2].sigstop();
    c.run(&format!("ACKJOB {acked}")).expect_number(1);
    c.run(&format!("ACKJOB {}", unknown_id(1, 1441)))
        .expect_number(0);
    // It had a life of its own.
    let replica = Server::start(node());
    let old = add(&mut replica.client(), "old", "x");
    follow(&replica, primary);
    assert_eq!(show(&replica, &old), None);
    let same = |when: &str| {
        let what = format!("equal after {when}");
        eventually(secs(10), &what, || state_of(&replica) == state_of(primary));
    };
    same("a full sync");
    assert_eq!(told(&replica, "dummy_acks"), "1");
    assert_eq!(told(&replica, "acked_jobs"), "1");

    // A short cut.
    let partial = || primary.info_number("stats", "sync_partial_ok");
    let before = partial();
    c.run("CLIENT KILL TYPE replica").expect_number(1);
    add_with(&mut c, "q", "later", "0 REPLICATE 2 RETRY 600");
    c.run(&format!("NACK {taken}")).expect_number(1);
    eventually(secs(20), "a partial sync", || partial() > before);
    catch_up(primary, &replica);
    same("a partial sync");
    cluster[2].sigcont();
}

#[test]
fn a_sentinel_fails_over_and_makes_the_old_primary_a_replica() {
    let mut cluster = Cluster::start(2, Options::new().persistence(Persistence::Aof));
    let id = cluster.id(0);
    let (replica, job) = replica_with_job(&cluster[0], "0 REPLICATE 1 RETRY 600");
    let sentinel = sentinel_of(&cluster[0]);
    eventually(secs(30), "it knows the replica", || {
        sentinel.info("sentinel")["master0"].contains("slaves=1")
    });
    cluster[0].kill9();
    wait_moved(&cluster, &[1], &id, &replica);
    let delivery = wait_job(&mut replica.client(), "q", secs(10));
    assert_eq!(delivery.expect("it is delivered").id, job);
    cluster[0].start_again();
    // The Sentinel closes all connections in the same transaction.
    let follows = format!("REPLICAOF {} enabled", address(&replica));
    eventually(secs(60), "it is told to follow", || {
        logged(&cluster[0], &follows) > 0
    });
    eventually(secs(60), "it follows", || {
        told(&cluster[0], "state") == "follows" && told(&cluster[0], "term") == "1"
    });
    assert_eq!(told(&replica, "state"), "serves");
}

/// A Sentinel that watches a server, alone. It takes a machine that is late by seconds
/// for a dead server: with less time it fails over to and fro.
fn sentinel_of(primary: &Server) -> Server {
    let watched = format!("test 127.0.0.1 {} 1", primary.port());
    let options = Options::new()
        .sentinel()
        .set("sentinel", &format!("monitor {watched}"))
        .set("sentinel", "down-after-milliseconds test 5000")
        .set("sentinel", "failover-timeout test 5000");
    Server::start(options)
}

#[test]
fn two_servers_that_are_one_node_both_stop_serving_until_one_is_gone() {
    let mut cluster = Cluster::start(2, Options::new().persistence(Persistence::Aof));
    let id = cluster.id(0);
    add(&mut cluster[0].client(), "q", "x");
    cluster[0].stop_clean();
    let mut copy = Server::start(node().persistence(Persistence::Aof));
    copy.stop_clean();
    copy_data(&cluster[0], &copy);
    cluster[0].start_again();
    cluster.wait_connected();
    let mut waiting = cluster[0].client();
    waiting.start("GETJOB FROM empty");
    cluster[0].wait_blocked(1);
    copy.start_again();
    assert_eq!(copy.client().run("DISQUE MYID").expect_text(), id);
    waiting
        .read(secs(30))
        .expect("it is answered")
        .expect_error("SUPERSEDED");
    for (server, other) in [(&cluster[0], &copy), (&copy, &cluster[0])] {
        eventually(secs(30), "it does not serve", || {
            told(server, "state") == "doubled"
        });
        let error = server.client().run("ADDJOB q x 0");
        error.expect_error("SUPERSEDED");
        let line = format!("is this node as well, at {}", address(other));
        assert!(logged(server, &line) > 0, "{}", server.log());
    }
    // The operator has it another one.
    copy.client().run("DISQUE RESET").expect_ok();
    assert_eq!(told(&copy, "state"), "serves");
    eventually(secs(60), "the node serves again", || {
        told(&cluster[0], "state") == "serves"
    });
    cluster.wait_connected();
}

/// What a server has on its disk, as if its directory had been copied.
fn copy_data(from: &Server, to: &Server) {
    std::fs::copy(nodes_file(from), nodes_file(to)).unwrap();
    let data = |server: &Server| server.directory().join("appendonlydir");
    std::fs::remove_dir_all(data(to)).unwrap();
    copy_directory(&data(from), &data(to));
}

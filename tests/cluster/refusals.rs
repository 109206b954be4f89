//! Nodes that answer with an error for a while: all see why, and they are back
//! when it is over.

use crate::common::*;

/// Node 0 sees node 1 refuse with this text, once in its log.
#[track_caller]
fn expect_refusal(cluster: &Cluster, id: &str, text: &str) {
    cluster.wait_line(0, id, text, |line| {
        let refusal = line.refusal.as_deref().unwrap_or_default();
        !line.connected && refusal.contains(text)
    });
    cluster.wait_priority(0, id, &[10, 100]);
    // Several attempts later.
    std::thread::sleep(ms(500));
    let told = format!("node {id} takes nothing");
    assert_eq!(logged(&cluster[0], &told), 1, "{}", cluster[0].log());
}

fn expect_healthy_rest(cluster: &Cluster) {
    let line = cluster.line(0, &cluster.id(2)).unwrap();
    assert!(line.connected && line.flags.is_empty(), "{line:?}");
    add(&mut cluster[0].client(), "q", "x");
}

#[test]
fn no_room_for_another_client() {
    let cluster = Cluster::new(3);
    let id = cluster.id(1);
    let mut c = cluster[1].client();
    c.run("CONFIG SET maxclients 1").expect_ok();
    c.run("CLIENT KILL TYPE normal SKIPME yes");
    expect_refusal(&cluster, &id, "max number of clients");
    expect_healthy_rest(&cluster);
    c.run("CONFIG SET maxclients 10000").expect_ok();
    cluster.wait_connected();
}

#[test]
fn a_script_that_runs_for_long() {
    let cluster = Cluster::start(3, Options::new().set("busy-reply-threshold", "50"));
    let id = cluster.id(1);
    let mut busy = cluster[1].client();
    let mut killer = cluster[1].client();
    busy.send(&["EVAL", "while true do end", "0"]);
    expect_refusal(&cluster, &id, "BUSY");
    expect_healthy_rest(&cluster);
    killer.run("SCRIPT KILL").expect_ok();
    busy.reply().expect_any_error();
    cluster.wait_connected();
}

#[test]
fn a_disk_that_takes_no_snapshot() {
    let cluster = Cluster::start(3, Options::new().persistence(Persistence::Rdb));
    let id = cluster.id(1);
    let mut c = cluster[1].client();
    // A directory cannot be replaced by a file.
    let in_the_way = cluster[1].directory().join("dump.rdb");
    let _ = std::fs::remove_file(&in_the_way);
    std::fs::create_dir(&in_the_way).unwrap();
    c.run("BGSAVE");
    expect_refusal(&cluster, &id, "MISCONF");
    expect_healthy_rest(&cluster);
    std::fs::remove_dir(&in_the_way).unwrap();
    c.run("BGSAVE");
    cluster.wait_connected();
}

#[test]
fn too_few_replicas() {
    let cluster = Cluster::new(3);
    let id = cluster.id(1);
    let mut c = cluster[1].client();
    c.run("CONFIG SET min-replicas-to-write 1").expect_ok();
    expect_refusal(&cluster, &id, "NOREPLICAS");
    expect_healthy_rest(&cluster);
    c.run("CONFIG SET min-replicas-to-write 0").expect_ok();
    cluster.wait_connected();
}

#[test]
fn a_replica_for_a_while() {
    let cluster = Cluster::new(3);
    let id = cluster.id(1);
    let nobody = Server::start(Options::new().without_module());
    let mut c = cluster[1].client();
    let port = nobody.port();
    drop(nobody);
    c.run(&format!("REPLICAOF 127.0.0.1 {port}")).expect_ok();
    expect_refusal(&cluster, &id, "READONLY");
    expect_healthy_rest(&cluster);
    c.run("REPLICAOF NO ONE").expect_ok();
    cluster.wait_connected();
    assert_eq!(cluster.id(1), id);
}

#[test]
fn a_load_that_takes_long() {
    // Two seconds for a thousand keys, with a look at the clients after each.
    let options = Options::new()
        .persistence(Persistence::Rdb)
        .set("key-load-delay", "2000")
        .set("loading-process-events-interval-bytes", "1024");
    let mut cluster = Cluster::start(3, options);
    let id = cluster.id(1);
    let mut c = cluster[1].client();
    let keys: Vec<String> = (0..1000).map(|n| format!("SET key-{n} value")).collect();
    c.pipeline(&keys);
    c.run("SAVE").expect_ok();
    let mut one = cluster.remove(1);
    one.kill9();
    std::thread::scope(|scope| {
        let loads = scope.spawn(|| one.start_again());
        cluster.wait_line(0, &id, "it loads", |line| {
            let refusal = line.refusal.as_deref().unwrap_or_default();
            !line.connected && refusal.starts_with("LOADING")
        });
        loads.join().unwrap();
    });
    let loaded = Instant::now();
    cluster.wait_line(0, &id, "it is connected", |line| line.connected);
    cluster.wait_priority(0, &id, &[1]);
    assert!(loaded.elapsed() < secs(2), "after {:?}", loaded.elapsed());
    assert_eq!(logged(&cluster[0], "takes nothing: LOADING"), 1);
}

#[test]
fn a_server_without_memory_still_talks() {
    let cluster = Cluster::new(2);
    let mut c = cluster[1].client();
    c.run("CONFIG SET maxmemory 1").expect_ok();
    // It keeps none itself.
    let id = add_with(&mut c, "q", "x", "0");
    eventually(secs(5), "the other one has it", || {
        holders(&cluster, &id) == [0]
    });
    cluster[0]
        .client()
        .run("PAUSE q in bcast")
        .expect_status("in");
    eventually(secs(5), "the queue is paused", || {
        c.run("PAUSE q state").raw() == b"+in\r\n"
    });
    let line = cluster.line(0, &cluster.id(1)).unwrap();
    assert!(line.connected, "{line:?}");
}

#[test]
fn clients_that_pause_for_writing() {
    let cluster = Cluster::new(3);
    let id = cluster.id(1);
    let mut c = cluster[1].client();
    let pause = NODE_TIMEOUT_MS * 2;
    c.run(&format!("CLIENT PAUSE {pause} WRITE")).expect_ok();
    cluster.wait_priority(0, &id, &[5, 10]);
    expect_healthy_rest(&cluster);
    cluster.wait_connected();
}

//! Nodes that die and come back, with their data or without.

use crate::common::*;

/// Restarts each node in turn, without warning, and then all at once.
fn kill_and_restart(persistence: Persistence) {
    let mut cluster = Cluster::start(3, Options::new().persistence(persistence));
    let ids = cluster.ids();
    for at in 0..3 {
        cluster[at].kill9();
        cluster[at].start_again();
        cluster.wait_connected();
    }
    for at in 0..3 {
        cluster[at].kill9();
    }
    for at in 0..3 {
        cluster[at].start_again();
    }
    cluster.wait_connected();
    for at in 0..3 {
        cluster[at].restart();
    }
    cluster.wait_connected();
    assert_eq!(cluster.ids(), ids);
}

#[test]
fn without_persistence_the_nodes_file_brings_all_together_again() {
    kill_and_restart(Persistence::None);
}

#[test]
fn with_an_append_only_file_all_come_together_again() {
    kill_and_restart(Persistence::Aof);
}

#[test]
fn the_table_in_the_append_only_file_serves_where_the_nodes_file_is_gone() {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::Aof));
    let ids = cluster.ids();
    // The others remember how often it has started.
    for _ in 0..3 {
        cluster[0].restart();
    }
    cluster.wait_connected();
    cluster[0].stop_clean();
    std::fs::remove_file(nodes_file(&cluster[0])).unwrap();
    cluster[0].start_again();
    cluster.wait_connected();
    assert_eq!(cluster.ids(), ids);
}

#[test]
fn a_damaged_nodes_file_is_told_and_the_node_is_another_one() {
    let mut cluster = Cluster::new(2);
    let old = cluster.id(1);
    cluster[1].stop_clean();
    let path = nodes_file(&cluster[1]);
    let mut text = std::fs::read(&path).unwrap();
    let middle = text.len() / 2;
    text[middle] ^= 1;
    std::fs::write(&path, text).unwrap();
    cluster[1].start_again();
    assert!(cluster[1].log_contains("the nodes file is not used"));
    assert_ne!(cluster.id(1), old);
    assert_eq!(node_lines(&mut cluster[1].client()).len(), 1);
}

#[test]
fn another_node_at_the_same_address_is_not_taken_for_the_old_one() {
    let mut cluster = Cluster::new(3);
    let old = cluster.id(2);
    cluster[2].kill9();
    let path = nodes_file(&cluster[2]);
    std::fs::remove_file(path).unwrap();
    cluster[2].start_again();
    let new = cluster.id(2);
    assert_ne!(old, new);
    for at in [0, 1] {
        cluster.wait_line(at, &old, "another one lives there", |line| {
            let refusal = line.refusal.as_deref().unwrap_or_default();
            !line.connected && refusal.contains(&new)
        });
    }
    // It was not introduced to anybody.
    assert_eq!(node_lines(&mut cluster[2].client()).len(), 1);
    cluster.meet(0, 2);
    for at in [0, 1] {
        cluster.wait_line(at, &new, "it is connected", |line| line.connected);
        cluster.wait_priority(at, &old, &[100]);
    }
    let mut c = cluster[0].client();
    c.run(&format!("DISQUE FORGET {old}")).expect_ok();
    cluster.wait_connected();
}

#[test]
fn a_reload_changes_no_acquaintance() {
    let cluster = Cluster::start(3, Options::new().persistence(Persistence::Both));
    let ids = cluster.ids();
    let mut c = cluster[1].client();
    for command in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        c.run(command).expect_ok();
        cluster.wait_connected();
    }
    assert_eq!(cluster.ids(), ids);
}

#[test]
fn a_promoted_replica_takes_the_place_of_its_primary() {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::Aof));
    let id = cluster.id(1);
    // It has started more often than its replica.
    for _ in 0..3 {
        cluster[1].restart();
    }
    cluster.wait_connected();
    let replica = Server::start(node());
    let mut r = replica.client();
    r.run(&format!("REPLICAOF 127.0.0.1 {}", cluster[1].port()))
        .expect_ok();
    eventually(secs(20), "the replica follows", || {
        let info = replica.info("replication");
        info.get("master_link_status").is_some_and(|s| s == "up")
    });
    assert_eq!(r.run("DISQUE MYID").expect_text(), id);
    cluster[1].kill9();
    r.run("REPLICAOF NO ONE").expect_ok();
    let address = format!("127.0.0.1:{}", replica.port());
    for at in [0, 2] {
        cluster.wait_line(at, &id, "it is where the replica is", |line| {
            line.address == address && line.connected
        });
        cluster.wait_priority(at, &id, &[1]);
    }
}

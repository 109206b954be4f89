//! Nodes that join, come back with less than they had, or are replaced, while jobs
//! go through the cluster.

use crate::common::*;
use std::collections::BTreeSet;

/// Jobs are added at some nodes and worked on at others; none may be missing.
struct Load {
    added: BTreeSet<String>,
    done: BTreeSet<String>,
    seen: usize,
}

impl Load {
    fn new() -> Load {
        Load {
            added: BTreeSet::new(),
            done: BTreeSet::new(),
            seen: 0,
        }
    }

    /// Adds so many jobs at each of these nodes, and works on half as many there.
    #[track_caller]
    fn run(&mut self, cluster: &Cluster, nodes: &[usize], jobs: usize) {
        for at in nodes {
            let mut c = cluster[*at].client();
            for n in 0..jobs {
                let id = add_with(&mut c, "load", &n.to_string(), "5000 RETRY 2");
                assert!(self.added.insert(id), "an id was given out twice");
            }
            for _ in 0..jobs / 2 {
                self.work(&mut c);
            }
        }
    }

    fn work(&mut self, c: &mut Client) -> bool {
        let Some(delivery) = take_now(c, "load") else {
            return false;
        };
        self.seen += 1;
        assert!(self.added.contains(&delivery.id), "nobody added it");
        c.run(&format!("ACKJOB {}", delivery.id)).expect_number(1);
        self.done.insert(delivery.id);
        true
    }

    /// Works on what is left until all are done.
    #[track_caller]
    fn drain(&mut self, cluster: &Cluster, nodes: &[usize]) {
        eventually(secs(30), "all jobs are done", || {
            for at in nodes {
                let mut c = cluster[*at].client();
                while self.work(&mut c) {}
            }
            self.done == self.added
        });
    }
}

#[track_caller]
fn epoch(server: &Server) -> String {
    let reply = server.client().run("DISQUE INFO data_epoch");
    reply.expect_text()
}

/// Each job has as many copies as it should.
#[track_caller]
fn wait_repaired(cluster: &Cluster, nodes: &[usize]) {
    for at in nodes {
        wait_figure(&cluster[*at], "under_replicated", 0, secs(30));
    }
}

#[test]
fn a_cluster_grows_from_one_to_five_and_shrinks_to_three_without_loss() {
    let mut cluster = Cluster::strangers(5, Options::new());
    let mut load = Load::new();
    load.run(&cluster, &[0], 20);
    for (first, last) in [(1, 2), (3, 4)] {
        cluster.meet(0, first);
        cluster.meet(0, last);
        // At once, while they get to know each other.
        load.run(&cluster, &[0, first, last], 20);
    }
    cluster.wait_connected();
    load.run(&cluster, &[0, 1, 2, 3, 4], 20);
    for gone in [4, 3] {
        let id = cluster.id(gone);
        let stay: Vec<usize> = (0..gone).collect();
        // What it alone has, it hands out first.
        let mut c = cluster[gone].client();
        while load.work(&mut c) {}
        wait_repaired(&cluster, &stay);
        drop(cluster.remove(gone));
        cluster[0]
            .client()
            .run(&format!("DISQUE FORGET {id}"))
            .expect_ok();
        cluster.wait_connected();
        load.run(&cluster, &stay, 10);
        wait_repaired(&cluster, &stay);
    }
    load.drain(&cluster, &[0, 1, 2]);
    wait_empty(&cluster, secs(30));
}

/// Its nodes file is there, and its data are not.
#[test]
fn a_node_that_comes_back_empty_gets_its_copies_again() {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::Aof));
    let id = cluster.id(2);
    let job = add_with(
        &mut cluster[0].client(),
        "q",
        "x",
        "0 REPLICATE 3 RETRY 600",
    );
    let before = epoch(&cluster[2]);
    cluster[2].kill9();
    let data = cluster[2].directory().join("appendonlydir");
    std::fs::remove_dir_all(data).unwrap();
    cluster[2].start_again();
    assert_eq!(cluster.id(2), id);
    assert_ne!(epoch(&cluster[2]), before);
    cluster.wait_connected();
    eventually(secs(20), "it has the copy again", || {
        state(&cluster[2], &job) == "active"
    });
    wait_repaired(&cluster, &[0, 1, 2]);
    let mut c = cluster[2].client();
    c.run(&format!("ACKJOB {job}")).expect_number(1);
    wait_empty(&cluster, secs(20));
}

#[test]
fn an_old_backup_is_noticed_and_its_jobs_are_asked_about_first() {
    restore_backup(true);
}

/// What was written since the last look at the nodes file, nobody knows then.
#[test]
fn jobs_of_an_old_backup_are_asked_about_too_where_the_server_was_killed() {
    restore_backup(false);
}

/// A job in an old backup was done since: the others are asked before it is queued.
fn restore_backup(stops_cleanly: bool) {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::Aof));
    let done = add_with(
        &mut cluster[0].client(),
        "q",
        "done",
        "0 REPLICATE 3 RETRY 2",
    );
    let live = add_with(
        &mut cluster[0].client(),
        "p",
        "live",
        "0 REPLICATE 3 RETRY 2",
    );
    cluster[0].stop_clean();
    let data = cluster[0].directory().join("appendonlydir");
    let backup = cluster[0].directory().join("backup");
    copy_directory(&data, &backup);
    cluster[0].start_again();
    cluster.wait_connected();
    let before = epoch(&cluster[0]);
    cluster[1]
        .client()
        .run(&format!("ACKJOB {done}"))
        .expect_number(1);
    eventually(secs(10), "all know", || holders(&cluster, &done).is_empty());
    // It writes something after the backup.
    add(&mut cluster[0].client(), "later", "x");
    match stops_cleanly {
        true => cluster[0].stop_clean(),
        false => cluster[0].kill9(),
    }
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&backup, &data).unwrap();
    cluster[0].start_again();
    assert_eq!(epoch(&cluster[0]) != before, stops_cleanly);
    assert_eq!(
        cluster[0].log_contains("older than what this node has written"),
        stops_cleanly
    );
    let mut c = cluster[0].client();
    c.run("GETJOB NOHANG FROM q").expect_null_array();
    cluster.wait_connected();
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
    assert_eq!(wait_job(&mut c, "p", secs(10)).expect("lost").id, live);
}

#[test]
fn a_node_that_is_replaced_at_its_address_is_another_one_and_jobs_get_copies_there() {
    let mut cluster = Cluster::new(3);
    let old = cluster.id(2);
    let mut load = Load::new();
    load.run(&cluster, &[0, 1], 10);
    let job = add_with(
        &mut cluster[0].client(),
        "q",
        "x",
        "0 REPLICATE 3 RETRY 600",
    );
    cluster[2].kill9();
    std::fs::remove_file(nodes_file(&cluster[2])).unwrap();
    cluster[2].start_again();
    let new = cluster.id(2);
    assert_ne!(old, new);
    let mut c = cluster[0].client();
    c.run(&format!("DISQUE FORGET {old}")).expect_ok();
    cluster.meet(0, 2);
    load.run(&cluster, &[0, 1, 2], 10);
    cluster.wait_connected();
    eventually(secs(20), "the new one has a copy", || {
        state(&cluster[2], &job) == "active"
    });
    wait_repaired(&cluster, &[0, 1, 2]);
    load.drain(&cluster, &[0, 1, 2]);
    c.run(&format!("ACKJOB {job}")).expect_number(1);
    wait_empty(&cluster, secs(30));
}

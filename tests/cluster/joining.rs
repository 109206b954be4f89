//! Nodes that join, come back with less than they had, or are replaced, while jobs
//! go through the cluster.

use crate::common::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Adds jobs until it is told to stop. Returns their ids.
fn produce(mut client: Client, stop: &AtomicBool) -> Vec<String> {
    let mut ids = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        ids.push(add_with(&mut client, "load", "x", "5000 RETRY 60"));
        std::thread::sleep(ms(2));
    }
    ids
}

/// Works on jobs until it is told to stop and none comes any more. Returns their ids.
fn consume(mut client: Client, stop: &AtomicBool) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let stops = stop.load(Ordering::Relaxed);
        match wait_job(&mut client, "load", secs(1)) {
            Some(job) => {
                client.run(&format!("ACKJOB {}", job.id)).expect_number(1);
                ids.push(job.id);
            }
            None if stops => return ids,
            None => {}
        }
    }
}

fn grow_to_five(cluster: &Cluster) {
    for (first, last) in [(1, 2), (3, 4)] {
        cluster.meet(0, first);
        cluster.meet(0, last);
        std::thread::sleep(ms(300));
    }
    cluster.wait_connected();
    std::thread::sleep(ms(300));
}

/// Takes the last node out of use, as an operator does.
fn take_out_last(cluster: &mut Cluster) {
    let last = cluster.len() - 1;
    let id = cluster.id(last);
    let mut c = cluster[last].client();
    c.run("DISQUE LEAVING yes").expect_ok();
    eventually(secs(30), "it is drained", || {
        left(&cluster[last])[..2] == [0, 0]
    });
    cluster.remove(last).stop_clean();
    let forget = format!("DISQUE FORGET {id}");
    cluster[0].client().run(&forget).expect_ok();
    cluster.wait_connected();
}

#[test]
fn under_load_a_cluster_grows_from_one_to_five_and_shrinks_to_three() {
    let mut cluster = Cluster::strangers(5, Options::new());
    let clients =
        |cluster: &Cluster| -> Vec<Client> { (0..3).map(|at| cluster[at].client()).collect() };
    let (producers, consumers) = (clients(&cluster), clients(&cluster));
    let (enough, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let (added, mut seen) = std::thread::scope(|scope| {
        let (enough, stop) = (&enough, &stop);
        let producers: Vec<_> = producers
            .into_iter()
            .map(|client| scope.spawn(move || produce(client, enough)))
            .collect();
        let consumers: Vec<_> = consumers
            .into_iter()
            .map(|client| scope.spawn(move || consume(client, stop)))
            .collect();
        grow_to_five(&cluster);
        for at in [3, 4] {
            // What is added here is worked on elsewhere.
            let mut c = cluster[at].client();
            (0..50).for_each(|_| drop(add_with(&mut c, "last", "x", "5000 RETRY 60")));
        }
        take_out_last(&mut cluster);
        take_out_last(&mut cluster);
        std::thread::sleep(ms(300));
        enough.store(true, Ordering::Relaxed);
        let added = producers
            .into_iter()
            .flat_map(|one| one.join().expect("ids"));
        let added: BTreeSet<String> = added.collect();
        stop.store(true, Ordering::Relaxed);
        let seen = consumers
            .into_iter()
            .flat_map(|one| one.join().expect("ids"));
        (added, seen.collect::<Vec<String>>())
    });
    seen.sort_unstable();
    let added: Vec<String> = added.into_iter().collect();
    assert!(added.len() > 300, "{} jobs", added.len());
    assert_eq!(seen, added, "each job comes once");
    wait_repaired(&cluster, &[0, 1, 2]);
    let mut c = cluster[0].client();
    for _ in 0..100 {
        let job = wait_job(&mut c, "last", secs(5)).expect("what was drained");
        assert_eq!(holders(&cluster, &job.id), [0, 1, 2]);
        c.run(&format!("ACKJOB {}", job.id));
    }
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

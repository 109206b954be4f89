//! A Redis replica of a node: a passive copy until it is promoted.

use crate::common::*;

fn replica_of(master: &Server, persistence: Persistence) -> Server {
    let options = Options::new()
        .persistence(persistence)
        .set("replicaof", &format!("127.0.0.1 {}", master.port()))
        .set("repl-diskless-sync-delay", "0");
    let replica = Server::start(options);
    eventually(secs(20), "the replica is in sync", || {
        replica.info("replication")["master_link_status"] == "up"
    });
    replica
}

/// Waits until the replica has all that the master wrote.
fn catch_up(master: &Server, replica: &Server) {
    let offset = || master.info_number("replication", "master_repl_offset");
    eventually(secs(10), "the replica catches up", || {
        replica.info_number("replication", "slave_repl_offset") >= offset()
    });
}

#[test]
fn it_holds_what_the_master_holds() {
    let master = Server::new();
    let mut c = master.client();
    let before = c.add("q", "before the sync", "");
    let replica = replica_of(&master, Persistence::None);
    let after = c.add("q", "after the sync", "");
    let acked = c.add("q", "acked", "");
    c.run(&format!("ACKJOB {acked}")).expect_number(1);
    catch_up(&master, &replica);
    let mut r = replica.client();
    for id in [&before, &after] {
        let (ours, theirs) = (c.show(id).unwrap(), r.show(id).unwrap());
        assert_eq!(ours.body, theirs.body);
        assert_eq!(ours.ctime, theirs.ctime);
    }
    assert_eq!(r.show(&acked), None);
    assert_eq!(r.my_id(), c.my_id());
}

#[test]
fn it_takes_no_commands_and_delivers_nothing_by_itself() {
    let master = Server::new();
    let mut c = master.client();
    let replica = replica_of(&master, Persistence::None);
    let id = c.add("q", "x", "RETRY 0.3");
    c.take("q");
    catch_up(&master, &replica);
    let mut r = replica.client();
    for command in ["ADDJOB q x 0", "GETJOB NOHANG FROM q", "GETJOB FROM q"] {
        r.run(command).expect_error("READONLY");
    }
    r.run(&format!("ACKJOB {id}")).expect_error("READONLY");
    // Its log would show what it wrote on its own.
    eventually(secs(4), "the master queues it again", || c.len("q") == 1);
    assert!(r.show(&id).is_some());
}

#[test]
fn a_full_sync_replaces_all_its_state() {
    let master = Server::new();
    let id = master.client().add("q", "x", "");
    let replica = Server::new();
    let mut r = replica.client();
    let old = r.add("old", "x", "");
    r.run(&format!("REPLICAOF 127.0.0.1 {}", master.port()))
        .expect_ok();
    eventually(secs(20), "the replica is in sync", || {
        replica.info("replication")["master_link_status"] == "up"
    });
    assert_eq!(r.show(&old), None);
    assert!(r.show(&id).is_some());
}

#[test]
fn a_promoted_one_delivers_what_was_waiting_and_what_falls_due() {
    let mut master = Server::new();
    let mut c = master.client();
    let replica = replica_of(&master, Persistence::None);
    let queued = c.add("q", "x", "");
    let delivered = c.add("p", "x", "RETRY 1");
    c.take("p");
    let once = c.add("once", "x", "RETRY 0");
    catch_up(&master, &replica);
    let node = c.my_id();
    master.kill9();
    let mut r = replica.client();
    r.run("REPLICAOF NO ONE").expect_ok();
    assert_eq!(r.take("q").id, queued);
    assert_eq!(r.wait_job("p", secs(8)).expect("lost").id, delivered);
    assert_eq!(r.my_id(), node);
    // The master may have delivered it unseen.
    r.run("GETJOB TIMEOUT 300 FROM once").expect_null_array();
    assert_eq!(r.state(&once), "active");
    r.add("q", "new", "");
}

#[test]
fn what_a_promoted_one_withholds_it_withholds_after_a_clean_restart_too() {
    let mut master = Server::new();
    let mut c = master.client();
    let mut replica = replica_of(&master, Persistence::Aof);
    let once = c.add("once", "x", "RETRY 0");
    catch_up(&master, &replica);
    master.kill9();
    replica.client().run("REPLICAOF NO ONE").expect_ok();
    eventually(secs(5), "the job is withheld", || {
        replica.client().state(&once) == "active"
    });
    eventually(secs(20), "the append only file is complete", || {
        let info = replica.info("persistence");
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    });
    replica.stop_clean();
    replica.configure("replicaof", "no one");
    replica.start_again();
    let mut r = replica.client();
    r.run("GETJOB TIMEOUT 300 FROM once").expect_null_array();
    assert_eq!(r.state(&once), "active");
}

#[test]
fn each_change_is_propagated_once() {
    let master = Server::new();
    let replica = replica_of(&master, Persistence::Aof);
    let mut c = master.client();
    let ids: Vec<String> = (0..50).map(|n| c.add("q", &n.to_string(), "")).collect();
    let jobs = c.get_now("COUNT 50 FROM q");
    assert_eq!(jobs.len(), 50);
    for id in &ids {
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
    catch_up(&master, &replica);
    expect_no_jobs(&mut replica.client());
    let stats = replica.info("commandstats");
    let calls: i64 = stats
        .iter()
        .filter(|(name, _)| name.to_lowercase().contains("disque"))
        .map(|(_, value)| {
            let calls = value.split(',').next().unwrap();
            calls.trim_start_matches("calls=").parse::<i64>().unwrap()
        })
        .sum();
    // 50 adds, one GETJOB, 50 acks; JSCAN above is no change.
    assert!((101..=110).contains(&calls), "{calls}: {stats:?}");
}

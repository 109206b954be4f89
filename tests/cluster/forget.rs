//! DISQUE FORGET and DISQUE RESET.

use crate::common::*;

#[track_caller]
fn forget(cluster: &Cluster, at: usize, id: &str) {
    let mut c = cluster[at].client();
    c.run(&format!("DISQUE FORGET {id}")).expect_ok();
    let lines = node_lines(&mut c);
    assert!(lines.iter().all(|line| line.id != id), "{lines:?}");
}

#[track_caller]
fn wait_forgotten(cluster: &Cluster, at: usize, id: &str) {
    cluster.wait_node(at, "the node is gone", |lines| {
        lines.iter().all(|line| line.id != id)
    });
}

/// A node that was forgotten serves nothing.
#[track_caller]
fn expect_no_service(server: &Server, id: &str) {
    let mut c = server.client();
    eventually(secs(10), "it knows that it was forgotten", || {
        node_lines(&mut c)[0].has("forgotten")
    });
    for command in [
        "ADDJOB q x 0",
        "GETJOB FROM q",
        "GETJOB NOHANG FROM q",
        "QLEN q",
        "PAUSE q in",
        &format!("SHOW {id}"),
        &format!("ACKJOB {id}"),
        &format!("NACK {id}"),
    ] {
        c.run(command).expect_error("FORGOTTEN");
    }
    assert_eq!(hello(&mut c)[0].id, c.run("DISQUE MYID").expect_text());
}

#[test]
fn a_node_that_is_forgotten_serves_nothing_until_it_is_reset() {
    let cluster = Cluster::new(3);
    let id = cluster.id(2);
    let mut c = cluster[2].client();
    let job = add(&mut c, "q", "x");
    let mut waiting = [cluster[2].client(), cluster[2].client()];
    for c in &mut waiting {
        c.start("GETJOB FROM empty");
    }
    cluster[2].wait_blocked(2);
    forget(&cluster, 0, &id);
    for c in &mut waiting {
        c.reply().expect_error("FORGOTTEN");
    }
    wait_forgotten(&cluster, 1, &id);
    expect_no_service(&cluster[2], &job);
    // It cannot be met as it is.
    let text = cluster[0]
        .client()
        .run(&meet("127.0.0.1", &cluster[2]))
        .expect_error("ERR");
    assert!(text.contains("RESET"), "{text}");
    assert_eq!(logged(&cluster[2], "serves nothing until"), 1);

    c.run("DISQUE RESET").expect_ok();
    assert_ne!(cluster.id(2), id);
    assert_eq!(node_lines(&mut c).len(), 1);
    c.run(&format!("SHOW {job}")).expect_null_bulk();
    c.run("QLEN q").expect_number(0);
    let job = add(&mut c, "q", "y");
    assert_eq!(deliveries(&c.run("GETJOB FROM q"))[0].id, job);
    cluster.meet(1, 2);
    cluster.wait_connected();
}

#[test]
fn gossip_does_not_undo_it_not_even_after_restarts() {
    for persistence in [Persistence::None, Persistence::Aof] {
        let mut cluster = Cluster::start(4, Options::new().persistence(persistence));
        let id = cluster.id(3);
        // One node and the forgotten one are away as it happens.
        let mut gone = cluster.remove(3);
        gone.kill9();
        cluster[1].kill9();
        forget(&cluster, 0, &id);
        wait_forgotten(&cluster, 2, &id);
        cluster[0].kill9();
        cluster[0].start_again();
        // This one still has it in its table.
        cluster[1].start_again();
        cluster.wait_connected();
        for at in 0..3 {
            assert_eq!(node_lines(&mut cluster[at].client()).len(), 3);
        }
        gone.start_again();
        expect_no_service(&gone, &format!("D-{:08}-{:024}-05a1", 1, 1));
        for at in 0..3 {
            assert_eq!(node_lines(&mut cluster[at].client()).len(), 3);
        }
        gone.kill9();
        gone.start_again();
        expect_no_service(&gone, &format!("D-{:08}-{:024}-05a1", 1, 1));
    }
}

/// It knows that it was forgotten, with data or without.
#[test]
fn a_node_that_was_told_stays_forgotten_when_it_has_lost_its_data() {
    let mut cluster = Cluster::start(3, Options::new());
    let id = cluster.id(2);
    forget(&cluster, 0, &id);
    let unknown = format!("D-{:08}-{:024}-05a1", 1, 1);
    eventually(secs(10), "it is told", || {
        let reply = cluster[2].client().run(&format!("SHOW {unknown}"));
        matches!(reply.value(), Value::Error(_))
    });
    cluster[2].kill9();
    cluster[2].start_again();
    expect_no_service(&cluster[2], &unknown);
    assert_eq!(node_lines(&mut cluster[0].client()).len(), 2);
}

#[test]
fn a_reset_node_is_another_one() {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::Aof));
    let old = cluster.id(2);
    let mut c = cluster[2].client();
    add(&mut c, "q", "x");
    let mut waiting = cluster[2].client();
    waiting.start("GETJOB FROM empty");
    cluster[2].wait_blocked(1);
    c.run("PAUSE p in").expect_status("in");
    c.run("DISQUE RESET").expect_ok();
    waiting.reply().expect_null_array();
    c.run("QLEN q").expect_number(0);
    let new = cluster.id(2);
    assert_ne!(new, old);
    // The others see that somebody else lives there.
    for at in [0, 1] {
        cluster.wait_line(at, &old, "another one lives there", |line| {
            let refusal = line.refusal.as_deref().unwrap_or_default();
            !line.connected && refusal.contains(&new)
        });
    }
    assert_eq!(node_lines(&mut c).len(), 1);
    cluster[2].kill9();
    cluster[2].start_again();
    assert_eq!(cluster.id(2), new);
    let mut c = cluster[2].client();
    c.run("QLEN q").expect_number(0);
    assert_eq!(node_lines(&mut c).len(), 1);
    forget(&cluster, 0, &old);
    cluster.meet(2, 0);
    cluster.wait_connected();
}

#[test]
fn all_can_be_forgotten_and_the_last_one_is_alone() {
    let cluster = Cluster::new(3);
    let ids = cluster.ids();
    let mut c = cluster[0].client();
    forget(&cluster, 0, &ids[1]);
    forget(&cluster, 0, &ids[2]);
    add(&mut c, "q", "x");
    for at in [1, 2] {
        let mut c = cluster[at].client();
        eventually(secs(5), "it was forgotten", || {
            node_lines(&mut c)[0].has("forgotten")
        });
    }
    c.run(&format!("DISQUE FORGET {}", ids[1]))
        .expect_error("ERR");
    assert_eq!(node_lines(&mut c).len(), 1);
}

#[test]
fn a_node_remembers_that_it_was_forgotten_when_nobody_is_there_to_tell_it() {
    for persistence in [Persistence::None, Persistence::Aof, Persistence::Rdb] {
        let mut cluster = Cluster::start(2, Options::new().persistence(persistence));
        let id = cluster.id(1);
        forget(&cluster, 0, &id);
        let mut c = cluster[1].client();
        eventually(secs(5), "it was forgotten", || {
            node_lines(&mut c)[0].has("forgotten")
        });
        cluster[0].kill9();
        cluster[1].restart();
        let mut c = cluster[1].client();
        c.run("ADDJOB q x 0").expect_error("FORGOTTEN");
        c.run("DISQUE RESET").expect_ok();
        cluster[1].restart();
        add(&mut cluster[1].client(), "q", "x");
    }
}

#[test]
fn messages_that_were_dropped_stay_counted() {
    let cluster = Cluster::new(2);
    let id = cluster.id(1);
    let dropped = || figure(&cluster[0], "bus_messages_dropped_total");
    // What is under way to a node that hangs is dropped with its link.
    cluster[1].sigstop();
    eventually(secs(20), "a link has ended", || dropped() > 0);
    let before = dropped();
    cluster[0]
        .client()
        .run(&format!("DISQUE FORGET {id}"))
        .expect_ok();
    assert!(dropped() >= before);
    cluster[1].sigcont();
}

//! What one node knows comes to all.

use crate::common::*;

#[test]
fn a_chain_of_acquaintances_ends_with_all_knowing_all() {
    for count in [3, 5] {
        let cluster = Cluster::strangers(count, Options::new());
        let start = Instant::now();
        for n in 1..count {
            cluster.meet(n - 1, n);
        }
        cluster.wait_connected();
        let took = start.elapsed();
        assert!(took < secs(5), "it took {took:?}");
    }
}

#[test]
fn two_clusters_become_one_by_one_acquaintance() {
    let cluster = Cluster::strangers(4, Options::new());
    cluster.meet(0, 1);
    cluster.meet(2, 3);
    cluster.wait_node(0, "it knows two", |lines| lines.len() == 2);
    cluster.wait_node(3, "it knows two", |lines| lines.len() == 2);
    cluster.meet(1, 2);
    cluster.wait_connected();
}

#[test]
fn a_pause_for_all_reaches_all_and_stays() {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::Aof));
    let mut c = cluster[1].client();
    c.run("PAUSE q in bcast").expect_status("in");
    c.run("PAUSE own out").expect_status("out");
    for at in 0..3 {
        let mut c = cluster[at].client();
        eventually(secs(5), "the queue is paused everywhere", || {
            c.run("PAUSE q state").raw() == b"+in\r\n"
        });
        c.run("ADDJOB q x 0").expect_error("PAUSED");
        let own: &[u8] = if at == 1 { b"+out\r\n" } else { b"+none\r\n" };
        c.run("PAUSE own state").expect_raw(own);
    }
    cluster[2].kill9();
    cluster[2].start_again();
    let mut c = cluster[2].client();
    c.run("PAUSE q state").expect_status("in");
    cluster.wait_connected();
    c.run("PAUSE q none bcast").expect_status("none");
    for at in 0..3 {
        let mut c = cluster[at].client();
        eventually(secs(5), "the queue is open everywhere", || {
            c.run("PAUSE q state").raw() == b"+none\r\n"
        });
    }
}

#[test]
fn all_see_that_a_node_leaves() {
    let cluster = Cluster::new(3);
    let id = cluster.id(1);
    let mut c = cluster[1].client();
    c.run("DISQUE LEAVING yes").expect_ok();
    for at in [0, 2] {
        cluster.wait_line(at, &id, "it is leaving", |line| {
            line.has("leaving") && line.connected && !line.has("failed")
        });
        cluster.wait_priority(at, &id, &[100]);
    }
    c.run("DISQUE LEAVING no").expect_ok();
    for at in [0, 2] {
        cluster.wait_line(at, &id, "it stays", |line| line.flags.is_empty());
        cluster.wait_priority(at, &id, &[1]);
    }
}

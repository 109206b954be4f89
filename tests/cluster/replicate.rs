//! Jobs on a node that has others beside it. Each node keeps its jobs alone.

use crate::common::*;

#[test]
fn one_copy_is_what_there_is() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    for options in ["REPLICATE 2", "REPLICATE 3 ASYNC"] {
        c.run(&format!("ADDJOB q x 0 {options}"))
            .expect_error("NOREPL");
    }
    c.run("QLEN q").expect_number(0);
    for options in ["", " REPLICATE 1"] {
        let id = c.run(&format!("ADDJOB q x 0{options}")).expect_job_id();
        let job = Show::read(&c.run(&format!("SHOW {id}"))).unwrap();
        assert_eq!(job.repl, 1);
    }
    c.run("QLEN q").expect_number(2);
    cluster[1].client().run("QLEN q").expect_number(0);
}

#[test]
fn jobs_go_round_on_each_node_while_links_come_and_go() {
    let cluster = Cluster::new(3);
    for round in 0..20 {
        let at = round % 3;
        let mut c = cluster[at].client();
        let id = add(&mut c, "q", "x");
        cluster[(at + 1) % 3]
            .client()
            .run("CLIENT KILL TYPE normal SKIPME yes");
        assert_eq!(deliveries(&c.run("GETJOB FROM q"))[0].id, id);
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
    cluster.wait_connected();
}

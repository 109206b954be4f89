//! Large bodies on their way to other nodes, as arguments of their own.

use crate::common::*;

const SIZES: [usize; 4] = [(32 << 10) - 1, 32 << 10, 64 << 10, 1 << 20];

fn body(len: usize) -> String {
    let line = format!("the body of {len} bytes ");
    line.chars().cycle().take(len).collect()
}

#[test]
fn every_holder_has_the_body_that_was_given() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    let mut ids: Vec<(String, String)> = Vec::new();
    for len in SIZES {
        let id = add_with(&mut c, "q", &body(len), "5000 REPLICATE 3");
        ids.push((id, body(len)));
    }
    // One frame may carry several of them, and small ones between.
    let bodies = [body(40_000), "small".into(), body(50_000)];
    let mut batch = vec!["ADDJOBS", "q", "5000", "REPLICATE", "3", "BODIES"];
    batch.extend(bodies.iter().map(String::as_str));
    let reply = c.call(&batch);
    let batch = reply.expect_array().iter().map(|id| id.text().to_string());
    ids.extend(batch.zip(bodies.clone()));
    for at in 0..3 {
        for (id, body) in &ids {
            let job = show(&cluster[at], id).expect("a copy");
            let found = job.body.expect("its body");
            assert!(found == body.as_bytes(), "node {at}: {} bytes", body.len());
        }
    }
}

#[test]
fn copies_of_them_survive_their_first_node_and_kills_of_the_others() {
    let options = Options::new().persistence(Persistence::AofAlways);
    let mut cluster = Cluster::start(3, options);
    let mut c = cluster[0].client();
    for len in SIZES {
        let options = "5000 REPLICATE 3 RETRY 1";
        add_with(&mut c, &len.to_string(), &body(len), options);
    }
    cluster.servers()[0].kill9();
    for at in [1, 2] {
        cluster.servers()[at].kill9();
        cluster.servers()[at].start_again();
    }
    for len in SIZES {
        let mut c = cluster[1].client();
        let job = wait_job(&mut c, &len.to_string(), secs(30)).expect("the job");
        assert!(job.text() == body(len), "{len}");
    }
}

#[test]
fn workers_elsewhere_get_them() {
    let cluster = Cluster::new(2);
    for len in SIZES {
        let mut worker = cluster[1].client();
        worker.start("GETJOB TIMEOUT 20000 FROM q");
        cluster[1].wait_blocked(1);
        add_with(&mut cluster[0].client(), "q", &body(len), "0 REPLICATE 1");
        let jobs = deliveries(&worker.reply());
        assert!(jobs[0].text() == body(len), "{len}");
        worker
            .run(&format!("ACKJOB {}", jobs[0].id))
            .expect_number(1);
    }
}

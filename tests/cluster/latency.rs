//! What a node that is in trouble costs the others.

use crate::common::*;

/// The time within which 99 of 100 ADDJOBs were answered.
fn p99(client: &mut Client) -> Duration {
    const JOBS: usize = 3000;
    let mut times: Vec<Duration> = (0..JOBS)
        .map(|_| {
            let start = Instant::now();
            add_with(client, "q", "a body of some length", "0 REPLICATE 1");
            start.elapsed()
        })
        .collect();
    client.run("DISQUE FLUSHALL").expect_ok();
    times.sort();
    times[JOBS * 99 / 100]
}

/// The machine's own noise is in some rounds, a cost of the links in all.
fn expect_quick(client: &mut Client, limit: Duration, beside: &str) {
    const ROUNDS: usize = 10;
    let rounds: Vec<Duration> = (0..ROUNDS).map(|_| p99(client)).collect();
    assert!(
        rounds.iter().any(|round| *round < limit),
        "beside {beside} 99 of 100 ADDJOBs take {rounds:?}, never less than {limit:?}"
    );
}

#[test]
fn a_node_that_hangs_costs_the_others_nothing() {
    let _alone = quiet_machine();
    let cluster = Cluster::start(3, Options::new().alone());
    let mut c = cluster[0].client();
    p99(&mut c);
    let healthy = (0..3).map(|_| p99(&mut c)).min().unwrap();
    let limit = healthy * 3 + ms(1);
    let id = cluster.id(2);
    cluster[2].sigstop();
    expect_quick(&mut c, limit, "a node that hangs");
    cluster.wait_priority(0, &id, &[100]);
    expect_quick(&mut c, limit, "a node that is gone");
    cluster[2].sigcont();
    cluster.wait_connected();
}

#[test]
fn an_answer_from_another_node_costs_a_turn_what_it_takes_and_no_more() {
    const JOBS: u32 = 300;
    let _alone = quiet_machine();
    let cluster = Cluster::start(2, Options::new().alone());
    let mut c = cluster[0].client();
    let before = cluster[0].cpu_time();
    for _ in 0..JOBS {
        add_with(&mut c, "q", "a body", "5000 REPLICATE 2");
    }
    let each = (cluster[0].cpu_time() - before) / JOBS;
    // A turn that waits for what only its own end brings goes on for 2 ms.
    assert!(each < ms(1), "{each:?} of the processor for a job");
}

//! ADDJOBS with copies.

use crate::common::*;
use disque_testing::Reply;

const SIZE: usize = 16;

/// A batch is added, with `options` after the name of the queue; no reply is read.
fn start_batch(client: &mut Client, queue: &str, options: &str) {
    let bodies: Vec<String> = (0..SIZE).map(|n| n.to_string()).collect();
    let bodies = bodies.join(" ");
    client.start(&format!("ADDJOBS {queue} {options} BODIES {bodies}"));
}

#[track_caller]
fn ids(reply: &Reply) -> Vec<String> {
    let ids = reply.expect_array().iter();
    let ids: Vec<String> = ids.map(|id| id.text().into()).collect();
    assert_eq!(ids.len(), SIZE);
    ids
}

#[track_caller]
fn expect_queued_in_order(cluster: &Cluster, at: usize, ids: &[String]) {
    let jobs = cluster[at].client().run(&format!("QPEEK q {SIZE}"));
    assert!(deliveries(&jobs).iter().map(|job| &job.id).eq(ids));
}

/// How many records a node has written.
fn records(server: &Server) -> i64 {
    let stats = server.info("commandstats");
    let calls = |line: &String| line.strip_prefix("calls=")?.split(',').next()?.parse().ok();
    stats.get("cmdstat_disque.bus").and_then(calls).unwrap_or(0)
}

/// See [`with_waiting_producer`].
fn waiting(options: &str) -> (Cluster, Client) {
    with_waiting_producer(SIZE, |producer| start_batch(producer, "q", options))
}

#[test]
fn all_copies_are_there_when_the_ids_come() {
    let cluster = Cluster::new(3);
    for mut c in [cluster[0].client(), cluster[0].client3()] {
        start_batch(&mut c, "q", "5000 REPLICATE 3");
        let reply = c.reply();
        let ids = ids(&reply);
        let bulk: String = ids.iter().map(|id| format!("$40\r\n{id}\r\n")).collect();
        reply.expect_raw(format!("*{SIZE}\r\n{bulk}").as_bytes());
        for id in &ids {
            assert_eq!(states(&cluster, id), ["queued", "active", "active"]);
        }
        expect_queued_in_order(&cluster, 0, &ids);
        c.run(&format!("ACKJOB {}", ids.join(" ")))
            .expect_number(SIZE as i64);
        wait_empty(&cluster, secs(10));
    }
}

#[test]
fn a_batch_costs_each_node_one_frame() {
    const BATCHES: i64 = 50;
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    let before = records(&cluster[1]);
    let start = Instant::now();
    for _ in 0..BATCHES {
        start_batch(&mut c, "q", "5000 REPLICATE 2");
        ids(&c.reply());
    }
    // Heartbeats and PINGs pass as well.
    let others = 20 + 40 * start.elapsed().as_secs() as i64;
    let frames = records(&cluster[1]) - before;
    assert!(
        (BATCHES..=BATCHES + others).contains(&frames),
        "{frames} frames for {BATCHES} batches"
    );
}

#[test]
fn sync_decides_what_is_waited_for() {
    let (cluster, mut producer) = waiting("0 REPLICATE 3");
    let mut c = cluster[0].client();
    for options in [
        "REPLICATE 3 SYNC 2",
        "REPLICATE 3 SYNC -1",
        "REPLICATE 3 ASYNC",
    ] {
        start_batch(&mut c, "other", &format!("5000 {options}"));
        for id in ids(&c.reply()) {
            assert_eq!(state(&cluster[0], &id), "queued");
        }
    }
    producer.expect_silence(ms(20));
    cluster[2].sigcont();
    let ids = ids(&producer.reply());
    expect_queued_in_order(&cluster, 0, &ids);
    wait_figure(&cluster[2], "registered_jobs", 4 * SIZE as i64, secs(20));
}

#[test]
fn norepl_at_once_adds_nothing_anywhere() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    start_batch(&mut c, "q", "5000 REPLICATE 3");
    c.reply().expect_error("NOREPL");
    c.pipeline(&["MULTI", "ADDJOBS q 5000 REPLICATE 2 BODIES a b", "EXEC"])[2].expect_raw(
        b"*1\r\n-ERR copies cannot be waited for in a transaction or script: use SYNC 0 or \
              SYNC 1, on a node that has room and does not leave\r\n",
    );
    let script = "return redis.call('ADDJOBS', 'q', '9', 'REPLICATE', '2', 'BODIES', 'a', 'b')";
    c.call(&["EVAL", script, "0"]).expect_any_error();
    for at in 0..2 {
        assert_eq!(figure(&cluster[at], "registered_jobs"), 0);
    }
}

#[test]
fn when_the_time_is_over_no_job_is_queued_and_copies_are_deleted() {
    let (cluster, mut producer) = waiting("300 REPLICATE 3 RETRY 1");
    assert_eq!(figure(&cluster[0], "wait_repl_jobs"), SIZE as i64);
    producer.reply().expect_error("NOREPL");
    assert_eq!(figure(&cluster[0], "queued_jobs"), 0);
    // Only the third node has to hear of it.
    wait_figure(&cluster[0], "acked_jobs", SIZE as i64, secs(5));
    wait_figure(&cluster[1], "acked_jobs", SIZE as i64, secs(5));
    expect_no_delivery(&cluster, &[0, 1], "q", secs(3));
    cluster[2].sigcont();
    wait_empty(&cluster, secs(20));
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(2));
}

#[test]
fn a_client_that_goes_leaves_its_jobs_on_their_way() {
    let (cluster, producer) = waiting("0 REPLICATE 3 RETRY 100");
    drop(producer);
    wait_figure(&cluster[0], "waiting_producers", 0, secs(5));
    assert_eq!(figure(&cluster[0], "queued_jobs"), 0);
    cluster[2].sigcont();
    wait_figure(&cluster[0], "queued_jobs", SIZE as i64, secs(20));
    assert_eq!(figure(&cluster[0], "wait_repl_jobs"), 0);
}

#[test]
fn a_client_that_is_unblocked_gets_norepl() {
    let (cluster, mut producer) = waiting("0 REPLICATE 3");
    let list = cluster[0].client().run("CLIENT LIST TYPE normal");
    let text = list.expect_text();
    let line = text.lines().find(|line| line.contains("cmd=addjobs"));
    let client = line.expect("it waits")[3..].split(' ').next().unwrap();
    let mut c = cluster[0].client();
    c.run(&format!("CLIENT UNBLOCK {client}")).expect_number(1);
    producer.reply().expect_error("NOREPL");
    producer.run("PING").expect_status("PONG");
    wait_figure(&cluster[0], "waiting_producers", 0, secs(5));
    cluster[2].sigcont();
}

#[test]
fn a_flush_answers_the_one_that_waits() {
    let (cluster, mut producer) = waiting("0 REPLICATE 3");
    cluster[0].client().run("DISQUE FLUSHALL").expect_ok();
    producer.reply().expect_error("NOREPL");
    assert_eq!(figure(&cluster[0], "registered_jobs"), 0);
    cluster[2].sigcont();
}

#[test]
fn acknowledged_elsewhere_while_it_waits_a_job_is_waited_for_no_longer() {
    let (cluster, mut producer) = waiting("20000 REPLICATE 3 RETRY 100");
    let scan = cluster[1].client().run("JSCAN COUNT 100");
    let first = scan.expect_array()[1].items()[0].text().to_string();
    cluster[1]
        .client()
        .run(&format!("ACKJOB {first}"))
        .expect_number(1);
    eventually(secs(5), "it is told", || {
        state(&cluster[0], &first) == "acked"
    });
    producer.expect_silence(ms(20));
    cluster[2].sigcont();
    let ids = ids(&producer.reply());
    assert!(ids.contains(&first));
    assert_eq!(figure(&cluster[0], "queued_jobs"), SIZE as i64 - 1);
}

#[test]
fn a_node_that_dies_takes_no_job_of_a_batch_with_it() {
    let mut cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    start_batch(&mut c, "q", "5000 REPLICATE 3 RETRY 1");
    let mut all = ids(&c.reply());
    cluster.servers()[0].kill9();
    let mut other = cluster[1].client();
    let mut found = Vec::new();
    while found.len() < SIZE {
        let job = wait_job(&mut other, "q", secs(30)).expect("a job");
        other.run(&format!("ACKJOB {}", job.id)).expect_number(1);
        found.push(job.id);
    }
    all.sort();
    found.sort();
    assert_eq!(found, all);
}

#[test]
fn a_holder_that_dies_while_the_batch_waits_is_replaced() {
    let mut cluster = Cluster::new(3);
    let third = cluster.id(2);
    cluster.servers()[2].kill9();
    wait_unreachable(&cluster, &[0, 1], &third);
    let mut c = cluster[0].client();
    start_batch(&mut c, "q", "1000 REPLICATE 3");
    c.reply().expect_error("NOREPL");
    start_batch(&mut c, "q", "5000 REPLICATE 2");
    for id in ids(&c.reply()) {
        let there = [0, 1].map(|at| state(&cluster[at], &id));
        assert_eq!(there, ["queued", "active"]);
    }
}

#[test]
fn a_node_without_room_or_that_leaves_has_others_keep_the_batch() {
    for command in ["CONFIG SET disque.max-memory 1", "DISQUE LEAVING yes"] {
        for options in ["REPLICATE 1 RETRY 0", "REPLICATE 1", "REPLICATE 2"] {
            let cluster = Cluster::new(3);
            let mut c = cluster[0].client();
            add_with(&mut c, "filler", "x", "0 REPLICATE 1");
            c.run(command).expect_ok();
            start_batch(&mut c, "q", &format!("5000 {options}"));
            let ids = ids(&c.reply());
            let queued = || {
                let at = |at: usize| figure(&cluster[at], "queued_jobs");
                at(1) + at(2)
            };
            // The filler leaves too.
            let filler = i64::from(command.contains("LEAVING"));
            eventually(secs(10), "they are queued", || {
                queued() == SIZE as i64 + filler
            });
            wait_figure(&cluster[0], "registered_jobs", 1 - filler, secs(10));
            let mut there = 0;
            for id in &ids {
                assert_eq!(state(&cluster[0], id), "none", "{command} {options}");
                there += holders(&cluster, id).len();
            }
            let copies = if options.contains("REPLICATE 2") {
                2
            } else {
                1
            };
            assert_eq!(there, copies * SIZE, "{command} {options}");
        }
    }
}

#[test]
fn where_all_nodes_refuse_the_answer_is_oom_or_norepl_and_nothing_is_queued() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    let mut other = cluster[1].client();
    add_with(&mut other, "filler", "x", "0 REPLICATE 1");
    other.run("CONFIG SET disque.max-memory 1").expect_ok();
    start_batch(&mut c, "q", "20000 REPLICATE 2");
    c.reply().expect_error("OOM");
    other.run("CONFIG SET disque.max-memory 0").expect_ok();
    other.run("PAUSE q in").expect_status("in");
    start_batch(&mut c, "q", "20000 REPLICATE 2");
    c.reply().expect_error("NOREPL");
    c.run("QLEN q").expect_number(0);
    other.run("PAUSE q none").expect_status("none");
    expect_no_delivery(&cluster, &[0, 1], "q", secs(2));
}

#[test]
fn after_a_kill_of_all_nodes_each_batch_that_was_answered_is_there() {
    let options = Options::new().persistence(Persistence::AofAlways);
    let mut cluster = Cluster::start(3, options);
    let mut c = cluster[0].client();
    start_batch(&mut c, "q", "5000 REPLICATE 3 RETRY 1");
    let mut all = ids(&c.reply());
    for server in cluster.servers() {
        server.kill9();
    }
    for server in cluster.servers() {
        server.start_again();
    }
    cluster.wait_connected();
    let mut found = std::collections::BTreeSet::new();
    eventually(secs(30), "all are delivered", || {
        for at in 0..3 {
            let mut c = cluster[at].client();
            while let Some(job) = take_now(&mut c, "q") {
                c.run(&format!("ACKJOB {}", job.id));
                found.insert(job.id);
            }
        }
        found.len() == SIZE
    });
    all.sort();
    assert!(found.iter().eq(&all));
}

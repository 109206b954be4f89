//! Producers that wait for copies while something happens to them, to their job or
//! to the nodes.

use crate::common::*;

/// The same as [`with_waiting_producer`], and the id of its job.
fn waiting(options: &str) -> (Cluster, Client, String) {
    let add = |producer: &mut Client| start_add(producer, "q", "x", options);
    let (cluster, producer) = with_waiting_producer(1, add);
    let scan = cluster[1].client().run("JSCAN");
    let id = scan.expect_array()[1].items()[0].text().to_string();
    (cluster, producer, id)
}

#[test]
fn when_the_time_is_over_the_answer_is_norepl_and_the_job_counts_as_done() {
    let (cluster, mut producer, id) = waiting("0 REPLICATE 3");
    producer.expect_silence(ms(100));
    assert_eq!(state(&cluster[0], &id), "wait-repl");
    assert_eq!(state(&cluster[1], &id), "active");
    let job = show(&cluster[0], &id).unwrap();
    assert_eq!(
        (job.nodes_delivered.len(), job.nodes_confirmed.len()),
        (3, 2)
    );
    drop(producer);
    for timeout in [10, 300] {
        let mut c = cluster[0].client();
        let start = Instant::now();
        start_add(&mut c, "q", "x", &format!("{timeout} REPLICATE 3 RETRY 1"));
        c.reply().expect_error("NOREPL");
        let took = start.elapsed();
        // Nodes count in whole milliseconds.
        assert!(
            took >= ms(timeout - 1) && took < ms(timeout + 250),
            "{took:?}"
        );
    }
    let mut c = cluster[0].client();
    c.run("QLEN q").expect_number(0);
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    // Only the third has to hear of them.
    wait_figure(&cluster[0], "acked_jobs", 3, secs(5));
    wait_figure(&cluster[1], "acked_jobs", 3, secs(5));
    expect_no_delivery(&cluster, &[0, 1], "q", secs(3));
    cluster[2].sigcont();
    wait_empty(&cluster, secs(10));
}

#[test]
fn the_answer_comes_when_the_last_copy_is_there() {
    let (cluster, mut producer, id) = waiting("0 REPLICATE 3");
    cluster[2].sigcont();
    assert_eq!(producer.reply().expect_job_id(), id);
    assert_eq!(states(&cluster, &id), ["queued", "active", "active"]);
    assert_eq!(figure(&cluster[0], "waiting_producers"), 0);
}

#[test]
fn a_job_that_expires_meanwhile_is_norepl() {
    let (cluster, mut producer, _) = waiting("0 REPLICATE 3 TTL 1");
    producer.reply().expect_error("NOREPL");
    cluster[2].sigcont();
    wait_empty(&cluster, secs(10));
}

#[test]
fn a_client_that_is_unblocked_gets_norepl_or_the_error_asked_for() {
    for (word, code) in [
        ("", "NOREPL"),
        (" TIMEOUT", "NOREPL"),
        (" ERROR", "UNBLOCKED"),
    ] {
        let (cluster, mut producer, id) = waiting("0 REPLICATE 3");
        // The first one that waits: found in the list, since it cannot be asked.
        let list = cluster[0].client().run("CLIENT LIST TYPE normal");
        let text = list.expect_text();
        let line = text.lines().find(|line| line.contains("cmd=addjob"));
        let client = line.expect("it waits")[3..].split(' ').next().unwrap();
        let mut c = cluster[0].client();
        c.run(&format!("CLIENT UNBLOCK {client}{word}"))
            .expect_number(1);
        producer.reply().expect_error(code);
        producer.run("PING").expect_status("PONG");
        wait_figure(&cluster[0], "waiting_producers", 0, secs(5));
        // The job goes its way.
        assert_eq!(state(&cluster[0], &id), "wait-repl");
        cluster[2].sigcont();
        eventually(secs(10), "it is queued", || {
            state(&cluster[0], &id) == "queued"
        });
        c.run(&format!("ACKJOB {id}")).expect_number(1);
        wait_empty(&cluster, secs(10));
    }
}

#[test]
fn a_thousand_clients_that_vanish_while_they_wait_leave_nothing_behind() {
    const CLIENTS: usize = 1000;
    let cluster = Cluster::new(3);
    let third = cluster.id(2);
    cluster[2].sigstop();
    let mut stays = cluster[0].client();
    start_add(&mut stays, "q", "stays", "2000 REPLICATE 3");
    let start = Instant::now();
    for n in 0..CLIENTS {
        let mut c = cluster[0].client();
        start_add(&mut c, "q", &n.to_string(), "5000 REPLICATE 3");
        drop(c);
    }
    stays
        .read(secs(10))
        .expect("a reply")
        .expect_error("NOREPL");
    assert!(start.elapsed() >= ms(1990));
    wait_figure(&cluster[0], "waiting_producers", 0, secs(10));
    cluster[0].wait_blocked(0);
    let added = figure(&cluster[0], "jobs_added_total") as usize;
    wait_unreachable(&cluster, &[0, 1], &third);
    cluster[2].sigcont();
    wait_figure(&cluster[0], "wait_repl_jobs", 0, secs(20));
    // Each is delivered once; the one that was answered is not.
    let mut c = cluster[0].client();
    let mut ids = std::collections::BTreeSet::new();
    while let Some(job) = take_now(&mut c, "q") {
        assert_ne!(job.text(), "stays");
        c.run(&format!("ACKJOB {}", job.id)).expect_number(1);
        assert!(ids.insert(job.id), "twice");
    }
    assert_eq!(ids.len(), added - 1);
    wait_empty(&cluster, secs(20));
}

#[test]
fn a_flush_answers_those_that_wait() {
    let (cluster, mut producer, id) = waiting("0 REPLICATE 3");
    let mut worker = cluster[0].client();
    worker.start("GETJOB FROM other");
    cluster[0].wait_blocked(2);
    let mut c = cluster[0].client();
    c.run("DISQUE FLUSHALL").expect_ok();
    producer.reply().expect_error("NOREPL");
    worker.reply().expect_null_array();
    assert_eq!(figure(&cluster[0], "waiting_producers"), 0);
    assert_eq!(state(&cluster[0], &id), "none");
    // Late answers find nothing and do no harm.
    cluster[2].sigcont();
    cluster.wait_connected();
    c.run("PING").expect_status("PONG");
    let id = add_with(&mut c, "q", "y", "5000 REPLICATE 3");
    assert_eq!(states(&cluster, &id), ["queued", "active", "active"]);
}

#[test]
fn a_reset_answers_those_that_wait() {
    let (cluster, mut producer, _) = waiting("0 REPLICATE 3");
    cluster[0].client().run("DISQUE RESET").expect_ok();
    producer.reply().expect_error("NOREPL");
    assert_eq!(figure(&cluster[0], "waiting_producers"), 0);
    cluster[2].sigcont();
}

#[test]
fn a_node_that_becomes_a_replica_lets_those_go_that_wait() {
    let (cluster, mut producer, _) = waiting("0 REPLICATE 3");
    let primary = Server::start(node());
    let mut c = cluster[0].client();
    c.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()))
        .expect_ok();
    // Redis answers by itself, and closes.
    let reply = producer.read(secs(5)).expect("an answer");
    reply.expect_error("UNBLOCKED");
    cluster[2].sigcont();
    eventually(secs(20), "it follows", || {
        let info = cluster[0].info("replication");
        info.get("master_link_status").is_some_and(|s| s == "up")
    });
    assert_eq!(figure(&cluster[0], "waiting_producers"), 0);
    c = cluster[0].client();
    c.run("PING").expect_status("PONG");
}

#[test]
fn acknowledged_elsewhere_while_it_waits_the_producer_gets_the_id() {
    let (cluster, mut producer, id) = waiting("20000 REPLICATE 3 RETRY 1");
    let mut other = cluster[1].client();
    other.run(&format!("ENQUEUE {id}")).expect_number(1);
    assert_eq!(take_now(&mut other, "q").expect("the job").id, id);
    other.run(&format!("ACKJOB {id}")).expect_number(1);
    assert_eq!(producer.reply().expect_job_id(), id);
    assert_eq!(state(&cluster[0], &id), "acked");
    assert_eq!(state(&cluster[1], &id), "acked");
    expect_no_delivery(&cluster, &[0, 1], "q", secs(3));
    cluster[2].sigcont();
    wait_empty(&cluster, secs(10));
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(2));
}

#[test]
fn acknowledged_here_while_it_waits_the_producer_gets_the_id() {
    for command in ["ACKJOB", "FASTACK"] {
        let (cluster, mut producer, id) = waiting("20000 REPLICATE 3");
        let mut c = cluster[0].client();
        c.run(&format!("{command} {id}")).expect_number(1);
        assert_eq!(producer.reply().expect_job_id(), id);
        cluster[2].sigcont();
        wait_empty(&cluster, secs(10));
    }
}

#[test]
fn acknowledgements_at_any_moment_of_an_add_are_safe() {
    const ROUNDS: u64 = 300;
    let cluster = Cluster::new(3);
    let mut watcher = cluster[1].client();
    for round in 0..ROUNDS {
        cluster[2].sigstop();
        let mut producer = cluster[0].client();
        start_add(&mut producer, "q", "x", "8000 REPLICATE 3 RETRY 1");
        // A different moment each round.
        std::thread::sleep(Duration::from_micros(round * 37 % 5000));
        let scan = watcher.run("JSCAN STATE active");
        let seen = scan.expect_array()[1].items().first();
        if let Some(id) = seen.map(|id| id.text().to_string()) {
            watcher.run(&format!("ENQUEUE {id}"));
            take_now(&mut watcher, "q");
            if round % 2 == 0 {
                cluster[2].sigcont();
            }
            watcher.run(&format!("ACKJOB {id}")).expect_number(1);
        }
        cluster[2].sigcont();
        let reply = producer.reply();
        let id = reply.expect_job_id();
        watcher.run(&format!("ACKJOB {id}"));
        cluster[0].client().run(&format!("ACKJOB {id}"));
    }
    wait_empty(&cluster, secs(20));
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(2));
}

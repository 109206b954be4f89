//! ADDJOB on a cluster: how many copies there are, and when its client is answered.

use crate::common::*;

#[test]
fn as_many_nodes_as_asked_for_hold_the_job_before_its_id_is_told() {
    let cluster = Cluster::new(3);
    let ids = cluster.ids();
    let mut c = cluster[0].client();
    for replicate in [1, 2, 3] {
        let id = add_with(&mut c, "q", "x", &format!("0 REPLICATE {replicate}"));
        let holders = holders(&cluster, &id);
        assert_eq!(holders.len(), replicate, "{holders:?}");
        assert_eq!(holders[0], 0, "the node that took it");
        let mut names: Vec<String> = holders.iter().map(|at| ids[*at].clone()).collect();
        names.sort();
        for at in holders {
            let job = show(&cluster[at], &id).unwrap();
            assert_eq!(job.repl, replicate as i64);
            assert_eq!(job.body.as_deref(), Some(&b"x"[..]));
            let mut delivered = job.nodes_delivered;
            delivered.sort();
            assert_eq!(delivered, names, "as node {at} sees it");
            let state = if at == 0 { "queued" } else { "active" };
            assert_eq!(job.state, state, "at node {at}");
        }
    }
    assert_eq!(figure(&cluster[0], "queued_jobs"), 3);
    for at in [1, 2] {
        c = cluster[at].client();
        c.run("QLEN q").expect_number(0);
        assert_eq!(take_now(&mut c, "q"), None);
    }
}

#[test]
fn the_confirmed_holders_are_known_to_all_of_them() {
    let cluster = Cluster::new(3);
    let mut ids = cluster.ids();
    ids.sort();
    for options in [
        "0 REPLICATE 3",
        "0 REPLICATE 3 SYNC 1",
        "0 REPLICATE 3 ASYNC",
    ] {
        let id = add_with(&mut cluster[1].client(), "q", "x", options);
        for at in 0..3 {
            eventually(secs(5), "all are confirmed", || {
                let Some(job) = show(&cluster[at], &id) else {
                    return false;
                };
                let mut confirmed = job.nodes_confirmed;
                confirmed.sort();
                confirmed == ids
            });
        }
    }
    for at in 0..3 {
        wait_figure(&cluster[at], "under_replicated", 0, secs(5));
        assert_eq!(figure(&cluster[at], "registered_jobs"), 3);
    }
}

#[test]
fn a_delayed_job_waits_for_its_copies_and_then_for_its_time() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    let start = Instant::now();
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 DELAY 2 RETRY 1");
    assert_eq!(states(&cluster, &id), ["active", "active", "active"]);
    assert_eq!(figure(&cluster[0], "delayed_jobs"), 1);
    // It comes up where it was added, and nowhere else.
    let got = wait_job(&mut c, "q", secs(10)).expect("the job");
    assert!(start.elapsed() >= ms(1980), "after {:?}", start.elapsed());
    assert_eq!((got.id, got.additional_deliveries), (id.clone(), Some(0)));
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
}

#[test]
fn sync_says_how_many_copies_are_waited_for() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    // As long as nobody has noticed that one of them hangs.
    for options in [
        "SYNC 2", "SYNC -1", "SYNC 1", "SYNC 0", "SYNC -2", "SYNC -3", "ASYNC",
    ] {
        cluster[2].sigstop();
        let start = Instant::now();
        let id = add_with(&mut c, "q", "x", &format!("2000 REPLICATE 3 {options}"));
        let took = start.elapsed();
        assert!(took < ms(500), "{options}: after {took:?}");
        assert_eq!(state(&cluster[0], &id), "queued", "{options}");
        assert!(figure(&cluster[0], "under_replicated") > 0, "{options}");
        cluster[2].sigcont();
        eventually(secs(10), "the third has it as well", || {
            holders(&cluster, &id) == [0, 1, 2]
        });
        for at in 0..3 {
            wait_figure(&cluster[at], "under_replicated", 0, secs(10));
        }
        cluster.wait_connected();
    }
}

#[test]
fn options_that_contradict_each_other_are_errors() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    for (options, code) in [
        ("REPLICATE 3 SYNC 4", "ERR"),
        ("REPLICATE 2 SYNC -3", "ERR"),
        ("SYNC 1 ASYNC", "ERR"),
        ("RETRY 0", "ERR"),
        ("RETRY 0 REPLICATE 2", "ERR"),
        ("REPLICATE 4", "NOREPL"),
        ("REPLICATE 4 ASYNC", "NOREPL"),
        ("REPLICATE 65535", "NOREPL"),
    ] {
        let start = Instant::now();
        c.run(&format!("ADDJOB q x 0 {options}")).expect_error(code);
        assert!(start.elapsed() < secs(1), "{options}");
    }
    for at in 0..3 {
        assert_eq!(figure(&cluster[at], "registered_jobs"), 0);
    }
    let id = add_with(&mut c, "q", "x", "0 RETRY 0 REPLICATE 1");
    assert_eq!(holders(&cluster, &id), [0]);
}

#[test]
fn what_too_few_nodes_could_confirm_is_refused_at_once() {
    let cluster = Cluster::new(3);
    let third = cluster.id(2);
    cluster[2].sigstop();
    wait_unreachable(&cluster, &[0, 1], &third);
    let mut c = cluster[0].client();
    for timeout in [0, 5000] {
        let start = Instant::now();
        c.run(&format!("ADDJOB q x {timeout} REPLICATE 3"))
            .expect_error("NOREPL");
        c.run(&format!("ADDJOB q x {timeout} REPLICATE 3 SYNC 3"))
            .expect_error("NOREPL");
        assert!(start.elapsed() < ms(500), "{:?}", start.elapsed());
    }
    assert_eq!(figure(&cluster[0], "registered_jobs"), 0);
    // Two of them can confirm; the third gets its copy when it is back.
    let id = add_with(&mut c, "q", "x", "5000 REPLICATE 3 SYNC 2");
    assert_eq!(holders_of_first_two(&cluster, &id), 2);
    assert_eq!(figure(&cluster[0], "under_replicated"), 1);
    cluster[2].sigcont();
    eventually(secs(10), "the third has it", || {
        show(&cluster[2], &id).is_some()
    });
    wait_figure(&cluster[0], "under_replicated", 0, secs(10));
}

fn holders_of_first_two(cluster: &Cluster, id: &str) -> usize {
    let has = |at: &usize| show(&cluster[*at], id).is_some();
    [0, 1].iter().filter(|at| has(at)).count()
}

#[test]
fn without_replicate_there_are_as_many_copies_as_nodes_that_answer() {
    let cluster = Cluster::new(3);
    let (second, third) = (cluster.id(1), cluster.id(2));
    let mut c = cluster[0].client();
    let below = |n| {
        let counted = figure(&cluster[0], "jobs_added_below_default_replicate_total");
        assert_eq!(counted, n);
    };
    let mut repl = |expected| {
        let id = add(&mut c, "q", "x");
        assert_eq!(show(&cluster[0], &id).unwrap().repl, expected);
    };
    repl(3);
    below(0);
    cluster[2].sigstop();
    wait_unreachable(&cluster, &[0, 1], &third);
    repl(2);
    below(1);
    cluster[1].sigstop();
    wait_unreachable(&cluster, &[0], &second);
    repl(1);
    below(2);
    c.run("CONFIG SET disque.default-replicate-min 2")
        .expect_ok();
    c.run("ADDJOB q x 0").expect_error("NOREPL");
    below(2);
    cluster[1].sigcont();
    cluster[2].sigcont();
    cluster.wait_connected();
    c.run("CONFIG SET disque.default-replicate 2").expect_ok();
    let id = add(&mut c, "q", "x");
    assert_eq!(holders(&cluster, &id).len(), 2);
}

#[test]
fn a_transaction_or_script_does_not_wait_for_copies() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    for options in [
        "",
        "REPLICATE 2",
        "REPLICATE 3 SYNC 2",
        "REPLICATE 3 SYNC -1",
    ] {
        c.run("MULTI").expect_ok();
        c.run(&format!("ADDJOB q x 1000 {options}"))
            .expect_status("QUEUED");
        let reply = c.run("EXEC");
        let text = format!("{:?}", reply.expect_array()[0]);
        assert!(text.starts_with("-ERR "), "{options}: {text}");
        let words: Vec<String> = options.split_ascii_whitespace().map(quoted).collect();
        let words: String = words.iter().map(|word| format!(",{word}")).collect();
        let script = format!("return redis.call('ADDJOB','q','x','1000'{words})");
        c.call(&["EVAL", &script, "0"]).expect_error("ERR");
    }
    for at in 0..3 {
        assert_eq!(figure(&cluster[at], "registered_jobs"), 0);
    }
    for options in [
        "REPLICATE 3 ASYNC",
        "REPLICATE 3 SYNC 1",
        "REPLICATE 2 SYNC 0",
    ] {
        c.run("MULTI").expect_ok();
        c.run(&format!("ADDJOB q x 0 {options}"))
            .expect_status("QUEUED");
        let reply = c.run("EXEC");
        let id = reply.expect_array()[0].text().to_string();
        let words: String = options
            .split_ascii_whitespace()
            .map(|word| format!(",{}", quoted(word)))
            .collect();
        let script = format!("return redis.call('ADDJOB','q','x','0'{words})");
        let other = c.call(&["EVAL", &script, "0"]).expect_job_id();
        let copies = if options.contains('3') { 3 } else { 2 };
        for id in [id, other] {
            eventually(secs(5), "the copies are there", || {
                holders(&cluster, &id).len() == copies
            });
        }
    }
}

fn quoted(word: &str) -> String {
    format!("'{word}'")
}

#[test]
fn a_node_that_takes_no_copies_is_passed_over() {
    let cluster = Cluster::new(4);
    let mut c = cluster[0].client();
    // Paused in at one node, leaving the other: two are left.
    cluster[1].client().run("PAUSE q in").expect_status("in");
    cluster[2].client().run("DISQUE LEAVING yes").expect_ok();
    let leaving = cluster.id(2);
    cluster.wait_priority(0, &leaving, &[100]);
    for _ in 0..20 {
        let id = add_with(&mut c, "q", "x", "5000 REPLICATE 2");
        assert_eq!(holders(&cluster, &id), [0, 3]);
    }
    // All that can be asked have refused: there is nothing to wait for.
    let start = Instant::now();
    c.run("ADDJOB q x 0 REPLICATE 3").expect_error("NOREPL");
    assert!(start.elapsed() < secs(5), "{:?}", start.elapsed());
    cluster[1]
        .client()
        .run("PAUSE q none")
        .expect_status("none");
    let id = add_with(&mut c, "q", "x", "5000 REPLICATE 3");
    assert_eq!(holders(&cluster, &id), [0, 1, 3]);
}

#[test]
fn a_node_whose_memory_is_full_takes_no_copies() {
    let cluster = Cluster::new(3);
    let mut full = cluster[1].client();
    let own = add_with(&mut full, "own", "x", "0 REPLICATE 1");
    full.run("CONFIG SET disque.max-memory 1").expect_ok();
    let mut c = cluster[0].client();
    for _ in 0..20 {
        let id = add_with(&mut c, "q", "x", "5000 REPLICATE 2");
        assert_eq!(holders(&cluster, &id), [0, 2]);
    }
    assert_eq!(figure(&cluster[1], "registered_jobs"), 1);
    assert_eq!(state(&cluster[1], &own), "queued");
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 SYNC 2");
    assert_eq!(holders(&cluster, &id), [0, 2]);
    // What is missing is made up for when there is room again.
    full.run("CONFIG SET disque.max-memory 0").expect_ok();
    eventually(secs(40), "the copy is made", || {
        holders(&cluster, &id) == [0, 1, 2]
    });
    wait_figure(&cluster[0], "under_replicated", 0, secs(5));
}

#[test]
fn jobs_go_round_on_each_node_while_links_come_and_go() {
    let cluster = Cluster::new(3);
    for round in 0..20 {
        let at = round % 3;
        let mut c = cluster[at].client();
        let id = add_with(&mut c, "q", "x", "0 REPLICATE 1");
        cluster[(at + 1) % 3]
            .client()
            .run("CLIENT KILL TYPE normal SKIPME yes");
        assert_eq!(deliveries(&c.run("GETJOB FROM q"))[0].id, id);
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
    cluster.wait_connected();
}

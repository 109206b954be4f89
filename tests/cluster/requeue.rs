//! Which node delivers a job again, and how often: RETRY, NACK, ENQUEUE, DEQUEUE,
//! WORKING said to any holder.

use crate::common::*;

/// What a requeue deadline may be late by: its random spread, a question to the
/// other holders, and a busy machine.
const LATE: Duration = Duration::from_millis(2000);

/// A job on all three nodes, taken by a worker of the first.
fn delivered(cluster: &Cluster, options: &str) -> String {
    let mut c = cluster[0].client();
    let id = add_with(&mut c, "q", "x", &format!("0 REPLICATE 3 {options}"));
    assert_eq!(take_now(&mut c, "q").expect("the job").id, id);
    id
}

/// Jobs queued for the second time or more, at all nodes.
fn requeued(cluster: &Cluster) -> i64 {
    let all = 0..cluster.len();
    all.map(|at| figure(&cluster[at], "jobs_requeued_total"))
        .sum()
}

/// How many nodes have the job in their queue.
fn queued_at(cluster: &Cluster, id: &str) -> Vec<usize> {
    let all = 0..cluster.len();
    all.filter(|at| state(&cluster[*at], id) == "queued")
        .collect()
}

#[test]
fn jobs_that_wait_in_the_queue_are_not_queued_again_anywhere() {
    let cluster = Cluster::new(3);
    for at in 0..3 {
        for _ in 0..20 {
            add_with(
                &mut cluster[at].client(),
                "q",
                "x",
                "0 REPLICATE 3 RETRY 0.5",
            );
        }
    }
    std::thread::sleep(secs(4));
    for at in 0..3 {
        assert_eq!(figure(&cluster[at], "queued_jobs"), 20);
        assert_eq!(figure(&cluster[at], "active_jobs"), 40);
    }
    assert_eq!(requeued(&cluster), 0);
}

#[test]
fn retry_runs_from_the_delivery_and_one_node_delivers_again() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 3");
    std::thread::sleep(ms(2500));
    assert_eq!(take_now(&mut c, "q").expect("the job").id, id);
    let taken = Instant::now();
    let mut others = [cluster[1].client(), cluster[2].client()];
    for other in &mut others {
        other.start("GETJOB TIMEOUT 5500 WITHCOUNTERS FROM q");
        other.expect_silence(ms(100));
    }
    // It goes to one of those that wait, wherever, and to no two.
    eventually(secs(8), "it is delivered again", || {
        figure(&cluster[1], "jobs_delivered_total") + figure(&cluster[2], "jobs_delivered_total")
            == 1
    });
    assert!(taken.elapsed() >= ms(2980), "after {:?}", taken.elapsed());
    let latest = secs(3) + LATE;
    assert!(taken.elapsed() < latest, "after {:?}", taken.elapsed());
    let mut got = Vec::new();
    for other in &mut others {
        let reply = other.read(secs(15)).expect("GETJOB ends");
        got.extend(deliveries(&reply));
    }
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!((&got[0].id, got[0].additional_deliveries), (&id, Some(1)));
    // The count goes to the others as well.
    for at in 0..3 {
        eventually(secs(2), "the count is known", || {
            show(&cluster[at], &id).unwrap().additional_deliveries == 1
        });
    }
    assert_eq!(requeued(&cluster), 1, "at 3 s, by one node");
}

#[test]
fn a_job_of_a_node_that_died_comes_up_at_one_other_node() {
    for delivered_before in [false, true] {
        let mut cluster = Cluster::new(3);
        let mut c = cluster[0].client();
        let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 6");
        if delivered_before {
            take_now(&mut c, "q").expect("the job");
        }
        cluster[0].kill9();
        let died = Instant::now();
        let mut clients = [cluster[1].client(), cluster[2].client()];
        for client in &mut clients {
            client.start("GETJOB TIMEOUT 10000 WITHCOUNTERS FROM q");
        }
        let mut got = Vec::new();
        for client in &mut clients {
            let reply = client.read(secs(15)).expect("GETJOB ends");
            got.extend(deliveries(&reply));
        }
        assert_eq!(got.len(), 1, "{got:?}");
        assert_eq!((&got[0].id, got[0].additional_deliveries), (&id, Some(1)));
        assert!(died.elapsed() < secs(14));
        let mut c = cluster[1].client();
        c.run(&format!("ACKJOB {id}")).expect_number(1);
        // The dead node's share of it is all that stays.
        for at in 1..3 {
            eventually(secs(5), "it is acknowledged there too", || {
                state(&cluster[at], &id) == "acked"
            });
        }
    }
}

#[test]
fn a_node_that_hung_hears_of_acknowledgements_before_it_queues_again() {
    let cluster = Cluster::new(3);
    for at in 0..3 {
        let mut c = cluster[at].client();
        c.run("CONFIG SET disque.node-timeout 5000").expect_ok();
    }
    let mut c = cluster[0].client();
    let ids: Vec<String> = (0..2000)
        .map(|_| add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 1"))
        .collect();
    assert_eq!(
        c.run("GETJOB COUNT 2000 FROM q").expect_array().len(),
        ids.len()
    );
    cluster[0].sigstop();
    let mut elsewhere = cluster[1].client();
    for ids in ids.chunks(100) {
        let acked = elsewhere.run(&format!("ACKJOB {}", ids.join(" ")));
        acked.expect_number(ids.len() as i64);
    }
    std::thread::sleep(secs(2));
    cluster[0].sigcont();
    std::thread::sleep(secs(2));
    assert_eq!(requeued(&cluster), 0);
}

#[test]
fn a_node_that_hangs_for_less_than_node_timeout_changes_nothing() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    for at in 0..3 {
        let mut c = cluster[at].client();
        c.run("CONFIG SET disque.node-timeout 5000").expect_ok();
    }
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 1");
    for _ in 0..3 {
        cluster[0].sigstop();
        std::thread::sleep(ms(2500));
        assert_eq!(queued_at_living(&cluster, &id), 0);
        cluster[0].sigcont();
        std::thread::sleep(ms(500));
    }
    assert_eq!(queued_at(&cluster, &id), [0]);
    assert_eq!(requeued(&cluster), 0);
}

fn queued_at_living(cluster: &Cluster, id: &str) -> usize {
    let states = [1, 2].map(|at| state(&cluster[at], id));
    states.iter().filter(|state| *state == "queued").count()
}

#[test]
fn a_node_that_was_stopped_for_long_asks_before_it_delivers() {
    let cluster = Cluster::new(3);
    let first = cluster.id(0);
    let mut c = cluster[0].client();
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 2");
    cluster[0].sigstop();
    wait_unreachable(&cluster, &[1, 2], &first);
    let mut other = cluster[1].client();
    other.start("GETJOB TIMEOUT 10000 FROM q");
    let mut third = cluster[2].client();
    third.start("GETJOB TIMEOUT 10000 FROM q");
    let taken = eventually_either(&mut other, &mut third);
    assert_eq!(taken, id);
    // It is delivered elsewhere. A worker has asked for it meanwhile.
    c.start("GETJOB NOHANG FROM q");
    cluster[0].sigcont();
    let reply = c.read(secs(5)).expect("an answer");
    assert!(reply.is_null(), "delivered twice: {reply:?}");
    eventually(secs(5), "it has learned of it", || {
        state(&cluster[0], &id) == "active"
    });
}

/// The id of the one job that one of two waiting workers gets.
fn eventually_either(one: &mut Client, other: &mut Client) -> String {
    for _ in 0..200 {
        for client in [&mut *one, &mut *other] {
            if let Some(reply) = client.read(ms(25)) {
                return deliveries(&reply)[0].id.clone();
            }
        }
    }
    panic!("nobody delivers it");
}

#[test]
fn nack_at_another_holder_puts_the_job_into_its_queue() {
    let cluster = Cluster::new(3);
    for round in 1..=3 {
        let id = delivered(&cluster, "RETRY 60");
        let at = round % 3;
        let mut c = cluster[at].client();
        c.run(&format!("NACK {id}")).expect_number(1);
        assert_eq!(queued_at(&cluster, &id), [at]);
        for at in 0..3 {
            eventually(secs(2), "all count it", || {
                show(&cluster[at], &id).unwrap().nacks == 1
            });
        }
        assert_eq!(queued_at(&cluster, &id), [at]);
        let job = take_now(&mut c, "q").expect("the job");
        assert_eq!((job.id, job.nacks), (id.clone(), Some(1)));
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
    wait_empty(&cluster, secs(10));
}

#[test]
fn after_a_nack_elsewhere_the_deliverer_leaves_the_job_alone() {
    let cluster = Cluster::new(3);
    let id = delivered(&cluster, "RETRY 1");
    let mut c = cluster[1].client();
    c.run(&format!("NACK {id}")).expect_number(1);
    std::thread::sleep(secs(4));
    // It has waited there since, and was queued by nobody else.
    assert_eq!(queued_at(&cluster, &id), [1]);
    assert_eq!(requeued(&cluster), 0);
}

#[test]
fn enqueue_at_another_holder_takes_the_job_over() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    // Queued at the first: the second queues it as well, and the first yields.
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 60");
    let mut other = cluster[1].client();
    other.run(&format!("ENQUEUE {id}")).expect_number(1);
    eventually(secs(2), "one has it", || queued_at(&cluster, &id) == [1]);
    let job = take_now(&mut other, "q").expect("the job");
    assert_eq!(job.additional_deliveries, Some(1));
    // Delayed at the first: it does not come up there any more.
    let id = add_with(&mut c, "later", "x", "0 REPLICATE 3 DELAY 2 RETRY 60");
    other.run(&format!("ENQUEUE {id}")).expect_number(1);
    std::thread::sleep(secs(3));
    assert_eq!(queued_at(&cluster, &id), [1]);
}

#[test]
fn dequeue_takes_a_job_off_where_it_is_queued() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 2");
    cluster[1]
        .client()
        .run(&format!("DEQUEUE {id}"))
        .expect_number(0);
    let start = Instant::now();
    c.run(&format!("DEQUEUE {id}")).expect_number(1);
    assert_eq!(states(&cluster, &id), ["active", "active", "active"]);
    let mut other = cluster[1].client();
    other.start("GETJOB TIMEOUT 5000 FROM q");
    assert_eq!(wait_job(&mut c, "q", secs(6)).expect("the job").id, id);
    assert!(start.elapsed() >= ms(1980), "after {:?}", start.elapsed());
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    assert!(other.read(secs(10)).expect("an answer").is_null());
}

#[test]
fn working_at_any_holder_keeps_the_job_from_all() {
    let cluster = Cluster::new(3);
    let id = delivered(&cluster, "RETRY 2");
    // Said in turn to each, for four times as long as RETRY.
    for round in 0..8 {
        std::thread::sleep(ms(1000));
        let mut c = cluster[round % 3].client();
        c.run(&format!("WORKING {id}")).expect_number(2);
        assert_eq!(queued_at(&cluster, &id), [0_usize; 0]);
    }
    assert_eq!(requeued(&cluster), 0);
    let mut c = cluster[0].client();
    let last = Instant::now();
    let got = wait_job(&mut c, "q", secs(8));
    assert_eq!(got.expect("the job").id, id);
    assert!(last.elapsed() >= ms(1900), "after {:?}", last.elapsed());
}

#[test]
fn working_takes_a_job_off_the_queue_of_another_node() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 60");
    cluster[1]
        .client()
        .run(&format!("WORKING {id}"))
        .expect_number(60);
    eventually(secs(2), "it is off the queue", || {
        state(&cluster[0], &id) == "active"
    });
    assert_eq!(take_now(&mut c, "q"), None);
}

#[test]
fn working_is_told_why_not() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    let old = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 1 TTL 2");
    let acked = add_with(&mut c, "q", "x", "0 REPLICATE 3");
    cluster[2].sigstop();
    c.run(&format!("ACKJOB {acked}")).expect_number(1);
    std::thread::sleep(ms(1100));
    let mut other = cluster[1].client();
    let replies = other.pipeline(&[
        format!("WORKING {}", unknown_id(1, 0x05a1)),
        "PING".into(),
        format!("WORKING {old}"),
        "PING".into(),
        format!("WORKING {acked}"),
        "PING".into(),
    ]);
    for (at, code) in [(0, "NOJOB"), (2, "TOOLATE"), (4, "ACKED")] {
        replies[at].expect_error(code);
        replies[at + 1].expect_status("PONG");
    }
    cluster[2].sigcont();
}

#[test]
fn a_queue_that_is_paused_in_keeps_jobs_from_coming_back() {
    let cluster = Cluster::new(3);
    let id = delivered(&cluster, "RETRY 1");
    let mut c = cluster[0].client();
    c.run("PAUSE q in bcast").expect_status("in");
    std::thread::sleep(secs(3));
    assert_eq!(queued_at(&cluster, &id), [0_usize; 0]);
    c.run("PAUSE q none bcast").expect_status("none");
    assert_eq!(wait_job(&mut c, "q", secs(6)).expect("the job").id, id);
}

#[test]
fn a_job_with_retry_0_stays_where_it_is_and_is_delivered_once() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    let id = add_with(&mut c, "q", "x", "0 RETRY 0 REPLICATE 1");
    assert_eq!(take_now(&mut c, "q").expect("the job").id, id);
    for command in ["NACK", "ENQUEUE"] {
        c.run(&format!("{command} {id}")).expect_number(0);
    }
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
    // Acknowledged through another node: told once, and nothing is kept.
    let mut other = cluster[1].client();
    other.run(&format!("ACKJOB {id}")).expect_number(0);
    wait_empty(&cluster, secs(5));
}

//! Acknowledgements reach every node that has the job, whichever node is told, and
//! are forgotten when all know.

use crate::common::*;

const SETTLED: Duration = Duration::from_secs(10);

#[test]
fn a_job_acknowledged_at_any_holder_is_gone_from_all() {
    let cluster = Cluster::new(3);
    for round in 0..6 {
        let mut c = cluster[0].client();
        let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 1");
        if round >= 3 {
            take_now(&mut c, "q").expect("the job");
        }
        let mut c = cluster[round % 3].client();
        c.run(&format!("ACKJOB {id}")).expect_number(1);
        c.run(&format!("ACKJOB {id}")).expect_number(0);
        wait_empty(&cluster, SETTLED);
        assert_eq!(states(&cluster, &id), ["none", "none", "none"]);
    }
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
    for at in 0..3 {
        assert_eq!(figure(&cluster[at], "settled_jobs_remembered"), 6);
    }
}

#[test]
fn many_rounds_of_add_get_ack_show_leave_nothing() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    for _ in 0..2000 {
        let id = add_with(&mut c, "q", "x", "0 REPLICATE 2");
        assert_eq!(take_now(&mut c, "q").expect("the job").id, id);
        c.run(&format!("ACKJOB {id}")).expect_number(1);
        if let Some(job) = Show::read(&c.run(&format!("SHOW {id}"))) {
            assert_eq!((job.state.as_str(), job.body), ("acked", None));
        }
    }
    wait_empty(&cluster, SETTLED);
    // The same while the other one hangs: the acknowledgements stay.
    let id = cluster.id(1);
    let added: Vec<String> = (0..500)
        .map(|_| add_with(&mut c, "q", "x", "0 REPLICATE 2"))
        .collect();
    cluster[1].sigstop();
    for job in &added {
        assert_eq!(&take_now(&mut c, "q").expect("a job").id, job);
        c.run(&format!("ACKJOB {job}")).expect_number(1);
        let shown = show(&cluster[0], job).expect("kept until the other knows");
        assert_eq!((shown.state.as_str(), shown.body), ("acked", None));
        assert_eq!(shown.queue.as_deref(), Some(&b"q"[..]));
        assert_eq!(shown.next_requeue_within, None);
        assert_eq!(shown.nodes_confirmed, [cluster.id(0)]);
        assert!(shown.nodes_delivered.contains(&id));
    }
    assert_eq!(figure(&cluster[0], "acked_jobs"), 500);
    cluster[1].sigcont();
    wait_empty(&cluster, SETTLED);
}

#[test]
fn a_job_with_one_copy_is_acknowledged_through_another_node() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    for round in 0..5 {
        let id = add_with(&mut c, "q", "x", "0 REPLICATE 1 RETRY 1");
        if round > 0 {
            take_now(&mut c, "q").expect("the job");
        }
        let mut other = cluster[1].client();
        other.run(&format!("ACKJOB {id}")).expect_number(0);
        wait_empty(&cluster, SETTLED);
    }
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
}

#[test]
fn a_node_without_the_job_keeps_the_acknowledgement_until_a_holder_is_back() {
    for replicate in [1, 2] {
        let cluster = Cluster::new(3);
        let mut c = cluster[0].client();
        let options = format!("0 REPLICATE {replicate} RETRY 2");
        let id = add_with(&mut c, "q", "x", &options);
        take_now(&mut c, "q").expect("the job");
        let holding = holders(&cluster, &id);
        let without = (1..3).find(|at| !holding.contains(at)).unwrap();
        let first = cluster.id(0);
        cluster[0].sigstop();
        let mut other = cluster[without].client();
        other.run(&format!("ACKJOB {id}")).expect_number(0);
        wait_unreachable(&cluster, &[1, 2], &first);
        assert_eq!(figure(&cluster[without], "dummy_acks"), 1);
        let shown = show(&cluster[without], &id).expect("the acknowledgement");
        assert_eq!((shown.state.as_str(), shown.queue), ("acked", None));
        // JSCAN lists jobs, and this is none.
        let scan = other.run("JSCAN");
        assert!(scan.expect_array()[1].items().is_empty(), "{scan:?}");
        std::thread::sleep(secs(3));
        cluster[0].sigcont();
        wait_empty(&cluster, SETTLED);
        expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
    }
}

#[test]
fn a_holder_that_was_away_does_not_bring_the_job_back() {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::AofAlways));
    let mut c = cluster[0].client();
    let third = cluster.id(2);
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 1");
    cluster[2].kill9();
    wait_unreachable(&cluster, &[0, 1], &third);
    take_now(&mut c, "q").expect("the job");
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    for at in [0, 1] {
        eventually(secs(5), "it is acknowledged", || {
            state(&cluster[at], &id) == "acked"
        });
        let confirmed = || show(&cluster[at], &id).unwrap().nodes_confirmed;
        assert!(!confirmed().contains(&third));
    }
    // Longer than any of the waits, and over restarts of the others.
    std::thread::sleep(secs(3));
    for at in [0, 1] {
        cluster[at].kill9();
        cluster[at].start_again();
        assert_eq!(state(&cluster[at], &id), "acked", "after a restart");
    }
    cluster[2].start_again();
    cluster.wait_connected();
    wait_empty(&cluster, secs(20));
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
}

#[test]
fn a_holder_that_comes_back_alone_learns_of_it_before_it_delivers() {
    // Its own timers run while nobody can tell it anything yet.
    let mut cluster = Cluster::start(2, Options::new().persistence(Persistence::AofAlways));
    let mut c = cluster[0].client();
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 2 RETRY 60");
    cluster[0].kill9();
    let mut other = cluster[1].client();
    other.run(&format!("ACKJOB {id}")).expect_number(1);
    for _ in 0..5 {
        cluster[0].start_again();
        let mut c = cluster[0].client();
        let reply = c.run("GETJOB TIMEOUT 300 FROM q");
        assert!(reply.is_null(), "{reply:?}");
        if state(&cluster[0], &id) == "none" {
            break;
        }
        cluster[0].kill9();
    }
    if state(&cluster[0], &id) != "none" {
        cluster.wait_connected();
    }
    wait_empty(&cluster, secs(20));
}

#[test]
fn an_acknowledgement_of_a_job_that_nobody_has_is_forgotten() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    for n in 0..1000 {
        c.run(&format!("ACKJOB {}", unknown_id(n, 0x05a1)))
            .expect_number(0);
    }
    wait_empty(&cluster, SETTLED);
    // Of a job that is delivered once nothing is kept at all.
    let third = cluster.id(2);
    cluster[2].sigstop();
    wait_unreachable(&cluster, &[0, 1], &third);
    for n in 0..1000 {
        c.run(&format!("ACKJOB {}", unknown_id(n + 5000, 0x05a2)))
            .expect_number(0);
    }
    assert_eq!(figure(&cluster[0], "dummy_acks"), 0);
    // As long as one node cannot be asked the others are kept.
    for n in 0..1000 {
        c.run(&format!("ACKJOB {}", unknown_id(n + 9000, 0x05a1)))
            .expect_number(0);
    }
    assert_eq!(figure(&cluster[0], "dummy_acks"), 1000);
    assert_eq!(figure(&cluster[1], "dummy_acks"), 0);
    cluster[2].sigcont();
    wait_empty(&cluster, SETTLED);
}

#[test]
fn fastack_tells_the_other_holders() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    for at in 0..3 {
        let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 1");
        let mut c = cluster[at].client();
        c.run(&format!("FASTACK {id}")).expect_number(1);
        wait_empty(&cluster, SETTLED);
    }
    // Through a node that does not have it.
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 1 RETRY 1");
    let mut other = cluster[1].client();
    other.run(&format!("FASTACK {id}")).expect_number(0);
    wait_empty(&cluster, SETTLED);
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
}

#[test]
fn deljob_deletes_on_one_node_only() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    // A holder that is not responsible: the copy is made up for, or stays away.
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 60");
    let mut other = cluster[1].client();
    other.run(&format!("DELJOB {id}")).expect_number(1);
    assert_eq!(state(&cluster[0], &id), "queued");
    assert_eq!(state(&cluster[2], &id), "active");
    let job = take_now(&mut c, "q").expect("the job");
    c.run(&format!("ACKJOB {}", job.id)).expect_number(1);
    wait_empty(&cluster, SETTLED);
    // The one that has it queued: another one takes over.
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 60");
    c.run(&format!("DELJOB {id}")).expect_number(1);
    c.run("GETJOB NOHANG FROM q").expect_null_array();
    let queued = || [1, 2].map(|at| state(&cluster[at], &id) == "queued");
    eventually(secs(5), "one of the others queues it", || {
        queued().iter().filter(|queued| **queued).count() == 1
    });
}

#[test]
fn an_acknowledgement_outlives_the_node_that_took_it() {
    let mut cluster = Cluster::start(3, Options::new().persistence(Persistence::AofAlways));
    let mut c = cluster[0].client();
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 3 RETRY 2");
    take_now(&mut c, "q").expect("the job");
    // The second takes the acknowledgement, tells nobody, and dies.
    let second = cluster.id(1);
    cluster[0].sigstop();
    cluster[2].sigstop();
    cluster[1]
        .client()
        .run(&format!("ACKJOB {id}"))
        .expect_number(1);
    cluster[1].kill9();
    cluster[1].start_again();
    assert_eq!(state(&cluster[1], &id), "acked");
    cluster[0].sigcont();
    cluster[2].sigcont();
    eventually(secs(20), "all know", || {
        let states = states(&cluster, &id);
        states
            .iter()
            .all(|state| state == "acked" || state == "none")
    });
    assert_eq!(cluster.id(1), second);
    wait_empty(&cluster, secs(20));
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(3));
}

#[test]
fn a_dummy_acknowledgement_survives_a_restart() {
    let mut cluster = Cluster::start(2, Options::new().persistence(Persistence::AofAlways));
    let mut c = cluster[0].client();
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 1 RETRY 1");
    cluster[0].kill9();
    let mut other = cluster[1].client();
    other.run(&format!("ACKJOB {id}")).expect_number(0);
    for _ in 0..2 {
        assert_eq!(figure(&cluster[1], "dummy_acks"), 1);
        cluster[1].kill9();
        cluster[1].start_again();
    }
    cluster[0].start_again();
    // It has the job queued, with nobody else known to hold it, so it may deliver it
    // until it hears of the acknowledgement.
    wait_empty(&cluster, secs(20));
    expect_no_delivery(&cluster, &[0, 1], "q", secs(3));
}

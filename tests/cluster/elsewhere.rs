//! Nodes that keep no jobs themselves: they have no room, or leave.

use crate::common::*;

/// Far more than a hand-over takes.
const SOON: Duration = Duration::from_secs(10);

/// Leaves a node no room beside one job.
fn fill(cluster: &Cluster, at: usize) {
    let mut c = cluster[at].client();
    add_with(&mut c, "filler", "x", "0 REPLICATE 1");
    c.run("CONFIG SET disque.max-memory 1").expect_ok();
}

fn make_room(cluster: &Cluster, at: usize) {
    let mut c = cluster[at].client();
    c.run("CONFIG SET disque.max-memory 0").expect_ok();
}

#[track_caller]
fn wait_holders(cluster: &Cluster, id: &str, wanted: &[usize]) {
    let what = format!("{id} is at {wanted:?}");
    eventually(SOON, &what, || holders(cluster, id) == wanted);
}

#[test]
fn a_node_without_room_has_others_keep_its_jobs() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    fill(&cluster, 0);
    for options in ["", "REPLICATE 1", "ASYNC", "REPLICATE 2 ASYNC"] {
        let id = add_with(&mut c, "q", "x", &format!("1000 RETRY 1 {options}"));
        wait_holders(&cluster, &id, &[1]);
        eventually(SOON, "it is queued there", || {
            state(&cluster[1], &id) == "queued"
        });
    }
    c.run("ADDJOB q x 1000 REPLICATE 2").expect_error("NOREPL");
    wait_figure(&cluster[0], "registered_jobs", 1, SOON);
    std::thread::sleep(secs(3));
    assert_eq!(figure(&cluster[1], "queued_jobs"), 4);
    assert_eq!(figure(&cluster[1], "jobs_requeued_total"), 0);
    make_room(&cluster, 0);
    let id = add_with(&mut c, "q", "x", "1000 REPLICATE 2");
    assert_eq!(holders(&cluster, &id), [0, 1]);
    // What was asked for is made up for.
    wait_figure(&cluster[1], "under_replicated", 0, secs(40));
}

#[test]
fn a_delay_holds_where_the_job_is_kept() {
    let cluster = Cluster::new(2);
    fill(&cluster, 0);
    let start = Instant::now();
    let mut ids = Vec::new();
    for options in ["RETRY 60", "RETRY 0"] {
        let options = format!("1000 REPLICATE 1 DELAY 2 {options}");
        let id = add_with(&mut cluster[0].client(), "q", "x", &options);
        wait_holders(&cluster, &id, &[1]);
        ids.push(id);
    }
    let mut consumer = cluster[1].client();
    for _ in 0..2 {
        let job = wait_job(&mut consumer, "q", SOON).expect("the job");
        assert!(start.elapsed() >= ms(1990), "{:?}", start.elapsed());
        ids.retain(|id| *id != job.id);
    }
    assert!(ids.is_empty(), "{ids:?} did not come");
}

#[test]
fn an_at_most_once_job_goes_to_one_other_node() {
    let cluster = Cluster::new(3);
    fill(&cluster, 0);
    let mut c = cluster[0].client();
    for _ in 0..50 {
        let id = add_with(&mut c, "q", "x", "1000 RETRY 0 REPLICATE 1");
        let at = holders(&cluster, &id);
        assert!(at == [1] || at == [2], "{at:?}");
    }
    let mut taken = 0;
    for at in [1, 2] {
        let mut consumer = cluster[at].client();
        while take_now(&mut consumer, "q").is_some() {
            taken += 1;
        }
    }
    assert_eq!(taken, 50);
    expect_no_delivery(&cluster, &[0, 1, 2], "q", secs(2));
}

#[test]
fn where_no_node_has_room_the_producer_hears_it_at_once() {
    let cluster = Cluster::new(3);
    (0..3).for_each(|at| fill(&cluster, at));
    let mut c = cluster[0].client();
    for options in ["REPLICATE 1", "REPLICATE 2", "ASYNC", "RETRY 0 REPLICATE 1"] {
        let start = Instant::now();
        c.run(&format!("ADDJOB q x 0 {options}"))
            .expect_error("OOM");
        assert!(
            start.elapsed() < secs(2),
            "{options}: {:?}",
            start.elapsed()
        );
    }
    assert_eq!(figure(&cluster[0], "adds_refused_for_memory_total"), 4);
    for at in 0..3 {
        wait_figure(&cluster[at], "registered_jobs", 1, SOON);
    }
}

#[test]
fn where_it_may_not_wait_a_node_without_room_adds_nothing() {
    let cluster = Cluster::new(2);
    fill(&cluster, 0);
    let mut c = cluster[0].client();
    c.run("MULTI").expect_ok();
    c.run("ADDJOB q x 0 ASYNC").expect_status("QUEUED");
    let reply = c.run("EXEC");
    assert!(format!("{:?}", reply.expect_array()[0]).contains("ERR"));
    assert_eq!(figure(&cluster[0], "registered_jobs"), 1);
    assert_eq!(figure(&cluster[1], "registered_jobs"), 0);
}

#[test]
fn a_leaving_node_takes_jobs_for_the_others() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    let mut waiting = cluster[0].client();
    waiting.start("GETJOB FROM other");
    let there = add_with(&mut c, "q", "there", "0 REPLICATE 1 RETRY 60");
    cluster[1].client().run("PAUSE q in").expect_status("in");
    cluster[2].client().run("PAUSE q in").expect_status("in");
    c.run("DISQUE LEAVING yes").expect_ok();
    waiting.reply().expect_error("LEAVING");
    // Nobody takes what it has yet, so it hands it out itself.
    assert_eq!(deliveries(&c.run("GETJOB FROM q"))[0].id, there);
    c.run("GETJOB FROM q").expect_error("LEAVING");
    let id = add_with(&mut c, "free", "x", "1000");
    wait_holders(&cluster, &id, &[1, 2]);
    for at in 0..3 {
        cluster.wait_priority(at, &cluster.id(0), &[100]);
    }
    c.run("DISQUE LEAVING no").expect_ok();
    let id = add_with(&mut c, "free", "x", "1000");
    assert_eq!(holders(&cluster, &id), [0, 1, 2]);
}

#[test]
fn a_leaving_node_is_drained_and_nothing_is_lost() {
    let mut cluster = Cluster::new(4);
    let mut c = cluster[0].client();
    let mut wanted = Vec::new();
    for round in 0..200 {
        for options in [
            "0 REPLICATE 1 RETRY 60",
            "0 REPLICATE 3 RETRY 60",
            "0 REPLICATE 2 RETRY 60 DELAY 3",
            "0 REPLICATE 1 RETRY 0",
            "0 REPLICATE 1 RETRY 0 DELAY 3",
        ] {
            wanted.push(add_with(&mut c, "q", &round.to_string(), options));
        }
    }
    // Some are being worked at: they come again elsewhere, RETRY after they were taken.
    for _ in 0..50 {
        wanted.push(add_with(&mut c, "held", "x", "0 REPLICATE 1 RETRY 4"));
        take_now(&mut c, "held").expect("the job");
    }
    // And some are acknowledged while one of their holders is away.
    cluster[3].sigstop();
    let id = cluster.id(0);
    let acked: Vec<String> = (0..50).map(|n| unknown_id(n, 1441)).collect();
    c.run(&format!("ACKJOB {}", acked.join(" ")))
        .expect_number(0);
    cluster[3].sigcont();
    cluster.wait_connected();
    c.run("DISQUE LEAVING yes").expect_ok();
    eventually(secs(30), "it is drained", || left(&cluster[0]) == [0, 0, 0]);
    let mut gone = cluster.remove(0);
    gone.stop_clean();
    let forget = format!("DISQUE FORGET {id}");
    cluster[0].client().run(&forget).expect_ok();
    let mut clients: Vec<Client> = (0..3).map(|at| cluster[at].client()).collect();
    for client in &mut clients {
        while let Some(job) = take_now(client, "q").or_else(|| wait_job(client, "q", secs(4))) {
            assert!(
                wanted.contains(&job.id),
                "{} came twice, or from nowhere",
                job.id
            );
            wanted.retain(|id| *id != job.id);
            client.run(&format!("ACKJOB {}", job.id));
        }
        while let Some(job) = wait_job(client, "held", secs(2)) {
            wanted.retain(|id| *id != job.id);
            client.run(&format!("ACKJOB {}", job.id));
        }
    }
    assert_eq!(wanted, Vec::<String>::new());
    wait_empty(&cluster, secs(30));
}

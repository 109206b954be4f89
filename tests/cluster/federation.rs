//! Jobs go to the nodes where consumers wait.

use crate::common::*;
use std::collections::BTreeMap;

/// Longer than a message takes, far shorter than a request is repeated.
const AT_ONCE: Duration = Duration::from_millis(700);

#[test]
fn a_job_finds_the_consumer_that_waits_on_another_node() {
    for (replicate, options) in [(1, ""), (2, ""), (3, ""), (1, "RETRY 0")] {
        let cluster = Cluster::new(3);
        let mut consumer = cluster[1].client();
        consumer.start("GETJOB TIMEOUT 20000 FROM q");
        consumer.expect_silence(ms(1500));
        let mut c = cluster[0].client();
        let options = format!("0 REPLICATE {replicate} {options}");
        let start = Instant::now();
        let id = add_with(&mut c, "q", "x", &options);
        let reply = consumer.read(secs(5)).expect("the job comes");
        assert!(
            start.elapsed() < AT_ONCE,
            "{options}: {:?}",
            start.elapsed()
        );
        assert_eq!(deliveries(&reply)[0].id, id);
        assert_eq!(figure(&cluster[0], "jobs_handed_over_total"), 1);
        assert_eq!(figure(&cluster[1], "jobs_imported_total"), 1);
        let stat = cluster[1].client().run("QSTAT q");
        let stat = format!("{stat:?}");
        assert!(stat.contains(&cluster.id(0)), "{stat}");
        cluster[1]
            .client()
            .run(&format!("ACKJOB {id}"))
            .expect_number(1);
        eventually(secs(10), "it is gone everywhere", || {
            holders(&cluster, &id).is_empty()
        });
    }
}

#[test]
fn a_consumer_that_comes_later_gets_jobs_that_wait_elsewhere() {
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    let ids: Vec<String> = (0..3)
        .map(|n| add_with(&mut c, "q", &n.to_string(), "0 REPLICATE 1"))
        .collect();
    for expected in &ids {
        let mut consumer = cluster[2].client();
        let start = Instant::now();
        let got = wait_job(&mut consumer, "q", secs(5)).expect("a job");
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        // The oldest first; the last one moves too.
        assert_eq!(&got.id, expected);
        consumer.run(&format!("ACKJOB {}", got.id)).expect_number(1);
    }
}

#[test]
fn an_at_most_once_job_moves_and_is_delivered_once() {
    let cluster = Cluster::new(2);
    let (mut first, mut second) = (cluster[0].client(), cluster[1].client());
    let a = add_with(&mut first, "q", "a", "0 RETRY 0 REPLICATE 1");
    let b = add_with(&mut second, "q", "b", "0 RETRY 0 REPLICATE 1");
    let mut got = Vec::new();
    for _ in 0..2 {
        got.push(wait_job(&mut first, "q", secs(5)).expect("a job").id);
    }
    assert_eq!(got, [a, b.clone()]);
    eventually(secs(5), "it has left where it was", || {
        show(&cluster[1], &b).is_none()
    });
    for client in [&mut first, &mut second] {
        assert!(wait_job(client, "q", secs(1)).is_none());
    }
}

#[test]
fn a_restart_does_not_count_jobs_that_have_moved_as_withheld() {
    let options = Options::new().persistence(Persistence::AofAlways);
    let mut cluster = Cluster::start(2, options);
    let mut consumer = cluster[1].client();
    for _ in 0..5 {
        consumer.start("GETJOB TIMEOUT 5000 FROM q");
        add_with(&mut cluster[0].client(), "q", "x", "0 RETRY 0 REPLICATE 1");
        let reply = consumer.read(secs(10)).expect("the job comes");
        let id = deliveries(&reply)[0].id.clone();
        consumer.run(&format!("ACKJOB {id}")).expect_number(1);
    }
    wait_figure(&cluster[0], "registered_jobs", 0, secs(5));
    cluster[0].kill9();
    cluster[0].start_again();
    assert_eq!(figure(&cluster[0], "jobs_withheld_total"), 0);
    assert_eq!(figure(&cluster[0], "registered_jobs"), 0);
}

#[test]
fn what_is_paused_out_or_wanted_by_nobody_stays() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    c.run("PAUSE q out");
    let id = add_with(&mut c, "q", "x", "0 REPLICATE 1");
    let kept = add_with(&mut c, "other", "x", "0 REPLICATE 1");
    let mut consumer = cluster[1].client();
    consumer.start("GETJOB TIMEOUT 20000 FROM q");
    consumer.expect_silence(ms(1500));
    c.run("PAUSE q none");
    let reply = consumer.read(secs(5)).expect("the job comes");
    assert_eq!(deliveries(&reply)[0].id, id);
    assert_eq!(state(&cluster[0], &kept), "queued");
    // Nor does any job go where the setting says no.
    c.run("CONFIG SET disque.federation no").expect_ok();
    consumer.start("GETJOB TIMEOUT 2000 FROM other");
    assert!(consumer.read(secs(5)).expect("null").is_null());
    assert_eq!(state(&cluster[0], &kept), "queued");
}

#[test]
fn consumers_everywhere_drain_what_was_added_at_one_node() {
    const JOBS: usize = 6_000;
    let cluster = Cluster::new(3);
    let mut c = cluster[0].client();
    for n in 0..JOBS {
        c.send(&[
            "ADDJOB",
            "q",
            &n.to_string(),
            "0",
            "REPLICATE",
            "1",
            "RETRY",
            "60",
        ]);
    }
    for _ in 0..JOBS {
        c.reply().expect_job_id();
    }
    let start = Instant::now();
    let consume = |at: usize| {
        let mut client = cluster[at].client();
        let mut bodies = Vec::new();
        // Nobody waits longer than this while there are jobs anywhere.
        while let Some(job) = wait_job(&mut client, "q", secs(2)) {
            client.run(&format!("FASTACK {}", job.id));
            bodies.push(job.body);
        }
        bodies
    };
    let all: Vec<Vec<Vec<u8>>> = std::thread::scope(|scope| {
        let consume = &consume;
        let consumers: Vec<_> = (0..6)
            .map(|n| scope.spawn(move || consume(n % 3)))
            .collect();
        let joined = consumers.into_iter().map(|consumer| consumer.join());
        joined.map(|bodies| bodies.expect("a consumer")).collect()
    });
    println!("{JOBS} jobs in {:?}", start.elapsed());
    let mut counts = BTreeMap::<Vec<u8>, usize>::new();
    for body in all.iter().flatten() {
        *counts.entry(body.clone()).or_default() += 1;
    }
    assert_eq!(counts.len(), JOBS, "all of them come");
    assert!(counts.values().all(|count| *count == 1), "each once");
    for (number, bodies) in all.iter().enumerate() {
        assert!(
            bodies.len() > JOBS / 60,
            "consumer {number}: {}",
            bodies.len()
        );
    }
}

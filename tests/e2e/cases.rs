//! Whole stories from reports about job queues, at their real times. What each
//! command answers in itself is tested in the other files.

use crate::common::*;

#[test]
fn the_retry_clock_starts_at_delivery() {
    let server = Server::new();
    let (mut a, mut b) = (server.client(), server.client());
    let id = a.add("q", "x", "RETRY 5");
    std::thread::sleep(ms(4000));
    assert_eq!(a.take("q").id, id);
    let delivered = Instant::now();
    assert_eq!(b.wait_job("q", ms(4500)), None);
    let again = b.wait_job("q", ms(2500)).expect("never again");
    assert_eq!((again.id, again.additional_deliveries), (id, Some(1)));
    expect_between(delivered.elapsed(), secs(5), LATE);
}

#[test]
fn the_retry_clock_of_a_delayed_job_starts_at_delivery_too() {
    let server = Server::new();
    let mut c = server.client();
    let start = Instant::now();
    let id = c.add("q", "y", "DELAY 3 RETRY 2.5");
    assert_eq!(c.wait_job("q", secs(8)).expect("lost").id, id);
    expect_between(start.elapsed(), secs(3), LATE);
    let delivered = Instant::now();
    assert_eq!(c.wait_job("q", secs(8)).expect("never again").id, id);
    expect_between(delivered.elapsed(), ms(2500), LATE);
}

#[test]
fn every_job_of_a_reply_has_its_own_counters() {
    let server = Server::new();
    let mut c = server.client();
    let ids: Vec<String> = ["j1", "j2", "j3"]
        .iter()
        .map(|b| c.add("q", b, "RETRY 60"))
        .collect();
    assert_eq!(c.get_now("COUNT 3 FROM q").len(), 3);
    c.run(&format!("NACK {}", ids[1])).expect_number(1);
    assert_eq!(c.take("q").id, ids[1]);
    c.run(&format!("NACK {}", ids.join(" "))).expect_number(3);
    let reply = c.run("GETJOB COUNT 3 WITHCOUNTERS FROM q");
    for job in reply.expect_array() {
        assert_eq!(job.items().len(), 7);
    }
    let jobs = deliveries(&reply);
    let counters: Vec<_> = jobs
        .iter()
        .map(|j| (j.text(), j.nacks.unwrap(), j.additional_deliveries.unwrap()))
        .collect();
    assert_eq!(counters, [("j1", 1, 0), ("j2", 2, 0), ("j3", 1, 0)]);
}

#[test]
fn show_after_an_ack_is_null_ten_thousand_times() {
    let server = Server::new();
    let mut c = server.client();
    for _ in 0..10_000 {
        let id = c.run("ADDJOB q x 0").expect_job_id();
        let replies = c.pipeline(&[
            "GETJOB FROM q".to_string(),
            format!("ACKJOB {id}"),
            format!("SHOW {id}"),
        ]);
        replies[0].expect_raw(&getjob_bytes(&[("q", &id, "x")]));
        replies[1].expect_number(1);
        replies[2].expect_null_bulk();
    }
}

#[test]
fn deleting_a_stranger_keeps_the_stream_in_step() {
    let server = Server::new();
    let mut c = server.client();
    let replies = c.pipeline(&[format!("DELJOB {}", stranger()), "PING".to_string()]);
    replies[0].expect_number(0);
    replies[1].expect_status("PONG");
}

#[test]
fn wrong_getjobs_answer_at_once() {
    let server = Server::new();
    let mut c = server.client();
    let start = Instant::now();
    for command in [
        "GETJOB COUNT 0 FROM q",
        "GETJOB COUNT -1 FROM q",
        "GETJOB COUNT x FROM q",
        "GETJOB TIMEOUT -1 FROM q",
        "GETJOB COUNT 1",
        "GETJOB FROM",
    ] {
        c.run(command).expect_error("ERR");
    }
    // FROM before options: the rest are names, so this waits like any other.
    c.run("GETJOB NOHANG FROM q COUNT 0").expect_null_array();
    assert!(start.elapsed() < secs(2));
}

#[test]
fn a_lowered_memory_limit_refuses_and_a_lifted_one_accepts() {
    let server = Server::new();
    let mut c = server.client();
    c.run("CONFIG SET maxmemory 1").expect_ok();
    // Time for whatever a timer might do with no jobs to evict.
    std::thread::sleep(secs(5));
    let code = c.run("ADDJOB q x 1000").expect_any_error();
    assert!(
        code.starts_with("OOM ") || code.starts_with("NOREPL "),
        "{code}"
    );
    c.run("CONFIG SET maxmemory 0").expect_ok();
    c.run("ADDJOB q x 1000").expect_job_id();
}

#[test]
fn working_errors_keep_the_stream_in_step() {
    let server = Server::new();
    let mut c = server.client();
    let old = c.add("q", "x", "TTL 2 RETRY 1");
    let good = c.add("p", "x", "TTL 1000 RETRY 50");
    c.take("p");
    std::thread::sleep(ms(1200));
    let replies = c.pipeline(&[
        format!("WORKING {}", stranger()),
        "PING".to_string(),
        format!("WORKING {old}"),
        "PING".to_string(),
        format!("WORKING {good}"),
        "PING".to_string(),
    ]);
    replies[0].expect_error("NOJOB");
    replies[2].expect_error("TOOLATE");
    replies[4].expect_number(50);
    for pong in [1, 3, 5] {
        replies[pong].expect_status("PONG");
    }
    let due = c.show(&good).unwrap().next_requeue_within.unwrap();
    assert!((49_000..=50_500).contains(&due), "{due} ms");
}

#[test]
fn a_pause_looks_like_an_empty_queue_until_it_ends() {
    let server = Server::new();
    let (mut a, mut b) = (server.client(), server.client());
    let id = a.add("q", "x", "");
    a.run("PAUSE q out").expect_status("out");
    a.run("GETJOB TIMEOUT 1000 FROM q").expect_null_array();
    b.start("GETJOB TIMEOUT 20000 FROM q");
    server.wait_blocked(1);
    let start = Instant::now();
    a.run("PAUSE q none").expect_status("none");
    assert_eq!(deliveries(&b.reply())[0].id, id);
    assert!(start.elapsed() < secs(1));
}

#[test]
fn several_queues_serve_one_client_once() {
    let server = Server::new();
    let (mut a, mut b) = (server.client(), server.client());
    let id = b.add("q2", "x", "");
    let start = Instant::now();
    assert_eq!(
        deliveries(&a.run("GETJOB TIMEOUT 1000 FROM nosuch q2"))[0].id,
        id
    );
    assert!(start.elapsed() < ms(900));

    a.start("GETJOB TIMEOUT 3000 FROM q q q2");
    server.wait_blocked(1);
    let first = b.add("q", "x", "");
    assert_eq!(deliveries(&a.reply())[0].id, first);
    for queue in ["q", "q2", "q"] {
        b.add(queue, "later", "");
    }
    a.expect_silence(ms(300));
    assert_eq!(b.get_now("COUNT 9 FROM q q2").len(), 3);

    for body in ["a1", "a2", "a3"] {
        b.add("qa", body, "");
    }
    for body in ["b1", "b2"] {
        b.add("qb", body, "");
    }
    let jobs = deliveries(&a.run("GETJOB COUNT 4 FROM qa qb"));
    let bodies: Vec<&str> = jobs.iter().map(Delivery::text).collect();
    assert_eq!(bodies, ["a1", "b1", "a2", "b2"]);
}

#[test]
fn the_boundary_of_maxlen() {
    let server = Server::new();
    let mut c = server.client();
    c.run("ADDJOB q x 0 MAXLEN 1").expect_job_id();
    c.run("ADDJOB q x 0 MAXLEN 1").expect_error("MAXLEN");
    c.take("q");
    c.run("ADDJOB q x 0 MAXLEN 1").expect_job_id();
    c.run("ADDJOB q x 0 MAXLEN 0").expect_error("ERR");
}

/// The longest of the waits for PING, one a millisecond, while `work` runs.
fn longest_ping_during(server: &Server, work: impl FnOnce()) -> Duration {
    let mut pinger = server.client();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pings = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let start = Instant::now();
                pinger.run("PING").expect_status("PONG");
                longest = longest.max(start.elapsed());
                std::thread::sleep(ms(1));
            }
            longest
        });
        work();
        // What is freed in slices goes on after the reply.
        std::thread::sleep(ms(300));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        pings.join().unwrap()
    })
}

#[test]
fn a_flush_of_a_hundred_thousand_jobs_stalls_nobody() {
    let _alone = quiet_machine();
    let server = Server::start(Options::new().alone());
    let mut c = server.client();
    let adds = vec!["ADDJOB q1 body 0"; 10_000];
    let delayed = vec!["ADDJOB q1 body 0 DELAY 1000"; 10];
    // A stall of the server shows in each round; the machine's own in some.
    let mut longest = Vec::new();
    for _ in 0..3 {
        for _ in 0..10 {
            c.pipeline(&adds);
        }
        c.pipeline(&delayed);
        assert_eq!(c.get_now("COUNT 100 FROM q1").len(), 100);
        let mut waiting = [server.client(), server.client()];
        for w in &mut waiting {
            w.start("GETJOB FROM q2");
        }
        server.wait_blocked(2);
        longest.push(longest_ping_during(&server, || {
            c.run("DISQUE FLUSHALL").expect_ok();
            assert_eq!(c.len("q1"), 0);
        }));
        for w in &mut waiting {
            w.reply().expect_null_array();
        }
        expect_no_jobs(&mut c);
        let id = c.add("q1", "x", "");
        assert_eq!(c.take("q1").id, id);
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
    let best = longest.iter().min().unwrap();
    assert!(*best <= ms(20), "the longest waits for PING: {longest:?}");
}

#[test]
fn a_hundred_thousand_jobs_that_fall_due_together_stall_nobody() {
    let _alone = quiet_machine();
    let server = Server::start(Options::new().alone());
    let mut c = server.client();
    let mut longest = Vec::new();
    for _ in 0..3 {
        let adds = vec!["ADDJOB q body 0 RETRY 2 TTL 1000"; 10_000];
        for _ in 0..10 {
            c.pipeline(&adds);
        }
        let start = Instant::now();
        let mut taken = 0;
        while taken < 100_000 {
            taken += c.get_now("COUNT 1000 FROM q").len();
        }
        assert!(start.elapsed() < secs(2), "too slow to mean anything");
        longest.push(longest_ping_during(&server, || {
            eventually(secs(20), "all are queued again", || c.len("q") == 100_000);
        }));
        c.run("DISQUE FLUSHALL").expect_ok();
    }
    let best = longest.iter().min().unwrap();
    assert!(*best <= ms(20), "the longest waits for PING: {longest:?}");
}

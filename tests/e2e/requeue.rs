//! NACK, ENQUEUE, DEQUEUE, WORKING.

use crate::common::*;

#[test]
fn nack_and_enqueue_put_a_delivered_job_back_now_and_count_it_apart() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 100");
    c.take("q");
    c.run(&format!("NACK {id}")).expect_number(1);
    let job = c.take("q");
    assert_eq!((job.nacks, job.additional_deliveries), (Some(1), Some(0)));
    c.run(&format!("ENQUEUE {id}")).expect_number(1);
    let job = c.take("q");
    assert_eq!((job.nacks, job.additional_deliveries), (Some(1), Some(1)));
    let shown = c.show(&id).unwrap();
    assert_eq!((shown.nacks, shown.additional_deliveries), (1, 1));
}

#[test]
fn a_queued_job_is_not_put_back() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    for command in ["NACK", "ENQUEUE"] {
        c.run(&format!("{command} {id}")).expect_number(0);
    }
    let job = c.take("q");
    assert_eq!((job.nacks, job.additional_deliveries), (Some(0), Some(0)));
}

#[test]
fn only_active_jobs_that_are_known_count() {
    let server = Server::new();
    let mut c = server.client();
    let delivered = c.add("q", "x", "");
    c.take("q");
    let queued = c.add("q", "y", "");
    for command in ["NACK", "ENQUEUE"] {
        c.run(&format!(
            "{command} {delivered} {} {queued} {delivered}",
            stranger()
        ))
        .expect_number(1);
        assert_eq!(c.take("q").id, delivered, "{command}");
    }
}

#[test]
fn a_job_put_back_comes_before_younger_ones() {
    let server = Server::new();
    let mut c = server.client();
    let old = c.add("q", "old", "");
    c.add("q", "young", "");
    c.take("q");
    c.run(&format!("NACK {old}")).expect_number(1);
    let bodies: Vec<Delivery> = c.get_now("COUNT 2 FROM q");
    assert_eq!((bodies[0].text(), bodies[1].text()), ("old", "young"));
}

#[test]
fn enqueue_ends_a_delay() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "DELAY 1000");
    c.run(&format!("ENQUEUE {id}")).expect_number(1);
    assert_eq!(c.take("q").id, id);
}

#[test]
fn dequeue_takes_off_the_queue_and_the_retry_brings_it_back() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 1");
    c.run(&format!("DEQUEUE {id} {}", stranger()))
        .expect_number(1);
    c.run(&format!("DEQUEUE {id}")).expect_number(0);
    assert_eq!(c.state(&id), "active");
    assert_eq!(c.len("q"), 0);
    c.run("GETJOB NOHANG FROM q").expect_null_array();
    assert_eq!(c.wait_job("q", secs(5)).expect("lost").id, id);
}

#[test]
fn a_dequeued_job_can_be_queued_by_hand() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 100");
    c.run(&format!("DEQUEUE {id}")).expect_number(1);
    c.run(&format!("ENQUEUE {id}")).expect_number(1);
    assert_eq!(c.state(&id), "queued");
    assert_eq!(c.take("q").id, id);
}

#[test]
fn working_answers_the_retry_and_moves_the_requeue_ahead() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        let id = c.add("q", "x", "RETRY 1 TTL 100");
        c.take("q");
        let start = Instant::now();
        for _ in 0..4 {
            std::thread::sleep(ms(500));
            c.run(&format!("WORKING {id}")).expect_number(1);
        }
        assert_eq!(c.len("q"), 0);
        let due = c.show(&id).unwrap().next_requeue_within.unwrap();
        assert!((800..=1300).contains(&due), "{due} ms");
        c.wait_job("q", secs(5)).expect("lost");
        assert!(start.elapsed() >= ms(2980));
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
}

#[test]
fn working_rounds_the_retry_up_to_whole_seconds() {
    let server = Server::new();
    let mut c = server.client();
    for (retry, answer) in [("0.5", 1), ("1.5", 2), ("30", 30)] {
        let id = c.add("q", "x", &format!("RETRY {retry}"));
        c.take("q");
        c.run(&format!("WORKING {id}")).expect_number(answer);
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
}

#[test]
fn working_dequeues_a_job_that_was_queued_again() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 1 TTL 100");
    c.take("q");
    eventually(secs(4), "the job is queued again", || c.len("q") == 1);
    c.run(&format!("WORKING {id}")).expect_number(1);
    assert_eq!(c.len("q"), 0);
    assert_eq!(c.state(&id), "active");
}

#[test]
fn working_fails_with_one_clean_error_each() {
    let server = Server::new();
    let mut c = server.client();
    c.run(&format!("WORKING {}", stranger()))
        .expect_error("NOJOB");
    let acked = c.add("q", "x", "");
    c.run(&format!("ACKJOB {acked}")).expect_number(1);
    c.run(&format!("WORKING {acked}")).expect_error("NOJOB");
    let old = c.add("q", "x", "TTL 2 RETRY 1");
    std::thread::sleep(ms(1100));
    c.run(&format!("WORKING {old}")).expect_error("TOOLATE");
    c.run("PING").expect_status("PONG");
}

#[test]
fn counters_stop_at_their_limit_and_do_not_wrap() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    c.take("q");
    let round = [format!("NACK {id}"), "GETJOB FROM q".to_string()];
    let commands: Vec<&str> = round
        .iter()
        .map(String::as_str)
        .cycle()
        .take(20_000)
        .collect();
    for _ in 0..7 {
        c.pipeline(&commands);
    }
    assert_eq!(c.show(&id).unwrap().nacks, 65_535);
}

//! GETJOB that finds something, or does not wait.

use crate::common::*;

#[test]
fn a_job_is_exactly_three_bulk_strings() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        let id = c.add("q", "hello", "");
        c.run("GETJOB FROM q")
            .expect_raw(&getjob_bytes(&[("q", &id, "hello")]));
    }
}

#[test]
fn withcounters_makes_exactly_seven_elements() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        let id = c.add("q", "x", "");
        c.run("GETJOB WITHCOUNTERS FROM q").expect_raw(
            format!(
                "*1\r\n*7\r\n$1\r\nq\r\n$40\r\n{id}\r\n$1\r\nx\r\n$5\r\nnacks\r\n:0\r\n\
                 $21\r\nadditional-deliveries\r\n:0\r\n"
            )
            .as_bytes(),
        );
    }
}

#[test]
fn nothing_is_a_null_array_never_an_empty_one() {
    let server = Server::new();
    let mut c = server.client();
    let mut c3 = server.client3();
    for command in [
        "GETJOB NOHANG FROM q",
        "GETJOB NOHANG COUNT 5 WITHCOUNTERS FROM q r",
        "GETJOB TIMEOUT 50 FROM q",
        "GETJOB TIMEOUT 50 COUNT 3 FROM q r",
        "GETJOB NOHANG TIMEOUT 60000 FROM q",
    ] {
        c.run(command).expect_null_array();
        c3.run(command).expect_null();
    }
}

#[test]
fn options_are_taken_in_any_case_and_any_order() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    let jobs = deliveries(&c.run("getjob withcounters count 2 timeout 50 nohang from q"));
    assert_eq!(jobs[0].id, id);
    assert_eq!(jobs[0].nacks, Some(0));
}

#[test]
fn jobs_come_in_the_order_of_their_creation() {
    let server = Server::new();
    let mut c = server.client();
    let ids: Vec<String> = (0..50).map(|n| c.add("q", &n.to_string(), "")).collect();
    let mut got = Vec::new();
    for count in [1, 7, 42] {
        got.extend(
            c.get_now(&format!("COUNT {count} FROM q"))
                .into_iter()
                .map(|j| j.id),
        );
    }
    assert_eq!(got, ids);
}

#[test]
fn count_goes_round_the_queues_one_job_each() {
    let server = Server::new();
    let mut c = server.client();
    for body in ["a1", "a2", "a3"] {
        c.add("qa", body, "");
    }
    for body in ["b1", "b2"] {
        c.add("qb", body, "");
    }
    c.add("qc", "c1", "");
    let jobs = c.get_now("COUNT 100 FROM qa nosuch qb qc");
    let bodies: Vec<&str> = jobs.iter().map(Delivery::text).collect();
    assert_eq!(bodies, ["a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[test]
fn a_queue_named_twice_counts_once() {
    let server = Server::new();
    let mut c = server.client();
    for body in ["a1", "a2", "a3"] {
        c.add("qa", body, "");
    }
    for body in ["b1", "b2"] {
        c.add("qb", body, "");
    }
    let jobs = c.get_now("COUNT 4 FROM qa qa qb qa");
    let bodies: Vec<&str> = jobs.iter().map(Delivery::text).collect();
    assert_eq!(bodies, ["a1", "b1", "a2", "b2"]);
}

#[test]
fn the_leftmost_queue_with_a_job_gives_it() {
    let server = Server::new();
    let mut c = server.client();
    c.add("low", "l", "");
    c.add("high", "h", "");
    assert_eq!(c.get_now("FROM high low")[0].text(), "h");
    assert_eq!(c.get_now("FROM high low")[0].text(), "l");
}

#[test]
fn words_after_from_are_queue_names_whatever_they_look_like() {
    let server = Server::new();
    let mut c = server.client();
    for queue in [
        "NOHANG",
        "COUNT",
        "0",
        "FROM",
        "TIMEOUT",
        "-1",
        "WITHCOUNTERS",
    ] {
        let id = c.add(queue, "x", "");
        let jobs = c.get_now("FROM NOHANG COUNT 0 FROM TIMEOUT -1 WITHCOUNTERS");
        assert_eq!(jobs.len(), 1, "{queue}");
        assert_eq!((jobs[0].queue.as_str(), &jobs[0].id), (queue, &id));
    }
}

#[test]
fn bad_arguments_are_errors_at_once_and_take_nothing() {
    let server = Server::new();
    let mut c = server.client();
    c.add("q", "x", "");
    for (option, values) in [
        (
            "COUNT",
            &["0", "-1", "x", "1.5", "99999999999999999999"][..],
        ),
        ("TIMEOUT", &["-1", "x", "99999999999999999999"]),
    ] {
        for value in values {
            c.run(&format!("GETJOB {option} {value} FROM q"))
                .expect_range_error(option);
        }
    }
    for command in [
        "GETJOB NOHANG q",
        "GETJOB FROM",
        "GETJOB NOHANG FROM",
        "GETJOB COUNT FROM q",
        "GETJOB q FROM q",
        "GETJOB NOSUCHOPTION FROM q",
        "GETJOB TIMEOUT 100 COUNT 1 NOHANG WITHCOUNTERS",
        "GETJOB COUNT",
    ] {
        c.run(command).expect_any_error();
    }
    c.run("GETJOB").expect_wrong_arity();
    assert_eq!(c.len("q"), 1);
}

#[test]
fn a_delivered_job_is_active_and_off_the_queue() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 100");
    assert_eq!(c.state(&id), "queued");
    c.take("q");
    let job = c.show(&id).unwrap();
    assert_eq!(job.state, "active");
    let due = job.next_requeue_within.expect("no requeue is due");
    assert!((95_000..=100_500).contains(&due), "requeue in {due} ms");
    assert_eq!(c.len("q"), 0);
    c.run("GETJOB NOHANG FROM q").expect_null_array();
}

#[test]
fn an_unacknowledged_job_comes_again_after_each_retry() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 1");
    assert_eq!(c.take("q").id, id);
    for deliveries in 1..=2 {
        let start = Instant::now();
        let job = c.wait_job("q", secs(5)).expect("never again");
        expect_between(start.elapsed(), secs(1), LATE);
        assert_eq!(job.id, id);
        assert_eq!(job.nacks, Some(0));
        assert_eq!(job.additional_deliveries, Some(deliveries));
    }
}

#[test]
fn retry_runs_from_the_delivery_not_from_the_queueing() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 2");
    std::thread::sleep(ms(1500));
    assert_eq!(c.take("q").id, id);
    let start = Instant::now();
    let job = c.wait_job("q", secs(6)).expect("never again");
    expect_between(start.elapsed(), secs(2), LATE);
    assert_eq!(job.id, id);
    assert_eq!(job.additional_deliveries, Some(1));
}

#[test]
fn a_job_that_waits_in_its_queue_is_not_counted_as_delivered_again() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0.3");
    std::thread::sleep(ms(1200));
    assert_eq!(c.len("q"), 1);
    let job = c.take("q");
    assert_eq!(job.id, id);
    assert_eq!(job.additional_deliveries, Some(0));
    c.run(&format!("ACKJOB {id}")).expect_number(1);
}

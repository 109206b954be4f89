//! ADDJOB.

use std::collections::HashSet;

use crate::common::*;

#[test]
fn the_reply_is_the_id_as_a_bulk_string_in_both_protocols() {
    let server = Server::new();
    for mut client in [server.client(), server.client3()] {
        let reply = client.run("ADDJOB q x 0");
        let id = reply.expect_job_id();
        reply.expect_raw(format!("$40\r\n{id}\r\n").as_bytes());
    }
}

#[test]
fn the_id_begins_with_the_node_and_ends_with_the_ttl() {
    let server = Server::new();
    let mut c = server.client();
    let node = c.my_id();
    // Minutes, rounded up, then odd if the job is retried, even if not.
    for (options, field) in [
        ("", "05a1"),
        ("RETRY 0", "05a0"),
        ("TTL 1", "0001"),
        ("TTL 1 RETRY 0", "0002"),
        ("TTL 60", "0001"),
        ("TTL 60 RETRY 0", "0002"),
        ("TTL 61", "0003"),
        ("TTL 61 RETRY 0", "0002"),
        ("TTL 120 RETRY 5", "0003"),
        ("TTL 121", "0003"),
        ("TTL 3932040 RETRY 0", "fffe"),
        ("TTL 3932040", "ffff"),
        ("TTL 3932100", "ffff"),
        ("TTL 10000000", "ffff"),
        ("TTL 10000000 RETRY 0", "fffe"),
    ] {
        let id = c.add("q", "x", options);
        assert_eq!(&id[2..10], &node[..8], "{options}");
        assert_eq!(&id[36..], field, "{options}");
    }
}

#[test]
fn ids_are_random_in_all_144_bits_and_never_repeat() {
    let server = Server::new();
    let mut c = server.client();
    let other = Server::new();
    let mut d = other.client();
    let commands = vec!["ADDJOB q x 0"; 2_000];
    let mut ids: Vec<String> = Vec::new();
    for reply in c.pipeline(&commands).iter().chain(&d.pipeline(&commands)) {
        ids.push(reply.expect_job_id());
    }
    let distinct: HashSet<&str> = ids.iter().map(|id| &id[11..35]).collect();
    assert_eq!(distinct.len(), ids.len());
    for position in 11..35 {
        let seen: HashSet<u8> = ids.iter().map(|id| id.as_bytes()[position]).collect();
        assert_eq!(seen.len(), 64, "characters at position {position}");
    }
}

#[test]
fn defaults_are_those_of_the_manual() {
    let server = Server::new();
    let mut c = server.client();
    let node = c.my_id();
    let id = c.add("q", "body", "");
    let job = c.show(&id).unwrap();
    assert_eq!(job.id, id);
    assert_eq!(job.queue.as_deref(), Some(&b"q"[..]));
    assert_eq!(job.state, "queued");
    assert_eq!(
        (job.repl, job.ttl, job.delay, job.retry),
        (1, 86400, 0, 300)
    );
    assert_eq!((job.nacks, job.additional_deliveries), (0, 0));
    assert_eq!(job.nodes_delivered, [node]);
    assert_eq!(job.body.as_deref(), Some(&b"body"[..]));
}

#[test]
fn retry_defaults_to_a_tenth_of_the_ttl_between_1_and_300() {
    let server = Server::new();
    let mut c = server.client();
    for (ttl, retry) in [
        (1, 1),
        (5, 1),
        (10, 1),
        (20, 2),
        (100, 10),
        (3000, 300),
        (90000, 300),
    ] {
        let id = c.add("q", "x", &format!("TTL {ttl}"));
        assert_eq!(c.show(&id).unwrap().retry, retry, "TTL {ttl}");
    }
}

#[test]
fn options_are_taken_in_any_case_and_any_order() {
    let server = Server::new();
    let mut c = server.client();
    for options in [
        "REPLICATE 1 SYNC 1 DELAY 3 RETRY 7 TTL 90 MAXLEN 9",
        "maxlen 9 ttl 90 retry 7 delay 3 sync 1 replicate 1",
        "Ttl 90 Async Delay 3 rEtRy 7",
    ] {
        let id = c.add("q", "x", options);
        let job = c.show(&id).unwrap();
        assert_eq!(
            (job.ttl, job.delay, job.retry, job.repl),
            (90, 3, 7, 1),
            "{options}"
        );
    }
}

#[test]
fn durations_take_decimals_and_show_whole_seconds_rounded_up() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0.001 TTL 10.5 DELAY 9.001");
    let job = c.show(&id).unwrap();
    assert_eq!((job.ttl, job.delay, job.retry), (11, 10, 1));

    let id = c.add("short", "x", "DELAY 0.25");
    assert_eq!(c.len("short"), 0);
    assert_eq!(c.wait_job("short", secs(5)).unwrap().id, id);
}

#[test]
fn a_delayed_job_waits_out_its_delay() {
    let server = Server::new();
    let mut c = server.client();
    let start = Instant::now();
    let id = c.add("q", "x", "DELAY 1");
    assert_eq!(c.len("q"), 0);
    assert_eq!(c.state(&id), "active");
    let job = c.wait_job("q", secs(5)).expect("no job");
    expect_between(start.elapsed(), secs(1), LATE);
    assert_eq!(job.id, id);
    assert_eq!(job.additional_deliveries, Some(0));
}

#[test]
fn a_job_is_gone_when_its_ttl_is_over() {
    let server = Server::new();
    let mut c = server.client();
    let queued = c.add("q", "x", "TTL 1");
    let delivered = c.add("q2", "x", "TTL 1");
    c.take("q2");
    let delayed = c.add("q3", "x", "TTL 1 DELAY 0.9");
    eventually(secs(4), "all three expire", || {
        [&queued, &delivered, &delayed]
            .iter()
            .all(|id| c.show(id).is_none())
    });
    assert_eq!(c.len("q"), 0);
    expect_no_jobs(&mut c);
}

#[test]
fn a_number_out_of_range_is_an_error_that_names_the_option() {
    let server = Server::new();
    let mut c = server.client();
    for (option, values) in [
        (
            "REPLICATE",
            &["0", "-1", "65536", "x", "1.5", "99999999999999999999"][..],
        ),
        ("SYNC", &["-3", "x", "65536"]),
        (
            "DELAY",
            &[
                "-1",
                "x",
                "-0.5",
                "nan",
                "inf",
                "-inf",
                "99999999999999999999",
            ],
        ),
        ("RETRY", &["-1", "x", "nan", "inf", "99999999999999999999"]),
        (
            "TTL",
            &["0", "-1", "x", "nan", "inf", "99999999999999999999"],
        ),
        ("MAXLEN", &["0", "-1", "x", "99999999999999999999"]),
    ] {
        for value in values {
            c.run(&format!("ADDJOB q x 0 {option} {value}"))
                .expect_range_error(option);
        }
    }
    // The default REPLICATE is as many as there are nodes: more are wanting.
    c.run("ADDJOB q x 0 SYNC 2").expect_error("NOREPL");
    for value in ["-1", "x", "1.5x", "99999999999999999999"] {
        c.run(&format!("ADDJOB q x {value}"))
            .expect_range_error("timeout");
    }
    c.call(&["ADDJOB", "q", "x", ""])
        .expect_range_error("timeout");
    expect_no_jobs(&mut c);
}

#[test]
fn contradictions_and_unknown_words_are_errors() {
    let server = Server::new();
    let mut c = server.client();
    for options in [
        "DELAY 10 TTL 10",
        "DELAY 11 TTL 10",
        "TTL 0.5 DELAY 0.5",
        "DELAY 86400",
        "SYNC 1 ASYNC",
        "ASYNC SYNC 0",
        "RETRY 0 REPLICATE 2",
        "NOSUCHOPTION",
        "NOSUCHOPTION 1",
        "REPLICATE",
        "SYNC",
        "DELAY",
        "RETRY",
        "TTL",
        "MAXLEN",
        "TTL 10 RETRY",
    ] {
        c.run(&format!("ADDJOB q x 0 {options}"))
            .expect_error("ERR");
    }
    expect_no_jobs(&mut c);
}

#[test]
fn sync_counts_from_the_other_end_when_negative() {
    let server = Server::new();
    let mut c = server.client();
    for options in ["SYNC 0", "SYNC 1", "ASYNC", "REPLICATE 1 SYNC -1"] {
        let start = Instant::now();
        c.add("q", "x", options);
        assert!(start.elapsed() < secs(1), "{options}");
    }
    assert_eq!(c.len("q"), 4);
}

#[test]
fn more_copies_than_nodes_is_norepl_at_once() {
    let server = Server::new();
    let mut c = server.client();
    for command in [
        "ADDJOB q x 0 REPLICATE 2",
        "ADDJOB q x 60000 REPLICATE 2",
        "ADDJOB q x 60000 REPLICATE 65535",
        "ADDJOB q x 60000 REPLICATE 2 ASYNC",
        "ADDJOB q x 60000 REPLICATE 3 SYNC 1",
        "ADDJOB q x 60000 REPLICATE 2 DELAY 5",
    ] {
        let start = Instant::now();
        c.run(command).expect_error("NOREPL");
        assert!(start.elapsed() < secs(2), "{command}");
    }
    expect_no_jobs(&mut c);
}

#[test]
fn maxlen_counts_what_is_queued_here() {
    let server = Server::new();
    let mut c = server.client();
    for _ in 0..3 {
        c.add("q", "x", "MAXLEN 3");
    }
    c.run("ADDJOB q x 0 MAXLEN 3").expect_error("MAXLEN");
    c.run("ADDJOB q x 0 MAXLEN 2").expect_error("MAXLEN");
    c.add("q", "x", "MAXLEN 4");
    c.add("other", "x", "MAXLEN 1");
    for _ in 0..2 {
        c.take("q");
    }
    c.add("q", "x", "MAXLEN 3");
    assert_eq!(c.len("q"), 3);
}

#[test]
fn names_and_bodies_are_bytes() {
    let server = Server::new();
    let mut c = server.client();
    let all: Vec<u8> = (0..=255).collect();
    let big = vec![b'x'; 1 << 20];
    for (queue, body) in [
        (&b"q"[..], &b""[..]),
        (b"a b\r\n", b"*1\r\n$4\r\nPING\r\n"),
        (b"\0", b"\0"),
        (b"\xff\xfe", b"\xc3\x28"),
        (&all, &all),
        (b"big", &big),
    ] {
        let id = c.call(&[b"ADDJOB", queue, body, b"0"]).expect_job_id();
        let reply = c.call(&[b"GETJOB", &b"FROM"[..], queue]);
        let job = reply.expect_array()[0].items();
        assert_eq!(job[0].bulk(), queue);
        assert_eq!(job[1].text(), id);
        assert_eq!(job[2].bulk(), body);
        assert_eq!(c.show(&id).unwrap().queue.unwrap(), queue);
    }
}

#[test]
fn creation_times_only_grow() {
    let server = Server::new();
    let mut c = server.client();
    let commands = vec!["ADDJOB q x 0"; 300];
    let mut last = 0;
    for reply in c.pipeline(&commands) {
        let ctime = c.show(&reply.expect_job_id()).unwrap().ctime;
        assert!(ctime > last, "{ctime} after {last}");
        last = ctime;
    }
    // Wall-clock milliseconds x 10^6.
    let now = server.wall_clock();
    assert!((last / 1_000_000_000 - now).abs() < 30, "{last} at {now}");
}

#[test]
fn too_few_words_are_an_arity_error() {
    let server = Server::new();
    let mut c = server.client();
    for command in ["ADDJOB", "ADDJOB q", "ADDJOB q x"] {
        c.run(command).expect_wrong_arity();
    }
}

#[test]
fn bodies_over_the_limit_are_refused() {
    let server = Server::start(Options::new().set("disque.max-body", "1000"));
    let mut c = server.client();
    for length in [999, 1000] {
        c.add("q", &"x".repeat(length), "");
    }
    let body = "x".repeat(1001);
    c.call(&["ADDJOB", "q", &body, "0"]).expect_error("ERR");
    assert_eq!(c.len("q"), 2);
}

//! SHOW, QLEN, QPEEK, QSTAT.

use crate::common::*;

#[test]
fn show_is_thirty_elements_with_names_as_bulks_and_numbers_as_integers() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        let id = c.add("q", "x", "RETRY 10 TTL 100");
        let reply = c.run(&format!("SHOW {id}"));
        // Reading checks the count, the names and the type of every value.
        let job = Show::read(&reply).expect("unknown");
        assert!(reply.raw().starts_with(
            format!(
                "*30\r\n$2\r\nid\r\n$40\r\n{id}\r\n$5\r\nqueue\r\n$1\r\nq\r\n$5\r\nstate\r\n\
                 $6\r\nqueued\r\n$4\r\nrepl\r\n:1\r\n$3\r\nttl\r\n:100\r\n$5\r\nctime\r\n:"
            )
            .as_bytes()
        ));
        assert_eq!(job.body.as_deref(), Some(&b"x"[..]));
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
}

#[test]
fn an_unknown_job_is_null() {
    let server = Server::new();
    server
        .client()
        .run(&format!("SHOW {}", stranger()))
        .expect_null_bulk();
    server
        .client3()
        .run(&format!("SHOW {}", stranger()))
        .expect_null();
}

#[test]
fn show_counts_the_ttl_down_and_tells_when_something_is_due() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 10 TTL 100 DELAY 5");
    let job = c.show(&id).unwrap();
    assert_eq!(job.state, "active");
    assert_eq!(job.delay, 5);
    for due in [job.next_requeue_within, job.next_awake_within] {
        let due = due.expect("nothing is due");
        assert!((3_000..=5_500).contains(&due), "{due} ms");
    }
    std::thread::sleep(ms(1100));
    let later = c.show(&id).unwrap();
    assert!((97..=99).contains(&later.ttl), "{}", later.ttl);
    assert_eq!(later.ctime, job.ctime);
}

#[test]
fn qlen_counts_what_is_queued() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        c.run("QLEN nosuch").expect_number(0);
        let first = c.add("q", "x", "");
        let second = c.add("q", "x", "");
        c.add("q", "x", "DELAY 100");
        c.run("QLEN q").expect_number(2);
        c.take("q");
        c.run("QLEN q").expect_number(1);
        c.run(&format!("ACKJOB {first} {second}")).expect_number(2);
        c.run("QLEN q").expect_number(0);
    }
}

#[test]
fn qpeek_shows_the_oldest_or_the_newest_and_takes_nothing() {
    let server = Server::new();
    let mut c = server.client();
    let ids: Vec<String> = (0..5).map(|n| c.add("q", &n.to_string(), "")).collect();
    let first = c.run("QPEEK q 2");
    first.expect_raw(&getjob_bytes(&[("q", &ids[0], "0"), ("q", &ids[1], "1")]));
    server.client3().run("QPEEK q 2").expect_raw(first.raw());
    c.run("QPEEK q -2")
        .expect_raw(&getjob_bytes(&[("q", &ids[4], "4"), ("q", &ids[3], "3")]));
    assert_eq!(deliveries(&c.run("QPEEK q 100")).len(), 5);
    assert_eq!(deliveries(&c.run("QPEEK q -100")).len(), 5);
    assert_eq!(c.len("q"), 5);
    assert_eq!(c.take("q").additional_deliveries, Some(0));
}

#[test]
fn qpeek_of_nothing_is_an_empty_list() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        c.run("QPEEK nosuch 5").expect_empty_array();
        c.run("QPEEK nosuch -5").expect_empty_array();
        c.run("QPEEK nosuch 0").expect_empty_array();
    }
}

#[test]
fn qstat_is_twenty_elements_in_their_order() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        for _ in 0..3 {
            c.add("q", "x", "");
        }
        c.take("q");
        let reply = c.run("QSTAT q");
        let items = reply.expect_array();
        let names: Vec<&str> = items.iter().step_by(2).map(Value::text).collect();
        assert_eq!(
            names,
            [
                "name",
                "len",
                "age",
                "idle",
                "blocked",
                "import-from",
                "import-rate",
                "jobs-in",
                "jobs-out",
                "pause"
            ]
        );
        assert_eq!(items.len(), 20);
        assert_eq!(items[1].text(), "q");
        assert_eq!(items[3].int(), 2);
        for number in [5, 7, 9, 13] {
            assert!(items[number].int() >= 0);
        }
        assert_eq!(items[11].items(), &[]);
        assert_eq!(items[15].int(), 3);
        assert_eq!(items[17].int(), 1);
        assert_eq!(items[19].text(), "none");
        c.run("DISQUE FLUSHALL").expect_ok();
    }
}

#[test]
fn qstat_of_an_unknown_queue_is_null() {
    let server = Server::new();
    server.client().run("QSTAT nosuch").expect_null_array();
    server.client3().run("QSTAT nosuch").expect_null();
}

#[test]
fn qstat_counts_blocked_clients_and_tells_the_pause() {
    let server = Server::new();
    let mut c = server.client();
    let mut waiting = server.client();
    waiting.start("GETJOB FROM q");
    server.wait_blocked(1);
    c.run("PAUSE q in").expect_status("in");
    let reply = c.run("QSTAT q");
    assert_eq!(reply.expect_array()[9].int(), 1);
    assert_eq!(reply.expect_array()[19].text(), "in");
}

#[test]
fn wrong_words_are_errors() {
    let server = Server::new();
    let mut c = server.client();
    for command in [
        "QLEN",
        "QLEN a b",
        "QPEEK q",
        "QPEEK q 1 2",
        "QSTAT",
        "QSTAT a b",
        "SHOW a b",
    ] {
        c.run(command).expect_any_error();
    }
    for count in ["x", "1.5", "99999999999999999999"] {
        c.run(&format!("QPEEK q {count}"))
            .expect_range_error("count");
    }
}

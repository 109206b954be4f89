//! QSCAN and JSCAN.

use std::collections::HashSet;

use crate::common::*;

#[test]
fn a_scan_of_nothing_is_a_zero_cursor_and_an_empty_list() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        for command in [
            "QSCAN",
            "JSCAN",
            "QSCAN 0",
            "JSCAN 0",
            "JSCAN REPLY all",
            "QSCAN BUSYLOOP",
        ] {
            c.run(command).expect_raw(b"*2\r\n$1\r\n0\r\n*0\r\n");
        }
    }
}

#[test]
fn every_queue_is_found() {
    let server = Server::new();
    let mut c = server.client();
    let names: HashSet<String> = (0..500).map(|n| format!("queue-{n}")).collect();
    for name in &names {
        c.add(name, "x", "");
    }
    for options in ["", "COUNT 7", "BUSYLOOP", "COUNT 1000"] {
        let found = scan_all(&mut c, &format!("QSCAN {options}"));
        let found: HashSet<String> = found.iter().map(|v| v.text().to_string()).collect();
        assert_eq!(found, names, "{options}");
    }
    let reply = c.run("QSCAN BUSYLOOP");
    assert_eq!(
        reply.expect_array()[0].text(),
        "0",
        "BUSYLOOP goes to the end"
    );
}

#[test]
fn queues_are_filtered_by_length_and_import_rate() {
    let server = Server::new();
    let mut c = server.client();
    for (queue, jobs) in [("one", 1), ("three", 3), ("five", 5)] {
        for _ in 0..jobs {
            c.add(queue, "x", "");
        }
    }
    for (options, expected) in [
        ("MINLEN 3", &["five", "three"][..]),
        ("MAXLEN 3", &["one", "three"]),
        ("MINLEN 2 MAXLEN 4", &["three"]),
        ("MINLEN 6", &[]),
        ("IMPORTRATE 1", &[]),
        ("minlen 1 count 2", &["five", "one", "three"]),
    ] {
        let mut found: Vec<String> = scan_all(&mut c, &format!("QSCAN {options}"))
            .iter()
            .map(|v| v.text().to_string())
            .collect();
        found.sort();
        assert_eq!(found, expected, "{options}");
    }
}

#[test]
fn every_job_is_found_while_others_come_and_go() {
    let server = Server::new();
    let mut c = server.client();
    let commands = vec!["ADDJOB q x 0"; 2_000];
    let stay: Vec<String> = c
        .pipeline(&commands)
        .iter()
        .map(|r| r.expect_job_id())
        .collect();
    let mut passing: Vec<String> = Vec::new();
    let mut found = HashSet::new();
    let mut cursor = "0".to_string();
    loop {
        let reply = c.run(&format!("JSCAN {cursor} COUNT 20"));
        let parts = reply.expect_array();
        cursor = parts[0].text().to_string();
        found.extend(parts[1].items().iter().map(|v| v.text().to_string()));
        // The table grows and shrinks meanwhile.
        if passing.len() < 3_000 {
            passing.extend(
                c.pipeline(&vec!["ADDJOB p x 0"; 100])
                    .iter()
                    .map(|r| r.expect_job_id()),
            );
        }
        if found.len() % 3 == 0 && !passing.is_empty() {
            let gone = passing.split_off(passing.len() / 2);
            c.run(&format!("DELJOB {}", gone.join(" ")));
        }
        if cursor == "0" {
            break;
        }
    }
    let missed = stay.iter().filter(|id| !found.contains(*id)).count();
    assert_eq!(missed, 0, "jobs that were there throughout");
}

#[test]
fn jobs_are_filtered_by_queue_and_state() {
    let server = Server::new();
    let mut c = server.client();
    let queued = c.add("a", "x", "");
    let delayed = c.add("a", "x", "DELAY 100");
    let other = c.add("b", "x", "");
    let delivered = c.add("c", "x", "");
    c.take("c");
    for (options, expected) in [
        ("QUEUE a", vec![&queued, &delayed]),
        ("QUEUE nosuch", vec![]),
        ("STATE queued", vec![&queued, &other]),
        ("STATE active", vec![&delayed, &delivered]),
        (
            "STATE active STATE queued",
            vec![&queued, &delayed, &other, &delivered],
        ),
        ("STATE acked STATE wait-repl", vec![]),
        ("QUEUE a STATE queued", vec![&queued]),
        ("queue a state active reply id", vec![&delayed]),
    ] {
        let mut found: Vec<String> = scan_all(&mut c, &format!("JSCAN {options}"))
            .iter()
            .map(|v| v.text().to_string())
            .collect();
        let mut expected: Vec<String> = expected.into_iter().cloned().collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{options}");
    }
}

#[test]
fn reply_all_gives_each_job_as_show_does() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        let id = c.add("q", "body", "DELAY 100");
        let found = scan_all(&mut c, "JSCAN REPLY all");
        assert_eq!(found.len(), 1);
        let job = Show::from_value(&found[0]);
        assert_eq!(
            (job.id.as_str(), job.state.as_str()),
            (id.as_str(), "active")
        );
        assert_eq!(job.body.as_deref(), Some(&b"body"[..]));
        c.run(&format!("DELJOB {id}")).expect_number(1);
    }
}

#[test]
fn the_cursor_may_stand_anywhere_or_be_missing() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    for command in [
        "JSCAN",
        "JSCAN 0 COUNT 10 QUEUE q",
        "JSCAN COUNT 10 0 QUEUE q",
        "JSCAN COUNT 10 QUEUE q 0",
        "JSCAN BUSYLOOP 0",
    ] {
        let reply = c.run(command);
        let found = reply.expect_array()[1].items();
        assert_eq!(found[0].text(), id, "{command}");
    }
    for command in ["QSCAN MINLEN 1 0", "QSCAN 0 MINLEN 1", "QSCAN MINLEN 1"] {
        let reply = c.run(command);
        assert_eq!(reply.expect_array()[1].items()[0].text(), "q", "{command}");
    }
}

#[test]
fn wrong_words_are_errors() {
    let server = Server::new();
    let mut c = server.client();
    for command in [
        "QSCAN x",
        "QSCAN -1",
        "QSCAN 0 0",
        "QSCAN 0 NOSUCH",
        "QSCAN COUNT",
        "QSCAN 99999999999999999999999",
        "QSCAN QUEUE q",
        "JSCAN x",
        "JSCAN 0 NOSUCH",
        "JSCAN QUEUE",
        "JSCAN STATE",
        "JSCAN STATE nosuch",
        "JSCAN REPLY",
        "JSCAN REPLY nosuch",
        "JSCAN MINLEN 1",
    ] {
        c.run(command).expect_error("ERR");
    }
    for (command, option) in [
        ("QSCAN COUNT 0", "COUNT"),
        ("QSCAN COUNT -1", "COUNT"),
        ("QSCAN COUNT x", "COUNT"),
        ("QSCAN MINLEN x", "MINLEN"),
        ("QSCAN MINLEN -1", "MINLEN"),
        ("QSCAN MAXLEN x", "MAXLEN"),
        ("QSCAN IMPORTRATE x", "IMPORTRATE"),
        ("JSCAN COUNT 0", "COUNT"),
        ("JSCAN COUNT x", "COUNT"),
    ] {
        c.run(command).expect_range_error(option);
    }
}

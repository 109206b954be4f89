//! ACKJOB, FASTACK, DELJOB.

use crate::common::*;

const SETTLING: [&str; 3] = ["ACKJOB", "FASTACK", "DELJOB"];

#[test]
fn settling_counts_what_was_known_here() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        for command in SETTLING {
            let a = c.add("q", "a", "");
            let b = c.add("q", "b", "");
            c.take("q");
            c.run(&format!("{command} {a} {} {b}", stranger()))
                .expect_number(2);
            c.run(&format!("{command} {a} {b}")).expect_number(0);
            c.run(&format!("{command} {}", stranger())).expect_number(0);
            assert_eq!(c.len("q"), 0, "{command}");
        }
    }
}

#[test]
fn an_id_given_twice_counts_once() {
    let server = Server::new();
    let mut c = server.client();
    for command in SETTLING {
        let id = c.add("q", "x", "");
        c.run(&format!("{command} {id} {id}")).expect_number(1);
    }
}

#[test]
fn a_settled_job_leaves_a_lone_node_without_a_trace() {
    let server = Server::new();
    let mut c = server.client();
    for command in SETTLING {
        let queued = c.add("q", "x", "");
        let delivered = c.add("q2", "x", "");
        c.take("q2");
        let delayed = c.add("q3", "x", "DELAY 100");
        let dequeued = c.add("q4", "x", "");
        c.run(&format!("DEQUEUE {dequeued}")).expect_number(1);
        for id in [queued, delivered, delayed, dequeued] {
            c.run(&format!("{command} {id}")).expect_number(1);
            c.run(&format!("SHOW {id}")).expect_null_bulk();
        }
    }
    expect_no_jobs(&mut c);
}

#[test]
fn a_settled_job_is_never_delivered_again() {
    let server = Server::new();
    let mut c = server.client();
    for command in SETTLING {
        let id = c.add(command, "x", "RETRY 0.2");
        c.take(command);
        c.run(&format!("{command} {id}")).expect_number(1);
    }
    c.run("GETJOB TIMEOUT 1200 FROM ACKJOB FASTACK DELJOB")
        .expect_null_array();
}

#[test]
fn a_job_can_be_settled_between_two_deliveries() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0.2");
    c.take("q");
    eventually(secs(3), "the job is queued again", || c.len("q") == 1);
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    assert_eq!(c.len("q"), 0);
    c.run("GETJOB TIMEOUT 600 FROM q").expect_null_array();
}

#[test]
fn a_malformed_id_is_refused_before_any_id_has_an_effect() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    let short = &id[..39];
    let long = format!("{id}0");
    let first = id.replacen("D-", "E-", 1);
    let second = format!("{}_{}", &id[..10], &id[11..]);
    let third = format!("{}_{}", &id[..35], &id[36..]);
    for command in ID_COMMANDS {
        for bad in [short, &long, &first, &second, &third, "x", "D-"] {
            let reply = c.run(&format!("{command} {id} {bad}"));
            reply.expect_raw(b"-BADID Invalid Job ID format.\r\n");
            assert_eq!(c.state(&id), "queued", "{command} {bad}");
        }
    }
    for command in ["SHOW", "WORKING"] {
        c.run(&format!("{command} {short}"))
            .expect_raw(b"-BADID Invalid Job ID format.\r\n");
        c.call(&[command, ""])
            .expect_raw(b"-BADID Invalid Job ID format.\r\n");
    }
}

#[test]
fn too_few_words_are_an_arity_error() {
    let server = Server::new();
    let mut c = server.client();
    for command in ID_COMMANDS.iter().chain(&["SHOW", "WORKING"]) {
        c.run(command).expect_wrong_arity();
    }
}

#[test]
fn acknowledging_strangers_leaves_nothing_on_a_lone_node() {
    let server = Server::new();
    let mut c = server.client();
    for number in 0..1000 {
        let id = unknown_id(number, 0x05a1);
        c.run(&format!("ACKJOB {id}")).expect_number(0);
    }
    expect_no_jobs(&mut c);
    c.run(&format!("SHOW {}", unknown_id(0, 0x05a1)))
        .expect_null_bulk();
}

#[test]
fn many_ids_fit_in_one_command() {
    let server = Server::new();
    let mut c = server.client();
    let commands = vec!["ADDJOB q x 0"; 1000];
    let ids: Vec<String> = c
        .pipeline(&commands)
        .iter()
        .map(|r| r.expect_job_id())
        .collect();
    c.run(&format!("ACKJOB {}", ids.join(" ")))
        .expect_number(1000);
    expect_no_jobs(&mut c);
}

//! PAUSE.

use crate::common::*;

#[test]
fn the_words_given_replace_the_earlier_state() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        for (words, state) in [
            ("state", "none"),
            ("in", "in"),
            ("state", "in"),
            ("out", "out"),
            ("state", "out"),
            ("in out", "all"),
            ("out in", "all"),
            ("all", "all"),
            ("STATE", "all"),
            ("None", "none"),
            ("in bcast", "in"),
            ("none bcast", "none"),
        ] {
            c.run(&format!("PAUSE q {words}")).expect_status(state);
        }
    }
}

#[test]
fn an_unknown_word_changes_nothing() {
    let server = Server::new();
    let mut c = server.client();
    c.run("PAUSE q in").expect_status("in");
    for words in ["nosuch", "out nosuch", "none x"] {
        c.run(&format!("PAUSE q {words}")).expect_error("ERR");
    }
    c.run("PAUSE q").expect_wrong_arity();
    c.run("PAUSE").expect_wrong_arity();
    c.run("PAUSE q state").expect_status("in");
}

#[test]
fn paused_in_refuses_new_jobs_and_still_hands_out() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    c.run("PAUSE q in").expect_status("in");
    c.run("ADDJOB q y 0").expect_error("PAUSED");
    c.run("ADDJOB q y 0 DELAY 1").expect_error("PAUSED");
    c.add("other", "y", "");
    assert_eq!(c.take("q").id, id);
    c.run("PAUSE q none").expect_status("none");
    c.add("q", "z", "");
}

#[test]
fn paused_in_keeps_due_jobs_away_and_lets_them_back_afterwards() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "RETRY 0.4");
    c.take("q");
    c.run("PAUSE q in").expect_status("in");
    c.run("GETJOB TIMEOUT 1500 FROM q").expect_null_array();
    assert_eq!(c.state(&id), "active");
    c.run("PAUSE q none").expect_status("none");
    assert_eq!(c.wait_job("q", secs(5)).expect("lost").id, id);
}

#[test]
fn paused_out_looks_empty() {
    let server = Server::new();
    let mut c = server.client();
    for body in ["1", "2"] {
        c.add("q", body, "");
    }
    c.run("PAUSE q out").expect_status("out");
    c.run("GETJOB NOHANG FROM q").expect_null_array();
    c.run("GETJOB TIMEOUT 200 FROM q").expect_null_array();
    c.add("q", "3", "");
    c.add("other", "y", "");
    assert_eq!(c.get_now("COUNT 5 FROM q other").len(), 1);
    c.run("PAUSE q none").expect_status("none");
    assert_eq!(c.get_now("COUNT 5 FROM q").len(), 3);
}

#[test]
fn the_end_of_a_pause_serves_who_waited() {
    let server = Server::new();
    let mut c = server.client();
    c.run("PAUSE q out").expect_status("out");
    let ids = [
        c.add("q", "1", ""),
        c.add("q", "2", ""),
        c.add("q", "3", ""),
    ];
    let mut one = server.client();
    one.start("GETJOB FROM q");
    server.wait_blocked(1);
    let mut two = server.client();
    two.start("GETJOB COUNT 5 FROM q");
    server.wait_blocked(2);
    c.run("PAUSE q in").expect_status("in");
    assert_eq!(deliveries(&one.reply())[0].id, ids[0]);
    let rest: Vec<String> = deliveries(&two.reply()).into_iter().map(|j| j.id).collect();
    assert_eq!(rest, ids[1..]);
}

#[test]
fn a_pause_outlives_a_restart_of_an_empty_queue() {
    for persistence in [
        Persistence::Rdb,
        Persistence::Aof,
        Persistence::AofAlways,
        Persistence::Both,
    ] {
        let mut server = Server::start(Options::new().persistence(persistence));
        let mut c = server.client();
        for state in ["in", "out", "all"] {
            c.run(&format!("PAUSE {state} {state}"))
                .expect_status(state);
        }
        c.run("PAUSE free all").expect_status("all");
        c.run("PAUSE free none").expect_status("none");
        server.restart();
        let mut c = server.client();
        for state in ["in", "out", "all"] {
            c.run(&format!("PAUSE {state} state")).expect_status(state);
        }
        c.run("PAUSE free state").expect_status("none");
        c.run("ADDJOB in x 0").expect_error("PAUSED");
    }
}

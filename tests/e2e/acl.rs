//! Who may touch which queue.

use crate::common::*;

/// A connection of a user who may run every command here but only on `mail:*`.
fn worker(server: &Server) -> Client {
    let mut admin = server.client();
    admin
        .run("ACL SETUSER worker on >pw resetkeys ~mail:* +@all -@dangerous +info")
        .expect_ok();
    let mut c = server.client();
    c.run("AUTH worker pw").expect_ok();
    c
}

#[test]
fn a_user_works_on_the_queues_of_the_own_pattern() {
    let server = Server::new();
    let mut c = worker(&server);
    let id = c.add("mail:a", "x", "");
    assert_eq!(c.take("mail:a").id, id);
    c.run(&format!("NACK {id}")).expect_number(1);
    assert_eq!(c.show(&id).unwrap().id, id);
    assert_eq!(c.len("mail:a"), 1);
    c.run(&format!("ACKJOB {id}")).expect_number(1);
}

#[test]
fn other_queues_are_refused_by_name() {
    let server = Server::new();
    let mut admin = server.client();
    admin.add("secret", "x", "");
    let mut c = worker(&server);
    for command in [
        "ADDJOB secret x 0",
        "GETJOB NOHANG FROM secret",
        "GETJOB FROM secret",
        "GETJOB NOHANG FROM mail:a secret",
        "QLEN secret",
        "QPEEK secret 1",
        "QSTAT secret",
        "PAUSE secret all",
        "PAUSE secret state",
    ] {
        let error = c.run(command).expect_error("NOPERM");
        assert_eq!(error, "NOPERM No permissions to access the queue 'secret'");
    }
    assert_eq!(admin.len("secret"), 1);
    admin.run("PAUSE secret state").expect_status("none");
}

#[test]
fn other_queues_are_refused_by_job_id_before_any_id_has_an_effect() {
    let server = Server::new();
    let mut admin = server.client();
    let secret = admin.add("secret", "x", "");
    let mut c = worker(&server);
    let own = c.add("mail:a", "x", "");
    for command in ID_COMMANDS {
        let reply = c.run(&format!("{command} {own} {secret}"));
        let error = reply.expect_error("NOPERM");
        assert!(!error.contains("secret"), "{error}");
        assert_eq!(admin.state(&own), "queued", "{command}");
        assert_eq!(admin.state(&secret), "queued", "{command}");
    }
    c.run(&format!("WORKING {secret}")).expect_error("NOPERM");
    let error = c.run(&format!("SHOW {secret}")).expect_error("NOPERM");
    assert_eq!(error, "NOPERM No permissions to access the queue of a job");
}

#[test]
fn an_error_shows_any_name_on_one_line() {
    let server = Server::new();
    let mut c = worker(&server);
    let error = c.call(&[b"QLEN", &b"a\r\nb'\0\xff"[..]]);
    let error = error.expect_error("NOPERM");
    assert!(error.ends_with(r"'a\r\nb\'\x00\xff'"), "{error}");
    let long = vec![b'x'; 60_000];
    let error = c.call(&[b"QLEN", &long[..]]).expect_error("NOPERM");
    assert!(error.len() < 300 && error.ends_with("xxx...'"), "{error}");
}

#[test]
fn scans_show_only_what_may_be_seen() {
    let server = Server::new();
    let mut admin = server.client();
    let secret = admin.add("secret", "x", "");
    let own = admin.add("mail:a", "x", "");
    let mut c = worker(&server);
    assert_eq!(c.all_ids(), [own]);
    let queues: Vec<String> = scan_all(&mut c, "QSCAN")
        .iter()
        .map(|v| v.text().to_string())
        .collect();
    assert_eq!(queues, ["mail:a"]);
    assert!(admin.all_ids().contains(&secret));
}

/// As with BLPOP: what counts is what the user could do when the command came.
#[test]
fn a_client_that_waits_keeps_the_rights_that_it_had() {
    let server = Server::new();
    let mut c = worker(&server);
    c.start("GETJOB FROM mail:a");
    server.wait_blocked(1);
    let mut admin = server.client();
    admin.run("ACL SETUSER worker resetkeys ~sms:*").expect_ok();
    let id = admin.add("mail:a", "x", "");
    assert_eq!(deliveries(&c.reply())[0].id, id);
    c.run("GETJOB FROM mail:a").expect_error("NOPERM");
    // Who is to go at once is sent away.
    c.start("GETJOB FROM sms:a");
    server.wait_blocked(1);
    admin.run("CLIENT KILL USER worker").expect_number(1);
    server.wait_blocked(0);
}

#[test]
fn refusals_stand_in_the_acl_log() {
    let server = Server::new();
    let mut c = worker(&server);
    c.run("ADDJOB secret x 0").expect_error("NOPERM");
    let log = format!("{:?}", server.client().run("ACL LOG"));
    assert!(log.contains("worker") && log.contains("secret"), "{log}");
}

#[test]
fn commands_can_be_granted_one_by_one() {
    let server = Server::new();
    server
        .client()
        .run("ACL SETUSER reader on >pw resetkeys ~* -@all +getjob +ackjob")
        .expect_ok();
    let id = server.client().add("q", "x", "");
    let mut c = server.client();
    c.run("AUTH reader pw").expect_ok();
    assert_eq!(c.take("q").id, id);
    c.run("ADDJOB q x 0").expect_error("NOPERM");
    c.run("DISQUE FLUSHALL").expect_error("NOPERM");
    c.run(&format!("ACKJOB {id}")).expect_number(1);
}

#[test]
fn scripts_act_with_the_rights_of_their_caller() {
    let server = Server::new();
    let mut c = worker(&server);
    let script = "return redis.pcall('ADDJOB', ARGV[1], 'x', '0')";
    assert!(is_job_id(
        &c.call(&["EVAL", script, "0", "mail:a"]).expect_text()
    ));
    c.call(&["EVAL", script, "0", "secret"]).expect_any_error();
    assert_eq!(server.client().len("secret"), 0);
}

//! The limits that are settings, each just below, at and just above.

use crate::common::*;

fn with(setting: &str, value: &str) -> Server {
    Server::start(Options::new().set(&format!("disque.{setting}"), value))
}

#[test]
fn a_queue_name_may_be_as_long_as_the_limit() {
    let server = with("max-queue-name", "10");
    let mut c = server.client();
    for length in [9, 10] {
        let name = "n".repeat(length);
        c.add(&name, "x", "");
        assert_eq!(c.len(&name), 1);
        c.run(&format!("PAUSE {name} out")).expect_status("out");
    }
    let name = "n".repeat(11);
    c.run(&format!("ADDJOB {name} x 0")).expect_error("ERR");
    c.run(&format!("PAUSE {name} in")).expect_error("ERR");
    assert_eq!(c.all_ids().len(), 2);
}

#[test]
fn a_command_may_name_as_many_ids_as_the_limit() {
    let server = with("max-ids", "10");
    let mut c = server.client();
    let ids: Vec<String> = (0..11).map(|_| c.add("q", "x", "")).collect();
    for command in ID_COMMANDS {
        c.run(&format!("{command} {}", ids.join(" ")))
            .expect_error("ERR");
    }
    assert_eq!(c.len("q"), 11);
    c.run(&format!("ACKJOB {}", ids[..9].join(" ")))
        .expect_number(9);
    c.run(&format!("ACKJOB {}", ids[..10].join(" ")))
        .expect_number(1);
}

#[test]
fn as_many_clients_may_wait_as_the_limit() {
    let server = with("max-blocked-clients", "3");
    let mut waiting: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut waiting {
        client.start("GETJOB FROM q");
    }
    server.wait_blocked(3);
    let mut c = server.client();
    c.run("GETJOB FROM q").expect_error("ERR");
    c.run("GETJOB NOHANG FROM q").expect_null_array();
    let id = c.add("q", "x", "");
    assert_eq!(deliveries(&waiting[0].reply())[0].id, id);
    server.wait_blocked(2);
    c.start("GETJOB FROM q");
    server.wait_blocked(3);
}

#[test]
fn the_own_memory_limit_bounds_jobs_and_not_ordinary_keys() {
    let server = with("max-memory", "1mb");
    let mut c = server.client();
    let body = "x".repeat(10_000);
    let mut ids = Vec::new();
    loop {
        let reply = c.call(&["ADDJOB", "q", &body, "0"]);
        if matches!(reply.value(), Value::Error(_)) {
            reply.expect_error("OOM");
            break;
        }
        ids.push(reply.expect_job_id());
        assert!(ids.len() < 200, "the limit is not seen");
    }
    assert!(ids.len() > 40, "full after {} jobs", ids.len());
    c.call(&["SET", "key", &"x".repeat(2_000_000)]).expect_ok();
    c.run(&format!("ACKJOB {}", ids.join(" ")))
        .expect_number(ids.len() as i64);
    c.add("q", &body, "");
}

#[test]
fn an_idle_queue_is_forgotten_and_its_pause_is_not() {
    let server = with("queue-idle-seconds", "1");
    let mut c = server.client();
    for queue in ["plain", "paused", "full", "waited"] {
        let id = c.add(queue, "x", "");
        if queue != "full" {
            c.take(queue);
            c.run(&format!("ACKJOB {id}")).expect_number(1);
        }
    }
    c.run("PAUSE paused in").expect_status("in");
    let mut waiting = server.client();
    waiting.start("GETJOB FROM waited");
    eventually(secs(10), "the idle queue is dropped", || {
        c.run("QSTAT plain").is_null()
    });
    c.run("PAUSE paused state").expect_status("in");
    c.run("ADDJOB paused x 0").expect_error("PAUSED");
    assert_eq!(c.len("full"), 1);
    let id = c.add("waited", "x", "");
    assert_eq!(deliveries(&waiting.reply())[0].id, id);
    c.add("plain", "x", "");
    assert_eq!(c.take("plain").text(), "x");
}

#[test]
fn a_setting_that_would_lose_every_job_refuses_new_ones() {
    let server = Server::start(
        Options::new()
            .persistence(Persistence::Aof)
            .set("aof-use-rdb-preamble", "no"),
    );
    let mut c = server.client();
    c.run("ADDJOB q x 0").expect_error("MISCONF");
    c.run("CONFIG SET aof-use-rdb-preamble yes").expect_ok();
    c.add("q", "x", "");
    c.run("CONFIG SET aof-use-rdb-preamble no").expect_ok();
    c.run("ADDJOB q x 0").expect_error("MISCONF");
    assert_eq!(c.take("q").text(), "x");
}

#[test]
fn settings_that_void_promises_are_named_in_the_log_and_in_info() {
    for (options, word) in [
        (Options::new(), "save"),
        (
            Options::new()
                .persistence(Persistence::AofAlways)
                .set("no-appendfsync-on-rewrite", "yes"),
            "no-appendfsync-on-rewrite",
        ),
        (
            Options::new()
                .persistence(Persistence::Aof)
                .set("maxmemory", "100mb")
                .set("maxmemory-policy", "allkeys-lru"),
            "maxmemory-policy",
        ),
    ] {
        let server = Server::start(options);
        let info = server.info("disque");
        let warnings = &info["disque_config_warnings"];
        assert!(warnings.contains(word), "{word}: {warnings}");
        assert!(server.log_contains("<disque>"));
    }
    let server = Server::start(Options::new().persistence(Persistence::AofAlways));
    let info = server.info("disque");
    let warnings = &info["disque_config_warnings"];
    assert!(["", "none"].contains(&warnings.as_str()), "{warnings}");
}

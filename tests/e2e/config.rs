//! Settings, command table, INFO.

use crate::common::*;

fn setting(c: &mut Client, name: &str) -> String {
    let reply = c.run(&format!("CONFIG GET disque.{name}"));
    let items = reply.expect_array();
    assert_eq!(items.len(), 2, "disque.{name}: {reply:?}");
    items[1].text().to_string()
}

#[test]
fn settings_have_their_documented_defaults() {
    let server = Server::new();
    let mut c = server.client();
    for (name, value) in [
        ("default-replicate", "3"),
        ("default-replicate-min", "1"),
        ("compat-hello", "no"),
        ("max-body", "16777216"),
    ] {
        assert_eq!(setting(&mut c, name), value, "{name}");
    }
    setting(&mut c, "at-most-once-after-crash");
}

#[test]
fn settings_change_at_run_time_and_survive_a_rewrite_of_the_file() {
    let mut server = Server::new();
    let mut c = server.client();
    for (name, value) in [
        ("default-replicate", "5"),
        ("compat-hello", "yes"),
        ("max-body", "12345"),
        ("at-most-once-after-crash", "deliver"),
    ] {
        c.run(&format!("CONFIG SET disque.{name} {value}"))
            .expect_ok();
        assert_eq!(setting(&mut c, name), value);
    }
    c.run("CONFIG REWRITE").expect_ok();
    let text = std::fs::read_to_string(server.directory().join("redis.conf")).unwrap();
    for line in [
        "disque.default-replicate 5",
        "disque.compat-hello yes",
        "disque.max-body 12345",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    server.configure("disque.default-replicate", "5");
    server.restart();
    assert_eq!(setting(&mut server.client(), "default-replicate"), "5");
}

#[test]
fn values_out_of_range_are_refused_and_change_nothing() {
    let server = Server::new();
    let mut c = server.client();
    for (name, value) in [
        ("default-replicate", "0"),
        ("default-replicate", "65536"),
        ("default-replicate", "x"),
        ("default-replicate-min", "0"),
        ("compat-hello", "maybe"),
        ("at-most-once-after-crash", "nosuch"),
        ("max-body", "-1"),
    ] {
        let before = setting(&mut c, name);
        c.run(&format!("CONFIG SET disque.{name} {value}"))
            .expect_error("ERR");
        assert_eq!(setting(&mut c, name), before);
    }
}

#[test]
fn a_wrong_value_in_the_file_stops_the_start_with_a_word_about_it() {
    let options = Options::new().set("disque.default-replicate", "none");
    let Err(log) = Server::try_start(options) else {
        panic!("started");
    };
    assert!(log.contains("default-replicate"), "{log}");
}

#[test]
fn too_few_reachable_nodes_for_the_minimum_is_norepl() {
    let server = Server::new();
    let mut c = server.client();
    c.run("CONFIG SET disque.default-replicate-min 2")
        .expect_ok();
    c.run("ADDJOB q x 0").expect_error("NOREPL");
    c.run("ADDJOB q x 0 REPLICATE 1").expect_job_id();
    assert_eq!(c.len("q"), 1);
}

#[test]
fn every_command_tells_redis_its_arity_and_flags() {
    let server = Server::new();
    let mut c = server.client();
    for (name, arity, wanted, unwanted) in [
        ("addjob", -4, &["write"][..], &["readonly"][..]),
        ("addjobs", -5, &["write"], &["readonly"]),
        ("getjob", -3, &["write"], &["readonly"]),
        ("ackjob", -2, &["write"], &["readonly", "denyoom"]),
        ("fastack", -2, &["write"], &["readonly", "denyoom"]),
        ("nack", -2, &["write"], &["readonly", "denyoom"]),
        ("enqueue", -2, &["write"], &["readonly"]),
        ("dequeue", -2, &["write"], &["readonly"]),
        ("deljob", -2, &["write"], &["readonly", "denyoom"]),
        ("working", 2, &["write"], &["readonly"]),
        ("pause", -3, &["write"], &["readonly"]),
        ("show", 2, &["readonly"], &["write"]),
        ("qlen", -2, &["readonly"], &["write"]),
        ("qpeek", 3, &["readonly"], &["write"]),
        ("qstat", 2, &["readonly"], &["write"]),
        ("qscan", -1, &["readonly"], &["write"]),
        ("jscan", -1, &["readonly"], &["write"]),
        ("disque", -2, &[], &[]),
    ] {
        let reply = c.run(&format!("COMMAND INFO {name}"));
        let info = reply.expect_array()[0].items();
        assert_eq!(info[0].text(), name);
        let found = info[1].int();
        // QLEN may later take options.
        assert!(
            found == arity || (name == "qlen" && found == 2),
            "{name}: {found}"
        );
        let flags = format!("{:?}", info[2]);
        for flag in wanted {
            assert!(flags.contains(flag), "{name} lacks {flag}: {flags}");
        }
        for flag in unwanted {
            assert!(!flags.contains(flag), "{name} has {flag}: {flags}");
        }
    }
}

#[test]
fn the_module_is_listed_under_its_name() {
    let server = Server::new();
    let mut c = server.client();
    let reply = c.run("MODULE LIST");
    // Redis 8 brings modules of its own.
    let mut modules = reply.expect_array().iter().map(|module| module.items());
    let module = modules.find(|module| module[1].text() == "disque");
    assert!(module.expect("not listed")[3].int() > 0);
}

#[test]
fn a_refused_load_leaves_a_running_server_as_it_was() {
    let options = Options::new().without_module();
    let server = Server::start(options.set("enable-module-command", "yes"));
    let mut c = server.client();
    let module = module_path().canonicalize().unwrap().display().to_string();
    for wrong in ["disque.max-body 0", "disque.damaged-records x"] {
        c.run(&format!("MODULE LOADEX {module} CONFIG {wrong}"))
            .expect_error("ERR");
        // Whatever would be called in a library that is gone.
        c.run("SET key value").expect_ok();
        c.run("CONFIG SET maxmemory 0").expect_ok();
        std::thread::sleep(ms(200));
        assert_eq!(server.client().run("GET key").expect_text(), "value");
    }
    c.run(&format!("MODULE LOADEX {module} CONFIG disque.max-body 5"))
        .expect_ok();
    c.add("q", "x", "");
    c.run("ADDJOB q 123456 0").expect_error("ERR");
}

#[test]
fn the_module_cannot_be_pulled_out_from_under_its_jobs() {
    let server = Server::new();
    let mut c = server.client();
    c.run("MODULE UNLOAD disque").expect_error("ERR");
    c.add("q", "x", "");
}

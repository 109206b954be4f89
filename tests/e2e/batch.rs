//! ADDJOBS.

use crate::common::*;

/// The ids that an ADDJOBS has answered.
#[track_caller]
fn ids(reply: &Reply) -> Vec<String> {
    let ids: Vec<String> = texts(reply.expect_array());
    assert!(ids.iter().all(|id| is_job_id(id)), "{ids:?}");
    ids
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(|value| value.text().into()).collect()
}

#[track_caller]
fn add_all(c: &mut Client, words: &str) -> Vec<String> {
    ids(&c.run(&format!("ADDJOBS {words}")))
}

fn bytes_of(ids: &[String]) -> Vec<u8> {
    let each: String = ids.iter().map(|id| format!("$40\r\n{id}\r\n")).collect();
    format!("*{}\r\n{each}", ids.len()).into_bytes()
}

#[test]
fn the_reply_is_the_ids_in_the_order_of_the_bodies_in_both_protocols() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        for bodies in [&["one"][..], &["c", "a", "", "a"]] {
            let words = [&["ADDJOBS", "q", "0", "BODIES"], bodies].concat();
            let reply = c.call(&words);
            let ids = ids(&reply);
            reply.expect_raw(&bytes_of(&ids));
            let jobs: Vec<_> = ids.iter().map(|id| c.show(id).unwrap()).collect();
            let shown = jobs.iter().map(|job| job.body.clone().unwrap());
            assert!(shown.eq(bodies.iter().map(|body| body.as_bytes().to_vec())));
            let got = c.get_now("COUNT 10 FROM q");
            assert!(got.iter().map(|job| &job.id).eq(&ids));
        }
    }
}

#[test]
fn options_are_those_of_addjob_and_hold_for_each_job() {
    let server = Server::new();
    let mut c = server.client();
    for (words, expected) in [
        (
            "q 0 REPLICATE 1 SYNC 1 DELAY 3 RETRY 7 TTL 90 MAXLEN 9 BODIES",
            (90, 3, 7, 1),
        ),
        ("q 9 ttl 90 Async dElAy 3 retry 7 bodies", (90, 3, 7, 1)),
        ("q 0 REPLICATE 1 SYNC -1 BODIES", (86_400, 0, 300, 1)),
        ("q 0 RETRY 0 BODIES", (86_400, 0, 0, 1)),
    ] {
        for id in add_all(&mut c, &format!("{words} x y")) {
            let job = c.show(&id).unwrap();
            let shown = (job.ttl, job.delay, job.retry, job.repl);
            assert_eq!(shown, expected, "{words}");
        }
    }
}

#[test]
fn words_after_bodies_are_bodies_whatever_they_look_like() {
    let server = Server::new();
    let mut c = server.client();
    add_all(&mut c, "q 0 BODIES TTL 0 BODIES");
    let bodies = c.get_now("COUNT 10 FROM q");
    let bodies: Vec<&str> = bodies.iter().map(Delivery::text).collect();
    assert_eq!(bodies, ["TTL", "0", "BODIES"]);
}

#[test]
fn every_error_byte_for_byte_and_none_adds_anything() {
    const USAGE: &str = "ERR syntax error, usage: ADDJOBS queue ms-timeout [REPLICATE n] \
                         [SYNC n|ASYNC] [DELAY s] [RETRY s] [TTL s] [MAXLEN n] \
                         BODIES body [body ...]";
    let options = Options::new()
        .set("disque.max-body", "4")
        .set("disque.max-batch", "8")
        .set("disque.max-ids", "3")
        .set("disque.max-queue-name", "6");
    for connect in [Server::client, Server::client3] {
        let server = Server::start(options.clone());
        let mut c = connect(&server);
        c.run("PAUSE paused in").expect_status("in");
        let full = c.add("full", "x", "");
        for (words, error) in [
            (
                "q soon BODIES a b",
                "ERR ms-timeout must be from 0 to 9007199254740992 milliseconds",
            ),
            (
                "q 0 REPLICATE 0 BODIES a b",
                "ERR REPLICATE must be from 1 to 65535 copies",
            ),
            (
                "q 0 SYNC x BODIES a b",
                "ERR SYNC must be from -65535 to 65535 copies",
            ),
            (
                "q 0 DELAY -1 BODIES a b",
                "ERR DELAY must be from 0 to 2147483647 seconds",
            ),
            (
                "q 0 RETRY x BODIES a b",
                "ERR RETRY must be from 0 to 2147483647 seconds",
            ),
            (
                "q 0 TTL 0 BODIES a b",
                "ERR TTL must be from 0.001 to 2147483647 seconds",
            ),
            (
                "q 0 MAXLEN 0 BODIES a b",
                "ERR MAXLEN must be from 1 to 9007199254740992 jobs",
            ),
            (
                "q 0 SYNC 1 ASYNC BODIES a b",
                "ERR SYNC and ASYNC cannot be used together",
            ),
            (
                "q 0 REPLICATE 1 SYNC 2 BODIES a b",
                "ERR SYNC must not exceed REPLICATE",
            ),
            (
                "q 0 DELAY 5 TTL 5 BODIES a b",
                "ERR DELAY must be less than TTL",
            ),
            (
                "q 0 RETRY 0 REPLICATE 2 BODIES a b",
                "ERR RETRY 0 (at most once) needs an explicit REPLICATE 1",
            ),
            (
                "q 0 REPLICATE 2 BODIES a b",
                "NOREPL Not enough reachable nodes for the requested replication level",
            ),
            (
                "full 0 MAXLEN 2 BODIES a b",
                "MAXLEN Queue would become longer than MAXLEN allows",
            ),
            (
                "new 0 MAXLEN 1 BODIES a b",
                "MAXLEN Queue would become longer than MAXLEN allows",
            ),
            (
                "paused 0 BODIES a b",
                "PAUSED Queue is paused in: it takes no jobs now, try later",
            ),
            (
                "q 0 BODIES a b c d",
                "ERR the number of bodies must be from 1 to 3 bodies",
            ),
            (
                "q 0 BODIES a b large",
                "ERR a job's body must be from 0 to 4 bytes",
            ),
            (
                "q 0 BODIES four four 9",
                "ERR all bodies together must be from 0 to 8 bytes",
            ),
            (
                "toolong 0 BODIES a b",
                "ERR a queue's name must be from 0 to 6 bytes",
            ),
            ("q 0 MAXLEN 5 BODIES", USAGE),
            ("q 0 TTL 5 a", USAGE),
            ("q 0 a BODIES b", USAGE),
            (
                "q 0 BODIES",
                "ERR wrong number of arguments for 'addjobs' command",
            ),
        ] {
            let reply = c.run(&format!("ADDJOBS {words}"));
            reply.expect_raw(format!("-{error}\r\n").as_bytes());
        }
        assert_eq!(c.all_ids(), [full]);
        // At the limits.
        assert_eq!(add_all(&mut c, "length 0 BODIES four fou 1").len(), 3);
        assert_eq!(add_all(&mut c, "full 0 MAXLEN 3 BODIES a b").len(), 2);
    }
}

#[test]
fn full_memory_refuses_all_or_takes_all() {
    let server = Server::new();
    let mut c = server.client();
    let body = "x".repeat(1000);
    let all = [body.as_str(); 10].join(" ");
    c.run("CONFIG SET disque.max-memory 8000").expect_ok();
    let text = "-OOM Memory is full: consume jobs or raise maxmemory or disque.max-memory\r\n";
    c.run(&format!("ADDJOBS q 0 BODIES {all}"))
        .expect_raw(text.as_bytes());
    assert_eq!(c.len("q"), 0);
    let refused = server.info_number("disque", "disque_adds_refused_for_memory_total");
    assert_eq!(refused, 1);
    c.run("CONFIG SET disque.max-memory 0").expect_ok();
    assert_eq!(add_all(&mut c, &format!("q 0 BODIES {all}")).len(), 10);
    assert_eq!(c.len("q"), 10);
    c.run("CONFIG SET maxmemory 1").expect_ok();
    c.run("ADDJOBS q 0 BODIES x y").expect_error("OOM");
    assert_eq!(c.len("q"), 10);
}

#[test]
fn a_client_that_waits_gets_the_batch_at_once() {
    let server = Server::new();
    let mut waiting = server.client();
    waiting.start("GETJOB COUNT 10 FROM q");
    server.wait_blocked(1);
    let mut c = server.client();
    let ids = add_all(&mut c, "q 0 BODIES 1 2 3");
    let jobs = deliveries(&waiting.reply());
    assert!(jobs.iter().map(|job| &job.id).eq(&ids));
}

#[test]
fn counters_count_each_job() {
    let server = Server::new();
    let mut c = server.client();
    add_all(&mut c, "q 0 BODIES 1 2 3");
    let stat = c.run("QSTAT q");
    let stat = stat.expect_array();
    let figure = |name: &str| {
        let at = stat
            .iter()
            .step_by(2)
            .position(|value| value.text() == name);
        stat[2 * at.unwrap() + 1].int()
    };
    assert_eq!((figure("len"), figure("jobs-in")), (3, 3));
    assert_eq!(server.info_number("disque", "disque_jobs_added_total"), 3);
}

#[test]
fn in_transactions_and_scripts_it_works_where_nothing_waits() {
    let server = Server::new();
    let mut c = server.client();
    let replies = c.pipeline(&["MULTI", "ADDJOBS q 0 BODIES a b", "QLEN q", "EXEC"]);
    let items = replies[3].expect_array();
    assert_eq!((items[0].items().len(), &items[1]), (2, &Value::Int(2)));
    let script = "return redis.call('ADDJOBS', 'p', '0', 'BODIES', 'a', 'b', 'c')";
    assert_eq!(ids(&c.call(&["EVAL", script, "0"])).len(), 3);
    assert_eq!((c.len("q"), c.len("p")), (2, 3));
}

#[test]
fn the_user_needs_the_right_to_the_queue() {
    let server = Server::new();
    let mut admin = server.client();
    admin
        .run("ACL SETUSER adder on >pw resetkeys ~mail:* +addjobs")
        .expect_ok();
    let mut c = server.client();
    c.run("AUTH adder pw").expect_ok();
    assert_eq!(add_all(&mut c, "mail:a 0 BODIES x y").len(), 2);
    c.run("ADDJOBS secret 0 BODIES x y")
        .expect_raw(b"-NOPERM No permissions to access the queue 'secret'\r\n");
    c.run("ADDJOB mail:a x 0").expect_error("NOPERM");
    assert_eq!(admin.len("secret"), 0);
}

#[test]
fn a_batch_is_one_record() {
    // Else the server may put its writing off while the file is being synced.
    let server = Server::start(Options::new().persistence(Persistence::AofAlways));
    let mut c = server.client();
    let records = || {
        let log = std::fs::read(append_log(&server)).unwrap();
        let text = String::from_utf8_lossy(&log);
        text.matches("disque.record").count()
    };
    c.add("q", "x", "");
    let before = records();
    assert!(before > 0);
    add_all(&mut c, "q 0 BODIES 1 2 3 4 5 6 7 8");
    assert_eq!(records(), before + 1);
}

#[test]
fn all_of_a_batch_come_back_after_a_restart() {
    for persistence in [Persistence::Rdb, Persistence::Aof, Persistence::AofAlways] {
        let mut server = Server::start(Options::new().persistence(persistence));
        let mut c = server.client();
        let mut all = add_all(&mut c, "q 0 BODIES 1 2 3");
        all.extend(add_all(&mut c, "q 0 DELAY 1000 BODIES 4 5"));
        all.sort();
        server.restart();
        let mut c = server.client();
        let mut found = c.all_ids();
        found.sort();
        assert_eq!(found, all, "{persistence:?}");
        let bodies = c.get_now("COUNT 10 FROM q");
        let bodies: Vec<&str> = bodies.iter().map(Delivery::text).collect();
        assert_eq!(bodies, ["1", "2", "3"], "{persistence:?}");
    }
}

#[test]
fn a_killed_server_brings_back_whole_batches_only() {
    const SIZE: usize = 5;
    let mut server = Server::start(Options::new().persistence(Persistence::Aof));
    let mut producer = server.client();
    let mut sent = 0;
    for n in 0..300 {
        let bodies: Vec<String> = (0..SIZE).map(|part| format!("{n}:{part}")).collect();
        producer.start(&format!("ADDJOBS q 0 BODIES {}", bodies.join(" ")));
        sent += 1;
    }
    let answered = (0..100).map(|_| ids(&producer.reply())).count();
    server.kill9();
    server.start_again();
    let mut c = server.client();
    let jobs = c.get_now("COUNT 10000 FROM q");
    let mut parts = std::collections::BTreeMap::<&str, usize>::new();
    for job in &jobs {
        *parts
            .entry(job.text().split(':').next().unwrap())
            .or_default() += 1;
    }
    assert!(parts.values().all(|&count| count == SIZE), "{parts:?}");
    assert!((answered..=sent).contains(&parts.len()), "{}", parts.len());
}

/// The log of a server is cut off within the record of its last batch.
#[test]
fn a_batch_whose_record_is_cut_off_is_not_there() {
    let mut server = Server::start(
        Options::new()
            .persistence(Persistence::AofAlways)
            .set("aof-load-truncated", "yes"),
    );
    let mut c = server.client();
    let first = add_all(&mut c, "q 0 BODIES 1 2 3");
    let log = append_log(&server);
    let whole = std::fs::metadata(&log).unwrap().len();
    add_all(&mut c, "q 0 BODIES 4 5 6");
    let end = std::fs::metadata(&log).unwrap().len();
    server.kill9();
    let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    file.set_len(whole + (end - whole) / 2).unwrap();
    server.start_again();
    let jobs = server.client().get_now("COUNT 10 FROM q");
    assert!(jobs.iter().map(|job| &job.id).eq(&first));
}

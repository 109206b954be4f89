//! Whatever a client sends: one reply each, and the server stays up.

use crate::common::*;

/// Numbers for a test that draws: the same seed gives the same run.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: usize) -> usize {
        // xorshift64*: enough to mix arguments.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % below
    }
}

const COMMANDS: [&str; 17] = [
    "ADDJOB", "GETJOB", "ACKJOB", "FASTACK", "NACK", "ENQUEUE", "DEQUEUE", "DELJOB", "WORKING",
    "SHOW", "QLEN", "QPEEK", "QSTAT", "PAUSE", "QSCAN", "JSCAN", "DISQUE",
];

fn argument(draw: &mut Draw, ids: &[String]) -> Vec<u8> {
    const WORDS: &[&str] = &[
        "q",
        "x",
        "0",
        "1",
        "-1",
        "2",
        "100",
        "",
        "FROM",
        "NOHANG",
        "COUNT",
        "TIMEOUT",
        "WITHCOUNTERS",
        "REPLICATE",
        "SYNC",
        "ASYNC",
        "DELAY",
        "RETRY",
        "TTL",
        "MAXLEN",
        "QUEUE",
        "STATE",
        "REPLY",
        "all",
        "id",
        "queued",
        "active",
        "BUSYLOOP",
        "MINLEN",
        "IMPORTRATE",
        "in",
        "out",
        "none",
        "state",
        "bcast",
        "HELLO",
        "NODES",
        "MYID",
        "INFO",
        "HELP",
        "LEAVING",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "1e309",
        "nan",
        "0.0000001",
        "D-",
        "\r\n",
        "\0",
        "4294967296",
        "65536",
        "65535",
        "2147483648",
    ];
    match draw.next(10) {
        0 => (0..draw.next(60)).map(|_| draw.next(256) as u8).collect(),
        1 if !ids.is_empty() => ids[draw.next(ids.len())].clone().into_bytes(),
        2 if !ids.is_empty() => {
            let mut id = ids[draw.next(ids.len())].clone().into_bytes();
            let at = draw.next(id.len());
            id[at] ^= 1 << draw.next(8);
            id
        }
        _ => WORDS[draw.next(WORDS.len())].as_bytes().to_vec(),
    }
}

#[test]
fn random_arguments_get_one_reply_each() {
    for seed in 1..=8 {
        println!("seed {seed}");
        let mut draw = Draw(seed);
        let server = Server::new();
        let mut c = server.client();
        if seed % 2 == 0 {
            c.hello3();
        }
        let mut ids = Vec::new();
        for round in 0..3_000 {
            if round % 100 == 0 {
                let reply = c.run("ADDJOB q x 0 TTL 1000");
                if let Value::Bulk(id) = reply.value() {
                    ids.push(String::from_utf8(id.clone()).unwrap());
                }
            }
            let mut args = vec![COMMANDS[draw.next(COMMANDS.len())].as_bytes().to_vec()];
            for _ in 0..draw.next(9) {
                args.push(argument(&mut draw, &ids));
            }
            if args[0] == b"GETJOB" {
                // Not to wait for ever.
                args.insert(1, b"NOHANG".to_vec());
            }
            c.send(&args);
            let Some(_) = c.read(secs(20)) else {
                panic!("seed {seed}: no reply to {args:?}");
            };
            c.send(&["ECHO", &round.to_string()]);
            let echo = c.reply();
            assert_eq!(
                echo.expect_text(),
                round.to_string(),
                "seed {seed}, after {args:?}"
            );
        }
    }
}

#[test]
fn long_argument_lists_are_taken_or_refused() {
    let server = Server::new();
    let mut c = server.client();
    let names: Vec<String> = (0..50_000).map(|n| format!("q{n}")).collect();
    let mut get = vec!["GETJOB", "NOHANG", "FROM"];
    get.extend(names.iter().map(String::as_str));
    let reply = c.call(&get);
    assert!(
        matches!(reply.value(), Value::NullArray | Value::Error(_)),
        "{reply:?}"
    );
    let ids: Vec<String> = (0..50_000).map(|n| unknown_id(n, 1)).collect();
    for command in ID_COMMANDS {
        let mut args = vec![command];
        args.extend(ids.iter().map(String::as_str));
        let reply = c.call(&args);
        assert!(
            matches!(reply.value(), Value::Int(0) | Value::Error(_)),
            "{reply:?}"
        );
    }
    expect_no_jobs(&mut c);
}

#[test]
fn long_names_are_taken_or_refused() {
    let server = Server::new();
    let mut c = server.client();
    let name = "n".repeat(1 << 20);
    let reply = c.call(&["ADDJOB", &name, "x", "0"]);
    if let Value::Bulk(_) = reply.value() {
        assert_eq!(c.len(&name), 1);
    } else {
        reply.expect_error("ERR");
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let server = Server::new();
    let mut c = server.client();
    for number in [
        "4294967295",
        "4294967296",
        "9007199254740993",
        "9223372036854775807",
    ] {
        for command in [
            format!("ADDJOB q x {number}"),
            format!("ADDJOB q x 0 TTL {number}"),
            format!("ADDJOB q x 0 TTL {number} RETRY {number}"),
            format!("ADDJOB q x 0 TTL {number} DELAY 1000000"),
            format!("ADDJOB q x 0 MAXLEN {number}"),
            format!("GETJOB NOHANG COUNT {number} FROM q"),
            format!("GETJOB NOHANG TIMEOUT {number} FROM q"),
            format!("QPEEK q {number}"),
            format!("QPEEK q -{number}"),
            format!("JSCAN COUNT {number}"),
            format!("QSCAN MINLEN {number}"),
            format!("QSCAN {number}"),
        ] {
            c.run(&command);
            c.run("PING").expect_status("PONG");
        }
    }
    for id in c.all_ids() {
        if let Some(job) = c.show(&id) {
            assert!(job.ttl > 0, "{job:?}");
            c.run(&format!("WORKING {id}"));
        }
    }
    // Nothing of it was queued again by a deadline that wrapped.
    let mut waiting = server.client();
    waiting.start("GETJOB TIMEOUT 9223372036854775807 FROM empty");
    match waiting.read(ms(300)) {
        None => {}
        Some(reply) => {
            reply.expect_range_error("TIMEOUT");
        }
    }
}

#[test]
fn inline_commands_and_broken_frames_do_not_confuse_it() {
    let server = Server::new();
    let mut c = server.client();
    c.send_raw(b"ADDJOB q x 0\r\nQLEN q\r\n");
    c.reply().expect_job_id();
    c.reply().expect_number(1);
    for bytes in [
        &b"*3\r\n$6\r\nADDJOB\r\n$-5\r\n"[..],
        b"*2\r\n$6\r\nACKJOB\r\n:1\r\n",
        b"*99999999999\r\n",
    ] {
        let mut broken = server.client();
        broken.send_raw(bytes);
        broken.expect_closed(secs(5));
    }
    c.run("QLEN q").expect_number(1);
}

#[test]
fn a_reader_that_never_reads_holds_nobody_up() {
    let server =
        Server::start(Options::new().set("client-output-buffer-limit", "normal 8mb 4mb 5"));
    let mut c = server.client();
    c.add("q", &"x".repeat(1 << 20), "");
    let mut lazy = server.client();
    for _ in 0..30 {
        lazy.start("QPEEK q 1");
    }
    let start = Instant::now();
    c.run("PING").expect_status("PONG");
    assert!(start.elapsed() < secs(2));
    let id = c.take("q").id;
    c.run(&format!("ACKJOB {id}")).expect_number(1);
}

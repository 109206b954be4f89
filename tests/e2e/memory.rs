//! Memory: limits, and that settled jobs give it back.

use crate::common::*;

#[test]
fn a_full_node_refuses_jobs_and_takes_them_again() {
    let server = Server::new();
    let mut c = server.client();
    c.run("CONFIG SET maxmemory 1").expect_ok();
    for command in [
        "ADDJOB q x 0",
        "ADDJOB q x 1000",
        "ADDJOB q x 0 ASYNC",
        "ADDJOB q x 0 RETRY 0",
    ] {
        c.run(command).expect_error("OOM");
    }
    c.run("ADDJOB q x 100 REPLICATE 2").expect_any_error();
    expect_no_jobs(&mut c);
    c.run("CONFIG SET maxmemory 0").expect_ok();
    let id = c.add("q", "x", "");
    c.run("CONFIG SET maxmemory 1").expect_ok();
    // What frees memory, or only moves a job, still works.
    assert_eq!(c.take("q").id, id);
    c.run(&format!("NACK {id}")).expect_number(1);
    assert_eq!(c.take("q").id, id);
    c.run(&format!("WORKING {id}")).expect_int();
    c.run(&format!("ACKJOB {id}")).expect_number(1);
}

#[test]
fn a_lone_node_fills_up_keeps_all_it_accepted_and_goes_on_after_acks() {
    let server = Server::start(Options::new().set("maxmemory-policy", "allkeys-lru"));
    let mut c = server.client();
    let limit = server.used_memory() + 8_000_000;
    c.run(&format!("CONFIG SET maxmemory {limit}")).expect_ok();
    let command = format!("ADDJOB q {} 0", "x".repeat(10_000));
    let mut ids = Vec::new();
    let refused = loop {
        let reply = c.run(&command);
        if matches!(reply.value(), Value::Error(_)) {
            break reply;
        }
        ids.push(reply.expect_job_id());
        assert!(ids.len() < 2_000, "the limit is not seen");
    };
    refused.expect_error("OOM");
    assert!(ids.len() > 300, "full after {} jobs", ids.len());
    assert_eq!(c.len("q"), ids.len() as i64);
    // An eviction policy of Redis never touches a job.
    assert_eq!(c.all_ids().len(), ids.len());
    let half = ids.len() / 2;
    c.run(&format!("ACKJOB {}", ids[..half].join(" ")))
        .expect_number(half as i64);
    c.run(&command).expect_job_id();
}

#[test]
fn settled_jobs_give_their_memory_back() {
    let server = Server::new();
    let mut c = server.client();
    let commands = vec![format!("ADDJOB q {} 0", "x".repeat(500)); 5_000];
    let round = |c: &mut Client| {
        c.pipeline(&commands);
        let mut left = commands.len();
        while left > 0 {
            let jobs = c.get_now("COUNT 500 FROM q");
            assert!(!jobs.is_empty());
            left -= jobs.len();
            let ids: Vec<String> = jobs.into_iter().map(|j| j.id).collect();
            c.run(&format!("ACKJOB {}", ids.join(" ")));
        }
    };
    // Tables keep their size after the first round.
    round(&mut c);
    let before = server.used_memory();
    for _ in 0..4 {
        round(&mut c);
    }
    expect_no_jobs(&mut c);
    let grown = server.used_memory() - before;
    assert!(
        grown < 500_000,
        "{grown} bytes more after the same work again"
    );
}

#[test]
fn expired_and_flushed_jobs_give_their_memory_back() {
    let server = Server::new();
    let mut c = server.client();
    let body = "x".repeat(2_000);
    let expiring = vec![format!("ADDJOB q {body} 0 TTL 1"); 2_000];
    let flushed = vec![format!("ADDJOB q {body} 0"); 2_000];
    c.pipeline(&flushed);
    c.run("DISQUE FLUSHALL").expect_ok();
    let small = || server.used_memory() < 3_500_000;
    eventually(secs(5), "the flushed bodies are freed", small);
    c.pipeline(&expiring);
    eventually(secs(6), "the jobs expire", || c.all_ids().is_empty());
    eventually(secs(5), "the expired bodies are freed", small);
}

#[test]
fn acknowledging_strangers_needs_no_memory() {
    let server = Server::new();
    let mut c = server.client();
    let acks = |c: &mut Client, from: u64| {
        let commands: Vec<String> = (from..from + 20_000)
            .map(|n| format!("ACKJOB {}", unknown_id(n, 0x05a1)))
            .collect();
        c.pipeline(&commands);
    };
    acks(&mut c, 0);
    let before = server.used_memory();
    for n in 1..4 {
        acks(&mut c, n * 20_000);
    }
    let grown = server.used_memory() - before;
    assert!(grown < 500_000, "{grown} bytes for acks of unknown jobs");
    expect_no_jobs(&mut c);
}

#[test]
fn queues_are_dropped_when_they_were_used_once() {
    let server = Server::new();
    let mut c = server.client();
    let mut waiting = server.client();
    // Each name asked for and never used: nothing may stay of it.
    let before = server.used_memory();
    for n in 0..2_000 {
        waiting.run(&format!("GETJOB NOHANG FROM a-queue-that-nobody-fills-{n}"));
        c.run(&format!("QLEN a-queue-that-nobody-fills-{n}"))
            .expect_number(0);
        c.run(&format!("QPEEK a-queue-that-nobody-fills-{n} 1"))
            .expect_empty_array();
    }
    let grown = server.used_memory() - before;
    assert!(
        grown < 300_000,
        "{grown} bytes for queues that do not exist"
    );
}

//! What a client may do to a node without harm to it or to other clients.

use crate::common::*;

/// Adds `count` jobs in few round trips.
fn fill(c: &mut Client, queue: &str, count: usize) {
    let add = format!("ADDJOB {queue} body 0");
    for _ in 0..count / 1000 {
        let batch = vec![add.as_str(); 1000];
        for reply in c.pipeline(&batch) {
            reply.expect_text();
        }
    }
}

/// The longest that PING takes while `c` waits for the reply to `command`.
fn longest_ping_during(server: &Server, c: &mut Client, command: &str) -> Duration {
    let mut other = server.client();
    c.start(command);
    let mut longest = Duration::ZERO;
    loop {
        let start = Instant::now();
        other.run("PING");
        longest = longest.max(start.elapsed());
        if c.read(ms(1)).is_some() {
            return longest;
        }
    }
}

#[test]
fn a_client_that_leaves_its_scan_leaves_others_their_answers() {
    let server = Server::new();
    let mut c = server.client();
    fill(&mut c, "q", 50_000);
    for round in 0..4 {
        let mut scanner = server.client();
        let id = scanner.client_id();
        scanner.start("JSCAN BUSYLOOP REPLY all");
        match round {
            0 => drop(scanner),
            1 => c.run(&format!("CLIENT KILL ID {id}")).expect_number(1),
            2 => drop(c.run(&format!("CLIENT UNBLOCK {id}"))),
            _ => drop(c.run(&format!("CLIENT UNBLOCK {id} ERROR"))),
        }
        // Redis gives what it kept for one blocked client to the next.
        let mut waiting: Vec<Client> = (0..5).map(|_| server.client()).collect();
        for waiting in &mut waiting {
            waiting.start("GETJOB TIMEOUT 100 FROM empty");
        }
        for waiting in &mut waiting {
            waiting.reply().expect_null_array();
        }
    }
    server.wait_blocked(0);
    assert_eq!(c.all_ids().len(), 50_000);
}

#[test]
fn a_filter_of_many_words_costs_no_more_than_one_of_few() {
    let server = Server::new();
    let mut c = server.client();
    fill(&mut c, "q", 20_000);
    let words = "active ".repeat(100_000);
    let command = format!("JSCAN COUNT 10000 STATE {words}");
    let longest = longest_ping_during(&server, &mut c, command.trim_end());
    // It took seconds when each job was compared with each word.
    assert!(longest < ms(500), "PING took {longest:?}");
}

#[test]
fn thousands_of_waiting_clients_are_let_go_without_a_stall() {
    const CLIENTS: usize = 3_000;
    let server = Server::start(Options::new().alone());
    let mut waiting: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    for client in &mut waiting {
        client.start("GETJOB FROM q");
    }
    server.wait_blocked(CLIENTS as i64);
    let mut c = server.client();
    c.run("DISQUE FLUSHALL").expect_ok();
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    while server.info_number("clients", "blocked_clients") > 0 {
        let ping = Instant::now();
        c.run("PING");
        longest = longest.max(ping.elapsed());
        assert!(start.elapsed() < secs(20), "clients are still blocked");
    }
    for client in &mut waiting {
        client.reply().expect_null_array();
    }
    // Letting all of them go at once took 50 us for each: 150 ms.
    assert!(longest < ms(100), "PING took {longest:?}");
}

#[test]
fn a_client_that_is_closed_with_its_answer_takes_no_job() {
    let server = Server::new();
    let mut c = server.client();
    c.run("ACL SETUSER worker on >pw ~* +@all").expect_ok();
    let mut worker = server.client();
    worker.run("AUTH worker pw").expect_ok();
    worker.start("GETJOB FROM q");
    server.wait_blocked(1);
    // The user's clients are closed at the end of the round in which the job comes.
    let replies = c.pipeline(&["ACL DELUSER worker", "ADDJOB q x 0 RETRY 0"]);
    let id = replies[1].clone().expect_text();
    worker.expect_closed(secs(5));
    let job = c.wait_job("q", secs(5)).expect("the job comes back");
    assert_eq!(job.id, id);
}

#[test]
fn waits_end_and_scans_go_on_while_writes_are_paused() {
    let server = Server::new();
    let mut c = server.client();
    fill(&mut c, "q", 2_000);
    let mut waiting = server.client();
    waiting.start("GETJOB TIMEOUT 300 FROM empty");
    server.wait_blocked(1);
    c.run("CLIENT PAUSE 5000 WRITE").expect_ok();
    let start = Instant::now();
    waiting.reply().expect_null_array();
    c.run("JSCAN BUSYLOOP").expect_array();
    let took = start.elapsed();
    assert!(took < secs(3), "it took {took:?}");
}

#[test]
fn new_queues_are_refused_when_queues_take_all_they_may() {
    let server = Server::start(Options::new().set("disque.max-queue-memory", "100kb"));
    let mut c = server.client();
    let name = "n".repeat(10_000);
    let mut refused = 0;
    for n in 0..20 {
        let reply = c.run(&format!("PAUSE {name}{n} in"));
        if reply.raw() != b"+in\r\n" {
            reply.expect_error("OOM");
            refused += 1;
        }
    }
    assert!((9..=11).contains(&refused), "{refused} of 20 were refused");
    c.run(&format!("GETJOB TIMEOUT 1 FROM {name}x"))
        .expect_error("OOM");
    c.run(&format!("ADDJOB {name}x x 0")).expect_error("OOM");
    c.run(&format!("PAUSE {name}0 none")).expect_status("none");
}

//! GETJOB that waits.

use crate::common::*;

fn blocked(server: &Server, command: &str) -> Client {
    let before = server.info_number("clients", "blocked_clients");
    let mut c = server.client();
    c.start(command);
    server.wait_blocked(before + 1);
    c
}

#[test]
fn a_waiting_client_gets_a_new_job_at_once() {
    let server = Server::new();
    let mut c = server.client();
    for mut waiting in [server.client(), server.client3()] {
        waiting.start("GETJOB FROM q");
        server.wait_blocked(1);
        let id = c.add("q", "x", "");
        waiting
            .reply()
            .expect_raw(&getjob_bytes(&[("q", &id, "x")]));
        server.wait_blocked(0);
    }
}

#[test]
fn the_time_out_is_kept_and_answers_null() {
    let server = Server::new();
    for (mut c, null) in [
        (server.client(), &b"*-1\r\n"[..]),
        (server.client3(), b"_\r\n"),
    ] {
        let start = Instant::now();
        c.start("GETJOB TIMEOUT 400 FROM q");
        c.reply().expect_raw(null);
        expect_between(start.elapsed(), ms(400), secs(1));
    }
}

#[test]
fn zero_or_no_time_out_waits_for_ever() {
    let server = Server::new();
    let mut one = blocked(&server, "GETJOB TIMEOUT 0 FROM q");
    let mut two = blocked(&server, "GETJOB FROM q");
    one.expect_silence(ms(700));
    two.expect_silence(ms(1));
    let mut c = server.client();
    let first = c.add("q", "x", "");
    let second = c.add("q", "x", "");
    assert_eq!(deliveries(&one.reply())[0].id, first);
    assert_eq!(deliveries(&two.reply())[0].id, second);
}

#[test]
fn waiting_clients_are_served_in_the_order_they_came() {
    let server = Server::new();
    let mut waiting: Vec<Client> = (0..10)
        .map(|n| {
            blocked(
                &server,
                if n % 2 == 0 {
                    "GETJOB FROM q"
                } else {
                    "GETJOB FROM p q"
                },
            )
        })
        .collect();
    let mut c = server.client();
    for client in &mut waiting {
        let id = c.add("q", "x", "");
        assert_eq!(deliveries(&client.reply())[0].id, id);
    }
}

#[test]
fn one_name_twice_blocks_and_wakes_once() {
    let server = Server::new();
    let mut waiting = blocked(&server, "GETJOB FROM q q p q");
    let mut c = server.client();
    let first = c.add("q", "1", "");
    let jobs = deliveries(&waiting.reply());
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].id, first);
    // Nothing of the finished wait is left on any of the queues.
    let later = [c.add("q", "2", ""), c.add("p", "3", "")];
    waiting.expect_silence(ms(200));
    assert_eq!(c.get_now("COUNT 5 FROM q p").len(), later.len());
}

#[test]
fn a_waiting_client_gets_up_to_count_jobs_of_one_transaction() {
    let server = Server::new();
    let mut waiting = blocked(&server, "GETJOB COUNT 3 FROM q");
    let mut c = server.client();
    c.pipeline(&[
        "MULTI",
        "ADDJOB q 1 0",
        "ADDJOB q 2 0",
        "ADDJOB q 3 0",
        "ADDJOB q 4 0",
        "EXEC",
    ]);
    let jobs = deliveries(&waiting.reply());
    let bodies: Vec<&str> = jobs.iter().map(Delivery::text).collect();
    assert_eq!(bodies, ["1", "2", "3"]);
    assert_eq!(c.take("q").text(), "4");
}

#[test]
fn counters_come_with_jobs_that_were_waited_for() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    c.take("q");
    let mut waiting = blocked(&server, "GETJOB WITHCOUNTERS COUNT 2 FROM q");
    c.run(&format!("NACK {id}")).expect_number(1);
    let jobs = deliveries(&waiting.reply());
    assert_eq!(
        (jobs[0].nacks, jobs[0].additional_deliveries),
        (Some(1), Some(0))
    );
}

#[test]
fn whatever_queues_a_job_wakes_who_waits() {
    let server = Server::new();
    let mut c = server.client();
    let delayed = c.add("q", "x", "DELAY 0.3 RETRY 0.5");
    // The end of a delay, then of a RETRY, then two commands.
    for _ in 0..2 {
        assert_eq!(c.wait_job("q", secs(5)).expect("no job").id, delayed);
    }
    let id = c.add("p", "x", "RETRY 100");
    c.take("p");
    for command in ["NACK", "ENQUEUE"] {
        let mut waiting = blocked(&server, "GETJOB FROM p");
        c.run(&format!("{command} {id}")).expect_number(1);
        assert_eq!(deliveries(&waiting.reply())[0].id, id, "{command}");
    }
}

#[test]
fn retry_of_a_job_that_was_waited_for_runs_from_its_delivery() {
    let server = Server::new();
    let mut waiting = blocked(&server, "GETJOB FROM q");
    let mut c = server.client();
    let start = Instant::now();
    let id = c.add("q", "x", "RETRY 1");
    assert_eq!(deliveries(&waiting.reply())[0].id, id);
    let again = c.wait_job("q", secs(5)).expect("never again");
    expect_between(start.elapsed(), secs(1), LATE);
    assert_eq!(again.additional_deliveries, Some(1));
}

#[test]
fn a_client_that_is_gone_takes_no_job_with_it() {
    let server = Server::new();
    let mut c = server.client();
    for _ in 0..100 {
        let mut gone = server.client();
        gone.start("GETJOB COUNT 3 FROM q");
        server.wait_blocked(1);
        drop(gone);
        server.wait_blocked(0);
        let id = c.add("q", "x", "RETRY 1000");
        assert_eq!(c.take("q").id, id);
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
}

#[test]
fn a_job_that_meets_a_closing_connection_comes_back_after_its_retry_at_the_latest() {
    let server = Server::new();
    let mut c = server.client();
    for round in 0..40 {
        let mut gone = server.client();
        gone.start("GETJOB COUNT 3 FROM q");
        if round % 2 == 0 {
            server.wait_blocked(1);
        }
        drop(gone);
        // The server may read of the end before, while or after it serves.
        let id = c.add("q", "x", "RETRY 0.2");
        let job = c
            .wait_job("q", secs(5))
            .expect("the job went with the client");
        assert_eq!(job.id, id);
        c.run(&format!("ACKJOB {id}")).expect_number(1);
    }
    server.wait_blocked(0);
}

#[test]
fn a_killed_client_takes_no_job_with_it() {
    let server = Server::new();
    let mut c = server.client();
    for _ in 0..50 {
        let mut waiting = server.client();
        let number = waiting.client_id();
        waiting.start("GETJOB FROM q");
        server.wait_blocked(1);
        // One write: the job meets the dying client in the same turn.
        let kill = format!("CLIENT KILL ID {number}");
        let replies = c.pipeline(&[kill.as_str(), "ADDJOB q x 0 RETRY 1000"]);
        replies[0].expect_number(1);
        let id = replies[1].expect_job_id();
        assert_eq!(c.wait_job("q", secs(5)).expect("lost").id, id);
        c.run(&format!("ACKJOB {id}")).expect_number(1);
        waiting.expect_closed(secs(5));
    }
}

#[test]
fn client_unblock_answers_null_or_an_error_and_the_client_goes_on() {
    let server = Server::new();
    let mut c = server.client();
    for round in 0..3 {
        let mut waiting = server.client();
        let number = waiting.client_id();
        waiting.start("GETJOB TIMEOUT 60000 FROM q");
        server.wait_blocked(1);
        c.run(&format!("CLIENT UNBLOCK {number}")).expect_number(1);
        waiting.reply().expect_null_array();
        waiting.start("GETJOB FROM q");
        server.wait_blocked(1);
        c.run(&format!("CLIENT UNBLOCK {number} ERROR"))
            .expect_number(1);
        waiting.reply().expect_error("UNBLOCKED");
        server.wait_blocked(0);
        c.run(&format!("CLIENT UNBLOCK {number}")).expect_number(0);
        // The job stays for others, and the client can wait once more.
        let id = c.add("q", &round.to_string(), "");
        waiting.expect_silence(ms(50));
        assert_eq!(deliveries(&waiting.run("GETJOB FROM q"))[0].id, id);
    }
}

#[test]
fn unblocking_and_a_new_job_in_the_same_turn_answer_once() {
    let server = Server::new();
    let mut c = server.client();
    for how in ["", "ERROR", "TIMEOUT"] {
        for order in 0..2 {
            for _ in 0..20 {
                let mut waiting = server.client();
                let number = waiting.client_id();
                waiting.start("GETJOB FROM q");
                server.wait_blocked(1);
                let unblock = format!("CLIENT UNBLOCK {number} {how}");
                let mut commands = ["ADDJOB q x 0 RETRY 1000", unblock.as_str()];
                if order == 1 {
                    commands.reverse();
                }
                let replies = c.pipeline(&commands);
                let id = replies[order].expect_job_id();
                let Some(reply) = waiting.read(secs(5)) else {
                    panic!("no reply to the waiting GETJOB after {commands:?} in one turn");
                };
                let got = matches!(reply.value(), Value::Array(_));
                waiting.run("PING").expect_status("PONG");
                if !got {
                    assert_eq!(c.wait_job("q", secs(5)).expect("lost").id, id);
                }
                c.run(&format!("ACKJOB {id}")).expect_number(1);
            }
        }
    }
    expect_no_jobs(&mut c);
}

#[test]
fn commands_behind_a_blocking_one_wait_for_it() {
    let server = Server::new();
    let mut waiting = server.client();
    waiting.start("GETJOB TIMEOUT 300 FROM q");
    waiting.start("PING");
    waiting.start("GETJOB NOHANG FROM q");
    waiting.reply().expect_null_array();
    waiting.reply().expect_status("PONG");
    waiting.reply().expect_null_array();
}

#[test]
fn two_hundred_waiting_clients_get_one_job_each() {
    let server = Server::new();
    let mut waiting: Vec<Client> = (0..200).map(|_| server.client()).collect();
    for client in &mut waiting {
        client.start("GETJOB FROM a b c");
    }
    server.wait_blocked(200);
    let mut c = server.client();
    let commands: Vec<String> = (0..200)
        .map(|n| format!("ADDJOB {} {n} 0", ["a", "b", "c"][n % 3]))
        .collect();
    c.pipeline(&commands);
    let mut bodies: Vec<i32> = waiting
        .iter_mut()
        .map(|w| deliveries(&w.reply())[0].text().parse().unwrap())
        .collect();
    bodies.sort();
    assert_eq!(bodies, (0..200).collect::<Vec<_>>());
    assert_eq!(c.run("QSCAN MINLEN 1").expect_array()[1].items(), &[]);
}

#[test]
fn waiting_with_a_time_out_costs_nothing_when_it_is_served_before() {
    let server = Server::new();
    let mut c = server.client();
    let mut waiting = blocked(&server, "GETJOB TIMEOUT 300 FROM q");
    let id = c.add("q", "x", "");
    assert_eq!(deliveries(&waiting.reply())[0].id, id);
    // The old time-out must not end the new wait.
    waiting.start("GETJOB TIMEOUT 1500 FROM q");
    waiting.expect_silence(ms(700));
    let id = c.add("q", "y", "");
    assert_eq!(deliveries(&waiting.reply())[0].id, id);
    waiting.expect_silence(ms(1200));
}

#[test]
fn a_demoted_node_lets_nobody_wait() {
    let server = Server::new();
    let mut waiting = blocked(&server, "GETJOB FROM q");
    // Nothing listens there: the node only becomes a replica.
    server.client().run("REPLICAOF 127.0.0.1 1").expect_ok();
    waiting.reply().expect_error("UNBLOCKED");
    waiting.expect_closed(secs(5));
    server.wait_blocked(0);
    server
        .client()
        .run("GETJOB FROM q")
        .expect_error("READONLY");
    server.client().run("REPLICAOF NO ONE").expect_ok();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    assert_eq!(c.take("q").id, id);
}

#[test]
fn a_stopping_server_closes_waiting_connections() {
    let mut server = Server::new();
    let mut waiting = blocked(&server, "GETJOB FROM q");
    server.stop_clean();
    waiting.expect_closed(secs(5));
}

#[test]
fn ten_thousand_short_waits_against_as_many_jobs_get_one_reply_each() {
    const CLIENTS: usize = 50;
    const ROUNDS: usize = 200;
    let server = Server::new();
    let added: usize = CLIENTS * ROUNDS;
    let mut got = std::collections::BTreeSet::new();
    let waits = |_| {
        let mut client = server.client();
        let mut bodies = Vec::new();
        for _ in 0..ROUNDS {
            let reply = client.run("GETJOB TIMEOUT 5 FROM q");
            bodies.extend(deliveries(&reply).into_iter().map(|job| job.body));
            // One reply and no more: the next command finds its own.
            client.run("PING").expect_status("PONG");
        }
        bodies
    };
    let all: Vec<Vec<Vec<u8>>> = std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..CLIENTS)
            .map(|n| scope.spawn(move || waits(n)))
            .collect();
        let mut producer = server.client();
        for n in 0..added {
            producer.call(&["ADDJOB", "q", &n.to_string(), "0", "RETRY", "600"]);
        }
        let joined = waiting.into_iter().map(|client| client.join());
        joined.map(|bodies| bodies.expect("a client")).collect()
    });
    for body in all.into_iter().flatten() {
        assert!(got.insert(body), "delivered twice");
    }
    assert!(!got.is_empty());
    let left = server.client().run("QLEN q").expect_int();
    assert_eq!(got.len() + left as usize, added, "no job went astray");
    assert_eq!(server.info_number("disque", "disque_blocked_clients"), 0);
}

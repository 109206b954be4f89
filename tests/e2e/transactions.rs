//! MULTI and scripts.

use crate::common::*;

const SCRIPTED_GET: &str = "return redis.call('GETJOB', 'FROM', 'q')";

fn exec(c: &mut Client, commands: &[&str]) -> Reply {
    let mut all = vec!["MULTI"];
    all.extend(commands);
    all.push("EXEC");
    let mut replies = c.pipeline(&all);
    for queued in &replies[1..replies.len() - 1] {
        queued.expect_status("QUEUED");
    }
    replies.pop().unwrap()
}

#[test]
fn getjob_in_a_transaction_never_waits() {
    let server = Server::new();
    exec(
        &mut server.client(),
        &["GETJOB FROM q", "GETJOB TIMEOUT 60000 FROM q"],
    )
    .expect_raw(b"*2\r\n*-1\r\n*-1\r\n");
    exec(&mut server.client3(), &["GETJOB FROM q"]).expect_raw(b"*1\r\n_\r\n");
    let mut c = server.client();
    let id = c.add("q", "x", "");
    let reply = exec(&mut c, &["GETJOB FROM q"]);
    assert_eq!(reply.expect_array()[0].items()[0].items()[1].text(), id);
}

#[test]
fn getjob_in_a_script_never_waits() {
    let server = Server::new();
    let mut c = server.client();
    let reply = c.call(&["EVAL", SCRIPTED_GET, "0"]);
    assert!(reply.is_null(), "{reply:?}");
    let id = c.add("q", "x", "");
    let reply = c.call(&["EVAL", SCRIPTED_GET, "0"]);
    assert_eq!(reply.expect_array()[0].items()[1].text(), id);
}

#[test]
fn jobs_can_be_added_and_settled_inside() {
    let server = Server::new();
    let mut c = server.client();
    let reply = exec(&mut c, &["ADDJOB q 1 0", "ADDJOB q 2 0 DELAY 5", "QLEN q"]);
    let items = reply.expect_array();
    assert_eq!(items[2], Value::Int(1));
    let first = items[0].text().to_string();
    assert!(is_job_id(&first));
    let ack = format!("ACKJOB {first}");
    exec(&mut c, &[&ack, "QLEN q"]).expect_raw(b"*2\r\n:1\r\n:0\r\n");

    let script = "local id = redis.call('ADDJOB', 'p', ARGV[1], '0') \
                  return {id, redis.call('QLEN', 'p'), redis.call('ACKJOB', id)}";
    let reply = c.call(&["EVAL", script, "0", "x"]);
    let items = reply.expect_array();
    assert!(is_job_id(items[0].text()));
    assert_eq!(items[1..], [Value::Int(1), Value::Int(1)]);
}

#[test]
fn an_add_that_would_wait_for_copies_is_an_error_and_adds_nothing() {
    let server = Server::new();
    let mut c = server.client();
    let reply = exec(&mut c, &["ADDJOB q x 1000 REPLICATE 2", "QLEN q"]);
    let items = reply.expect_array();
    assert!(matches!(items[0], Value::Error(_)), "{reply:?}");
    assert_eq!(items[1], Value::Int(0));
    let script = "return redis.call('ADDJOB', 'q', 'x', '1000', 'REPLICATE', '2')";
    c.call(&["EVAL", script, "0"]).expect_any_error();
    expect_no_jobs(&mut c);
}

#[test]
fn errors_inside_are_one_reply_each() {
    let server = Server::new();
    let mut c = server.client();
    let reply = exec(
        &mut c,
        &[
            "GETJOB COUNT 0 FROM q",
            "ACKJOB bad",
            "ADDJOB q x -1",
            "WORKING bad",
            "QLEN q",
        ],
    );
    let items = reply.expect_array();
    assert_eq!(items.len(), 5);
    for item in &items[..4] {
        assert!(matches!(item, Value::Error(_)), "{item:?}");
    }
    assert_eq!(items[4], Value::Int(0));
}

#[test]
fn a_discarded_transaction_does_nothing() {
    let server = Server::new();
    let mut c = server.client();
    c.pipeline(&["MULTI", "ADDJOB q x 0", "GETJOB FROM q", "DISCARD"]);
    assert_eq!(c.len("q"), 0);
    expect_no_jobs(&mut c);
}

#[test]
fn waiting_clients_are_served_after_the_transaction() {
    let server = Server::new();
    let mut waiting = server.client();
    waiting.start("GETJOB COUNT 10 FROM q");
    server.wait_blocked(1);
    let mut c = server.client();
    // What the transaction takes itself is not there for others.
    let reply = exec(
        &mut c,
        &[
            "ADDJOB q 1 0",
            "ADDJOB q 2 0",
            "GETJOB FROM q",
            "ADDJOB q 3 0",
        ],
    );
    assert_eq!(reply.expect_array()[2].items()[0].items()[2].text(), "1");
    let jobs = deliveries(&waiting.reply());
    let bodies: Vec<&str> = jobs.iter().map(Delivery::text).collect();
    assert_eq!(bodies, ["2", "3"]);
}

#[test]
fn waiting_clients_are_served_after_a_script() {
    let server = Server::new();
    let mut waiting = server.client();
    waiting.start("GETJOB COUNT 10 FROM q");
    server.wait_blocked(1);
    let script = "for i = 1, 3 do redis.call('ADDJOB', 'q', tostring(i), '0') end";
    server.client().call(&["EVAL", script, "0"]);
    assert_eq!(deliveries(&waiting.reply()).len(), 3);
}

#[test]
fn a_script_may_take_what_it_added_before_who_waits() {
    let server = Server::new();
    let mut waiting = server.client();
    waiting.start("GETJOB FROM q");
    server.wait_blocked(1);
    let script = "redis.call('ADDJOB', 'q', 'x', '0') \
                  return redis.call('GETJOB', 'FROM', 'q')[1][3]";
    assert_eq!(
        server.client().call(&["EVAL", script, "0"]).expect_text(),
        "x"
    );
    waiting.expect_silence(ms(200));
    server.wait_blocked(1);
}

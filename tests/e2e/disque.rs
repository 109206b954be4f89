//! The subcommands of DISQUE on a node that knows no other.

use crate::common::*;

fn is_node_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[test]
fn myid_is_forty_hex_digits_and_own_to_the_node() {
    let a = Server::new();
    let b = Server::new();
    let id = a.client().run("DISQUE MYID").expect_text();
    assert!(is_node_id(&id), "{id}");
    assert_eq!(a.client().run("disque myid").expect_text(), id);
    assert_eq!(a.client3().run("DISQUE MYID").expect_text(), id);
    assert_ne!(b.client().my_id(), id);
}

#[test]
fn hello_lists_the_own_node_alone() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        let id = c.my_id();
        let reply = c.run("DISQUE HELLO");
        let items = reply.expect_array();
        assert_eq!(items.len(), 3, "{reply:?}");
        assert_eq!(items[0], Value::Int(1));
        assert_eq!(items[1].text(), id);
        let node: Vec<&str> = items[2].items().iter().map(Value::text).collect();
        assert_eq!(node.len(), 4);
        assert_eq!(node[0], id);
        assert!(!node[1].is_empty());
        assert_eq!(node[2], server.port().to_string());
        assert_eq!(node[3], "1");
    }
}

#[test]
fn hello_itself_stays_redis_unless_the_setting_says_so() {
    let server = Server::new();
    let mut c = server.client();
    assert_eq!(c.run("HELLO").expect_array()[0].text(), "server");
    assert_eq!(
        c.run("CONFIG SET disque.compat-hello yes").raw(),
        b"+OK\r\n"
    );
    let expected = c.run("DISQUE HELLO");
    c.run("HELLO").expect_raw(expected.raw());
    assert_eq!(c.run("HELLO 2").expect_array()[0].text(), "server");
    assert!(matches!(c.run("HELLO 3").value(), Value::Map(_)));
    let mut c = server.client();
    c.run("CONFIG SET disque.compat-hello no").expect_ok();
    assert_eq!(c.run("HELLO").expect_array()[0].text(), "server");
}

#[test]
fn nodes_is_one_line_about_the_own_node() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.my_id();
    let text = c.run("DISQUE NODES").expect_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1, "{text}");
    let fields: Vec<&str> = lines[0].split(' ').collect();
    assert_eq!(fields[0], id);
    assert!(
        fields[1].ends_with(&format!(":{}", server.port())),
        "{text}"
    );
    assert!(!fields[1].starts_with(':'), "no host: {text}");
    assert!(fields[2].contains("myself"), "{text}");
    assert!(fields.contains(&"connected"), "{text}");
}

#[test]
fn info_is_a_flat_list_and_a_single_field_its_value() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        let reply = c.run("DISQUE INFO");
        let items = reply.expect_array();
        assert!(!items.is_empty() && items.len() % 2 == 0);
        for pair in items.chunks(2) {
            let name = pair[0].text();
            let value = c.run(&format!("DISQUE INFO {name}"));
            assert!(
                matches!(value.value(), Value::Bulk(_) | Value::Int(_)),
                "{value:?}"
            );
        }
    }
    server.client().run("DISQUE INFO nosuch").expect_null_bulk();
    server.client3().run("DISQUE INFO nosuch").expect_null();
}

#[test]
fn redis_info_has_a_section_with_the_version() {
    let server = Server::new();
    let info = server.info("disque");
    assert!(info.contains_key("disque_version"), "{info:?}");
    // Fields carry the module's prefix, so that none hides one of Redis'.
    for name in info.keys() {
        assert!(name.starts_with("disque_"), "{name}");
    }
}

#[test]
fn help_is_a_list_of_lines_that_names_the_subcommands() {
    let server = Server::new();
    let reply = server.client().run("DISQUE HELP");
    let text = format!("{reply:?}").to_uppercase();
    for name in [
        "HELLO", "NODES", "MYID", "MEET", "FORGET", "LEAVING", "RESET", "FLUSHALL", "INFO", "HELP",
    ] {
        assert!(text.contains(name), "{name} is missing: {text}");
    }
    assert!(!reply.expect_array().is_empty());
}

#[test]
fn flushall_removes_jobs_and_queues_at_the_reply() {
    let server = Server::new();
    let mut c = server.client();
    for n in 0..100 {
        c.add("q", "x", if n % 3 == 0 { "DELAY 100" } else { "" });
    }
    let id = c.take("q").id;
    c.run("DISQUE FLUSHALL").expect_ok();
    assert_eq!(c.len("q"), 0);
    c.run(&format!("SHOW {id}")).expect_null_bulk();
    c.run("QSTAT q").expect_null_array();
    expect_no_jobs(&mut c);
    c.run(&format!("ACKJOB {id}")).expect_number(0);
    let id = c.add("q", "y", "");
    assert_eq!(c.take("q").id, id);
}

#[test]
fn flushall_answers_blocked_clients_with_null() {
    let server = Server::new();
    let mut waiting = [server.client(), server.client()];
    for c in &mut waiting {
        c.start("GETJOB FROM q");
    }
    let mut third = server.client3();
    third.start("GETJOB TIMEOUT 60000 COUNT 3 FROM q r");
    server.wait_blocked(3);
    server.client().run("DISQUE FLUSHALL").expect_ok();
    for c in &mut waiting {
        c.reply().expect_null_array();
    }
    third.reply().expect_null();
    server.wait_blocked(0);
}

#[test]
fn reset_makes_a_new_node_without_jobs_and_queues() {
    let server = Server::new();
    let mut c = server.client();
    let old = c.my_id();
    let id = c.add("q", "x", "");
    c.run("PAUSE p in").expect_status("in");
    let mut waiting = server.client();
    waiting.start("GETJOB FROM empty");
    server.wait_blocked(1);
    c.run("DISQUE LEAVING yes").expect_ok();
    waiting.reply().expect_error("LEAVING");
    c.run("DISQUE RESET").expect_ok();
    let new = c.my_id();
    assert!(is_node_id(&new) && new != old, "{new}");
    c.run(&format!("SHOW {id}")).expect_null_bulk();
    c.run("QSTAT q").expect_null_array();
    c.run("PAUSE p state").expect_status("none");
    let id = c.add("q", "y", "");
    assert!(id.starts_with(&format!("D-{}-", &new[..8])), "{id}");
}

#[test]
fn leaving_refuses_new_jobs_and_hands_out_the_old() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    let mut waiting = server.client();
    waiting.start("GETJOB FROM empty");
    server.wait_blocked(1);
    c.run("DISQUE LEAVING yes").expect_ok();
    waiting.reply().expect_error("LEAVING");
    c.run("ADDJOB q y 0").expect_error("LEAVING");
    assert_eq!(deliveries(&c.run("GETJOB FROM q"))[0].id, id);
    c.run("GETJOB FROM q").expect_error("LEAVING");
    c.run("GETJOB TIMEOUT 60000 FROM q").expect_error("LEAVING");
    c.run("GETJOB NOHANG FROM q").expect_null_array();
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    let hello = c.run("DISQUE HELLO");
    assert_eq!(hello.expect_array()[2].items()[3].text(), "100");
    c.run("DISQUE LEAVING no").expect_ok();
    c.add("q", "z", "");
    assert_eq!(c.take("q").text(), "z");
}

#[test]
fn leaving_alone_tells_how_far_it_is() {
    let server = Server::new();
    for mut c in [server.client(), server.client3()] {
        let id = c.add("q", "x", "");
        let reply = c.run("DISQUE LEAVING");
        let items = reply.expect_array();
        let names: Vec<&str> = items.iter().step_by(2).map(Value::text).collect();
        assert_eq!(names, ["leaving", "jobs-left", "acks-left", "no-target"]);
        assert_eq!(items[3].int(), 1);
        assert_eq!(items[5].int(), 0);
        c.run(&format!("DELJOB {id}")).expect_number(1);
    }
}

#[test]
fn wrong_words_are_errors() {
    let server = Server::new();
    let mut c = server.client();
    c.run("DISQUE").expect_wrong_arity();
    for command in [
        "DISQUE NOSUCH",
        "DISQUE MEET",
        "DISQUE MEET 127.0.0.1",
        "DISQUE MEET 127.0.0.1 0",
        "DISQUE MEET 127.0.0.1 65536",
        "DISQUE MEET 127.0.0.1 x",
        "DISQUE MEET 127.0.0.1 -1",
        "DISQUE MEET 127.0.0.1 7711 x",
        "DISQUE MEET a/b 7711",
        "DISQUE FORGET",
        "DISQUE FORGET x",
        "DISQUE FORGET 0123456789012345678901234567890123456789",
        "DISQUE LEAVING maybe",
        "DISQUE LEAVING yes no",
        "DISQUE MYID x",
        "DISQUE INFO a b",
        "DISQUE FLUSHALL x",
        "DISQUE RESET x",
    ] {
        c.run(command).expect_error("ERR");
    }
    let own = c.my_id();
    c.run(&format!("DISQUE FORGET {own}")).expect_error("ERR");
}

#[test]
fn redis_flushes_and_swaps_leave_jobs_alone() {
    let server = Server::new();
    let mut c = server.client();
    let id = c.add("q", "x", "");
    for command in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "FLUSHALL ASYNC"] {
        c.run(command).expect_ok();
        assert_eq!(c.len("q"), 1, "{command}");
    }
    assert_eq!(c.take("q").id, id);
}

#[test]
fn jobs_are_the_same_from_every_database() {
    let server = Server::new();
    let mut c = server.client();
    c.run("SELECT 5").expect_ok();
    let id = c.add("q", "x", "");
    assert_eq!(server.client().take("q").id, id);
    c.run("DBSIZE").expect_number(0);
}

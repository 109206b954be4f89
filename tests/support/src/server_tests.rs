use super::*;
use crate::{eventually, Value};

fn plain() -> Options {
    Options::new().without_module()
}

#[test]
fn a_server_answers_and_is_gone_after_its_guard() {
    let server = Server::start(plain());
    let (address, directory) = (server.address(), server.directory().to_path_buf());
    assert_ne!(address.port(), 6379);
    server.client().run("PING").expect_status("PONG");
    assert!(directory.join("redis.log").exists());
    drop(server);
    assert!(Client::connect(address).is_err());
    assert!(!directory.exists());
}

#[test]
fn servers_at_the_same_time_have_their_own_ports_and_directories() {
    let a = Server::start(plain());
    let b = Server::start(plain());
    assert_ne!(a.port(), b.port());
    assert_ne!(a.directory(), b.directory());
    a.client().run("SET k a").expect_ok();
    b.client().run("GET k").expect_null_bulk();
}

#[test]
fn a_port_taken_by_a_stranger_is_passed_over() {
    let first = port::reserve();
    let _stranger = std::net::TcpListener::bind(("127.0.0.1", first.number)).unwrap();
    let taken = first.number;
    drop(first);
    for _ in 0..3 {
        assert_ne!(port::reserve().number, taken);
    }
}

#[test]
fn restart_keeps_the_port_and_what_is_on_disk() {
    for persistence in [
        Persistence::Rdb,
        Persistence::Aof,
        Persistence::AofAlways,
        Persistence::Both,
    ] {
        let mut server = Server::start(plain().persistence(persistence));
        let port = server.port();
        server.client().run("SET k v").expect_ok();
        server.restart();
        assert_eq!(server.port(), port);
        server.client().run("GET k").expect_raw(b"$1\r\nv\r\n");
    }
}

#[test]
fn without_persistence_a_restart_starts_empty() {
    let mut server = Server::start(plain());
    server.client().run("SET k v").expect_ok();
    server.restart();
    server.client().run("GET k").expect_null_bulk();
}

#[test]
fn a_killed_server_comes_back_with_what_was_synced() {
    let mut server = Server::start(plain().persistence(Persistence::AofAlways));
    server.client().run("SET k v").expect_ok();
    server.kill9();
    server.start_again();
    server.client().run("GET k").expect_raw(b"$1\r\nv\r\n");
}

#[test]
fn a_stopped_process_answers_only_after_it_continues() {
    let server = Server::start(plain());
    let mut client = server.client();
    client.run("PING").expect_status("PONG");
    server.sigstop();
    client.start("PING");
    client.expect_silence(Duration::from_millis(100));
    server.sigcont();
    client.reply().expect_status("PONG");
}

#[test]
fn the_wall_clock_steps_while_the_server_runs() {
    let server = Server::start(plain().fake_clock());
    let before = server.wall_clock();
    server.step_clock(3600);
    let after = server.wall_clock();
    assert!((3599..3605).contains(&(after - before)), "{before} {after}");
    server.step_clock(-3600);
    let back = server.wall_clock();
    assert!((-3601..-3590).contains(&(back - before)), "{before} {back}");
}

#[test]
fn a_wrong_setting_is_reported_with_the_log() {
    let Err(log) = Server::try_start(plain().set("no-such-setting", "1")) else {
        panic!("started");
    };
    assert!(log.contains("no-such-setting"), "{log}");
}

#[test]
fn settings_can_change_between_starts() {
    let mut server = Server::start(plain().set("maxclients", "50"));
    server.configure("maxclients", "60");
    server.restart();
    let reply = server.client().run("CONFIG GET maxclients");
    assert_eq!(reply.expect_array()[1], Value::Bulk(b"60".to_vec()));
}

#[test]
fn figures_come_from_the_server_itself() {
    let server = Server::start(plain());
    assert!(server.used_memory() > 100_000);
    let before = server.cpu_time();
    server.client().run("DEBUG SLEEP 0").expect_ok();
    let script = "for i=1,3e7 do end";
    server.client().call(&["EVAL", script, "0"]);
    eventually(
        Duration::from_secs(5),
        "the loop took processor time",
        || server.cpu_time() > before,
    );
    assert!(server.log_contains("Ready to accept connections"));
}

#[test]
fn blocked_clients_can_be_waited_for() {
    let server = Server::start(plain());
    let mut waiting = server.client();
    waiting.start("BLPOP nothing 0");
    server.wait_blocked(1);
    drop(waiting);
    server.wait_blocked(0);
}

#[test]
fn pipelines_timeouts_and_both_protocols() {
    let server = Server::start(plain());
    let mut client = server.client();
    let replies = client.pipeline(&["SET a 1", "GET a", "GET nothing", "NOSUCH", "PING"]);
    replies[0].expect_ok();
    replies[1].expect_raw(b"$1\r\n1\r\n");
    replies[2].expect_null_bulk();
    replies[3].expect_error("ERR");
    replies[4].expect_status("PONG");

    client.start("BLPOP nothing 0.05");
    assert!(client.read(Duration::from_millis(1)).is_none());
    client.reply().expect_null_array();
    client
        .call(&[b"SET".as_slice(), b"\r\n", b"\0\xff"])
        .expect_ok();
    client
        .call(&["GET", "\r\n"])
        .expect_raw(b"$2\r\n\0\xff\r\n");

    let mut client = server.client3();
    client.run("GET nothing").expect_null();
    assert!(matches!(client.hello3().value(), Value::Map(_)));
    client.run("CLIENT KILL ID 999999").expect_number(0);
    let id = client.client_id();
    server
        .client()
        .run(&format!("CLIENT KILL ID {id}"))
        .expect_number(1);
    client.expect_closed(Duration::from_secs(5));
}

#[test]
fn a_server_that_dies_by_itself_fails_its_test() {
    let outcome = std::panic::catch_unwind(|| {
        let mut server = Server::start(plain());
        server.signal(Signal::KILL);
        eventually(Duration::from_secs(5), "the process is gone", || {
            server.process().try_wait().unwrap().is_some()
        });
        let directory = server.directory().to_path_buf();
        std::panic::resume_unwind(Box::new((
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(server))).is_err(),
            directory,
        )));
    });
    let panic = outcome.unwrap_err();
    let (failed, directory) = panic.downcast_ref::<(bool, PathBuf)>().unwrap();
    assert!(failed);
    assert!(directory.exists(), "the directory of a failed test is kept");
    fs::remove_dir_all(directory).unwrap();
}

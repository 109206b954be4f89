//! Passwords and permissions between nodes.
//!
//! The least that the user of the bus needs is `on >password +disque.bus`: no
//! keys, no channels. With `+client|setname` its links have a name in CLIENT
//! LIST; without it each connection leaves an entry in ACL LOG.

use crate::common::*;

const LEAST: &str = "bus on >buspw +disque.bus";
const NAMED: &str = "bus on >buspw +disque.bus +client|setname";

fn with_user(user: &str) -> Options {
    Options::new()
        .password("pw")
        .set("user", user)
        .set("disque.bus-user", "bus")
        .set("disque.bus-password", "buspw")
}

#[test]
fn one_password_for_all() {
    let options = Options::new()
        .password("pw")
        .set("disque.bus-password", "pw");
    let mut cluster = Cluster::start(3, options);
    cluster[1].kill9();
    cluster[1].start_again();
    cluster.wait_connected();
}

#[test]
fn a_password_can_come_from_a_file() {
    let cluster = Cluster::strangers(2, Options::new().password("pw"));
    for at in [0, 1] {
        let path = cluster[at].directory().join("password");
        std::fs::write(&path, "pw\n").unwrap();
        let mut c = cluster[at].client();
        let path = path.to_str().unwrap();
        c.call(&["CONFIG", "SET", "disque.bus-password-file", path])
            .expect_ok();
    }
    cluster.join();
}

#[test]
fn the_user_of_the_bus_needs_one_command() {
    let cluster = Cluster::start(3, with_user(LEAST));
    let mut c = cluster[0].client();
    let list = c.run("CLIENT LIST").expect_text();
    assert_eq!(list.matches("user=bus").count(), 2, "{list}");
    assert_eq!(list.matches("name=disque:").count(), 0, "{list}");
    // What is told to all comes through as well.
    c.run("PAUSE q in bcast").expect_status("in");
    for at in [1, 2] {
        let mut c = cluster[at].client();
        eventually(secs(5), "the queue is paused", || {
            c.run("PAUSE q state").raw() == b"+in\r\n"
        });
    }
}

#[test]
fn a_user_that_may_name_itself_leaves_no_trace_in_the_acl_log() {
    let cluster = Cluster::start(2, with_user(NAMED));
    for at in [0, 1] {
        let mut c = cluster[at].client();
        c.run("ACL LOG").expect_empty_array();
        let list = c.run("CLIENT LIST").expect_text();
        assert_eq!(list.matches("name=disque:").count(), 1, "{list}");
    }
}

#[test]
fn meeting_without_the_right_password_tells_why() {
    let cluster = Cluster::strangers(2, Options::new().password("pw"));
    let mut c = cluster[0].client();
    let text = c.run(&meet("127.0.0.1", &cluster[1])).expect_error("ERR");
    assert!(text.contains("NOAUTH"), "{text}");
    c.run("CONFIG SET disque.bus-password wrong").expect_ok();
    let text = c.run(&meet("127.0.0.1", &cluster[1])).expect_error("ERR");
    assert!(text.contains("WRONGPASS"), "{text}");
}

#[test]
fn a_wrong_password_is_shown_logged_once_and_healed() {
    let options = Options::new()
        .password("pw")
        .set("disque.bus-password", "pw");
    let cluster = Cluster::start(3, options);
    let id = cluster.id(1);
    let mut c = cluster[0].client();
    c.run("CONFIG SET disque.bus-password wrong").expect_ok();
    cluster[1]
        .client()
        .run("CLIENT KILL TYPE normal SKIPME yes");
    cluster.wait_line(0, &id, "it refuses", |line| {
        let refusal = line.refusal.as_deref().unwrap_or_default();
        !line.connected && refusal.starts_with("WRONGPASS")
    });
    cluster.wait_priority(0, &id, &[10, 100]);
    // Several attempts later.
    std::thread::sleep(ms(1500));
    let line = cluster.line(0, &id).unwrap();
    assert!(line.refusal.is_some(), "{line:?}");
    assert_eq!(logged(&cluster[0], "takes nothing: WRONGPASS"), 1);
    c.run("CONFIG SET disque.bus-password pw").expect_ok();
    cluster.wait_connected();
    assert_eq!(cluster.line(0, &id).unwrap().refusal, None);
    assert!(!cluster[0].log_contains("wrong "), "the log has a password");
}

#[test]
fn a_missing_permission_is_shown_logged_once_and_healed() {
    let cluster = Cluster::start(3, with_user(NAMED));
    let id = cluster.id(1);
    let mut c = cluster[1].client();
    c.run("ACL SETUSER bus -disque.bus").expect_ok();
    cluster.wait_line(0, &id, "it refuses", |line| {
        let refusal = line.refusal.as_deref().unwrap_or_default();
        !line.connected && refusal.starts_with("NOPERM")
    });
    std::thread::sleep(ms(800));
    assert_eq!(logged(&cluster[0], "takes nothing: NOPERM"), 1);
    // The other direction is not concerned.
    let back = cluster.line(1, &cluster.id(0)).unwrap();
    assert!(back.connected, "{back:?}");
    c.run("ACL SETUSER bus +disque.bus").expect_ok();
    cluster.wait_connected();
}

//! The thread, against real servers without the module.
//!
//! `rename-command` makes a command of theirs answer to the name of the bus: ECHO
//! gives back the header, as a peer could; commands that write are refused as
//! frames would be.

mod support;

use bytes::Bytes;
use disque_bus::{
    Address, Credentials, DownReason, Event, PeerKey, ProbeKey, Refusal, RefusalKind, Settings,
    TimedOut,
};
use disque_testing::{Options, Server};
use std::time::Duration;
use support::Node;

const ECHO: &str = "ECHO DISQUE.BUS";
const PEER: PeerKey = PeerKey(1);

fn plain() -> Options {
    Options::new().without_module()
}

fn echo() -> Options {
    plain().set("rename-command", ECHO)
}

fn login(user: Option<&'static str>, password: &'static str) -> Settings {
    Settings {
        credentials: Some(Credentials {
            user: user.map(Bytes::from),
            password: password.into(),
        }),
        client_name: "disque:01234567".into(),
        ..Settings::default()
    }
}

/// How a server refuses.
#[track_caller]
fn refusal(server: &Server, settings: Settings) -> Refusal {
    let mut node = Node::new(settings);
    node.bus
        .probe(ProbeKey(1), Address::new("127.0.0.1", server.port()));
    match node.event() {
        Event::Probed {
            result: Err(DownReason::Refused(refusal)),
            ..
        } => refusal,
        event => panic!("{event:?}"),
    }
}

#[track_caller]
fn refused(node: &mut Node) -> RefusalKind {
    node.wait_for(|event| match event {
        Event::Refused { refusal, .. } => Some(refusal.kind),
        _ => None,
    })
}

#[test]
fn a_server_answers_frames() {
    let server = Server::start(echo());
    let (mut node, peer, connection) = Node::with_peer(Settings::default(), server.port());
    for _ in 0..100 {
        node.round_trip(peer, connection);
    }
    assert_eq!(node.bus.stats(peer).unwrap().messages, 100);
}

#[test]
fn a_server_without_the_module_is_no_node() {
    let server = Server::start(plain());
    let refusal = refusal(&server, Settings::default());
    assert_eq!(refusal.kind, RefusalKind::NotANode, "{refusal}");
}

#[test]
fn a_connection_logs_in_and_names_itself() {
    let user = "bus on >pw resetkeys -@all +echo +client|setname";
    let server = Server::start(echo().set("user", user));
    let (mut node, peer, connection) = Node::with_peer(login(Some("bus"), "pw"), server.port());
    node.round_trip(peer, connection);
    let list = server.client().run("CLIENT LIST").expect_text();
    let line = list.lines().find(|line| line.contains("user=bus"));
    assert!(
        line.is_some_and(|line| line.contains("name=disque:01234567 ")),
        "{list}"
    );
}

#[test]
fn a_name_is_not_worth_a_permission() {
    let server = Server::start(echo().set("user", "bus on >pw resetkeys -@all +echo"));
    let (mut node, peer, connection) = Node::with_peer(login(Some("bus"), "pw"), server.port());
    node.round_trip(peer, connection);
}

#[test]
fn each_way_to_be_kept_out_is_told_apart() {
    let server = Server::start(echo().set("user", "bus on >pw resetkeys -@all"));
    // Only now: the start is over when it answers a PING.
    server.client().run("CONFIG SET requirepass other");
    for (settings, kind) in [
        (Settings::default(), RefusalKind::Unauthenticated),
        (login(Some("bus"), "wrong"), RefusalKind::WrongPassword),
        (login(Some("nobody"), "pw"), RefusalKind::WrongPassword),
        (login(None, "pw"), RefusalKind::WrongPassword),
        (login(Some("bus"), "pw"), RefusalKind::NoPermission),
    ] {
        let refusal = refusal(&server, settings);
        assert_eq!(refusal.kind, kind, "{refusal}");
    }
}

#[test]
fn a_password_where_none_is_set_is_a_wrong_one() {
    let server = Server::start(echo());
    let refusal = refusal(&server, login(None, "pw"));
    assert_eq!(refusal.kind, RefusalKind::WrongPassword, "{refusal}");
}

#[test]
fn a_full_server_says_so() {
    let server = Server::start(echo().set("maxclients", "2"));
    let mut clients = [server.client(), server.client()];
    for client in &mut clients {
        client.run("PING");
    }
    // It answers without having been asked and closes at once; what was sent
    // to it meanwhile resets the connection. The error is to be seen all the same.
    for _ in 0..20 {
        let refusal = refusal(&server, login(None, "pw"));
        assert_eq!(refusal.kind, RefusalKind::MaxClients, "{refusal}");
    }
}

#[test]
fn a_user_that_loses_its_permission_takes_the_link_down() {
    let user = "bus on >pw resetkeys -@all +echo";
    let server = Server::start(echo().set("user", user));
    let (mut node, peer, connection) = Node::with_peer(login(Some("bus"), "pw"), server.port());
    server.client().run("ACL SETUSER bus -echo");
    node.put(peer, connection, "x");
    node.bus.flush();
    match node.down() {
        DownReason::Refused(refusal) => assert_eq!(refusal.kind, RefusalKind::NoPermission),
        reason => panic!("{reason:?}"),
    }
    server.client().run("ACL SETUSER bus +echo");
    node.up(PEER);
}

#[test]
fn a_server_that_cannot_write_is_asked_again_on_the_same_connection() {
    let writing = || plain().set("rename-command", "SPOP DISQUE.BUS");
    for (options, kind) in [
        (
            writing().set("min-replicas-to-write", "1"),
            RefusalKind::NoReplicas,
        ),
        (
            writing().set("replicaof", "127.0.0.1 1"),
            RefusalKind::ReadOnly,
        ),
    ] {
        let server = Server::start(options);
        let mut node = Node::new(Settings::default());
        node.bus
            .set_peer(PEER, Address::new("127.0.0.1", server.port()));
        assert_eq!(refused(&mut node), kind);
        let before = node.bus.stats(PEER).unwrap().refused;
        while node.bus.stats(PEER).unwrap().refused < before + 3 {
            assert_eq!(node.event_within(Duration::from_millis(20)), None);
        }
        let connections = server.info_number("stats", "total_connections_received");
        // Those of the test: the one that waited for the start, this one, and the
        // node's.
        assert!(connections <= 4, "{connections}");
    }
}

#[test]
fn a_busy_server_is_asked_again() {
    let server = Server::start(echo().set("busy-reply-threshold", "50"));
    let (mut node, _, _) = Node::with_peer(
        Settings {
            node_timeout: Duration::from_millis(600),
            ..Settings::default()
        },
        server.port(),
    );
    let mut client = server.client();
    client.send(&["EVAL", "while true do end", "0"]);
    assert_eq!(refused(&mut node), RefusalKind::Busy);
    server.client().run("SCRIPT KILL");
    node.up(PEER);
}

#[test]
fn a_stopped_server_is_not_reachable_until_it_goes_on() {
    let server = Server::start(echo());
    let settings = Settings {
        node_timeout: Duration::from_millis(300),
        ..Settings::default()
    };
    let (mut node, ..) = Node::with_peer(settings, server.port());
    server.sigstop();
    assert_eq!(node.down(), DownReason::TimedOut(TimedOut::Answer));
    // The kernel still accepts, nobody answers.
    assert_eq!(node.down(), DownReason::TimedOut(TimedOut::Handshake));
    server.sigcont();
    let connection = node.up(PEER);
    node.round_trip(PEER, connection);
}

#[test]
fn a_killed_server_is_found_again() {
    let mut server = Server::start(echo());
    let (mut node, ..) = Node::with_peer(Settings::default(), server.port());
    server.kill9();
    let reason = node.down();
    assert!(
        matches!(reason, DownReason::Closed | DownReason::Broken(_)),
        "{reason:?}"
    );
    server.start_again();
    let connection = node.up(PEER);
    node.round_trip(PEER, connection);
}

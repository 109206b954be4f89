//! Where nodes say that they are.

use std::io::{copy, Result};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use crate::common::*;

/// Hands on connections to a server: the other side of a port mapping.
fn forward(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for outside in listener.incoming().flatten() {
            // A server that is gone closes the connection.
            let _ = join(outside, to);
        }
    });
    port
}

fn join(outside: TcpStream, to: u16) -> Result<()> {
    let inside = TcpStream::connect(("127.0.0.1", to))?;
    for (mut from, mut to) in [
        (outside.try_clone()?, inside.try_clone()?),
        (inside, outside),
    ] {
        thread::spawn(move || {
            let _ = copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

#[test]
fn a_node_is_reached_at_the_port_that_it_announces() {
    let cluster = Cluster::new(3);
    let id = cluster.id(1);
    let outside = forward(cluster[1].port());
    let mut c = cluster[1].client();
    c.run(&format!("CONFIG SET disque.announce-port {outside}"))
        .expect_ok();
    assert_eq!(hello(&mut c)[0].port, outside);
    let address = format!("127.0.0.1:{outside}");
    for at in [0, 2] {
        cluster.wait_line(at, &id, "it has moved", |line| {
            line.address == address && line.connected
        });
        let listed = hello(&mut cluster[at].client());
        assert!(listed.iter().any(|node| node.port == outside));
    }
    cluster.wait_connected();
    c.run("CONFIG SET disque.announce-port 0").expect_ok();
    let address = format!("127.0.0.1:{}", cluster[1].port());
    for at in [0, 2] {
        cluster.wait_line(at, &id, "it has moved back", |line| {
            line.address == address && line.connected
        });
    }
}

#[test]
fn a_node_is_reached_at_the_host_that_it_announces() {
    let options = Options::new().set("disque.announce-ip", "localhost");
    let cluster = Cluster::start(2, options);
    let id = cluster.id(1);
    let address = format!("localhost:{}", cluster[1].port());
    cluster.wait_line(0, &id, "its name is known", |line| {
        line.address == address && line.connected
    });
    let own = hello(&mut cluster[1].client()).remove(0);
    assert_eq!(own.host, "localhost");
}

#[test]
fn a_host_that_is_announced_later_is_told_at_once() {
    let cluster = Cluster::new(2);
    let id = cluster.id(1);
    let mut c = cluster[1].client();
    c.run("CONFIG SET disque.announce-ip localhost").expect_ok();
    let address = format!("localhost:{}", cluster[1].port());
    cluster.wait_line(0, &id, "its name is known", |line| {
        line.address == address && line.connected
    });
    cluster.wait_connected();
}

#[test]
fn a_node_that_comes_back_at_another_port_is_found_there() {
    let mut cluster = Cluster::new(3);
    let id = cluster.id(2);
    cluster[2].kill9();
    // The file is named after the port: it moves along.
    let other = Server::start(node());
    let port = other.port();
    let from = cluster[2].directory().join(nodes_file(cluster[2].port()));
    let text = std::fs::read(from).unwrap();
    let mut other = other;
    other.kill9();
    std::fs::write(other.directory().join(nodes_file(port)), text).unwrap();
    other.start_again();
    assert_eq!(other.client().run("DISQUE MYID").expect_text(), id);
    let address = format!("127.0.0.1:{port}");
    for at in [0, 1] {
        cluster.wait_line(at, &id, "it has moved", |line| {
            line.address == address && line.connected
        });
    }
}

fn nodes_file(port: u16) -> String {
    format!("disque-nodes-{port}.conf")
}

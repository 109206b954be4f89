//! Frames per second and round trips of the bus against a scripted peer on this
//! machine: `cargo run -p disque-bus --release --example bus_speed`.
//!
//! The peer is a blocking thread of the same process: what is measured is the
//! way of a message through both and back, not a server.

#[path = "../tests/support/mod.rs"]
mod support;

use disque_bus::{Event, PeerKey, Settings};
use std::time::{Duration, Instant};
use support::{Fake, Node};

const TIME: Duration = Duration::from_secs(2);

fn main() {
    println!("one batch at a time");
    for batch in [1, 100] {
        one_at_a_time(batch);
    }
    println!("batches in flight: 8 at a time");
    for batch in [1, 100] {
        in_flight(batch, 8);
    }
}

fn node() -> (Fake, Node, PeerKey, u64) {
    let fake = Fake::new();
    fake.forget_frames();
    let (node, peer, connection) = Node::with_peer(Settings::default(), fake.port());
    (fake, node, peer, connection)
}

fn one_at_a_time(batch: usize) {
    let (_fake, mut node, peer, connection) = node();
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < TIME {
        let sent = Instant::now();
        let last = send(&mut node, peer, connection, batch);
        wait(&mut node, last);
        times.push(sent.elapsed());
    }
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    report(&node, peer, batch, start.elapsed());
    println!("    round trip p50 {:?}, p99 {:?}", at(0.5), at(0.99));
}

fn in_flight(batch: usize, depth: usize) {
    let (_fake, mut node, peer, connection) = node();
    let start = Instant::now();
    let mut last: Vec<u64> = (0..depth)
        .map(|_| send(&mut node, peer, connection, batch))
        .collect();
    while start.elapsed() < TIME {
        wait(&mut node, last.remove(0));
        last.push(send(&mut node, peer, connection, batch));
    }
    report(&node, peer, batch, start.elapsed());
}

fn send(node: &mut Node, peer: PeerKey, connection: u64, batch: usize) -> u64 {
    const MESSAGE: &str = "a message of about as many bytes as an acknowledgement has";
    let serials = (0..batch).map(|_| node.put(peer, connection, MESSAGE));
    let last = serials.last().unwrap_or(0);
    node.bus.flush();
    last
}

/// Waits until a message is answered; answers may come in between.
fn wait(node: &mut Node, serial: u64) {
    if node.answered >= serial {
        return;
    }
    node.answered = node.wait_for(|event| match event {
        Event::Answer {
            serials: Some(serials),
            ..
        } if serials.last >= serial => Some(serials.last),
        _ => None,
    });
}

fn report(node: &Node, peer: PeerKey, batch: usize, time: Duration) {
    let stats = node.bus.stats(peer).unwrap_or_default();
    let rate = |n: u64| n as f64 / time.as_secs_f64();
    println!(
        "  batch {batch}: {:.0} frames/s, {:.0} messages/s, smoothed round trip {} us",
        rate(stats.answers),
        rate(stats.messages),
        stats.round_trip_us
    );
}

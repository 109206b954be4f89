//! The end of a run: all is well again, everything is consumed, nothing is left.

use crate::clients::{settle_left, World};
use crate::modes::RETRY_MS;
use crate::nodes::Nodes;
use disque_checker::{Event, Left, Op, Phase};
use disque_testing::{Reply, Value};
use std::thread;
use std::time::{Duration, Instant};

/// How long all that is live may take to be consumed.
const DRAIN: Duration = Duration::from_secs(90);
/// When what is left of jobs that may be left is settled where it lies: whoever
/// would deliver it has had the time.
const LATE: Duration = Duration::from_millis(2 * RETRY_MS + 6_000);
/// How long what is settled may take to be gone from everywhere.
const EMPTY: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);

/// Waits until everything is consumed, and writes that down. Else says what is not.
pub fn drain(nodes: &Nodes, world: &World) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let live = jobs_in(nodes, "STATE wait-repl STATE active STATE queued");
        if live.is_empty() {
            world
                .history
                .note(Event::new(world.history.now(), 0, Phase::Info, Op::Drained));
            return Ok(());
        }
        if start.elapsed() > DRAIN {
            return Err(format!(
                "not consumed within {DRAIN:?}: {}",
                tell(nodes, &live)
            ));
        }
        if start.elapsed() > LATE {
            let left = world.modes.iter().filter(|mode| mode.may_be_left());
            let left: Vec<&str> = left.map(|mode| mode.name).collect();
            for (node, id, _) in live.iter().filter(|(.., queue)| left.contains(&&**queue)) {
                settle_left(world, *node, id);
            }
        }
        thread::sleep(LOOK);
    }
}

/// Waits until nothing is left, and writes down what is. Says what that is.
pub fn look_at_what_is_left(nodes: &Nodes, world: &World) -> Result<(), String> {
    let start = Instant::now();
    let counts = |left: Left| [left.jobs, left.acks, left.waiters, left.blocked];
    let all = || (0..nodes.len()).map(|node| nodes.left(node));
    let is_left = || all().any(|left| counts(left) != [0; 4]);
    while is_left() && start.elapsed() < EMPTY {
        thread::sleep(LOOK);
    }
    note_left(nodes, world);
    match is_left() {
        false => Ok(()),
        true => Err(format!(
            "left after {EMPTY:?}: {}",
            tell(nodes, &jobs_in(nodes, ""))
        )),
    }
}

/// Writes down what each node holds.
pub fn note_left(nodes: &Nodes, world: &World) {
    for node in 0..nodes.len() {
        let mut event = world.history.event(0, Phase::Info, Op::Left, node);
        event.left = Some(nodes.left(node));
        world.history.note(event);
    }
}

/// Jobs in these states: the node, the id, the queue.
fn jobs_in(nodes: &Nodes, states: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    for node in 0..nodes.len() {
        let mut client = nodes.servers[node].client();
        let reply = client.run(&format!("JSCAN BUSYLOOP {states} REPLY all"));
        for job in jobs(&reply) {
            let fields = job.items();
            found.push((node, fields[1].text().into(), fields[3].text().into()));
        }
    }
    found
}

fn jobs(reply: &Reply) -> &[Value] {
    reply.expect_array()[1].items()
}

/// How the first of the jobs look at all nodes.
fn tell(nodes: &Nodes, live: &[(usize, String, String)]) -> String {
    let mut text = format!("{} copies", live.len());
    for (_, id, queue) in live.iter().take(5) {
        text += &format!("\n{id} of {queue}:");
        for node in 0..nodes.len() {
            let shown = nodes.servers[node].client().run(&format!("SHOW {id}"));
            text += &format!("\n  n{node}: {shown:?}");
        }
    }
    text
}

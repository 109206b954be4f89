//! Records: whatever they say, a node that takes them stays sound, and what it
//! writes down another one takes.

use disque_core::body::{Parts, LARGE};
use disque_core::clock::Now;
use disque_core::effects::Effects;
use disque_core::node::load::Completeness;
use disque_core::node::{Identity, Node};
use disque_core::settings::Settings;

/// The version of the format; any other is refused by its first byte.
const VERSION: u8 = 1;

/// The body that stands beside what is read, where one does.
pub const BESIDE: &[u8] = &[b'x'; LARGE];

/// Takes the bytes as a batch, and as the records of a batch whose version and
/// checksum are right, with a body beside it and without.
pub fn records(bytes: &[u8]) {
    load(bytes.into());
    let batch = with_header(bytes);
    load((&batch).into());
    load(with_body(&batch));
}

/// The bytes with [`BESIDE`].
pub fn with_body(bytes: &[u8]) -> Parts<'_> {
    Parts {
        bytes,
        bodies: std::iter::once(BESIDE).collect(),
    }
}

/// Records as a batch whose version and checksum are right.
pub fn with_header(records: &[u8]) -> Vec<u8> {
    let checksum = crc32fast::hash(records).to_le_bytes();
    [&[VERSION], &checksum[..], records].concat()
}

/// The time at which every run begins.
pub const START: Now = Now {
    mono_ms: 1_000,
    wall_ms: 1_700_000_000_000,
};

/// A node before it is given anything. Nodes with different seeds make different
/// ids.
pub fn fresh_node(now: Now, seed: u8) -> Node {
    let identity = Identity {
        id: [0xab; 20],
        epoch: 1,
        term: 1,
    };
    Node::new(identity, Settings::default(), [seed; 32], now)
}

/// Checks everything that the node keeps beside its jobs.
pub fn check(node: &Node, now: Now, when: &str) {
    if let Err(wrong) = node.check_invariants(now) {
        panic!("{when}: {wrong}");
    }
}

/// Loads what a node writes down into a fresh one.
pub fn copy_of(node: &Node, now: Now, seed: u8) -> Node {
    let mut copy = fresh_node(now, seed);
    let written = node.snapshot(now, &mut |batch: &[u8]| copy.apply(now, batch));
    assert_eq!(written, Ok(()), "a snapshot that cannot be read");
    check(&copy, now, "after the load of a snapshot");
    assert_eq!(copy.job_count(), node.job_count());
    copy
}

fn load(batch: Parts<'_>) {
    let mut now = START;
    let mut node = fresh_node(now, 0);
    let _ = node.apply(now, batch);
    check(&node, now, "after the records");
    let mut copy = copy_of(&node, now, 1);
    let mut fx = Effects::new();
    copy.finish_load(now, Completeness::MayLackDeliveries, &mut fx);
    check(&copy, now, "after the end of the load");
    now.mono_ms += 3_600_000;
    now.wall_ms += 3_600_000;
    node.run_due(now, 10, &mut fx);
    check(&node, now, "an hour later");
}

//! Where a node's records go, and what is left of them after a crash.

use crate::random::Random;
use disque_checker::Lost;
use disque_core::body::Packet;

/// How the server writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// An append only file, synced before each reply.
    Always,
    /// An append only file, synced each second.
    EverySecond,
    /// Only snapshots.
    Snapshots,
    /// Nothing.
    Nothing,
}

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The server shuts down and writes what it is set to write.
    Clean,
    /// The process is killed; what it gave to the system is kept.
    Kill,
    /// The machine is gone; what was not synced may be lost.
    PowerLoss,
    /// The machine is gone, and a replica is promoted that follows it at some
    /// distance.
    Promoted,
    /// The machine is gone with its disk; who the node is, is known elsewhere.
    Wiped,
}

/// What a restart finds.
pub struct Found<'a> {
    /// The batches of the snapshot, then those written since.
    pub batches: Box<dyn Iterator<Item = &'a Packet> + 'a>,
    /// Whether no delivery can be missing in them.
    pub complete: bool,
}

/// The disk of one node. Positions count batches of records since its first
/// start; a snapshot stands for all before its position.
#[derive(Clone)]
pub struct Disk {
    policy: Policy,
    snapshot: Vec<Packet>,
    snapshot_at: u64,
    log: Vec<Packet>,
    /// When each batch of the log was written.
    times: Vec<u64>,
    synced: u64,
    complete: bool,
    /// What the last stop has cost.
    pub lost: Lost,
}

impl Disk {
    pub fn new(policy: Policy) -> Disk {
        Disk {
            policy,
            snapshot: Vec::new(),
            snapshot_at: 0,
            log: Vec::new(),
            times: Vec::new(),
            synced: 0,
            complete: true,
            lost: Lost::Nothing,
        }
    }

    /// How the server writes.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// How many batches were written.
    pub fn written(&self) -> u64 {
        self.snapshot_at + self.log.len() as u64
    }

    pub fn append(&mut self, batch: &Packet, at: u64) {
        self.log.push(batch.clone());
        self.times.push(at);
        if self.policy == Policy::Always {
            self.sync();
        }
    }

    pub fn is_synced(&self) -> bool {
        self.synced == self.written()
    }

    pub fn sync(&mut self) {
        self.synced = self.written();
    }

    /// Whether snapshots are of any use.
    pub fn keeps_snapshots(&self) -> bool {
        self.policy != Policy::Nothing
    }

    /// Replaces everything by a snapshot: at once and safely, as a rename is.
    pub fn replace(&mut self, snapshot: Vec<Packet>) {
        self.snapshot_at = self.written();
        self.snapshot = snapshot;
        self.log.clear();
        self.times.clear();
        self.sync();
    }

    /// The node stops. Returns how many batches are left.
    pub fn stop(&mut self, stop: Stop, random: &mut Random) -> u64 {
        let written = self.written();
        let kept = match (self.policy, stop) {
            (Policy::Nothing, _) | (_, Stop::Wiped) => 0,
            // A clean stop has just written a snapshot.
            (_, Stop::Promoted) => {
                let behind = random.pick(&[0, 0, 3, 30]);
                random.range(
                    self.snapshot_at.max(written.saturating_sub(behind)),
                    written,
                )
            }
            (Policy::Snapshots, _) => self.snapshot_at,
            (_, Stop::Clean | Stop::Kill) => written,
            (_, Stop::PowerLoss) => random.range(self.synced, written),
        };
        self.complete = match (self.policy, stop) {
            (Policy::Nothing, _) | (_, Stop::Wiped) => false,
            (_, Stop::Promoted) => false,
            (_, Stop::Clean) | (Policy::Always, _) => true,
            (Policy::EverySecond, stop) => stop == Stop::Kill,
            (Policy::Snapshots, _) => false,
        };
        if self.policy == Policy::Nothing || stop == Stop::Wiped {
            self.snapshot.clear();
            self.snapshot_at = 0;
        }
        let left = (kept - self.snapshot_at) as usize;
        self.lost = match self.times.get(left) {
            _ if self.snapshot.is_empty() => Lost::All,
            Some(&since) => Lost::Since(since),
            None => Lost::Nothing,
        };
        self.log.truncate(left);
        self.times.truncate(left);
        self.sync();
        kept
    }

    /// What is there to load; nothing, if the node has to begin anew.
    pub fn load(&self) -> Option<Found<'_>> {
        if self.snapshot.is_empty() {
            return None;
        }
        let batches = self.snapshot.iter().chain(&self.log);
        Some(Found {
            batches: Box::new(batches),
            complete: self.complete,
        })
    }
}

//! One node with all that surrounds it: its disk, its clocks, its connections.

use crate::disk::{Disk, Policy};
use crate::oracle::history::{Call, Delivery, Told};
use crate::random::Random;
use disque_core::clock::Now;
use disque_core::effects::{Answer, Delivered, Effects, WaiterId};
use disque_core::node::{Identity, Node};
use disque_core::settings::Settings;
use std::collections::BTreeMap;

/// The clocks of a machine, against the world's own time.
pub struct Clocks {
    /// What the monotonic clock shows at the world's beginning.
    mono_base: u64,
    wall_base: u64,
    /// How much the wall clock gains, in parts per million.
    drift_ppm: i64,
}

impl Clocks {
    pub fn new(random: &mut Random) -> Clocks {
        Clocks {
            mono_base: random.range(0, 1 << 40),
            wall_base: 1_700_000_000_000 + random.range(0, 86_400_000),
            drift_ppm: random.range(0, 400) as i64 - 200,
        }
    }

    pub fn now(&self, at: u64) -> Now {
        let gained = at as i64 * self.drift_ppm / 1_000_000;
        Now {
            mono_ms: self.mono_base + at,
            wall_ms: (self.wall_base + at).saturating_add_signed(gained),
        }
    }

    /// The world's time of a monotonic deadline.
    pub fn world_time(&self, mono_ms: u64) -> u64 {
        mono_ms.saturating_sub(self.mono_base)
    }

    /// Somebody sets the wall clock.
    pub fn jump(&mut self, ms: i64) {
        self.wall_base = self.wall_base.saturating_add_signed(ms);
    }

    /// Another machine: its monotonic clock has nothing to do with the first.
    pub fn reboot(&mut self, random: &mut Random) {
        self.mono_base = random.range(0, 1 << 40);
    }
}

/// A client that waits for its answer.
#[derive(Clone, Copy)]
pub struct Waiting {
    pub call: Call,
    pub client: usize,
}

/// A node and its surroundings.
pub struct Site {
    /// `None` while it is down.
    pub node: Option<Node>,
    pub disk: Disk,
    pub clocks: Clocks,
    pub settings: Settings,
    pub fx: Effects,
    pub waiting: BTreeMap<WaiterId, Waiting>,
    /// When the timer is set to go off.
    pub armed: Option<u64>,
    /// Nothing happens at the node until then.
    pub stalled_until: u64,
    /// Counts starts: what belongs to an earlier one is void.
    pub session: u64,
    pub identity: Identity,
}

impl Site {
    /// A machine whose node has not been started yet.
    pub fn new(policy: Policy, settings: Settings, random: &mut Random) -> Site {
        Site {
            node: None,
            disk: Disk::new(policy),
            clocks: Clocks::new(random),
            settings,
            fx: Effects::new(),
            waiting: BTreeMap::new(),
            armed: None,
            stalled_until: 0,
            session: 0,
            identity: Identity {
                id: random.bytes(),
                epoch: 1,
                term: 0,
            },
        }
    }

    /// Starts the node with what the disk holds. Returns whether that is known
    /// to hold each delivery; an empty disk makes a new line of data.
    pub fn start(&mut self, at: u64, random: &mut Random) -> Result<bool, String> {
        use disque_core::node::load::Completeness;
        let now = self.clocks.now(at);
        let stranger = Identity {
            id: random.bytes(),
            epoch: 0,
            term: 0,
        };
        let mut node = Node::new(stranger, self.settings.clone(), random.bytes(), now);
        self.fx.clear();
        let complete = match self.disk.load() {
            Some(found) => {
                for batch in found.batches {
                    node.apply(now, batch).map_err(|error| error.to_string())?;
                    node.check_invariants(now)?;
                }
                if *node.identity() != self.identity {
                    return Err(format!("another identity was read: {:?}", node.identity()));
                }
                found.complete
            }
            None => {
                self.identity.epoch += 1;
                node.set_identity(self.identity);
                false
            }
        };
        let completeness = match complete {
            true => Completeness::Complete,
            false => Completeness::MayLackDeliveries,
        };
        node.finish_load(completeness, &mut self.fx);
        self.node = Some(node);
        self.session += 1;
        if self.disk.load().is_none() {
            self.snapshot(at);
        }
        self.write();
        Ok(complete)
    }

    /// Writes the whole state.
    pub fn snapshot(&mut self, at: u64) {
        let now = self.clocks.now(at);
        let mut batches = Vec::new();
        let node = self.node.as_ref().expect("the node is up");
        let written = node.snapshot(now, &mut |batch| {
            batches.push(batch.to_vec());
            Ok::<_, ()>(())
        });
        written.expect("the writer refuses nothing");
        if self.disk.keeps_snapshots() {
            self.disk.replace(batches);
        }
    }

    /// Writes the records of the last calls; returns their bytes.
    pub fn write(&mut self) -> &[u8] {
        let bytes = self.fx.records.bytes();
        if !bytes.is_empty() {
            self.disk.append(bytes);
        }
        bytes
    }

    /// The answers of the last calls, as the clients read them.
    pub fn take_answers(&mut self) -> Vec<(WaiterId, Told)> {
        let node = self.node.as_ref().expect("the node is up");
        let told = |answer: &Answer| match answer {
            Answer::Jobs(delivered) => Told::Jobs(read(node, &self.fx, *delivered)),
            Answer::Null => Told::Null,
            Answer::Error(error) => Told::Error(error.clone()),
        };
        let answers = self.fx.answers.iter();
        answers.map(|(id, answer)| (*id, told(answer))).collect()
    }
}

/// The jobs of a delivery, as a client reads them.
pub fn read(node: &Node, fx: &Effects, delivered: Delivered) -> Vec<Delivery> {
    let one = |&key: &u32| {
        let job = node.job(key);
        Delivery {
            id: job.id,
            queue: queue_number(&node.queue_of(job).name),
            body: job.body.to_vec(),
            attempt: job.attempt,
            nacks: job.nacks,
            additional: job.additional_deliveries,
        }
    };
    fx.jobs(delivered).iter().map(one).collect()
}

/// The name of a queue.
pub fn queue_name(number: usize) -> Vec<u8> {
    format!("queue:{number}").into_bytes()
}

fn queue_number(name: &[u8]) -> usize {
    let digits = name.strip_prefix(b"queue:").unwrap_or_default();
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    digits.parse().unwrap_or(usize::MAX)
}

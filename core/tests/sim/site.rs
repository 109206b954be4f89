//! One node with all that surrounds it: its disk, its clocks, its connections.

use crate::disk::{Disk, Policy, Stop};
use crate::guard::Guard;
use crate::links::Link;
use crate::oracle::checker::Checker;
use crate::oracle::history::{Call, Delivery, Told};
use crate::random::Random;
use crate::workers::Pending;
use disque_core::body::Packet;
use disque_core::clock::Now;
use disque_core::cluster::PeerKey;
use disque_core::effects::{Answer, Delivered, Effects, WaiterId};
use disque_core::job_id::JobId;
use disque_core::message::Speaker;
use disque_core::node::{Identity, Node};
use disque_core::nodes_file::NodesFile;
use disque_core::settings::Settings;
use std::collections::BTreeMap;

/// The clocks of a machine, against the world's own time.
#[derive(Clone)]
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
    /// The same in a replicated world.
    pub pending: BTreeMap<WaiterId, Pending>,
    /// The stop that is not over, as the ledger knows it.
    pub stopped: Option<u64>,
    /// The leaving that is not over, in the same way.
    pub thinned: Option<u64>,
    /// When the timer is set to go off.
    pub armed: Option<u64>,
    /// Nothing happens at the node until then.
    pub stalled_until: u64,
    /// Counts starts: what belongs to an earlier one is void.
    pub session: u64,
    /// Who the node was, with the number of batches that say so.
    pub identities: Vec<(u64, Identity)>,
    /// What the promises of this machine's node are checked with.
    pub checker: Checker,
    /// Ids that its clients know.
    pub known: Vec<JobId>,
    /// Where others reach it.
    pub host: String,
    /// How often it came up at another address.
    pub moves: usize,
    /// The nodes file, which is safe as soon as it is written.
    nodes_file: Option<String>,
    /// The changes of the table that the file holds.
    saved: Option<u64>,
    /// How the node presents itself on new connections.
    pub speaker: Speaker,
    /// Connections made by this process.
    pub connections: u64,
    pub links: BTreeMap<PeerKey, Link>,
    /// Messages that wait until the records of their round are written.
    pub gated: Vec<(PeerKey, Packet)>,
    /// The server answers frames with an error until then.
    pub refuses_until: u64,
    /// The machine itself is down: nobody answers for it.
    pub is_silent: bool,
    /// The process is killed soon, between saying something and writing it.
    pub is_doomed: bool,
    pub guard: Guard,
    /// The machine has not run before.
    pub is_new: bool,
    /// What starts next is a replica of the node, to be promoted.
    pub is_promoted: bool,
}

/// The port of all nodes.
pub const PORT: u16 = 7_711;

/// The address of a machine that has moved so often.
pub fn host_of(number: usize, moves: usize) -> String {
    format!("10.0.{moves}.{number}")
}

impl Site {
    /// A machine whose node has not been started yet.
    pub fn new(number: usize, policy: Policy, mut settings: Settings, random: &mut Random) -> Site {
        let host = host_of(number, 0);
        if random.chance(300) {
            settings.announce_host = host.clone();
        }
        let nobody = Speaker {
            id: [0; 20],
            epoch: 0,
            term: 0,
            incarnation: 0,
            process: 0,
            port: 0,
        };
        Site {
            node: None,
            disk: Disk::new(policy),
            clocks: Clocks::new(random),
            settings,
            fx: Effects::new(),
            waiting: BTreeMap::new(),
            pending: BTreeMap::new(),
            stopped: None,
            thinned: None,
            armed: None,
            stalled_until: 0,
            session: 0,
            identities: Vec::new(),
            checker: Checker::default(),
            known: Vec::new(),
            host,
            moves: 0,
            nodes_file: None,
            saved: None,
            speaker: nobody,
            connections: 0,
            links: BTreeMap::new(),
            gated: Vec::new(),
            refuses_until: 0,
            is_silent: false,
            is_doomed: false,
            guard: Guard::default(),
            is_new: true,
            is_promoted: false,
        }
    }

    /// Starts the node with what the disk holds. Returns whether that is known
    /// to hold each delivery; an empty disk makes a new line of data.
    pub fn start(&mut self, at: u64, random: &mut Random) -> Result<bool, String> {
        use disque_core::node::load::Completeness;
        let now = self.clocks.now(at);
        let promoted = std::mem::take(&mut self.is_promoted);
        let found = self.nodes_file.as_deref().map(str::as_bytes);
        let file = match found.map(NodesFile::parse) {
            Some(file) => file?,
            None => new_file(random),
        };
        // A replica's own file counts its own starts, and knows nobody.
        let file = match promoted {
            true => NodesFile {
                identity: file.identity,
                ..new_file(random)
            },
            false => file,
        };
        let seed = random.bytes();
        let mut node = Node::new(file.identity, self.settings.clone(), seed, now);
        node.restore_nodes(&file);
        self.nodes_file = Some(node.nodes_file(false).to_text());
        self.guard.restart();
        self.fx.clear();
        let complete = match self.disk.load() {
            Some(found) => {
                for batch in found.batches {
                    node.apply(now, batch).map_err(|error| error.to_string())?;
                    node.check_invariants(now)?;
                }
                let known = self.identities.last().map(|(_, identity)| *identity);
                if Some(*node.identity()) != known {
                    return Err(format!("another identity was read: {:?}", node.identity()));
                }
                if *node.identity() != file.identity {
                    // Its RESET was lost.
                    self.guard.reset();
                }
                found.complete
            }
            None => {
                // What was there is gone: this is another line of data.
                let mut identity = file.identity;
                identity.epoch += 1;
                node.set_identity(identity);
                self.identities.push((self.disk.written(), identity));
                false
            }
        };
        let completeness = match complete {
            true => Completeness::Complete,
            false => Completeness::MayLackDeliveries,
        };
        let before = *node.identity();
        match promoted {
            true => node.promote(now, &mut self.fx),
            false => node.finish_load(now, completeness, &mut self.fx),
        }
        let identity = *node.identity();
        node.connect_all(&mut self.fx);
        self.speaker = node.speaker();
        self.connections = 0;
        self.is_silent = false;
        self.is_doomed = false;
        self.node = Some(node);
        self.saved = None;
        self.save_nodes();
        self.session += 1;
        if self.disk.load().is_none() {
            self.snapshot(at);
        }
        self.write(at);
        if identity != before {
            self.identities.push((self.disk.written(), identity));
        }
        if promoted {
            // It may not have heard whom its primary has forgotten.
            self.guard.reset();
            // What follows it from now on begins with all that it has.
            self.snapshot(at);
        }
        Ok(complete)
    }

    /// Saves the nodes file if the table has changed.
    pub fn save_nodes(&mut self) {
        let node = self.node.as_ref().expect("the node is up");
        let changes = node.cluster().changes();
        if self.saved.replace(changes) != Some(changes) {
            self.nodes_file = Some(node.nodes_file(false).to_text());
        }
    }

    /// Another machine stands here from now on, with nothing on its disk.
    pub fn renew(&mut self, policy: Policy, random: &mut Random) {
        self.disk = Disk::new(policy);
        self.clocks.reboot(random);
        self.checker = Checker::default();
        self.identities.clear();
        self.known.clear();
        self.nodes_file = None;
        self.guard = Guard::default();
        self.session += 1;
        self.is_new = true;
    }

    /// The machine of a replica that is to be promoted: its data are those of this one
    /// some time ago.
    pub fn replica(&mut self, number: usize, random: &mut Random) -> Site {
        // It serves on, instead of dying.
        self.is_doomed = false;
        let mut disk = self.disk.clone();
        let kept = disk.stop(Stop::Promoted, random);
        let mut clocks = self.clocks.clone();
        clocks.reboot(random);
        let identities = self.identities.iter().filter(|(log, _)| *log <= kept);
        Site {
            identities: identities.copied().collect(),
            disk,
            clocks,
            session: self.session,
            moves: self.moves,
            thinned: self.thinned.take(),
            is_new: false,
            is_promoted: true,
            ..Site::new(number, self.disk.policy(), self.settings.clone(), random)
        }
    }

    /// Writes the whole state.
    pub fn snapshot(&mut self, at: u64) {
        let now = self.clocks.now(at);
        let mut batches = Vec::new();
        let node = self.node.as_ref().expect("the node is up");
        let written = node.snapshot(now, &mut |batch| {
            batches.push(batch.to_vec().into());
            Ok::<_, ()>(())
        });
        written.expect("the writer refuses nothing");
        if self.disk.keeps_snapshots() {
            self.disk.replace(batches);
        }
    }

    /// Writes the records of the last calls; returns their bytes.
    pub fn write(&mut self, at: u64) -> &[u8] {
        let batch = self.fx.records.packet();
        if !batch.bytes.is_empty() {
            self.disk.append(batch, at);
        }
        &batch.bytes
    }

    /// The answers of the last calls, as the clients read them.
    pub fn take_answers(&mut self) -> Vec<(WaiterId, Told)> {
        let node = self.node.as_ref().expect("the node is up");
        let told = |answer: &Answer| match answer {
            Answer::Jobs(delivered) => Told::Jobs(read(node, &self.fx, *delivered)),
            Answer::Added(ids) => Told::Added(ids.clone()),
            Answer::Null => Told::Null,
            Answer::Error(error) => Told::Error(error.clone()),
        };
        let answers = self.fx.answers.iter();
        answers.map(|(id, answer)| (*id, told(answer))).collect()
    }
}

/// The nodes file of a server that has never run.
fn new_file(random: &mut Random) -> NodesFile {
    NodesFile {
        identity: Identity {
            id: random.bytes(),
            epoch: random.range(1, u64::MAX / 2),
            term: 0,
        },
        incarnation: 0,
        clean_stop: false,
        batches: 0,
        synced: false,
        nodes: Vec::new(),
        forgotten: Vec::new(),
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

/// The number of a queue.
pub fn queue_number(name: &[u8]) -> usize {
    let digits = name.strip_prefix(b"queue:").unwrap_or_default();
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    digits.parse().unwrap_or(usize::MAX)
}

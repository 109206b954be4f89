//! What kind of run a seed makes.

use crate::disk::Policy;
use crate::random::Random;
use crate::site::PORT;
use disque_core::settings::Settings;

/// The choices that hold for a whole run.
#[derive(Debug)]
pub struct Profile {
    /// How many nodes there are.
    pub nodes: usize,
    /// How the first node writes; the others do as they like.
    pub policy: Policy,
    pub settings: Settings,
    pub clients: usize,
    pub queues: usize,
    /// When clients stop and everything is consumed, in ms.
    pub end: u64,
    /// The mean time between two actions of a client, in ms.
    pub pace: u64,
    /// Whether there are more consumers than jobs: then many clients wait.
    pub hungry: bool,
    /// The mean time between two faults, in ms.
    pub fault_pace: u64,
    /// Whether the wall clock is set now and then.
    pub clock_jumps: bool,
    /// How much later than asked the timer goes off, at most.
    pub timer_lateness: u64,
    /// How many steps the timer and the serving of clients do at a time.
    pub slice: usize,
    /// The mean time between two acts of operators, or failures of the network.
    pub operator_pace: u64,
    /// Whether operators take nodes out of the cluster.
    pub drastic: bool,
    /// The longest that something takes from node to node, in ms.
    pub latency: u64,
    /// Of a thousand answers, how many find their client gone.
    pub vanishing: u64,
    /// Whether jobs have copies and go where they like: then what clients see is
    /// judged for the cluster as a whole. Otherwise each node is judged alone.
    pub replicated: bool,
    /// What may befall the nodes of a replicated world.
    pub severity: Severity,
    /// Whether nodes of a replicated world leave now and then.
    pub leaves: bool,
    /// Of a thousand consumers, how many tell another node that they are done.
    pub strays: u64,
    /// Of a thousand consumers, how many are done just when the job falls due again.
    pub late: u64,
}

/// How bad the worst is that befalls nodes; each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing.
    Calm,
    /// They stand still and do not reach each other.
    Apart,
    /// They stop, and come back with all that they had.
    Stopped,
    /// They come back with nothing, as other data.
    Wiped,
    /// They come back with what was written some time ago, or live on when a replica
    /// that knows no more takes their place.
    Older,
}

/// By their numbers: `DISQUE_SIM_SEVERITY` names one for all replicated worlds.
const SEVERITIES: [Severity; 5] = [
    Severity::Calm,
    Severity::Apart,
    Severity::Stopped,
    Severity::Wiped,
    Severity::Older,
];

/// Of a thousand clusters, how many are replicated. `DISQUE_SIM_REPLICATED` names
/// another number.
const REPLICATED: u64 = 500;

impl Profile {
    pub fn new(random: &mut Random) -> Profile {
        let nodes = random.pick(&[1, 2, 3, 3, 5]);
        let nodes = crate::number(["DISQUE_SIM_NODES"; 2]).map_or(nodes, |named| named as usize);
        let memory_limited = random.chance(150);
        let settings = Settings {
            max_memory: if memory_limited {
                random.range(2_000, 20_000)
            } else {
                0
            },
            queue_idle_ms: random.pick(&[0, 500, 5_000, 300_000]),
            deliver_after_crash: random.chance(150),
            node_timeout_ms: random.pick(&[500, 2_000, 5_000]),
            announce_port: PORT,
            sweep_ms: random.pick(&[10_000, 600_000, 600_000]),
            settled_memory_ms: random.pick(&[5_000, 60_000]),
            federation: false,
            // These runs are about single nodes: each job stays where it was added.
            default_replicate: if nodes == 1 { 3 } else { 1 },
            ..Settings::default()
        };
        let replicated = nodes > 1 && random.chance(replicated());
        let clients = random.range(2, 9) as usize;
        let end = match nodes {
            1 => random.pick(&[5_000, 30_000, 120_000, 1_000_000]),
            _ => random.pick(&[5_000, 20_000, 60_000]),
        };
        let acts = random.pick(&[2, 5, 10, 30]);
        let actions = random.range(100, 400);
        let fault_count = random.pick(&[0, 0, 2, 5, 10, 25]);
        let mut profile = Profile {
            nodes,
            policy: Profile::sound_or_not(random),
            operator_pace: end / acts,
            drastic: random.chance(500),
            latency: random.pick(&[1, 10, 60, settings.node_timeout_ms / 3]),
            settings,
            clients,
            queues: random.range(1, 4) as usize,
            end,
            pace: (end * clients as u64 / actions).max(1),
            hungry: random.chance(400),
            fault_pace: end.checked_div(fault_count).unwrap_or(u64::MAX),
            clock_jumps: random.chance(500),
            timer_lateness: random.pick(&[0, 0, 1, 20]),
            slice: random.pick(&[1, 2, 10, 1_000]),
            vanishing: random.pick(&[0, 30, 200]),
            replicated,
            severity: Severity::Older,
            leaves: random.chance(400),
            strays: random.pick(&[50, 50, 500]),
            late: random.pick(&[0, 100, 500]),
        };
        if nodes > 1 && !replicated {
            // A node without room would have others keep its jobs.
            profile.settings.max_memory = 0;
        }
        if replicated {
            profile.settings.federation = true;
            profile.severity = any_severity(random);
            profile.replicate(random);
        }
        profile
    }

    /// Restricts a run to what is promised of the whole cluster.
    fn replicate(&mut self, random: &mut Random) {
        self.policy = self.any_policy(random);
        self.operator_pace = (self.operator_pace / random.pick(&[1, 4])).max(1);
        if self.severity >= Severity::Stopped {
            self.fault_pace = self.fault_pace.min(self.end / 4);
        }
        if self.severity == Severity::Calm {
            self.fault_pace = u64::MAX;
            if !self.leaves {
                self.operator_pace = u64::MAX;
            }
        }
        self.settings.deliver_after_crash = false;
        self.drastic = false;
        self.clients += 2 * self.nodes;
        self.queues += 1;
    }

    /// How a server writes.
    pub fn any_policy(&self, random: &mut Random) -> Policy {
        match self.severity {
            Severity::Older => Profile::sound_or_not(random),
            Severity::Wiped => random.pick(&[Policy::Always, Policy::Always, Policy::Nothing]),
            _ => Policy::Always,
        }
    }

    fn sound_or_not(random: &mut Random) -> Policy {
        random.weighted(&[
            (3, Policy::Always),
            (4, Policy::EverySecond),
            (2, Policy::Snapshots),
            (1, Policy::Nothing),
        ])
    }

    /// The time between two heartbeats.
    pub fn beat_ms(&self) -> u64 {
        (self.settings.node_timeout_ms / 4).min(1_000)
    }

    /// More frames than a node sends to another one in a second: heartbeats,
    /// PINGs, and what attempts to connect and acts of operators cost.
    pub fn frames_per_second(&self) -> u64 {
        let copies = if self.replicated { 5_000 } else { 0 };
        1_000 / self.beat_ms() + 3_000 / self.settings.node_timeout_ms + 30 + copies
    }
}

fn any_severity(random: &mut Random) -> Severity {
    let one = random.weighted(&[
        (1, Severity::Calm),
        (1, Severity::Apart),
        (2, Severity::Stopped),
        (2, Severity::Wiped),
        (3, Severity::Older),
    ]);
    let named = crate::number(["DISQUE_SIM_SEVERITY"; 2]);
    named.map_or(one, |named| {
        SEVERITIES[(named as usize).min(SEVERITIES.len() - 1)]
    })
}

fn replicated() -> u64 {
    crate::number(["DISQUE_SIM_REPLICATED"; 2]).unwrap_or(REPLICATED)
}

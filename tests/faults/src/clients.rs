//! Producers and consumers: they know queues and nodes, and nothing of where a job
//! lies or what is being done to the servers.

use crate::history::History;
use crate::modes::{Mode, RETRY_MS};
use disque_checker::{body, event::phase_of_refusal, Event, Op, Phase};
use disque_testing::{deliveries, Client, Door, Reply, Value};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A producer waits so long for copies.
const ADD_TIMEOUT_MS: u64 = 2_000;
/// How exactly a node keeps to that.
const RESOLUTION: Duration = Duration::from_millis(10);
/// A consumer waits so long for a job before it looks what else there is to do.
const GET_TIMEOUT_MS: u64 = 400;
/// A server that says nothing for longer than it may is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// A server that does not answer PING within this is passed over.
const PING: Duration = Duration::from_secs(1);
/// Between two tries of somebody who found no server.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// How long a consumer holds half of its jobs at most; the others RETRY three times.
const SHORT_MS: u64 = 100;
/// The mean pause of a producer.
const PACE_MS: u64 = 40;

/// What all clients share.
pub struct World {
    pub history: History,
    pub doors: Vec<Door>,
    pub modes: Vec<Mode>,
    pub seed: u64,
    /// No more jobs are added.
    pub closing: AtomicBool,
    /// Nobody hesitates any more: what comes is settled at once.
    pub draining: AtomicBool,
    /// Everybody goes home.
    pub over: AtomicBool,
}

impl World {
    fn random(&self, stream: u64) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.seed.wrapping_mul(1_000).wrapping_add(stream))
    }
}

/// One client's connections, one to each node at most.
struct Links<'a> {
    world: &'a World,
    open: Vec<Option<Client>>,
}

impl Links<'_> {
    fn new(world: &World) -> Links<'_> {
        Links {
            world,
            open: world.doors.iter().map(|_| None).collect(),
        }
    }

    /// Whether there is somebody to talk to.
    fn reach(&mut self, node: usize) -> bool {
        if self.open[node].is_none() {
            self.open[node] = self.open(node);
        }
        self.open[node].is_some()
    }

    /// A connection at whose end somebody answers: a proxy takes what nobody serves.
    fn open(&self, node: usize) -> Option<Client> {
        let mut client = self.world.doors[node].open().ok()?;
        client.try_send(&["PING"]).ok()?;
        let pong = client.try_read(PING).ok()??;
        (pong.raw() == b"+PONG\r\n").then_some(client)
    }

    /// Any node that can be talked to, `first` if it can.
    fn any(&mut self, first: usize) -> Option<usize> {
        let count = self.open.len();
        (0..count)
            .map(|step| (first + step) % count)
            .find(|node| self.reach(*node))
    }

    /// Says something to a node that was reached. Without a reply the connection is
    /// given up, and nobody knows what came of it.
    fn ask(&mut self, node: usize, words: &[String], limit: Duration) -> Option<Reply> {
        let client = self.open[node].as_mut()?;
        let asked = client
            .try_send(words)
            .and_then(|()| client.try_read(limit + PATIENCE));
        match asked {
            Ok(Some(reply)) => Some(reply),
            _ => {
                self.open[node] = None;
                None
            }
        }
    }
}

/// Adds jobs of all kinds at all nodes.
pub fn produce(world: &World, number: u64) {
    let mut random = world.random(number);
    let mut links = Links::new(world);
    let history = &world.history;
    let mut made = 0;
    while !world.closing.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(random.random_range(0..2 * PACE_MS)));
        let node = random.random_range(0..world.doors.len());
        if !links.reach(node) {
            continue;
        }
        let mode = &world.modes[random.random_range(0..world.modes.len())];
        made += 1;
        let body = body::make(world.seed, number, made, mode.name);
        let call = history.call();
        let mut sent = history.event(call, Phase::Invoke, Op::Add, node);
        sent = sent.queue(mode.name).body(&body);
        sent.want = Some(mode.want);
        history.note(sent);
        let began = Instant::now();
        let limit = Duration::from_millis(ADD_TIMEOUT_MS);
        let reply = links.ask(node, &mode.add(&body, ADD_TIMEOUT_MS), limit);
        let end = |phase| history.event(call, phase, Op::Add, node);
        history.note(match reply.as_ref().map(Reply::value) {
            Some(Value::Bulk(id)) => end(Phase::Ok).job(text(id)),
            Some(Value::Error(error)) => {
                let waited = began.elapsed() + RESOLUTION >= limit;
                let error = text(error);
                end(phase_of_refusal(&error, waited)).error(error)
            }
            _ => end(Phase::Info).error("no answer"),
        });
    }
}

/// What a consumer has still to do.
struct Deed {
    at: Instant,
    node: usize,
    op: Op,
    id: String,
    /// How often it is said.
    times: u32,
}

/// Takes jobs at all nodes, and settles most of them in time.
pub struct Consumer<'a> {
    world: &'a World,
    links: Links<'a>,
    random: ChaCha8Rng,
    deeds: Vec<Deed>,
}

impl Consumer<'_> {
    pub fn new(world: &World, number: u64) -> Consumer<'_> {
        Consumer {
            world,
            links: Links::new(world),
            random: world.random(number),
            deeds: Vec::new(),
        }
    }

    /// Until everybody goes home.
    pub fn consume(&mut self) {
        while !self.world.over.load(Ordering::Relaxed) {
            self.do_what_is_due();
            let node = self.random.random_range(0..self.world.doors.len());
            match self.links.any(node) {
                Some(node) => self.take_one(node),
                None => thread::sleep(TRY_AGAIN),
            }
        }
    }

    fn take_one(&mut self, node: usize) {
        let (world, history) = (self.world, &self.world.history);
        let mode = &world.modes[self.random.random_range(0..world.modes.len())];
        let call = history.call();
        let sent = history.event(call, Phase::Invoke, Op::Get, node);
        history.note(sent.queue(mode.name));
        let limit = GET_TIMEOUT_MS.to_string();
        let words = ["GETJOB", "TIMEOUT", &limit, "FROM", mode.name].map(String::from);
        let limit = Duration::from_millis(GET_TIMEOUT_MS);
        let reply = self.links.ask(node, &words, limit);
        let end = |phase| history.event(call, phase, Op::Get, node);
        match reply {
            None => history.note(end(Phase::Info).error("no answer")),
            Some(reply) => match reply.value() {
                Value::Error(error) => history.note(end(Phase::Fail).error(text(error))),
                Value::Array(_) => {
                    for job in deliveries(&reply) {
                        let came = end(Phase::Ok).job(&job.id).body(text(&job.body));
                        history.note(came.queue(&job.queue));
                        self.take_up(node, mode, job.id);
                    }
                }
                _ => history.note(end(Phase::Fail).error("null")),
            },
        }
    }

    /// Decides what becomes of a job.
    fn take_up(&mut self, node: usize, mode: &Mode, id: String) {
        let draining = self.world.draining.load(Ordering::Relaxed);
        let (mut op, mut at, mut hold, mut times) = (mode.settle, node, 0, 1);
        if !draining {
            let random = &mut self.random;
            match random.random_range(0..100) {
                // It dies with the job, and another one takes its place.
                0..5 => {
                    self.links.open[node] = None;
                    return;
                }
                5..10 => op = Op::Working,
                10..15 => at = random.random_range(0..self.world.doors.len()),
                roll if roll < 15 + mode.nacked => op = Op::Nack,
                _ => {}
            }
            hold = match random.random_bool(0.5) {
                true => random.random_range(0..SHORT_MS),
                false => random.random_range(0..3 * RETRY_MS),
            };
            times += u32::from(random.random_bool(0.05));
        }
        self.deeds.push(Deed {
            at: Instant::now() + Duration::from_millis(hold),
            node: at,
            op,
            id,
            times,
        });
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.deeds)
            .into_iter()
            .partition(|deed| deed.at <= now);
        self.deeds = later;
        for deed in due {
            self.carry_out(deed);
        }
    }

    fn carry_out(&mut self, deed: Deed) {
        let later = Instant::now() + TRY_AGAIN;
        let Some(node) = self.links.any(deed.node) else {
            self.deeds.push(Deed { at: later, ..deed });
            return;
        };
        let answered = say(self.world, &mut self.links, node, deed.op, &deed.id);
        let mut left = deed.times;
        if answered {
            left -= 1;
        }
        let op = match deed.op {
            Op::Working => Op::Ack,
            op if left > 0 && matches!(op, Op::Ack | Op::FastAck) => op,
            _ => return,
        };
        // Whoever got no answer asks another node.
        let count = self.world.doors.len();
        self.deeds.push(Deed {
            at: later,
            node: self.random.random_range(0..count),
            op,
            id: deed.id,
            times: left.max(1),
        });
    }
}

/// A command on a job; whether it was answered.
fn say(world: &World, links: &mut Links<'_>, node: usize, op: Op, id: &str) -> bool {
    let history = &world.history;
    let word = match op {
        Op::Ack => "ACKJOB",
        Op::FastAck => "FASTACK",
        Op::Nack => "NACK",
        _ => "WORKING",
    };
    let call = history.call();
    let event = |phase| -> Event { history.event(call, phase, op, node).job(id) };
    history.note(event(Phase::Invoke));
    let reply = links.ask(node, &[word, id].map(String::from), Duration::ZERO);
    let mut end = match reply.as_ref().map(Reply::value) {
        Some(Value::Error(error)) => event(Phase::Fail).error(text(error)),
        Some(Value::Int(count)) => {
            let mut end = event(Phase::Ok);
            end.n = u64::try_from(*count).ok();
            end
        }
        _ => event(Phase::Info).error("no answer"),
    };
    if op == Op::Working {
        end.n = None;
    }
    let answered = end.phase == Phase::Ok;
    history.note(end);
    answered
}

/// Settles a job that a node would keep for long, at that node.
pub fn settle_left(world: &World, node: usize, id: &str) {
    let mut links = Links::new(world);
    if links.reach(node) {
        say(world, &mut links, node, Op::FastAck, id);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

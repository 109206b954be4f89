//! The clients: producers, consumers that wait, and visitors whose connections come
//! and go.

use crate::plan::{add, copies, moment, queues_at, words, Kind, CYCLE, JOBS, VISITS};
use disque_testing::{deliveries, Client, Delivery, Door, Reply, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// For each node.
const PRODUCERS: usize = 2;
const CONSUMERS: usize = 3;
const VISITORS: usize = 1;
/// More than any reply takes that does not wait for a job.
const PATIENCE: Duration = Duration::from_secs(60);
/// A consumer waits longer than a calm lasts.
const LONG_PATIENCE: Duration = Duration::from_secs(600);
/// In which time a visitor's job comes to the other node.
const VISIT_MS: u64 = 10_000;
/// How long a visitor waits for what does not come.
const VAIN_MS: u64 = 20;

/// What all clients share.
pub struct World {
    pub doors: Vec<Door>,
    pub start: Instant,
    over: AtomicBool,
    wrong: Mutex<Option<String>>,
}

impl World {
    pub fn new(doors: Vec<Door>) -> World {
        World {
            doors,
            start: Instant::now(),
            over: AtomicBool::new(false),
            wrong: Mutex::new(None),
        }
    }

    /// Everybody goes home; who waits, as soon as the servers are gone.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The end of a client.
    fn note(&self, ended: Result<(), String>) {
        let Err(text) = ended else { return };
        if !self.is_over() {
            let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            wrong.get_or_insert(text);
            self.end();
        }
    }

    /// Sleeps until so long after the start. The error is what went wrong by then.
    pub fn wait_until(&self, moment: Duration) -> Result<(), String> {
        thread::sleep(moment.saturating_sub(self.start.elapsed()));
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.clone().map_or(Ok(()), Err)
    }

    /// Does what is to be done in each cycle, each thing at its moment: `number` of
    /// `of` clients every `of`th of `count` things.
    fn keep(
        &self,
        (number, of): (usize, usize),
        count: u32,
        mut act: impl FnMut(u64, u32) -> Result<(), String>,
    ) -> Result<(), String> {
        for cycle in 0_u64.. {
            for thing in (number as u32..count).step_by(of) {
                self.wait_until(CYCLE * cycle as u32 + moment(thing, count))?;
                if self.is_over() {
                    return Ok(());
                }
                act(cycle, thing)?;
            }
        }
        Ok(())
    }
}

/// Fills the nodes with more jobs than the load ever has at a time, and empties them.
/// Tables keep the room of their fullest moment: else that would come when the machine
/// happens to stall, and look like growth.
pub fn flood(doors: &[Door]) -> Result<(), String> {
    const JOBS: usize = 2_000;
    const AT_A_TIME: usize = 500;
    let add = words(&format!("ADDJOB flood {} 0 REPLICATE 3", "x".repeat(100)));
    let mut links = Vec::new();
    for door in doors {
        links.push(open(*door)?);
    }
    for client in &mut links {
        for _ in 0..JOBS / AT_A_TIME {
            for _ in 0..AT_A_TIME {
                send(client, &add)?;
            }
            for _ in 0..AT_A_TIME {
                receive(client, &add, PATIENCE)?;
            }
        }
    }
    for client in &mut links {
        loop {
            let reply = ask(
                client,
                &words("GETJOB NOHANG COUNT 100 FROM flood"),
                PATIENCE,
            )?;
            let ids: Vec<String> = deliveries(&reply).into_iter().map(|job| job.id).collect();
            if ids.is_empty() {
                break;
            }
            ask(
                client,
                &words(&format!("ACKJOB {}", ids.join(" "))),
                PATIENCE,
            )?;
        }
    }
    Ok(())
}

/// Starts all clients.
pub fn start<'scope>(scope: &'scope thread::Scope<'scope, '_>, world: &'scope World) {
    let nodes = world.doors.len();
    for node in 0..nodes {
        for number in 0..PRODUCERS {
            let place = (number * nodes + node, PRODUCERS * nodes);
            scope.spawn(move || world.note(produce(world, node, place)));
        }
        for _ in 0..CONSUMERS {
            scope.spawn(move || world.note(consume(world, node)));
        }
        for number in 0..VISITORS {
            let place = (number * nodes + node, VISITORS * nodes);
            scope.spawn(move || world.note(visit_often(world, node, place)));
        }
    }
}

/// Adds its part of the jobs of each cycle.
fn produce(world: &World, node: usize, place: (usize, usize)) -> Result<(), String> {
    let mut client = open(world.doors[node])?;
    world.keep(place, JOBS, |_, job| {
        ask(&mut client, &add(job), PATIENCE).map(drop)
    })
}

/// Waits for jobs at a node, and does with each what its kind says.
fn consume(world: &World, node: usize) -> Result<(), String> {
    let mut links = Vec::new();
    for door in &world.doors {
        links.push(open(*door)?);
    }
    let nodes = links.len();
    let queues = queues_at(node, nodes).join(" ");
    let get = words(&format!("GETJOB WITHCOUNTERS FROM {queues}"));
    loop {
        let reply = ask(&mut links[node], &get, LONG_PATIENCE)?;
        for job in deliveries(&reply) {
            settle(&mut links, node, &job)?;
        }
    }
}

fn settle(links: &mut [Client], node: usize, job: &Delivery) -> Result<(), String> {
    let kind = Kind::with_queue(&job.queue).ok_or("a job of an unknown queue")?;
    let first = (job.nacks, job.additional_deliveries) == (Some(0), Some(0));
    let other = (node + 1) % links.len();
    let (at, commands): (_, &[&str]) = match kind {
        Kind::Nack if first => (node, &["NACK"]),
        Kind::Forgotten if first => (node, &[]),
        Kind::Fast => (node, &["FASTACK"]),
        Kind::Working => (node, &["WORKING", "ACKJOB"]),
        Kind::Elsewhere => (other, &["ACKJOB"]),
        _ => (node, &["ACKJOB"]),
    };
    for command in commands {
        ask(
            &mut links[at],
            &words(&format!("{command} {}", job.id)),
            PATIENCE,
        )?;
    }
    Ok(())
}

fn visit_often(world: &World, node: usize, place: (usize, usize)) -> Result<(), String> {
    let other = world.doors[(node + 1) % world.doors.len()];
    world.keep(place, VISITS, |cycle, number| {
        visit(world.doors[node], other, cycle, number)
    })
}

/// A visitor uses connections, and queues, that nobody used before and nobody uses
/// afterwards. Their names are all of one length: a byte more for each, from the
/// hundredth cycle on, is a percent of all memory.
fn visit(here: Door, other: Door, cycle: u64, number: u32) -> Result<(), String> {
    let queue = format!("visit-{cycle:05}-{number:03}");
    let mut producer = open(here)?;
    let add = format!("ADDJOB {queue} hello 0 REPLICATE {}", copies(number));
    ask(&mut producer, &words(&add), PATIENCE)?;
    let mut worker = open(other)?;
    let get = format!("GETJOB TIMEOUT {VISIT_MS} FROM {queue}");
    let reply = ask(&mut worker, &words(&get), PATIENCE)?;
    let jobs = deliveries(&reply);
    let job = jobs.first().ok_or("a visitor's job does not come")?;
    ask(&mut worker, &words(&format!("ACKJOB {}", job.id)), PATIENCE)?;
    let vain = format!("GETJOB TIMEOUT {VAIN_MS} FROM vain-{queue}");
    ask(&mut worker, &words(&vain), PATIENCE)?;
    // It goes while it waits.
    let left = words(&format!("GETJOB FROM left-{queue}"));
    producer.try_send(&left).map_err(|e| e.to_string())
}

fn open(door: Door) -> Result<Client, String> {
    door.open().map_err(|e| format!("cannot connect: {e}"))
}

/// The reply to a command; in a healthy cluster there are no errors.
fn ask(client: &mut Client, words: &[String], limit: Duration) -> Result<Reply, String> {
    send(client, words)?;
    receive(client, words, limit)
}

fn send(client: &mut Client, words: &[String]) -> Result<(), String> {
    let sent = client.try_send(words);
    sent.map_err(|e| format!("{}: {e}", words[0]))
}

fn receive(client: &mut Client, words: &[String], limit: Duration) -> Result<Reply, String> {
    let failed = |what: String| Err(format!("{}: {what}", words[0]));
    match client.try_read(limit) {
        Ok(Some(reply)) if matches!(reply.value(), Value::Error(_)) => failed(format!("{reply:?}")),
        Ok(Some(reply)) => Ok(reply),
        Ok(None) => failed(format!("no reply within {limit:?}")),
        Err(e) => failed(e.to_string()),
    }
}

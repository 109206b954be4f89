//! Figures of the bus on real servers, on this machine: `make bus`.
//!
//! 1. The bus of this process against one server with the module: how many messages,
//!    how long until they are answered, how much of a processor on both sides.
//! 2. Two servers that know each other: PAUSE with BCAST at one, which sends a message
//!    to the other for each, and what both spend on it.
//! 3. Two servers: how long a lone message takes, from a command at one until a client
//!    that waits at the other has its job.
//!
//! The message is that of PAUSE with BCAST, which changes a queue and is recorded; the
//! append only file is on, synced every second.

use disque_bus::{
    Address, Bus, Event, Greeting, Message as Parcel, Owner, PeerKey, Settings, Target,
};
use disque_core::message::{encode_header, encode_message, Header, Message, Speaker};
use disque_testing::{Client, Cluster, Options, Persistence, Server};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(3);
const PEER: PeerKey = PeerKey(1);
/// Far more than an answer takes.
const LIMIT: Duration = Duration::from_secs(20);

fn main() {
    println!("1. one bus, one server");
    for depth in [1, 8] {
        for batch in [1, 100] {
            one_server(batch, depth);
        }
    }
    println!("2. two servers, PAUSE queue ... bcast at one");
    for pipeline in [1, 100] {
        two_servers(pipeline);
    }
    println!("3. two servers, a lone message");
    lone_message();
}

fn saved() -> Options {
    Options::new().persistence(Persistence::Aof)
}

/// The owner of a bus, a node that only talks.
struct Talker {
    header: Vec<u8>,
    bell: SyncSender<()>,
    connections: AtomicU64,
    listener: [u8; 20],
}

impl Talker {
    fn header(to: Option<[u8; 20]>, connection: u64) -> Vec<u8> {
        encode_header(&Header {
            from: Speaker {
                id: [7; 20],
                epoch: 1,
                term: 0,
                incarnation: 1,
                process: 1,
                port: 1,
            },
            to,
            connection,
        })
    }
}

impl Owner for Talker {
    fn greet(&self, _: Target) -> Greeting {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Greeting {
            connection,
            hello: self.header.clone().into(),
            prefix: Talker::header(Some(self.listener), connection).into(),
        }
    }

    fn wake(&self) {
        let _ = self.bell.try_send(());
    }

    fn log(&self, line: &str) {
        eprintln!("{line}");
    }
}

/// A bus with one connection, and what it has sent.
struct Link {
    bus: Bus,
    bell: Receiver<()>,
    connection: u64,
    sent: u64,
    answered: u64,
}

impl Link {
    fn new(server: &Server) -> Link {
        let (ring, bell) = sync_channel(1);
        let owner = Talker {
            header: Talker::header(None, 1),
            bell: ring,
            connections: AtomicU64::new(0),
            listener: id_of(server),
        };
        let bus = Bus::start(Settings::default(), 1, Arc::new(owner)).expect("no bus");
        let mut link = Link {
            bus,
            bell,
            connection: 0,
            sent: 0,
            answered: 0,
        };
        link.bus
            .set_peer(PEER, Address::new("127.0.0.1", server.port()));
        while link.connection == 0 {
            link.event();
        }
        link
    }

    fn event(&mut self) {
        match self.bus.poll_event() {
            Some(Event::Up { connection, .. }) => self.connection = connection,
            Some(Event::Answer { serials, .. }) => {
                self.answered = serials.map_or(self.answered, |serials| serials.last);
            }
            Some(event) => panic!("{event:?}"),
            None => self.bell.recv_timeout(LIMIT).expect("no answer"),
        }
    }

    /// Sends so many messages as one batch; the number of the last.
    fn send(&mut self, count: u64) -> u64 {
        for _ in 0..count {
            self.sent += 1;
            let message = encode_message(&Message::Pause {
                queue: b"a queue",
                pause: (self.sent & 1) as u8,
            });
            let parcel = Parcel::new(self.sent, message);
            self.bus
                .send(PEER, self.connection, parcel)
                .expect("not sent");
        }
        self.bus.flush();
        self.sent
    }

    fn wait(&mut self, serial: u64) {
        while self.answered < serial {
            self.event();
        }
    }
}

fn id_of(server: &Server) -> [u8; 20] {
    let text = server.client().run("DISQUE MYID").expect_text();
    let digits = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16);
    std::array::from_fn(|at| digits(at).expect("no id"))
}

fn one_server(batch: u64, depth: usize) {
    let server = Server::start(saved());
    let mut link = Link::new(&server);
    let (here, there) = (cpu_of_this_process(), server.cpu_time());
    let mut times = Vec::new();
    let mut under_way = std::collections::VecDeque::new();
    let start = Instant::now();
    while start.elapsed() < TIME {
        while under_way.len() < depth {
            under_way.push_back((link.send(batch), Instant::now()));
        }
        if let Some((serial, sent)) = under_way.pop_front() {
            link.wait(serial);
            times.push(sent.elapsed());
        }
    }
    let time = start.elapsed();
    let stats = link.bus.stats(PEER).expect("no figures");
    println!(
        "  batches of {batch}, {depth} under way: {:.0} messages/s, {:.0} frames/s, {}, \
         processor per message {:.2} us here, {:.2} us there",
        link.answered as f64 / time.as_secs_f64(),
        stats.answers as f64 / time.as_secs_f64(),
        percentiles("answered after", &mut times),
        per_message(cpu_of_this_process() - here, link.answered),
        per_message(server.cpu_time() - there, link.answered),
    );
}

fn two_servers(pipeline: usize) {
    let mut cluster = Cluster::start(2, saved());
    let servers = cluster.servers();
    let commands: Vec<String> = (0..pipeline)
        .map(|n| format!("PAUSE q {} bcast", if n % 2 == 0 { "in" } else { "out" }))
        .collect();
    let mut near = servers[0].client();
    let mut far = servers[1].client();
    let (here, there) = (servers[0].cpu_time(), servers[1].cpu_time());
    let frames = frames_at(&mut far);
    let start = Instant::now();
    let mut sent = 0;
    let mut times = Vec::new();
    while start.elapsed() < TIME {
        let begin = Instant::now();
        near.pipeline(&commands);
        times.push(begin.elapsed());
        sent += pipeline as u64;
    }
    near.run("PAUSE q none");
    near.run("PAUSE q none bcast");
    wait_state(&mut far, "none");
    let time = start.elapsed();
    println!(
        "  {pipeline} commands in flight: {:.0} messages/s in {:.0} frames/s, {}, \
         processor per message {:.2} us here, {:.2} us there",
        sent as f64 / time.as_secs_f64(),
        (frames_at(&mut far) - frames) as f64 / time.as_secs_f64(),
        percentiles("commands answered after", &mut times),
        per_message(servers[0].cpu_time() - here, sent),
        per_message(servers[1].cpu_time() - there, sent),
    );
}

/// A worker waits at a queue that is paused; the pause is ended at the worker's own
/// server, or at the other one.
fn lone_message() {
    let mut cluster = Cluster::start(2, saved());
    let servers = cluster.servers();
    let mut at = [servers[0].client(), servers[1].client()];
    for (case, from, command) in [
        ("the same server", 1, "PAUSE q none"),
        ("the other server", 0, "PAUSE q none bcast"),
    ] {
        let mut worker = servers[1].client();
        let mut times = Vec::new();
        for _ in 0..500 {
            at[0].run("PAUSE q out bcast");
            wait_state(&mut at[1], "out");
            let id = at[1].run("ADDJOB q job 0").expect_text();
            worker.start("GETJOB FROM q");
            servers[1].wait_blocked(1);
            // Nothing is under way any more.
            std::thread::sleep(Duration::from_millis(2));
            let begin = Instant::now();
            at[from].start(command);
            worker.reply();
            times.push(begin.elapsed());
            at[from].reply();
            worker.run(&format!("ACKJOB {id}"));
        }
        println!("  from {case}: {}", percentiles("job after", &mut times));
    }
}

fn wait_state(client: &mut Client, wanted: &str) {
    while client.run("PAUSE q state").raw() != format!("+{wanted}\r\n").as_bytes() {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Frames that a server has taken so far.
fn frames_at(client: &mut Client) -> u64 {
    let text = client.run("INFO commandstats").expect_text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_disque.bus:calls="));
    let digits = line.and_then(|line| line.split(',').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Processor time of this process, user and system.
fn cpu_of_this_process() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("no /proc");
    let fields = stat.rsplit(')').next().expect("no fields");
    let ticks = fields.split_ascii_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|n| n.parse::<u64>().expect("no number")).sum();
    Duration::from_millis(10 * ticks)
}

fn per_message(time: Duration, messages: u64) -> f64 {
    time.as_secs_f64() * 1e6 / messages as f64
}

fn percentiles(what: &str, times: &mut [Duration]) -> String {
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_micros();
    format!("{what} p50 {} us, p99 {} us", at(0.5), at(0.99))
}

//! w8: thousands of clients that wait, each at a queue of its own, beside BRPOP.

use crate::compare::{figures_of, head, in_turns, line, Aim, Figures};
use crate::replies::end_of_reply;
use crate::systems::{command, with_module, without_module, BODY};
use crate::Plan;
use disque_testing::Server;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Clients that are being woken at the same time.
const WINDOW: usize = 50;
const STEP: usize = 7_919;
const LIMIT: Duration = Duration::from_secs(60);

/// Clients of one server that wait, each at its own queue.
struct Crowd<'a> {
    server: &'a Server,
    poll: Poll,
    clients: Vec<TcpStream>,
    wait: fn(&str) -> Vec<u8>,
    add: fn(&str) -> Vec<u8>,
    /// Bytes of the server for each that waits, without those of its connection.
    bytes: f64,
}

/// How many are woken per second, and what one costs that waits.
pub fn wakes(plan: &Plan) {
    let (module, other) = (with_module(), without_module());
    head(&format!(
        "w8 {} clients wait at queues of their own",
        plan.clients
    ));
    let mut ours = Crowd::gather(
        &module,
        plan.clients,
        |queue| command(&["GETJOB", "FROM", queue]),
        |queue| command(&["ADDJOB", queue, BODY, "0"]),
    );
    let mut theirs = Crowd::gather(
        &other,
        plan.clients,
        |queue| command(&["BRPOP", queue, "0"]),
        |queue| command(&["LPUSH", queue, BODY]),
    );
    let wakes = plan.clients * 2;
    in_turns(
        plan.rounds,
        "wakes, 50 under way",
        &Aim::AtLeast(0.8),
        || ours.wake(wakes),
        || theirs.wake(wakes),
    );
    let ratio = ours.bytes / theirs.bytes;
    let aim = Aim::AtMost(1.2);
    let (bytes, others) = (ours.bytes, Some(theirs.bytes));
    line(
        "memory of one that waits (aim: x lists)",
        "bytes",
        bytes,
        others,
        &aim,
        ratio,
    );
}

impl<'a> Crowd<'a> {
    fn gather(
        server: &'a Server,
        count: usize,
        wait: fn(&str) -> Vec<u8>,
        add: fn(&str) -> Vec<u8>,
    ) -> Crowd<'a> {
        let poll = Poll::new().expect("no poll");
        let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
        let open = |number| {
            let mut stream = std::net::TcpStream::connect(address).expect("no connection");
            // One command, so that the buffers of the connection are there.
            stream.write_all(&command(&["PING"])).expect("no write");
            stream.read_exact(&mut [0; 7]).expect("no reply");
            stream.set_nodelay(true).expect("no option");
            stream.set_nonblocking(true).expect("no option");
            let mut stream = TcpStream::from_std(stream);
            poll.registry()
                .register(&mut stream, Token(number), Interest::READABLE)
                .expect("not registered");
            stream
        };
        let clients: Vec<TcpStream> = (0..count).map(open).collect();
        let mut crowd = Crowd {
            server,
            poll,
            clients,
            wait,
            add,
            bytes: 0.0,
        };
        let before = server.used_memory();
        (0..count).for_each(|number| crowd.block(number));
        server.wait_blocked(count as i64);
        crowd.bytes = (server.used_memory() - before) as f64 / count as f64;
        crowd
    }

    fn block(&mut self, number: usize) {
        let words = (self.wait)(&name(number));
        self.clients[number].write_all(&words).expect("no write");
    }

    /// Wakes so many, one after the other, some at a time. From the sending of the job
    /// until the client has it.
    fn wake(&mut self, wakes: usize) -> Figures {
        let mut producer = self.server.client();
        let mut sent_at = vec![None; self.clients.len()];
        let mut latencies = Vec::with_capacity(wakes);
        let mut sent = 0;
        let (cpu, start) = (self.server.cpu_time(), Instant::now());
        let mut events = Events::with_capacity(WINDOW * 2);
        while latencies.len() < wakes {
            let mut adds = Vec::new();
            while sent < wakes && sent - latencies.len() < WINDOW {
                let number = sent * STEP % self.clients.len();
                adds.extend((self.add)(&name(number)));
                sent_at[number] = Some(Instant::now());
                sent += 1;
            }
            producer.send_raw(&adds);
            self.poll.poll(&mut events, Some(LIMIT)).expect("no events");
            assert!(!events.is_empty(), "nobody was woken within {LIMIT:?}");
            for event in &events {
                let number = event.token().0;
                if !self.read(number) {
                    continue;
                }
                if let Some(at) = sent_at[number].take() {
                    let took: Duration = Instant::now() - at;
                    latencies.push(took.as_secs_f64() * 1e6);
                    self.block(number);
                }
            }
        }
        let time = start.elapsed();
        let cpu = self.server.cpu_time() - cpu;
        let mut figures = figures_of(latencies, time, wakes);
        figures.cpu = cpu.as_secs_f64() * 1e6 / wakes as f64;
        figures
    }

    /// Whether something has come. A reply of this size comes in one piece.
    fn read(&mut self, number: usize) -> bool {
        let mut reply = [0; 1024];
        match self.clients[number].read(&mut reply) {
            Ok(count) => end_of_reply(&reply[..count], 0).is_some(),
            Err(_) => false,
        }
    }
}

fn name(number: usize) -> String {
    format!("queue:{number}")
}

//! A flow of jobs from producers to waiting consumers, driven by one thread.
//!
//! A producer has one ADDJOB under way, sent when the last one was answered, or at its
//! time. A consumer waits in GETJOB, acknowledges what it got, and waits again. The body
//! of a job is its number.

use crate::compare::{figures_of, Figures};
use crate::load::{connection, read_all};
use crate::replies::{end_of_reply, only_job};
use crate::systems::command;
use disque_testing::Server;
use mio::net::TcpStream;
use mio::{Events, Poll};
use std::io::Write;
use std::time::{Duration, Instant};

const CONSUMERS: usize = 10;

/// Longer than any job may take here.
const LIMIT: Duration = Duration::from_secs(60);

/// What flows.
pub struct Course<'a> {
    /// Where jobs are added.
    pub from: &'a Server,
    /// Where consumers wait.
    pub to: &'a Server,
    /// The queue, which nobody else uses.
    pub queue: String,
    /// Copies of each job.
    pub copies: usize,
    /// Connections that add.
    pub producers: usize,
    /// Jobs per second of all producers together; none for as fast as they are answered.
    pub rate: Option<u64>,
    /// How long jobs are added.
    pub time: Duration,
}

/// Lets jobs flow, and drains the queue. The rate is that of the jobs taken while others
/// were added; the latencies are from the sending of ADDJOB until a consumer has the job.
pub fn flow(course: &Course) -> Figures {
    let mut flow = Flow::start(course);
    let start = Instant::now();
    let end = start + course.time;
    while Instant::now() < end {
        flow.add_what_is_due();
        flow.turn(end);
    }
    let taken = flow.latencies.len();
    let time = start.elapsed();
    while flow.latencies.len() < flow.sent.len() {
        flow.turn(Instant::now() + LIMIT);
    }
    figures_of(flow.latencies, time, taken)
}

struct Flow<'a> {
    course: &'a Course<'a>,
    poll: Poll,
    events: Events,
    peers: Vec<Peer>,
    /// When each job was sent.
    sent: Vec<Instant>,
    /// Microseconds.
    latencies: Vec<f64>,
}

struct Peer {
    stream: TcpStream,
    read: Vec<u8>,
    role: Role,
}

#[derive(Clone, Copy)]
enum Role {
    /// May send the next job, not before this time.
    Free(Instant),
    /// Waits for the answer to a job that was to be sent at this time.
    Adds(Instant),
    Waits,
    Acknowledges,
}

impl<'a> Flow<'a> {
    fn start(course: &'a Course<'a>) -> Flow<'a> {
        let poll = Poll::new().expect("no poll");
        let count = course.producers + CONSUMERS;
        let now = Instant::now();
        let open = |number| {
            let (server, role) = if number < course.producers {
                // Apart from each other, so that they do not all add at once.
                let place = number as f64 / course.producers as f64;
                (course.from, Role::Free(now + course.pause().mul_f64(place)))
            } else {
                (course.to, Role::Waits)
            };
            Peer {
                stream: connection(&poll, server.port(), number),
                read: Vec::new(),
                role,
            }
        };
        let peers = (0..count).map(open).collect();
        let mut flow = Flow {
            course,
            poll,
            events: Events::with_capacity(count),
            peers,
            sent: Vec::new(),
            latencies: Vec::new(),
        };
        for peer in &mut flow.peers[course.producers..] {
            peer.wait_for_a_job(&course.queue);
        }
        flow
    }

    fn add_what_is_due(&mut self) {
        let now = Instant::now();
        let course = self.course;
        let copies = course.copies.to_string();
        for peer in &mut self.peers {
            if let Role::Free(due) = peer.role {
                if due <= now {
                    let body = format!("{:0100}", self.sent.len());
                    let words = ["ADDJOB", &course.queue, &body, "5000", "REPLICATE", &copies];
                    peer.send(&words, Role::Adds(due));
                    self.sent.push(now);
                }
            }
        }
    }

    /// Waits for replies, no longer than until `end` or the next job is due.
    fn turn(&mut self, end: Instant) {
        let due = self.peers.iter().filter_map(|peer| match peer.role {
            Role::Free(due) => Some(due),
            _ => None,
        });
        let until = due.chain([end]).min().unwrap_or(end);
        let wait = until.saturating_duration_since(Instant::now());
        self.poll
            .poll(&mut self.events, Some(wait))
            .expect("no events");
        assert!(
            wait < LIMIT / 2 || !self.events.is_empty(),
            "no reply within {wait:?}"
        );
        let ready: Vec<usize> = self.events.iter().map(|event| event.token().0).collect();
        for number in ready {
            self.receive(number);
        }
    }

    fn receive(&mut self, number: usize) {
        let pause = self.course.pause();
        let peer = &mut self.peers[number];
        let Some(reply) = peer.receive() else { return };
        assert!(reply[0] != b'-', "{}", String::from_utf8_lossy(&reply));
        match peer.role {
            Role::Adds(due) => peer.role = Role::Free(due + pause),
            Role::Acknowledges => peer.wait_for_a_job(&self.course.queue),
            Role::Waits => {
                let (id, body) = only_job(&reply);
                let took = self.sent[body.parse::<usize>().expect("a number")].elapsed();
                self.latencies.push(took.as_secs_f64() * 1e6);
                peer.send(&["ACKJOB", &id], Role::Acknowledges);
            }
            Role::Free(_) => panic!("a reply to nothing"),
        }
    }
}

impl Course<'_> {
    /// Between two jobs of one producer.
    fn pause(&self) -> Duration {
        let producers = self.producers as f64;
        (self.rate).map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(producers / rate as f64)
        })
    }
}

impl Peer {
    fn wait_for_a_job(&mut self, queue: &str) {
        self.send(&["GETJOB", "FROM", queue], Role::Waits);
    }

    fn send(&mut self, words: &[&str], role: Role) {
        self.role = role;
        // One command is under way: there is room for it.
        self.stream.write_all(&command(words)).expect("no write");
    }

    /// The reply, when all of it is there.
    fn receive(&mut self) -> Option<Vec<u8>> {
        read_all(&mut self.stream, &mut self.read);
        let end = end_of_reply(&self.read, 0)?;
        Some(self.read.drain(..end).collect())
    }
}

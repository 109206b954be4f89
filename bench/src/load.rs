//! The load: connections of one thread, each with some commands under way.
//!
//! A connection sends so many commands in one write, waits for all their replies, and
//! goes on. What a command took is from that write to its own reply.

use crate::replies::end_of_reply;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Longer than any command may take here.
const LIMIT: Duration = Duration::from_secs(60);

/// How the load is spread.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Connections.
    pub connections: usize,
    /// Commands under way on each.
    pub window: usize,
}

/// What came of a load.
#[derive(Default)]
pub struct Run {
    /// From the first command to the last reply.
    pub time: Duration,
    /// What each command took, in microseconds, in the order of the replies.
    pub latencies: Vec<f64>,
    /// The replies, where they were to be kept.
    pub replies: Vec<Vec<u8>>,
}

struct Connection {
    stream: TcpStream,
    sent_at: Instant,
    /// Replies that are still to come.
    owed: usize,
    out: Vec<u8>,
    read: Vec<u8>,
}

/// Sends the commands, each a piece of `commands`, in turn over the connections.
pub fn load(port: u16, shape: Shape, commands: &[Vec<u8>], keep: bool) -> Run {
    let mut poll = Poll::new().expect("no poll");
    let mut connections = connect(&poll, port, shape.connections);
    let mut batches = commands.chunks(shape.window);
    let mut run = Run {
        latencies: Vec::with_capacity(commands.len()),
        ..Run::default()
    };
    let start = Instant::now();
    for connection in &mut connections {
        connection.start(batches.next());
    }
    let mut events = Events::with_capacity(shape.connections);
    while run.latencies.len() < commands.len() {
        poll.poll(&mut events, Some(LIMIT)).expect("no events");
        assert!(!events.is_empty(), "no reply within {LIMIT:?}");
        for event in &events {
            let connection = &mut connections[event.token().0];
            connection.flush();
            connection.receive(&mut run, keep);
            if connection.owed == 0 {
                connection.start(batches.next());
            }
        }
    }
    run.time = start.elapsed();
    run
}

fn connect(poll: &Poll, port: u16, count: usize) -> Vec<Connection> {
    let open = |number| Connection {
        stream: connection(poll, port, number),
        sent_at: Instant::now(),
        owed: 0,
        out: Vec::new(),
        read: Vec::new(),
    };
    (0..count).map(open).collect()
}

/// A connection to a server of this machine, with its number as the token of its events.
pub fn connection(poll: &Poll, port: u16, number: usize) -> TcpStream {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let stream = std::net::TcpStream::connect(address).expect("no connection");
    stream.set_nodelay(true).expect("no option");
    stream.set_nonblocking(true).expect("no option");
    let mut stream = TcpStream::from_std(stream);
    let interest = Interest::READABLE | Interest::WRITABLE;
    poll.registry()
        .register(&mut stream, Token(number), interest)
        .expect("not registered");
    stream
}

/// Reads what has come.
pub fn read_all(stream: &mut TcpStream, into: &mut Vec<u8>) {
    let mut piece = [0; 64 << 10];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => panic!("the server has closed a connection"),
            Ok(count) => into.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => panic!("the server is gone: {error}"),
        }
    }
}

impl Connection {
    fn start(&mut self, batch: Option<&[Vec<u8>]>) {
        let Some(batch) = batch else { return };
        self.owed = batch.len();
        self.out.extend(batch.iter().flatten());
        self.sent_at = Instant::now();
        self.flush();
    }

    fn flush(&mut self) {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("the server is gone: {error}"),
            }
        }
    }

    fn receive(&mut self, run: &mut Run, keep: bool) {
        read_all(&mut self.stream, &mut self.read);
        let took = self.sent_at.elapsed().as_secs_f64() * 1e6;
        let mut start = 0;
        while let Some(end) = end_of_reply(&self.read, start) {
            let reply = &self.read[start..end];
            assert!(reply[0] != b'-', "{}", String::from_utf8_lossy(reply));
            if keep {
                run.replies.push(reply.to_vec());
            }
            run.latencies.push(took);
            self.owed -= 1;
            start = end;
        }
        self.read.drain(..start);
    }
}

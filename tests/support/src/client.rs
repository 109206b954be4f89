//! A connection to one of the test's own servers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::poll::patient;
use crate::reply::Reply;
use crate::resp::{self, printable};

/// How long an answer may take that is due at once: far more than it needs, so
/// that a busy machine fails no test, far less than a hang.
const AT_ONCE: Duration = Duration::from_secs(20);

/// How long a connection may take to come to be, where the other side may be cut off.
const CONNECT: Duration = Duration::from_secs(5);

/// Speaks RESP2 until [`Client::hello3`]. Only a [`crate::Server`] makes one.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    last_command: String,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, CONNECT)?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream,
            buffer: Vec::new(),
            start: 0,
            last_command: String::new(),
        })
    }

    /// Sends one command and returns its reply.
    #[track_caller]
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Reply {
        self.send(args);
        self.reply()
    }

    /// [`Client::call`] for a command whose words hold no blanks.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> Reply {
        self.call(&words(command))
    }

    /// Sends all commands in one write, then reads one reply for each.
    #[track_caller]
    pub fn pipeline<A: AsRef<str>>(&mut self, commands: &[A]) -> Vec<Reply> {
        let mut bytes = Vec::new();
        for command in commands {
            bytes.extend(resp::encode(&words(command.as_ref())));
        }
        self.send_raw(&bytes);
        commands
            .iter()
            .map(|command| {
                self.last_command = command.as_ref().to_string();
                self.reply()
            })
            .collect()
    }

    /// Sends a command whose reply is read later, or never.
    #[track_caller]
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        self.try_send(args)
            .unwrap_or_else(|e| panic!("cannot send {}: {e}", self.last_command));
    }

    /// [`Client::send`] that reports a closed or broken connection.
    pub fn try_send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<()> {
        let shown: Vec<String> = args.iter().map(|a| printable(a.as_ref())).collect();
        self.last_command = shown.join(" ");
        self.stream.write_all(&resp::encode(args))
    }

    /// [`Client::send`] for a command whose words hold no blanks.
    #[track_caller]
    pub fn start(&mut self, command: &str) {
        self.send(&words(command));
    }

    #[track_caller]
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .unwrap_or_else(|e| panic!("cannot send {}: {e}", self.last_command));
    }

    /// The next reply, which must be on its way.
    #[track_caller]
    pub fn reply(&mut self) -> Reply {
        let limit = patient(AT_ONCE);
        match self.read(limit) {
            Some(reply) => reply,
            None => panic!("no reply to {} within {limit:?}", self.last_command),
        }
    }

    /// The next reply, or `None` when none is complete within `limit`.
    #[track_caller]
    pub fn read(&mut self, limit: Duration) -> Option<Reply> {
        self.try_read(limit)
            .unwrap_or_else(|e| panic!("waiting for the reply to {}: {e}", self.last_command))
    }

    /// [`Client::read`] that reports a closed or broken connection.
    pub fn try_read(&mut self, limit: Duration) -> io::Result<Option<Reply>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(reply) = self.take_reply() {
                return Ok(Some(reply));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut chunk = [0; 64 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn take_reply(&mut self) -> Option<Reply> {
        let bytes = &self.buffer[self.start..];
        let (value, used) = resp::parse(bytes).unwrap_or_else(|e| {
            panic!(
                "malformed reply to {}: {} at byte {} of {}",
                self.last_command,
                e.why,
                e.at,
                printable(bytes)
            )
        })?;
        let raw = bytes[..used].to_vec();
        self.start += used;
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
        Some(Reply::new(self.last_command.clone(), value, raw))
    }

    /// Fails if anything arrives within `time`: for the command that must go on
    /// blocking.
    #[track_caller]
    pub fn expect_silence(&mut self, time: Duration) {
        if let Some(reply) = self.read(time) {
            panic!("{reply:?} though nothing was due within {time:?}");
        }
    }

    /// Fails unless the server closes the connection within `limit`, after
    /// whatever replies.
    #[track_caller]
    pub fn expect_closed(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            match self.try_read(deadline.saturating_duration_since(Instant::now())) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("still connected after {limit:?}"),
                Err(_) => return,
            }
        }
    }

    /// Switches the connection to RESP3.
    #[track_caller]
    pub fn hello3(&mut self) -> Reply {
        self.run("HELLO 3")
    }

    /// Redis' number for this connection.
    #[track_caller]
    pub fn client_id(&mut self) -> i64 {
        self.run("CLIENT ID").expect_int()
    }
}

fn words(command: &str) -> Vec<&str> {
    command.split_ascii_whitespace().collect()
}

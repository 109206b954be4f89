//! One link and its socket.

use crate::counters::Counters;
use crate::event::DownReason;
use crate::link::Link;
use crate::message::Target;
use crate::settings::{Address, Settings};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// Bytes read from a socket, and about those written to it, before others have
/// their turn.
const BYTES_PER_TURN: usize = 256 << 10;

/// Pieces given to one write.
const PIECES: usize = 32;

/// Where a slot's socket stands.
struct Socket {
    stream: TcpStream,
    connected: bool,
    readable: bool,
    writable: bool,
    /// The peer will send no more: read to the end, whatever the last read said.
    read_closed: bool,
}

/// A link with all that the thread needs to drive it.
pub(crate) struct Slot {
    pub(crate) target: Target,
    pub(crate) link: Link,
    pub(crate) address: Address,
    pub(crate) counters: Arc<Counters>,
    /// Grows with each attempt to connect: a lookup that comes late is known.
    pub(crate) attempt: u64,
    /// What is waited for is the lookup of the name.
    pub(crate) looks_up: bool,
    /// Which of several addresses comes next.
    next_address: usize,
    socket: Option<Socket>,
    /// It is in the list of those to be served.
    pub(crate) listed: bool,
}

/// Whether a turn left something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing until the next event.
    Idle,
    /// It used up its share.
    More,
}

impl Slot {
    pub(crate) fn new(
        target: Target,
        address: Address,
        counters: Arc<Counters>,
        link: Link,
    ) -> Slot {
        Slot {
            target,
            link,
            address,
            counters,
            attempt: 0,
            looks_up: false,
            next_address: 0,
            socket: None,
            listed: false,
        }
    }

    /// Begins to connect to one of the addresses of the peer; to another one
    /// after each failure.
    pub(crate) fn connect(
        &mut self,
        registry: &Registry,
        token: Token,
        addresses: &[SocketAddr],
        now: Instant,
    ) {
        self.close(registry);
        let address = addresses[self.next_address % addresses.len()];
        match start(registry, token, address) {
            Ok(stream) => {
                self.socket = Some(Socket {
                    stream,
                    connected: false,
                    readable: false,
                    writable: false,
                    read_closed: false,
                });
            }
            Err(error) => self.connect_failed(&error, now),
        }
    }

    fn connect_failed(&mut self, error: &io::Error, now: Instant) {
        let reason = DownReason::Connect(error.to_string().into());
        self.link.handle_closed(now, reason);
    }

    /// Gives the socket up. It is shut down, not just closed: a child forked by
    /// the process has it too, and would keep it open.
    pub(crate) fn close(&mut self, registry: &Registry) {
        if let Some(mut socket) = self.socket.take() {
            if !socket.connected {
                self.next_address = self.next_address.wrapping_add(1);
            }
            let _ = registry.deregister(&mut socket.stream);
            let _ = socket.stream.shutdown(Shutdown::Both);
        }
    }

    /// What the poll said about the socket.
    pub(crate) fn notice(&mut self, event: &mio::event::Event) {
        if let Some(socket) = &mut self.socket {
            socket.readable |= event.is_readable() || event.is_error();
            socket.writable |= event.is_writable() || event.is_error();
            socket.read_closed |= event.is_read_closed() || event.is_error();
        }
    }

    /// Reads what has come, up to this slot's share.
    pub(crate) fn receive(&mut self, now: Instant, scratch: &mut [u8], held_back: bool) -> Rest {
        self.finish_connecting(now);
        let Some(socket) = self.socket.as_mut().filter(|s| s.connected) else {
            return Rest::Idle;
        };
        if held_back {
            self.link.handle_held_back(now);
            return Rest::Idle;
        }
        let mut share = BYTES_PER_TURN;
        while socket.readable {
            if share == 0 {
                return Rest::More;
            }
            let room = scratch.len().min(share);
            match socket.stream.read(&mut scratch[..room]) {
                Ok(0) => {
                    socket.readable = false;
                    self.link.handle_closed(now, DownReason::Closed);
                }
                Ok(n) => {
                    share -= n;
                    socket.readable = n == room || socket.read_closed;
                    self.link.handle_input(now, &scratch[..n]);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => socket.readable = false,
                    ErrorKind::Interrupted => {}
                    _ => {
                        socket.readable = false;
                        self.link.handle_closed(now, broken(&error));
                    }
                },
            }
        }
        Rest::Idle
    }

    /// Writes what the link has, as long as the socket takes it, up to about
    /// this slot's share.
    pub(crate) fn transmit(&mut self, now: Instant) -> Rest {
        let Some(socket) = self.socket.as_mut().filter(|s| s.connected) else {
            return Rest::Idle;
        };
        let mut written = 0;
        while socket.writable {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let filled = self.link.poll_output(now, &mut slices);
            if filled == 0 {
                return Rest::Idle;
            }
            if written >= BYTES_PER_TURN {
                return Rest::More;
            }
            match socket.stream.write_vectored(&slices[..filled]) {
                Ok(n) => {
                    written += n;
                    self.link.handle_written(now, n);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => socket.writable = false,
                    ErrorKind::Interrupted => {}
                    _ => return self.write_failed(&error, now),
                },
            }
        }
        Rest::Idle
    }

    /// A server that turns a connection away says why and closes it; what it
    /// said can be read after a write has failed.
    fn write_failed(&mut self, error: &io::Error, now: Instant) -> Rest {
        let mut last_words = [0; 1024];
        if let Some(socket) = &mut self.socket {
            socket.writable = false;
            socket.readable = false;
            if let Ok(n) = socket.stream.read(&mut last_words) {
                self.link.handle_input(now, &last_words[..n]);
            }
        }
        self.link.handle_closed(now, broken(error));
        Rest::Idle
    }

    fn finish_connecting(&mut self, now: Instant) {
        let Some(socket) = self.socket.as_mut() else {
            return;
        };
        if socket.connected || !socket.writable {
            return;
        }
        if let Ok(Some(error)) = socket.stream.take_error() {
            return self.connect_failed(&error, now);
        }
        match socket.stream.peer_addr() {
            Ok(_) => {
                socket.connected = true;
                let _ = socket.stream.set_nodelay(true);
                self.link.handle_connected(now);
            }
            // Not yet: the poll tells again.
            Err(error) if error.kind() == ErrorKind::NotConnected => socket.writable = false,
            Err(error) => self.connect_failed(&error, now),
        }
    }

    /// Starts over after a defect: nothing of the link is trusted.
    pub(crate) fn replace_link(&mut self, settings: Arc<Settings>, seed: u64, at: Instant) {
        self.link = Link::new(settings, self.counters.clone(), seed, at);
    }
}

fn start(registry: &Registry, token: Token, address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(stream)
}

fn broken(error: &io::Error) -> DownReason {
    DownReason::Broken(error.to_string().into())
}

//! A peer that speaks just enough of the protocol: one thread per connection,
//! blocking.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// How the peer behaves, from the next command on.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// Answers each frame with its own header.
    Echo,
    /// Answers each frame with these bytes.
    Reply(Vec<u8>),
    /// Reads nothing, like a stopped process.
    Stopped,
    /// Reads, answers nothing.
    Silent,
    /// Closes at the next command.
    Closing,
}

struct State {
    mode: Mode,
    /// Frames but handshakes and PINGs: all arguments after the command.
    frames: Vec<Vec<Vec<u8>>>,
    keep_frames: bool,
    connections: Vec<TcpStream>,
    accepted: usize,
    /// Connections that ended.
    ended: usize,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

pub struct Fake {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Fake {
    pub fn new() -> Fake {
        Fake::at("127.0.0.1:0".parse().unwrap())
    }

    pub fn at(address: SocketAddr) -> Fake {
        let listener = TcpListener::bind(address).expect("cannot listen");
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                mode: Mode::Echo,
                frames: Vec::new(),
                keep_frames: true,
                connections: Vec::new(),
                accepted: 0,
                ended: 0,
            }),
            changed: Condvar::new(),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                accepting.welcome(stream);
            }
        });
        Fake { shared, address }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn set_mode(&self, mode: Mode) {
        self.shared.state.lock().unwrap().mode = mode;
        self.shared.changed.notify_all();
    }

    /// Does not keep what comes: for measurements.
    pub fn forget_frames(&self) {
        self.shared.state.lock().unwrap().keep_frames = false;
    }

    /// Breaks all connections.
    pub fn hang_up(&self) {
        let mut state = self.shared.state.lock().unwrap();
        for stream in state.connections.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn accepted(&self) -> usize {
        self.shared.state.lock().unwrap().accepted
    }

    pub fn ended(&self) -> usize {
        self.shared.state.lock().unwrap().ended
    }

    /// The frames that came so far: their arguments.
    pub fn frames(&self) -> Vec<Vec<Vec<u8>>> {
        self.shared.state.lock().unwrap().frames.clone()
    }
}

impl Shared {
    fn welcome(self: &Arc<Shared>, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut state = self.state.lock().unwrap();
        state.accepted += 1;
        state.connections.push(stream.try_clone().unwrap());
        drop(state);
        let shared = self.clone();
        thread::spawn(move || {
            let _ = shared.converse(stream);
            shared.state.lock().unwrap().ended += 1;
        });
    }

    fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(64 << 10, stream.try_clone()?);
        loop {
            self.wait_while_stopped();
            let command = read_command(&mut reader)?;
            let reply = self.react(&command).ok_or(ErrorKind::ConnectionAborted);
            match reply {
                Ok(reply) => stream.write_all(&reply)?,
                Err(kind) => {
                    stream.shutdown(Shutdown::Both)?;
                    return Err(kind.into());
                }
            }
        }
    }

    fn wait_while_stopped(&self) {
        let state = self.state.lock().unwrap();
        let stopped = |state: &mut State| state.mode == Mode::Stopped;
        drop(self.changed.wait_while(state, stopped).unwrap());
    }

    fn react(&self, command: &[Vec<u8>]) -> Option<Vec<u8>> {
        let mut state = self.state.lock().unwrap();
        if command[0] != b"DISQUE.BUS" {
            return Some(b"+OK\r\n".to_vec());
        }
        let header = &command[1];
        if state.keep_frames && header.len() > 1 && !header.starts_with(b"hello") {
            state.frames.push(command[1..].to_vec());
        }
        match &state.mode {
            Mode::Reply(bytes) => Some(bytes.clone()),
            Mode::Silent => Some(Vec::new()),
            Mode::Closing => None,
            Mode::Echo | Mode::Stopped => {
                let mut reply = format!("${}\r\n", header.len()).into_bytes();
                reply.extend_from_slice(header);
                reply.extend_from_slice(b"\r\n");
                Some(reply)
            }
        }
    }
}

fn read_command(reader: &mut impl BufRead) -> io::Result<Vec<Vec<u8>>> {
    let count = read_number(reader, b'*')?;
    (0..count).map(|_| read_bulk(reader)).collect()
}

fn read_bulk(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; read_number(reader, b'$')? + 2];
    reader.read_exact(&mut bytes)?;
    bytes.truncate(bytes.len() - 2);
    Ok(bytes)
}

fn read_number(reader: &mut impl BufRead, kind: u8) -> io::Result<usize> {
    let mut line = Vec::new();
    reader.by_ref().take(40).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    assert_eq!(line[0], kind, "{}", line.escape_ascii());
    let text = std::str::from_utf8(&line[1..line.len() - 2]).unwrap();
    Ok(text.parse().unwrap())
}

//! What stands between the nodes: a proxy before each of them, whose port it announces
//! as its own. It knows who speaks by the name that each connection of the bus gives
//! itself, so that each pair of nodes, and each direction, can be treated by itself.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often is looked whether things have changed.
const LOOK: Duration = Duration::from_millis(10);
/// How much is read at a time.
const PIECE: usize = 64 << 10;
/// A speaker that has not given its name.
const NOBODY: usize = usize::MAX;

/// What is done with the bytes from one node to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    #[default]
    Pass,
    /// Nothing passes; nobody is told.
    Hold,
    /// Each piece comes later, and no more than so many bytes a second.
    Slow { delay_ms: u64, bytes_per_s: u64 },
    /// Half of the next piece passes, then the connection breaks.
    Break,
}

/// The rules of a run, and what they have done.
#[derive(Default)]
pub struct Between {
    rules: Mutex<BTreeMap<(usize, usize), Rule>>,
    /// The nodes by the names of their connections.
    names: Mutex<BTreeMap<Vec<u8>, usize>>,
    /// Pieces that were held, slowed or cut in two.
    hits: AtomicU64,
    over: AtomicBool,
}

impl Between {
    fn rule(&self, from: usize, to: usize) -> Rule {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.get(&(from, to)).copied().unwrap_or_default()
    }

    /// How many pieces were not just passed on so far.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// From now on.
    pub fn set(&self, from: usize, to: usize, rule: Rule) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.insert((from, to), rule);
    }

    /// All is well.
    pub fn clear(&self) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.clear();
    }

    /// A node has this id.
    pub fn introduce(&self, id: &str, node: usize) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(format!("disque:{}", &id[..8]).into_bytes(), node);
    }

    /// Who speaks, by what it says first.
    fn speaker(&self, said: &[u8]) -> Option<usize> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let says = |name: &[u8]| said.windows(name.len()).any(|part| part == name);
        names
            .iter()
            .find(|(name, _)| says(name))
            .map(|(_, node)| *node)
    }
}

/// The proxy before one node; it ends when it is dropped.
pub struct Gate {
    pub port: u16,
    between: Arc<Between>,
}

impl Gate {
    pub fn new(node: usize, target: u16, between: &Arc<Between>) -> Gate {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("no port for a proxy");
        let port = listener.local_addr().expect("an address").port();
        listener.set_nonblocking(true).expect("a listener");
        let shared = between.clone();
        thread::spawn(move || {
            while !shared.over.load(Ordering::Relaxed) {
                match listener.accept() {
                    // Where nobody listens the connection just ends.
                    Ok((client, _)) => drop(connect(client, target, node, &shared)),
                    Err(_) => thread::sleep(LOOK),
                }
            }
        });
        Gate {
            port,
            between: between.clone(),
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.between.over.store(true, Ordering::Relaxed);
    }
}

fn connect(client: TcpStream, target: u16, node: usize, between: &Arc<Between>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let server = TcpStream::connect(("127.0.0.1", target))?;
    let speaker = Arc::new(AtomicUsize::new(NOBODY));
    let there = Way {
        from: client.try_clone()?,
        to: server.try_clone()?,
        between: between.clone(),
        speaker: speaker.clone(),
        node,
        is_there: true,
    };
    let back = Way {
        from: server,
        to: client,
        between: between.clone(),
        speaker,
        node,
        is_there: false,
    };
    thread::spawn(move || there.pass());
    thread::spawn(move || back.pass());
    Ok(())
}

/// One direction of a connection.
struct Way {
    from: TcpStream,
    to: TcpStream,
    between: Arc<Between>,
    speaker: Arc<AtomicUsize>,
    /// The node that was connected to.
    node: usize,
    is_there: bool,
}

impl Way {
    fn pass(mut self) {
        let _ = self.to.set_nodelay(true);
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = self.from.read(&mut piece) {
            if self.pass_piece(&piece[..length]).is_err() {
                break;
            }
        }
        let _ = self.to.shutdown(Shutdown::Both);
        let _ = self.from.shutdown(Shutdown::Both);
    }

    fn rule(&self) -> Rule {
        match (self.speaker.load(Ordering::Relaxed), self.is_there) {
            (NOBODY, _) => Rule::Pass,
            (speaker, true) => self.between.rule(speaker, self.node),
            (speaker, false) => self.between.rule(self.node, speaker),
        }
    }

    fn pass_piece(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.is_there && self.speaker.load(Ordering::Relaxed) == NOBODY {
            if let Some(speaker) = self.between.speaker(piece) {
                self.speaker.store(speaker, Ordering::Relaxed);
            }
        }
        let rule = self.rule();
        if rule != Rule::Pass {
            self.between.hits.fetch_add(1, Ordering::Relaxed);
        }
        match rule {
            Rule::Pass => self.to.write_all(piece),
            Rule::Hold => {
                while self.rule() == Rule::Hold && !self.between.over.load(Ordering::Relaxed) {
                    thread::sleep(LOOK);
                }
                self.to.write_all(piece)
            }
            Rule::Slow {
                delay_ms,
                bytes_per_s,
            } => {
                let ms = delay_ms + piece.len() as u64 * 1_000 / bytes_per_s;
                thread::sleep(Duration::from_millis(ms));
                self.to.write_all(piece)
            }
            Rule::Break => {
                self.to.write_all(&piece[..piece.len() / 2])?;
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
    }
}

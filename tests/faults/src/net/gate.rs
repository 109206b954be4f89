//! Proxies: one before each node for the others, whose port it announces as its own, and
//! one for clients. The first knows who speaks by the name that each connection of the
//! bus gives itself, so that each pair, and each direction, can be treated by itself.

use super::{Pair, Party};
use disque_testing::Door;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// How often is looked whether things have changed.
const LOOK: Duration = Duration::from_millis(10);
/// How much is read at a time.
const PIECE: usize = 64 << 10;

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
    rules: Mutex<BTreeMap<Pair, Rule>>,
    /// The nodes by the names of their connections.
    names: Mutex<BTreeMap<Vec<u8>, usize>>,
    /// Pieces that were held, slowed or cut in two.
    hits: AtomicU64,
    over: AtomicBool,
}

impl Between {
    fn rule(&self, pair: Pair) -> Rule {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.get(&pair).copied().unwrap_or_default()
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
    fn speaker(&self, said: &[u8]) -> Option<Party> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let says = |name: &[u8]| said.windows(name.len()).any(|part| part == name);
        names
            .iter()
            .find(|(name, _)| says(name))
            .map(|(_, node)| Party::Node(*node))
    }
}

/// The proxies of a run.
pub struct Gates {
    pub between: Arc<Between>,
    /// For each node the port that others come by, and the one for clients.
    ports: Vec<(u16, u16)>,
    /// What had been treated when something was treated last.
    before: u64,
}

impl Gates {
    /// Before servers that listen there.
    pub fn new(servers: &[SocketAddr]) -> Gates {
        let between = Arc::default();
        let ports = servers.iter().enumerate().map(|(node, server)| {
            let gate = |speaker| open(node, *server, speaker, &between);
            (gate(None), gate(Some(Party::Clients)))
        });
        Gates {
            ports: ports.collect(),
            between,
            before: 0,
        }
    }

    /// Where other nodes come to a node.
    pub fn port(&self, node: usize) -> u16 {
        self.ports[node].0
    }

    /// Where clients come to a node.
    pub fn door(&self, node: usize) -> Door {
        Door::through(self.ports[node].1)
    }

    /// From now on.
    pub fn treat(&mut self, pairs: &[Pair], rule: Rule) {
        self.before = self.hits();
        let rules = self.between.rules.lock();
        let mut rules = rules.unwrap_or_else(PoisonError::into_inner);
        rules.extend(pairs.iter().map(|pair| (*pair, rule)));
    }

    /// Whether bytes were treated since.
    pub fn has_treated(&self) -> Result<(), String> {
        match self.hits() > self.before {
            true => Ok(()),
            false => Err("nothing came by that was to be kept from passing".into()),
        }
    }

    fn hits(&self) -> u64 {
        self.between.hits.load(Ordering::Relaxed)
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        self.between.over.store(true, Ordering::Relaxed);
    }
}

/// Opens a gate before a server, for one speaker or for whoever gives a name.
fn open(node: usize, server: SocketAddr, speaker: Option<Party>, between: &Arc<Between>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("no port for a proxy");
    let port = listener.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("a listener");
    let between = between.clone();
    thread::spawn(move || {
        while !between.over.load(Ordering::Relaxed) {
            match listener.accept() {
                // Where nobody listens the connection just ends.
                Ok((client, _)) => drop(connect(client, server, node, speaker, &between)),
                Err(_) => thread::sleep(LOOK),
            }
        }
    });
    port
}

fn connect(
    client: TcpStream,
    server: SocketAddr,
    node: usize,
    named: Option<Party>,
    between: &Arc<Between>,
) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let server = TcpStream::connect(server)?;
    let speaker = Arc::new(named.map_or_else(OnceLock::new, OnceLock::from));
    let there = Way {
        from: client.try_clone()?,
        to: server.try_clone()?,
        between: between.clone(),
        speaker: speaker.clone(),
        node: Party::Node(node),
        is_there: true,
    };
    let back = Way {
        from: server,
        to: client,
        is_there: false,
        between: between.clone(),
        speaker,
        node: Party::Node(node),
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
    /// Who made the connection, once it has said so.
    speaker: Arc<OnceLock<Party>>,
    /// The node that was connected to.
    node: Party,
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
        match self.speaker.get() {
            None => Rule::Pass,
            Some(&speaker) if self.is_there => self.between.rule((speaker, self.node)),
            Some(&speaker) => self.between.rule((self.node, speaker)),
        }
    }

    fn pass_piece(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.is_there && self.speaker.get().is_none() {
            if let Some(speaker) = self.between.speaker(piece) {
                self.speaker.get_or_init(|| speaker);
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

//! The owner's side of the thread.

use crate::counters::{Counters, PeerStats};
use crate::event::Event;
use crate::mailbox::{Command, Delivery, Mailbox};
use crate::message::{Greeting, Message, PeerKey, ProbeKey, Target};
use crate::settings::{Address, Settings};
use crate::thread::Worker;
use crossbeam_channel::{bounded, unbounded, Receiver};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io, thread};

/// What the bus asks of its owner. All of it is called on threads of the bus,
/// and must neither block nor wait for the thread that uses the [`Bus`].
pub trait Owner: Send + Sync + 'static {
    /// How to introduce this node on a new connection. The number must be larger
    /// than those given before.
    fn greet(&self, target: Target) -> Greeting;

    /// There are events, see [`Bus::poll_event`]. Called at most once per turn
    /// of the thread; a wake-up that is not yet heard may swallow it.
    fn wake(&self);

    /// A line for the log: a defect of the bus.
    fn log(&self, line: &str);

    /// Called first in the bus's thread: the place to block signals in it.
    fn thread_started(&self) {}
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no such peer.
    UnknownPeer,
    /// [`Settings::queue_limit`] is reached; counted as dropped.
    QueueFull,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::UnknownPeer => "no such peer",
            SendError::QueueFull => "the peer's queue is full",
        })
    }
}

impl std::error::Error for SendError {}

struct Peer {
    slot: usize,
    address: Address,
    counters: Arc<Counters>,
}

/// The thread that keeps the links, as its owner sees it. Dropping it ends the
/// thread and all connections.
pub struct Bus {
    mailbox: Mailbox,
    events: Receiver<Delivery>,
    ended: Receiver<()>,
    peers: HashMap<PeerKey, Peer>,
    probes: HashMap<ProbeKey, usize>,
    next_slot: usize,
    queue_limit: usize,
    unflushed: bool,
}

/// How long an owner waits for the thread to close its connections.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

impl Bus {
    /// Starts the thread. The seed spreads the pauses between attempts.
    pub fn start(settings: Settings, seed: u64, owner: Arc<dyn Owner>) -> io::Result<Bus> {
        let (deliveries, events) = unbounded();
        let (alive, ended) = bounded(0);
        let queue_limit = settings.queue_limit;
        let (worker, mailbox) = Worker::new(settings, seed, owner, deliveries)?;
        thread::Builder::new()
            .name("disque-bus".into())
            .spawn(move || {
                // Closed when the thread ends, on whichever way.
                let _alive = alive;
                worker.run();
            })?;
        Ok(Bus {
            mailbox,
            events,
            ended,
            peers: HashMap::new(),
            probes: HashMap::new(),
            next_slot: 0,
            queue_limit,
            unflushed: false,
        })
    }

    /// Keeps a connection to a peer from now on. For a known peer: a changed
    /// address ends its connection and makes a new one.
    pub fn set_peer(&mut self, key: PeerKey, address: Address) {
        match self.peers.get_mut(&key) {
            Some(peer) if peer.address == address => {}
            Some(peer) => {
                peer.address = address.clone();
                let slot = peer.slot;
                self.command(Command::Move { slot, address });
            }
            None => {
                let counters = Counters::new();
                let slot = self.open(Target::Peer(key), address.clone(), counters.clone());
                let peer = Peer {
                    slot,
                    address,
                    counters,
                };
                self.peers.insert(key, peer);
            }
        }
    }

    /// Ends the connection to a peer and forgets it. No event of it comes after.
    pub fn remove_peer(&mut self, key: PeerKey) {
        if let Some(peer) = self.peers.remove(&key) {
            self.command(Command::Close { slot: peer.slot });
        }
    }

    /// Gives a message to the thread, for the connection that [`Event::Up`] named
    /// last. It leaves at the next [`Bus::flush`] or a little earlier: all that
    /// is sent before it shares a frame.
    pub fn send(
        &mut self,
        key: PeerKey,
        connection: u64,
        message: Message,
    ) -> Result<(), SendError> {
        let peer = self.peers.get(&key).ok_or(SendError::UnknownPeer)?;
        let charge = peer.counters.admit(message.size(), self.queue_limit);
        self.unflushed = true;
        self.mailbox.put(Command::Send {
            slot: peer.slot,
            connection,
            message,
            charge: charge.ok_or(SendError::QueueFull)?,
        });
        Ok(())
    }

    /// Wakes the thread for what was sent. Costs nothing if nothing was; else at
    /// most one system call.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.unflushed) {
            self.mailbox.ring();
        }
    }

    /// Asks whether a node listens at an address: connects, shakes hands, tells
    /// by [`Event::Probed`], and closes. A probe of the same key that still
    /// runs is given up.
    pub fn probe(&mut self, key: ProbeKey, address: Address) {
        if let Some(slot) = self.probes.remove(&key) {
            self.command(Command::Close { slot });
        }
        let slot = self.open(Target::Probe(key), address, Counters::new());
        self.probes.insert(key, slot);
    }

    /// Ends the connection to a peer, if there is one, and makes a new one at
    /// once: the greeting has changed.
    pub fn reconnect(&mut self, key: PeerKey) {
        if let Some(peer) = self.peers.get(&key) {
            let slot = peer.slot;
            self.command(Command::Reconnect { slot });
        }
    }

    /// Ends a pause between two attempts: the peer was heard of.
    pub fn hurry(&mut self, key: PeerKey) {
        if let Some(peer) = self.peers.get(&key) {
            let slot = peer.slot;
            self.command(Command::Hurry { slot });
        }
    }

    /// Changes the settings of all links.
    pub fn set_settings(&mut self, settings: Settings) {
        self.queue_limit = settings.queue_limit;
        self.command(Command::Settings(Arc::new(settings)));
    }

    /// The next event. Take all of them after each [`Owner::wake`].
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Ok(delivery) = self.events.try_recv() {
            if let Some(event) = self.accept(delivery) {
                return Some(event);
            }
        }
        None
    }

    /// The counters of a peer.
    pub fn stats(&self, key: PeerKey) -> Option<PeerStats> {
        self.peers.get(&key).map(|peer| peer.counters.read())
    }

    /// Shuts all connections down and ends the thread. Waits for it, but not for
    /// long.
    pub fn shutdown(self) {
        drop(self);
    }

    /// Drops what comes from a peer or probe that was given up.
    fn accept(&mut self, delivery: Delivery) -> Option<Event> {
        let Delivery {
            slot,
            target,
            event,
            unread,
        } = delivery;
        if unread.release() {
            self.command(Command::Resume { slot });
        }
        let current = match target {
            Target::Peer(key) => self.peers.get(&key).map(|peer| peer.slot),
            Target::Probe(key) => self.probes.get(&key).copied(),
        };
        if current != Some(slot) {
            return None;
        }
        if let Target::Probe(key) = target {
            self.probes.remove(&key);
        }
        Some(event)
    }

    fn open(&mut self, target: Target, address: Address, counters: Arc<Counters>) -> usize {
        self.next_slot += 1;
        let slot = self.next_slot;
        self.command(Command::Open {
            slot,
            target,
            address,
            counters,
        });
        slot
    }

    fn command(&mut self, command: Command) {
        self.mailbox.put(command);
        self.mailbox.ring();
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.command(Command::Shutdown);
        // The thread sends nothing here: it hangs up when it ends.
        let _ = self.ended.recv_timeout(SHUTDOWN_LIMIT);
    }
}

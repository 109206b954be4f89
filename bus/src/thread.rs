//! The thread: one poll loop around all links. It decides nothing; see
//! [`crate::link`].
//!
//! A turn waits, notes which sockets are ready, takes commands of the owner, and
//! serves the links that something happened to. Each has a bounded share of a
//! turn; who needs more comes again in the next one, after the others.

use crate::counters::Counters;
use crate::event::{DownReason, Event};
use crate::handle::Owner;
use crate::link::Link;
use crate::mailbox::{Command, Delivery, Mailbox};
use crate::message::Target;
use crate::resolver::{Found, Resolver};
use crate::settings::{Address, Settings};
use crate::slot::{Rest, Slot};
use crossbeam_channel::{Receiver, Sender};
use mio::{Events, Poll, Token, Waker};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::any::Any;
use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

/// The token of the waker. Slots count from 1.
const WAKER: Token = Token(0);

/// Commands taken before the sockets have their turn.
const COMMANDS_PER_TURN: usize = 8192;

/// Bytes read at once.
const SCRATCH: usize = 64 << 10;

/// Sockets noticed in one turn; more come in the next.
const EVENTS_PER_TURN: usize = 512;

/// How long links rest after a defect was caught.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// Memory that an event takes beside its bytes, about.
const EVENT_COST: usize = 128;

/// What the thread works with.
pub(crate) struct Worker {
    pub(crate) poll: Poll,
    pub(crate) owner: Arc<dyn Owner>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) resolver: Resolver,
    pub(crate) mailbox: Mailbox,
    pub(crate) slots: HashMap<usize, Slot>,
    commands: Receiver<Command>,
    deliveries: Sender<Delivery>,
    random: ChaCha8Rng,
    /// Slots to serve in this turn.
    listed: Vec<usize>,
    scratch: Vec<u8>,
    /// Events were delivered since the owner was woken.
    delivered: bool,
}

#[derive(PartialEq, Eq)]
enum Then {
    Next,
    End,
}

impl Worker {
    pub(crate) fn new(
        settings: Settings,
        seed: u64,
        owner: Arc<dyn Owner>,
        deliveries: Sender<Delivery>,
    ) -> io::Result<(Worker, Mailbox)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (mailbox, commands) = Mailbox::new(waker);
        let worker = Worker {
            poll,
            owner,
            settings: Arc::new(settings),
            resolver: Resolver::default(),
            mailbox: mailbox.clone(),
            slots: HashMap::new(),
            commands,
            deliveries,
            random: ChaCha8Rng::seed_from_u64(seed),
            listed: Vec::new(),
            scratch: vec![0; SCRATCH],
            delivered: false,
        };
        Ok((worker, mailbox))
    }

    /// Runs until the owner ends it. A panic costs all connections, no more.
    pub(crate) fn run(mut self) {
        let mut ready = Events::with_capacity(EVENTS_PER_TURN);
        let owner = self.owner.clone();
        let _ = catch_unwind(AssertUnwindSafe(|| owner.thread_started()));
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.turn(&mut ready))) {
                Ok(Then::Next) => {}
                Ok(Then::End) => break,
                Err(panic) => {
                    // If even that fails, the owner itself is at fault.
                    if catch_unwind(AssertUnwindSafe(|| self.recover(&*panic))).is_err() {
                        break;
                    }
                }
            }
        }
        for slot in self.slots.values_mut() {
            slot.close(self.poll.registry());
        }
    }

    fn turn(&mut self, ready: &mut Events) -> Then {
        let timeout = self.time_to_wait(Instant::now());
        if let Err(error) = self.poll.poll(ready, timeout) {
            if error.kind() != io::ErrorKind::Interrupted {
                self.owner.log(&format!("the bus cannot wait: {error}"));
                thread::sleep(Duration::from_millis(100));
            }
        }
        let now = Instant::now();
        for event in ready.iter().filter(|event| event.token() != WAKER) {
            let Token(id) = event.token();
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.notice(event);
                self.list(id);
            }
        }
        if self.take_commands(now) == Then::End {
            return Then::End;
        }
        self.list_due(now);
        for id in std::mem::take(&mut self.listed) {
            self.serve(id, now);
        }
        if std::mem::take(&mut self.delivered) {
            self.owner.wake();
        }
        Then::Next
    }

    fn time_to_wait(&self, now: Instant) -> Option<Duration> {
        if !self.listed.is_empty() || !self.commands.is_empty() {
            return Some(Duration::ZERO);
        }
        let timeouts = self.slots.values().filter_map(|s| s.link.poll_timeout());
        timeouts.min().map(|at| at.saturating_duration_since(now))
    }

    fn list(&mut self, id: usize) {
        if let Some(slot) = self.slots.get_mut(&id) {
            if !std::mem::replace(&mut slot.listed, true) {
                self.listed.push(id);
            }
        }
    }

    fn list_due(&mut self, now: Instant) {
        for (&id, slot) in &mut self.slots {
            let due = slot.link.poll_timeout().is_some_and(|at| at <= now);
            if due && !std::mem::replace(&mut slot.listed, true) {
                self.listed.push(id);
            }
        }
    }

    fn take_commands(&mut self, now: Instant) -> Then {
        self.mailbox.heard();
        for _ in 0..COMMANDS_PER_TURN {
            match self.commands.try_recv() {
                Ok(Command::Shutdown) => return Then::End,
                Ok(command) => self.carry_out(command, now),
                Err(_) => break,
            }
        }
        Then::Next
    }

    fn carry_out(&mut self, command: Command, now: Instant) {
        match command {
            Command::Open {
                slot,
                target,
                address,
                counters,
            } => self.open(slot, target, address, counters, now),
            Command::Close { slot } => {
                if let Some(mut slot) = self.slots.remove(&slot) {
                    slot.close(self.poll.registry());
                }
            }
            Command::Send {
                slot,
                connection,
                message,
                charge,
            } => self.with(slot, |slot| slot.link.send(connection, message, charge)),
            Command::Move { slot, address } => self.with(slot, |slot| {
                slot.address = address;
                slot.link.reconnect(now);
            }),
            Command::Reconnect { slot } => self.with(slot, |slot| slot.link.reconnect(now)),
            Command::Hurry { slot } => self.with(slot, |slot| slot.link.hurry(now)),
            Command::Resume { slot } => self.list(slot),
            Command::Found {
                slot,
                attempt,
                found,
            } => self.found(slot, attempt, found, now),
            Command::Settings(settings) => self.set_settings(settings),
            Command::Shutdown => {}
        }
    }

    /// Does something to a slot and has it served.
    fn with(&mut self, id: usize, act: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.slots.get_mut(&id) {
            act(slot);
            self.list(id);
        }
    }

    fn open(
        &mut self,
        id: usize,
        target: Target,
        address: Address,
        counters: Arc<Counters>,
        now: Instant,
    ) {
        let seed = self.random.next_u64();
        let link = Link::new(self.settings.clone(), counters.clone(), seed, now);
        self.slots
            .insert(id, Slot::new(target, address, counters, link));
        self.list(id);
    }

    fn found(&mut self, id: usize, attempt: u64, found: Found, now: Instant) {
        let registry = self.poll.registry();
        let slot = self.slots.get_mut(&id);
        let Some(slot) = slot.filter(|slot| slot.attempt == attempt) else {
            return;
        };
        slot.looks_up = false;
        match found {
            Ok(addresses) => slot.connect(registry, Token(id), &addresses, now),
            Err(error) => {
                let reason = DownReason::Lookup(error.into());
                slot.link.handle_closed(now, reason);
            }
        }
        self.list(id);
    }

    fn set_settings(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
        for slot in self.slots.values_mut() {
            slot.link.set_settings(self.settings.clone());
        }
    }

    fn serve(&mut self, id: usize, now: Instant) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.listed = false;
        let held_back = slot.counters.hold_back(self.settings.unread_limit);
        let mut rest = slot.receive(now, &mut self.scratch, held_back);
        slot.link.handle_timeout(now);
        // A probe's slot goes with its event.
        while let Some(slot) = self.slots.get_mut(&id) {
            if slot.transmit(now) == Rest::More {
                rest = Rest::More;
            }
            let Some(event) = slot.link.poll_event() else {
                break;
            };
            if let Some(event) = self.handle_event(id, event, now) {
                self.deliver(id, event);
            }
        }
        if rest == Rest::More {
            self.list(id);
        }
    }

    /// Puts an event into the owner's queue. A probe ends with its only one.
    fn deliver(&mut self, id: usize, event: Event) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let unread = slot.counters.unread(EVENT_COST + bytes_of(&event));
        self.delivered = true;
        // Without a receiver the owner is gone, and the shutdown on its way.
        let _ = self.deliveries.send(Delivery {
            slot: id,
            target: slot.target,
            event,
            unread,
        });
        if matches!(slot.target, Target::Probe(_)) {
            slot.close(self.poll.registry());
            self.slots.remove(&id);
        }
    }

    /// After a panic nothing about the links is sure but their names.
    fn recover(&mut self, panic: &(dyn Any + Send)) {
        let text = (panic.downcast_ref::<&str>().copied())
            .or(panic.downcast_ref::<String>().map(String::as_str));
        self.owner.log(&format!(
            "internal error in the thread of the bus, all connections are made anew: {}",
            text.unwrap_or("unknown")
        ));
        let now = Instant::now();
        self.listed.clear();
        let ids: Vec<usize> = self.slots.keys().copied().collect();
        for id in ids {
            self.start_over(id, now);
        }
        self.owner.wake();
    }

    fn start_over(&mut self, id: usize, now: Instant) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let reason = DownReason::Panicked;
        let event = match slot.target {
            Target::Probe(probe) => Event::Probed {
                probe,
                result: Err(reason),
            },
            Target::Peer(peer) => Event::Down {
                peer,
                connection: slot.link.connection(),
                reason,
                written: slot.link.written(),
                dropped: slot.link.pending(),
            },
        };
        slot.close(self.poll.registry());
        slot.listed = false;
        slot.attempt += 1;
        let seed = self.random.next_u64();
        slot.replace_link(self.settings.clone(), seed, now + PANIC_PAUSE);
        self.deliver(id, event);
    }
}

fn bytes_of(event: &Event) -> usize {
    match event {
        Event::Up { hello: bytes, .. }
        | Event::Answer { bytes, .. }
        | Event::Probed {
            result: Ok(bytes), ..
        } => bytes.len(),
        _ => 0,
    }
}

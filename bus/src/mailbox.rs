//! What goes between the owner and the thread.

use crate::counters::{Charge, Counters};
use crate::event::Event;
use crate::message::{Message, Target};
use crate::resolver::Found;
use crate::settings::{Address, Settings};
use crossbeam_channel::{unbounded, Receiver, Sender};
use mio::Waker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// What the thread is to do. Slots are named by numbers that are never used
/// again; a command for a slot that is gone does nothing.
pub(crate) enum Command {
    Open {
        slot: usize,
        target: Target,
        address: Address,
        counters: Arc<Counters>,
    },
    Close {
        slot: usize,
    },
    Move {
        slot: usize,
        address: Address,
    },
    Send {
        slot: usize,
        connection: u64,
        message: Message,
        charge: Charge,
    },
    Reconnect {
        slot: usize,
    },
    Hurry {
        slot: usize,
    },
    /// The owner has caught up: read on.
    Resume {
        slot: usize,
    },
    /// A lookup is over.
    Found {
        slot: usize,
        attempt: u64,
        found: Found,
    },
    Settings(Arc<Settings>),
    Shutdown,
}

/// An event on its way to the owner.
pub(crate) struct Delivery {
    pub(crate) slot: usize,
    pub(crate) target: Target,
    pub(crate) event: Event,
    /// Dropped when the owner takes the event.
    pub(crate) unread: Charge,
}

/// Where commands are put in.
#[derive(Clone)]
pub(crate) struct Mailbox {
    commands: Sender<Command>,
    waker: Arc<Waker>,
    /// The thread was woken and has not looked yet.
    rung: Arc<AtomicBool>,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> (Mailbox, Receiver<Command>) {
        let (commands, receiver) = unbounded();
        let mailbox = Mailbox {
            commands,
            waker: Arc::new(waker),
            rung: Arc::default(),
        };
        (mailbox, receiver)
    }

    /// The thread finds it when it looks next. What may pile up here is bounded
    /// by the charges that messages carry.
    pub(crate) fn put(&self, command: Command) {
        // Without a receiver the thread has ended, and nothing is to be done.
        let _ = self.commands.send(command);
    }

    /// Makes the thread look.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            let _ = self.waker.wake();
        }
    }

    /// The thread is about to look: what is put in from now on needs a ring.
    pub(crate) fn heard(&self) {
        self.rung.swap(false, Ordering::AcqRel);
    }
}

//! The transport between the nodes of a cluster.
//!
//! A node keeps one connection to the ordinary Redis port of each peer and is a
//! client there: it sends *frames*, commands of the form
//! `DISQUE.BUS header [body ...]`, and the reply to a frame carries the peer's
//! answers. Messages and answers are opaque here; this crate knows connections,
//! not jobs.
//!
//! - [`link`] is the state machine of one peer: bytes in, bytes out, events
//!   out, time as an argument. All decisions are there.
//! - A thread drives the links over sockets, see [`Bus`].
//!
//! What the owner can rely on:
//!
//! - A message is written at most once. When its connection ends, it is dropped,
//!   and [`Event::Down`] says from which message on nothing was written.
//! - Messages of one connection take effect in the order in which they were sent,
//!   and are answered in that order.
//! - A message goes out on the connection that it was meant for, or not at all.
//! - Nothing grows without bound, whatever a peer does or does not do, and a
//!   slow, stopped or hostile peer costs the others nothing.
#![forbid(unsafe_code)]

mod backoff;
mod counters;
mod dispatch;
mod event;
mod handle;
pub mod link;
mod mailbox;
mod message;
mod outbox;
mod refusal;
mod resolver;
pub mod resp;
mod settings;
mod slot;
mod thread;

pub use counters::{Charge, Counters, PeerStats};
pub use event::{DownReason, Event, TimedOut};
pub use handle::{Bus, Owner, SendError};
pub use message::{
    Greeting, Message, PeerKey, ProbeKey, Serials, Target, FRAME_BYTES, FRAME_MESSAGES,
};
pub use refusal::{Refusal, RefusalKind};
pub use settings::{Address, Credentials, Settings};

//! What a link wants of its driver, and what the driver hands on to the owner.

use crate::event::DownReason;
use crate::message::Serials;
use crate::refusal::Refusal;
use bytes::Bytes;

/// What happened at a link, in that order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// For the driver: connect, then call [`super::Link::handle_connected`] or
    /// [`super::Link::handle_closed`].
    Open,
    /// For the driver: the connection, or the attempt, is given up.
    Close,
    /// For the driver: call [`super::Link::greet`].
    Greet,
    /// See [`crate::Event::Up`].
    Up {
        /// The number that the greeting gave.
        connection: u64,
        /// The answer to the handshake.
        hello: Bytes,
    },
    /// See [`crate::Event::Answer`].
    Answer {
        /// On which connection.
        connection: u64,
        /// The number of the frame on it.
        frame: u64,
        /// Its messages, `None` for a PING.
        serials: Option<Serials>,
        /// The answers.
        bytes: Bytes,
    },
    /// See [`crate::Event::Refused`].
    Refused {
        /// The connection that is up, if any.
        connection: Option<u64>,
        /// The messages of the frame, if it is one that has any.
        serials: Option<Serials>,
        /// Why.
        refusal: Refusal,
    },
    /// See [`crate::Event::Down`].
    Down {
        /// The connection that was up, if any.
        connection: Option<u64>,
        /// Why.
        reason: DownReason,
        /// The last message that was written, at least in part.
        written: Option<u64>,
        /// How many messages were dropped.
        dropped: usize,
    },
}

//! What the owner is told.

use crate::message::{PeerKey, ProbeKey, Serials};
use crate::refusal::Refusal;
use crate::resp::ProtocolError;
use bytes::Bytes;
use std::fmt;

/// What happened at a peer. Events of one peer come in the order in which they
/// happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer answered the handshake: messages can be sent on this connection.
    Up {
        /// Which peer.
        peer: PeerKey,
        /// The number that the greeting gave.
        connection: u64,
        /// The answer to the handshake.
        hello: Bytes,
    },
    /// The peer answered a frame: its messages took effect.
    Answer {
        /// Which peer.
        peer: PeerKey,
        /// On which connection.
        connection: u64,
        /// The number of the frame on this connection, from 1.
        frame: u64,
        /// The messages of the frame, `None` for a PING.
        serials: Option<Serials>,
        /// The answers.
        bytes: Bytes,
    },
    /// The peer answered with an error: it is not reachable until the next
    /// [`Event::Up`]. If a connection was up, [`Event::Down`] follows when the
    /// frames under way are answered too.
    Refused {
        /// Which peer.
        peer: PeerKey,
        /// The connection that is up; `None` when a handshake is refused.
        connection: Option<u64>,
        /// The messages of the frame; nothing of it is known to have happened.
        /// `None` for a PING or a handshake; of these only the first in a row
        /// of the same kind is told.
        serials: Option<Serials>,
        /// Why.
        refusal: Refusal,
    },
    /// The connection is over, or could not be made. Messages sent on it and not
    /// answered are dropped.
    Down {
        /// Which peer.
        peer: PeerKey,
        /// The connection that was up; `None` when an attempt to connect failed.
        connection: Option<u64>,
        /// Why.
        reason: DownReason,
        /// The last message that was written, at least in part, if any. What was
        /// sent after it has surely not reached the peer.
        written: Option<u64>,
        /// How many messages were dropped in the thread. Those sent later than
        /// this event add to it.
        dropped: usize,
    },
    /// A probe is over; its connection is closed.
    Probed {
        /// Which.
        probe: ProbeKey,
        /// The answer to the handshake, or why there is none.
        result: Result<Bytes, DownReason>,
    },
}

/// Why a connection ended or could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// The name of the host could not be looked up.
    Lookup(Box<str>),
    /// No connection could be made.
    Connect(Box<str>),
    /// The peer closed the connection.
    Closed,
    /// The connection broke.
    Broken(Box<str>),
    /// Nothing came in time.
    TimedOut(TimedOut),
    /// The peer does not speak the protocol.
    Protocol(ProtocolError),
    /// The peer answered with an error.
    Refused(Refusal),
    /// The owner asked for it.
    Requested,
    /// A defect of the thread was caught.
    Panicked,
}

/// What did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// The address that belongs to the name of the host.
    Lookup,
    /// The connection.
    Connect,
    /// An answer to AUTH, CLIENT SETNAME or the handshake.
    Handshake,
    /// An answer to a frame.
    Answer,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DownReason::Lookup(error) => write!(f, "cannot look up its address: {error}"),
            DownReason::Connect(error) => write!(f, "cannot connect: {error}"),
            DownReason::Closed => f.write_str("it closed the connection"),
            DownReason::Broken(error) => write!(f, "the connection broke: {error}"),
            DownReason::TimedOut(TimedOut::Lookup) => {
                f.write_str("its address is not found in time: the lookup of the name is slow")
            }
            DownReason::TimedOut(TimedOut::Connect) => f.write_str("it does not accept in time"),
            DownReason::TimedOut(TimedOut::Handshake) => {
                f.write_str("it does not answer the handshake in time")
            }
            DownReason::TimedOut(TimedOut::Answer) => f.write_str("it does not answer in time"),
            DownReason::Protocol(error) => write!(f, "it does not speak the protocol: {error}"),
            DownReason::Refused(refusal) => write!(f, "it refuses: {refusal}"),
            DownReason::Requested => f.write_str("the connection was given up"),
            DownReason::Panicked => f.write_str("internal error of this node"),
        }
    }
}

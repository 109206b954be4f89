//! Two servers that are one node: a copy of its data or of its nodes file runs beside
//! it.
//!
//! The later start counts, as after any restart. The other one is told how often its
//! rival has started, and counts on from there: that it comes back with more shows
//! that it lives still. When the first does the same in its turn, both do, and neither
//! is listened to before one has been silent for long. What comes late from a process
//! that has ended shows nothing: it counts no starts that it was not told of.

use super::{Cluster, Contact, Peer};
use crate::message::Speaker;
use std::fmt;

/// Turns that two processes take before both are known to live.
const TURNS: u32 = 2;
/// The longest pause of a link between two attempts.
const LONGEST_PAUSE_MS: u64 = 10_000;

/// How long after its last word a server that is a node as well counts as there.
pub(crate) fn memory_ms(node_timeout_ms: u64) -> u64 {
    LONGEST_PAUSE_MS + node_timeout_ms.saturating_mul(3)
}

/// A process that speaks for a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Voice {
    process: u64,
    place: Option<Contact>,
    /// When it spoke last, monotonic ms.
    at: u64,
}

/// A newer connection from the same node exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldConnection {
    /// The incarnation that made it, if that is another process.
    pub of_start: Option<u64>,
}

const OLD: &str = "ERR a newer connection has replaced this one";
const OF_START: &str = ", of start ";

impl fmt::Display for OldConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(OLD)?;
        self.of_start
            .map_or(Ok(()), |start| write!(f, "{OF_START}{start}"))
    }
}

impl OldConnection {
    /// How often another process of this node has started, by an error reply.
    pub(crate) fn parse(error: &str) -> Option<u64> {
        let start = error.strip_prefix(OLD)?.strip_prefix(OF_START)?;
        start.parse().ok()
    }
}

/// Another server is the node as well, with the same term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Double(pub Contact);

const AT: &str = "SUPERSEDED another server is this node as well, at ";
const ADVICE: &str = ": stop one of them, or DISQUE RESET";

impl fmt::Display for Double {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contact { host, port } = &self.0;
        write!(f, "{AT}{host} {port}{ADVICE}")
    }
}

impl Double {
    /// Where the other one is, by an error reply.
    pub(crate) fn parse(error: &str) -> Option<Contact> {
        Contact::parse(error.strip_prefix(AT)?.strip_suffix(ADVICE)?)
    }
}

/// Why a process is not listened to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unheard {
    Old(OldConnection),
    Double(Double),
}

impl Cluster {
    /// A node speaks on a connection with this number, from there; the clock is the
    /// monotonic one, with node-timeout.
    pub(crate) fn hear(
        &mut self,
        from: &Speaker,
        connection: u64,
        place: Contact,
        clock: (u64, u64),
    ) -> Result<(), Unheard> {
        let newest = self.newest_connection(&from.id, from.term);
        match self.peers.get_mut(&from.id) {
            // It counts anew.
            Some(peer) if from.term > peer.term => Ok(()),
            Some(peer) => peer.hear(from, connection, place, clock),
            None if (from.incarnation, connection) < newest => {
                Err(Unheard::Old(OldConnection { of_start: None }))
            }
            None => Ok(()),
        }
    }
}

impl Peer {
    /// A process speaks for this node, on a connection with this number, from there.
    fn hear(
        &mut self,
        from: &Speaker,
        connection: u64,
        place: Contact,
        (mono_ms, node_timeout_ms): (u64, u64),
    ) -> Result<(), Unheard> {
        let voice = Voice {
            process: from.process,
            place: Some(place),
            at: mono_ms,
        };
        let is_over =
            |other: &mut Voice| mono_ms.saturating_sub(other.at) > memory_ms(node_timeout_ms);
        if self.rival.take_if(is_over).is_some() {
            self.turns = 0;
        }
        let newest = self.inbound;
        let known = self.voice.process;
        if known != voice.process && known != 0 {
            self.take_turns(&voice, from.incarnation)?;
        } else if (from.incarnation, connection) < newest {
            return Err(Unheard::Old(OldConnection { of_start: None }));
        }
        self.voice = voice;
        match &self.rival {
            Some(Voice {
                place: Some(place), ..
            }) if self.turns >= TURNS => Err(Unheard::Double(Double(place.clone()))),
            _ => Ok(()),
        }
    }

    /// Another process speaks than before.
    fn take_turns(&mut self, voice: &Voice, incarnation: u64) -> Result<(), Unheard> {
        let is_rival = |rival: &Voice| rival.process == voice.process;
        let returns = self.rival.as_ref().is_some_and(is_rival);
        if returns && self.turns >= TURNS {
            self.rival = Some(std::mem::take(&mut self.voice));
            return Ok(());
        }
        let newest = self.inbound.0;
        if incarnation <= newest {
            let of_start = Some(newest);
            return Err(Unheard::Old(OldConnection { of_start }));
        }
        self.turns = if returns { self.turns + 1 } else { 0 };
        self.rival = Some(std::mem::take(&mut self.voice));
        Ok(())
    }
}

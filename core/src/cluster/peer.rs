//! Another node, as this one knows it.

use super::doubles::Voice;
use crate::clock::Now;
use crate::holders::Pair;
use crate::message::Listing;
use crate::node::Identity;
use std::fmt;

/// Names a peer within a process, for the links. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey(pub u32);

/// Where the clients of a node reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// A name or an address.
    pub host: String,
    /// Its ordinary port.
    pub port: u16,
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contact { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

impl Contact {
    /// Host and port as error replies tell them, with a space between.
    pub(crate) fn parse(text: &str) -> Option<Contact> {
        let (host, port) = text.rsplit_once(' ')?;
        Some(Contact {
            host: host.into(),
            port: port.parse().ok()?,
        })
    }

    /// Where a listed node is.
    pub(crate) fn of(listing: &Listing<'_>) -> Contact {
        Contact {
            host: listing.host.into(),
            port: listing.port,
        }
    }

    /// A node that is reached there, as tables and records list it.
    pub fn listing(&self, node: &Identity) -> Listing<'_> {
        Listing {
            id: node.id,
            epoch: node.epoch,
            term: node.term,
            host: &self.host,
            port: self.port,
        }
    }
}

/// Whether this can be a name or an address of a host. Hosts come from clients
/// and other nodes, and go into the nodes file, the log and replies of lines.
pub fn is_host(text: &[u8]) -> bool {
    const LONGEST: usize = 255;
    let plain = |c: &u8| c.is_ascii_alphanumeric() || b".-:_".contains(c);
    !text.is_empty() && text.len() <= LONGEST && text.iter().all(plain)
}

/// Why a node takes no frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// The connection to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// There is none.
    Closed,
    /// There is one with this number.
    Up(u64),
    /// There is one, and the node answers with errors.
    Refusing(Refusal),
}

impl LinkState {
    /// Whether frames can be sent.
    pub fn is_up(&self) -> bool {
        matches!(self, LinkState::Up(_))
    }
}

/// How far the comparison of a peer's copies with those of this node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Nothing puts them in doubt.
    Done,
    /// To be made once it is reachable.
    Due,
    /// It is being asked: over this link, and so perhaps in vain.
    Asked,
}

/// Another node.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name for the links.
    pub key: PeerKey,
    /// Its id.
    pub id: [u8; 20],
    /// Its data epoch, as last told.
    pub epoch: u64,
    /// Its term, as last told.
    pub term: u64,
    /// Where it is.
    pub contact: Contact,
    /// Whether it named that host itself. Else it is where its frames come from.
    pub announced: bool,
    /// The connection to it.
    pub link: LinkState,
    /// Whether it is leaving.
    pub leaving: bool,
    /// When it last answered one of our frames, monotonic ms.
    pub answered_at: Option<u64>,
    /// When it last sent a frame, monotonic ms.
    pub heard_at: Option<u64>,
    /// Whether it says that we answer it.
    pub hears_us: bool,
    /// Since when it is known here, monotonic ms; `None` before the first look.
    pub known_since: Option<u64>,
    /// The newest connection from it: its incarnation and connection number.
    pub inbound: (u64, u64),
    /// The process that speaks for it.
    pub(crate) voice: Voice,
    /// The process that spoke for it before.
    pub(crate) rival: Option<Voice>,
    /// How often the two have taken turns.
    pub(crate) turns: u32,
    /// The last job that it gave to this node: its incarnation and serial number.
    pub(crate) last_given: (u64, u64),
    /// Whether it was reachable at the last look.
    pub(crate) was_reachable: bool,
    /// Whether its copies and this node's are to be compared.
    pub(crate) comparison: Comparison,
    /// When it was found to be reachable, monotonic ms.
    pub(crate) reachable_since: u64,
    /// When the heartbeat that is not answered yet was sent, monotonic ms.
    pub(crate) beat_sent_at: Option<u64>,
    /// Its unclean start that this node has last acted upon.
    pub(crate) unclean_start: u64,
    /// How long a heartbeat and its answer took last, in ms.
    pub round_trip_ms: u64,
    /// How long the copy took that it confirmed last, in ms: also where a slow link
    /// has much to carry. Halved with each heartbeat that it answers.
    pub copy_ms: u64,
}

impl Peer {
    pub(crate) fn new(key: PeerKey, identity: Identity, contact: Contact) -> Peer {
        Peer {
            key,
            id: identity.id,
            epoch: identity.epoch,
            term: identity.term,
            contact,
            announced: false,
            link: LinkState::Closed,
            leaving: false,
            answered_at: None,
            heard_at: None,
            hears_us: false,
            known_since: None,
            inbound: (0, 0),
            voice: Voice::default(),
            rival: None,
            turns: 0,
            last_given: (0, 0),
            was_reachable: false,
            reachable_since: 0,
            comparison: Comparison::Done,
            beat_sent_at: None,
            unclean_start: 0,
            round_trip_ms: 0,
            copy_ms: 0,
        }
    }

    /// The node among the holders of jobs.
    pub fn pair(&self) -> Pair {
        Pair {
            id: self.id,
            epoch: self.epoch,
        }
    }

    /// Another server is the node from now on. What the one before it did says
    /// nothing of it: it counts its starts and what it gives away anew, has to be
    /// reached, and may lack copies that were confirmed.
    pub(crate) fn succeed(&mut self) {
        self.announced = false;
        self.answered_at = None;
        self.heard_at = None;
        self.hears_us = false;
        self.known_since = None;
        self.inbound = (0, 0);
        self.voice = Voice::default();
        self.rival = None;
        self.turns = 0;
        self.last_given = (0, 0);
        self.unclean_start = 0;
        self.comparison = Comparison::Due;
    }

    /// The link is no longer up, or there is another one: what was asked last may not
    /// have arrived.
    pub(crate) fn change_link(&mut self, link: LinkState) {
        self.link = link;
        if self.comparison == Comparison::Asked {
            self.comparison = Comparison::Due;
        }
    }

    /// The node as tables and records list it.
    pub fn listing(&self) -> Listing<'_> {
        self.contact.listing(&self.identity())
    }

    /// Who it is.
    pub fn identity(&self) -> Identity {
        Identity {
            id: self.id,
            epoch: self.epoch,
            term: self.term,
        }
    }

    /// Whether it answered one of our frames not longer ago than this.
    pub fn answered_within(&self, now: Now, ms: u64) -> bool {
        within(self.answered_at, now, ms)
    }

    /// Whether frames pass and are answered in both directions.
    pub fn is_reachable(&self, now: Now, timeout_ms: u64) -> bool {
        self.link.is_up()
            && self.hears_us
            && self.answered_within(now, timeout_ms)
            && within(self.heard_at, now, timeout_ms)
    }

    /// How a client should rank it, see `DISQUE HELLO`.
    pub fn priority(&self, now: Now, timeout_ms: u64) -> u8 {
        let last = self.answered_at.or(self.known_since);
        let long_gone = !within(last, now, timeout_ms.saturating_mul(3));
        match self.link {
            _ if self.leaving || long_gone => 100,
            LinkState::Refusing(_) => 10,
            _ if !self.answered_within(now, timeout_ms) => 10,
            LinkState::Closed => 5,
            LinkState::Up(_) => 1,
        }
    }

    /// Milliseconds since it was last heard of; `None` if it never was.
    pub fn silent_ms(&self, now: Now) -> Option<u64> {
        let last = self.answered_at.max(self.heard_at)?;
        Some(now.mono_ms.saturating_sub(last))
    }
}

fn within(at: Option<u64>, now: Now, ms: u64) -> bool {
    at.is_some_and(|at| now.mono_ms.saturating_sub(at) <= ms)
}

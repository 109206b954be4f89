//! What is sent, to whom, and under which name it is answered.

use bytes::Bytes;

/// A frame takes no further message when it would grow beyond this many bytes,
/// bodies included. A single larger message fills a frame of its own.
pub const FRAME_BYTES: usize = 256 << 10;

/// The most messages in a frame.
pub const FRAME_MESSAGES: usize = 512;

/// The owner's name for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey(pub u64);

/// The owner's name for a probe, see [`crate::Bus::probe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeKey(pub u64);

/// Whom a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A peer: the connection is kept.
    Peer(PeerKey),
    /// An address that may be a node's: one handshake, then it is closed.
    Probe(ProbeKey),
}

/// One message. Cloning it shares its bytes: encode once, send to many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The owner's number for it. Must grow from message to message sent to one
    /// peer; the same number may go to several peers.
    pub serial: u64,
    /// What is put into the header of a frame. It must say itself where it ends
    /// and how many bodies belong to it: the messages of a frame stand there
    /// end to end.
    pub bytes: Bytes,
    /// What is too large to be copied into the header: each is an argument of its own.
    /// The bodies of a frame stand behind its header in the order of the messages that
    /// they belong to.
    pub bodies: Vec<Bytes>,
}

impl Message {
    /// A message without bodies of its own.
    pub fn new(serial: u64, bytes: impl Into<Bytes>) -> Message {
        Message {
            serial,
            bytes: bytes.into(),
            bodies: Vec::new(),
        }
    }

    /// The same with one more body, which stays where it is until it is written.
    pub fn with_body(mut self, body: impl AsRef<[u8]> + Send + 'static) -> Message {
        self.bodies.push(Bytes::from_owner(body));
        self
    }

    /// Bytes that it adds to a frame, without those of RESP.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.bodies.iter().map(Bytes::len).sum::<usize>()
    }
}

/// The messages of a frame, by their serials.
///
/// Messages leave in the order in which they were sent, so that these two
/// numbers name all of them: those sent on this connection from `first` to
/// `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serials {
    /// The first message of the frame.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// How many there are.
    pub count: usize,
}

/// How this node introduces itself on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The number of the connection: larger than all numbers given before.
    pub connection: u64,
    /// The header of the first frame, the handshake. Its answer comes with
    /// [`crate::Event::Up`].
    pub hello: Bytes,
    /// What every later header begins with.
    pub prefix: Bytes,
}

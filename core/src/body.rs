//! The body of a job: how a job keeps it, and how it goes to disk and to other nodes.
//!
//! A *large* body is copied once, from where it comes. From then on it is shared: by the
//! job, the record, and the messages to all peers. In what is encoded a mark stands in
//! its place, and the body itself stands *beside* the bytes, as an argument of its own in
//! the command that carries them.

use bincode::de::read::BorrowReader;
use bincode::de::{BorrowDecode, BorrowDecoder, Decode};
use bincode::enc::{Encode, Encoder};
use bincode::error::{DecodeError, EncodeError};
use smallvec::SmallVec;
use std::ops::Deref;
use std::sync::Arc;

/// A body of so many bytes or more is large: from this size on Redis reads an argument
/// without copying it a second time.
pub const LARGE: usize = 32 << 10;

/// No body is longer, whatever the settings say.
pub const MAX_LEN: usize = 512 << 20;

/// Stands for the length of a body that is not here: no body can have it.
const BESIDE: u64 = u64::MAX;

/// A body as a job keeps it. No longer than a pointer and a length, since most are small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The job's own.
    Small(Box<[u8]>),
    /// Shared with what is on its way to disk and to other nodes.
    Large(LargeBody),
}

impl Body {
    /// The body as a record or message carries it.
    pub fn carried(&self) -> Carried<'_> {
        match self {
            Body::Small(bytes) => Carried::Within(bytes),
            Body::Large(body) => Carried::Shared(body),
        }
    }
}

impl Default for Body {
    fn default() -> Body {
        Body::Small(Box::default())
    }
}

impl Deref for Body {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Body::Small(bytes) => bytes,
            Body::Large(body) => body.as_ref(),
        }
    }
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Body {
    #[inline]
    fn from(bytes: &[u8]) -> Body {
        match bytes.len() {
            ..LARGE => Body::Small(bytes.into()),
            _ => Body::Large(bytes.into()),
        }
    }
}

impl From<&Carried<'_>> for Body {
    fn from(carried: &Carried<'_>) -> Body {
        match carried.to_large() {
            Some(body) => Body::Large(body),
            None => carried.bytes().into(),
        }
    }
}

/// A large body. Cloning it shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeBody(Arc<Summed>);

/// Bytes with their CRC-32, which is made once and goes with them to disk and to other
/// nodes.
#[derive(Debug, PartialEq, Eq)]
struct Summed {
    bytes: Box<[u8]>,
    checksum: u32,
}

impl LargeBody {
    fn new(bytes: &[u8], checksum: u32) -> LargeBody {
        LargeBody(Arc::new(Summed {
            bytes: bytes.into(),
            checksum,
        }))
    }
}

impl From<&[u8]> for LargeBody {
    fn from(bytes: &[u8]) -> LargeBody {
        LargeBody::new(bytes, crc32fast::hash(bytes))
    }
}

impl AsRef<[u8]> for LargeBody {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// A body in a record or message.
#[derive(Clone, Copy, Debug)]
pub enum Carried<'a> {
    /// In its place.
    Within(&'a [u8]),
    /// Beside, to be written: as a job has it.
    Shared(&'a LargeBody),
    /// Beside, as it was read.
    Given(Given<'a>),
}

/// A body that came beside what was read.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    bytes: &'a [u8],
    checksum: u32,
    /// Which of the bodies beside it is.
    pub number: usize,
}

impl<'a> Carried<'a> {
    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        match *self {
            Carried::Within(bytes) => bytes,
            Carried::Shared(body) => body.as_ref(),
            Carried::Given(given) => given.bytes,
        }
    }

    /// Which of the bodies that were given it is.
    pub fn number(&self) -> Option<usize> {
        match self {
            Carried::Given(given) => Some(given.number),
            Carried::Within(_) | Carried::Shared(_) => None,
        }
    }

    /// Whether it stands beside, and not in its place.
    pub fn is_beside(&self) -> bool {
        !matches!(self, Carried::Within(_))
    }

    /// The body that stands beside.
    pub fn to_large(&self) -> Option<LargeBody> {
        match self {
            Carried::Within(_) => None,
            Carried::Shared(body) => Some(LargeBody::clone(body)),
            Carried::Given(given) => Some(LargeBody::new(given.bytes, given.checksum)),
        }
    }
}

/// Equal if they say the same, written or read.
impl PartialEq for Carried<'_> {
    fn eq(&self, other: &Carried<'_>) -> bool {
        self.is_beside() == other.is_beside() && self.bytes() == other.bytes()
    }
}

impl Eq for Carried<'_> {}

impl Encode for Carried<'_> {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        let checksum = match self {
            Carried::Within(bytes) => return bytes.encode(encoder),
            Carried::Shared(body) => body.0.checksum,
            Carried::Given(given) => given.checksum,
        };
        BESIDE.encode(encoder)?;
        checksum.encode(encoder)
    }
}

impl<'de: 'a, 'a> BorrowDecode<'de, NextBody<'a>> for Carried<'a> {
    fn borrow_decode<D: BorrowDecoder<'de, Context = NextBody<'a>>>(
        decoder: &mut D,
    ) -> Result<Carried<'a>, DecodeError> {
        let len = u64::decode(decoder)?;
        if len == BESIDE {
            let checksum = u32::decode(decoder)?;
            return decoder.context().check(checksum).map(Carried::Given);
        }
        let len = usize::try_from(len).map_err(|_| DecodeError::OutsideUsizeRange(len))?;
        decoder.claim_bytes_read(len)?;
        let bytes = decoder.borrow_reader().take_bytes(len)?;
        Ok(Carried::Within(bytes))
    }
}

/// The body that belongs to the next mark that is read.
#[derive(Clone, Copy, Debug)]
pub struct NextBody<'a> {
    bytes: Option<&'a [u8]>,
    number: usize,
}

impl<'a> NextBody<'a> {
    /// Whether it is the one that was written.
    fn check(&self, checksum: u32) -> Result<Given<'a>, DecodeError> {
        let bytes = self
            .bytes
            .ok_or(DecodeError::Other("its body is missing"))?;
        if crc32fast::hash(bytes) != checksum {
            return Err(DecodeError::Other("wrong checksum of its body"));
        }
        Ok(Given {
            bytes,
            checksum,
            number: self.number,
        })
    }
}

/// Encoded bytes, with the bodies beside them in the order of their marks, to be read.
#[derive(Clone, Debug, Default)]
pub struct Parts<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The bodies.
    pub bodies: Bodies<'a>,
}

/// Bodies that stand beside. Nearly always none.
#[derive(Clone, Debug, Default)]
pub struct Bodies<'a> {
    all: SmallVec<[&'a [u8]; 1]>,
    taken: usize,
}

impl<'a> Bodies<'a> {
    /// What decoding needs to know.
    pub(crate) fn next(&self) -> NextBody<'a> {
        NextBody {
            bytes: self.all.get(self.taken).copied(),
            number: self.taken,
        }
    }

    /// The mark of the next body was read.
    pub(crate) fn advance(&mut self) {
        self.taken += 1;
    }

    /// How many are left.
    pub(crate) fn left(&self) -> usize {
        self.all.len() - self.taken
    }
}

impl<'a> FromIterator<&'a [u8]> for Bodies<'a> {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(bodies: I) -> Bodies<'a> {
        Bodies {
            all: bodies.into_iter().collect(),
            taken: 0,
        }
    }
}

impl<'a> From<&'a [u8]> for Parts<'a> {
    fn from(bytes: &'a [u8]) -> Parts<'a> {
        Parts {
            bytes,
            bodies: Bodies::default(),
        }
    }
}

impl<'a> From<&'a Vec<u8>> for Parts<'a> {
    fn from(bytes: &'a Vec<u8>) -> Parts<'a> {
        bytes.as_slice().into()
    }
}

impl<'a> From<&'a Packet> for Parts<'a> {
    fn from(packet: &'a Packet) -> Parts<'a> {
        Parts {
            bytes: &packet.bytes,
            bodies: packet.bodies.iter().map(LargeBody::as_ref).collect(),
        }
    }
}

/// Encoded bytes, with the bodies beside them in the order of their marks, to be
/// written or sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The bodies.
    pub bodies: Vec<LargeBody>,
}

impl Packet {
    /// How many bytes it has, with all bodies.
    pub fn size(&self) -> usize {
        let bodies = self.bodies.iter().map(|body| body.as_ref().len());
        self.bytes.len() + bodies.sum::<usize>()
    }

    /// Puts another one behind it.
    pub fn append(&mut self, other: &Packet) {
        self.bytes.extend_from_slice(&other.bytes);
        self.bodies.extend_from_slice(&other.bodies);
    }
}

impl From<Vec<u8>> for Packet {
    fn from(bytes: Vec<u8>) -> Packet {
        Packet {
            bytes,
            bodies: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_takes_no_more_room_for_being_shared() {
        assert_eq!(size_of::<Body>(), size_of::<Box<[u8]>>());
    }

    #[test]
    fn bodies_from_the_limit_on_are_shared() {
        for (len, is_large) in [
            (1, false),
            (LARGE - 1, false),
            (LARGE, true),
            (LARGE + 1, true),
        ] {
            let bytes = vec![7; len];
            let body = Body::from(bytes.as_slice());
            assert_eq!(&body[..], bytes);
            assert_eq!(matches!(body, Body::Large(_)), is_large, "{len}");
            assert_eq!(body.carried().is_beside(), is_large, "{len}");
            let same = body.clone();
            assert_eq!(same.as_ptr() == body.as_ptr(), is_large, "{len}");
        }
    }
}

//! Job ids: 40 characters outside, 24 bytes inside.
//!
//! `D-` + 8 hex digits of the creating node + `-` + 24 characters of base64
//! (144 random bits) + `-` + 4 hex digits, the TTL in minutes.

use crate::error::Error;
use crate::span::Span;
use bincode::enc::write::Writer;
use bincode::enc::Encoder;
use bincode::error::EncodeError;
use bincode::{Decode, Encode};
use sha1::{Digest, Sha1};
use smallvec::SmallVec;
use std::fmt;

/// Length of an id as text, in bytes.
pub const TEXT_LEN: usize = 40;

/// An id as text. Always ASCII.
pub type IdText = [u8; TEXT_LEN];

/// The ids of the jobs that one command adds. Nearly always it is one.
pub type Ids = SmallVec<[JobId; 1]>;

/// The id of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Decode)]
pub struct JobId {
    node: [u8; 4],
    random: [u8; 18],
    ttl: [u8; 2],
}

impl JobId {
    /// Reads an id that a client sent.
    ///
    /// The *form* of an id is 40 bytes with `D-` at 0 and `-` at 10 and 35;
    /// anything else is [`Error::BadId`]. A text of that form which no node can
    /// have made (its digits are not digits) is `None`: unknown everywhere.
    pub fn parse(text: &[u8]) -> Result<Option<JobId>, Error> {
        let well_formed = text.len() == TEXT_LEN
            && text.starts_with(b"D-")
            && text[10] == b'-'
            && text[35] == b'-';
        if well_formed {
            Ok(Self::decode_digits(text))
        } else {
            Err(Error::BadId)
        }
    }

    fn decode_digits(text: &[u8]) -> Option<JobId> {
        let mut id = JobId {
            node: [0; 4],
            random: [0; 18],
            ttl: [0; 2],
        };
        hex_to(&text[2..10], &mut id.node)?;
        random_to(&text[11..35], &mut id.random)?;
        hex_to(&text[36..40], &mut id.ttl)?;
        Some(id)
    }

    /// How many bytes [`JobId::to_bytes`] gives.
    pub const BYTES: usize = 24;

    /// The id as nodes exchange it.
    pub fn to_bytes(&self) -> [u8; JobId::BYTES] {
        let mut bytes = [0; JobId::BYTES];
        bytes[..4].copy_from_slice(&self.node);
        bytes[4..22].copy_from_slice(&self.random);
        bytes[22..].copy_from_slice(&self.ttl);
        bytes
    }

    /// The reverse of [`JobId::to_bytes`].
    pub fn from_bytes(bytes: &[u8; JobId::BYTES]) -> JobId {
        let mut id = JobId {
            node: [0; 4],
            random: [0; 18],
            ttl: [0; 2],
        };
        id.node.copy_from_slice(&bytes[..4]);
        id.random.copy_from_slice(&bytes[4..22]);
        id.ttl.copy_from_slice(&bytes[22..]);
        id
    }

    /// The 40 characters.
    pub fn text(&self) -> IdText {
        let mut text = [b'-'; TEXT_LEN];
        text[0] = b'D';
        hex_from(&self.node, &mut text[2..10]);
        random_from(&self.random, &mut text[11..35]);
        hex_from(&self.ttl, &mut text[36..40]);
        text
    }

    /// The 144 random bits, by which jobs are found and ties are broken.
    pub fn random(&self) -> &[u8; 18] {
        &self.random
    }

    /// The TTL in minutes as the id carries it: at least the real one, odd when
    /// the job may be delivered more than once.
    pub fn ttl_field(&self) -> u16 {
        u16::from_be_bytes(self.ttl)
    }

    /// Whether the job may be delivered more than once.
    pub fn is_retried(&self) -> bool {
        self.ttl_field() % 2 == 1
    }
}

/// As the derived one would, field after field, and in one piece: nearly every record
/// and every message begins with an id.
impl Encode for JobId {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        encoder.writer().write(&self.to_bytes())
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text()
            .iter()
            .try_for_each(|&b| write!(f, "{}", b as char))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Makes the ids of one node.
pub struct IdGenerator {
    node: [u8; 4],
    seed: [u8; 32],
    counter: u64,
}

impl IdGenerator {
    /// A generator for the node whose id starts with `node`. Two generators
    /// with one seed make the same ids: draw the seed anew at each start.
    pub fn new(node: [u8; 4], seed: [u8; 32]) -> Self {
        IdGenerator {
            node,
            seed,
            counter: 0,
        }
    }

    /// A new id for a job of this TTL; `retried` is whether its RETRY is above 0.
    pub fn next(&mut self, ttl: Span, retried: bool) -> JobId {
        let mut hash = Sha1::new();
        hash.update(self.seed);
        hash.update(self.counter.to_le_bytes());
        self.counter += 1;
        let mut random = [0; 18];
        random.copy_from_slice(&hash.finalize()[..18]);
        JobId {
            node: self.node,
            random,
            ttl: ttl_field(ttl, retried).to_be_bytes(),
        }
    }
}

/// TTL in minutes, rounded up and then to the next odd (retried) or even (at
/// most once) number; never below the real TTL unless that exceeds the field.
fn ttl_field(ttl: Span, retried: bool) -> u16 {
    let minutes = ttl.ms().div_ceil(60_000);
    let odd = minutes % 2 == 1;
    let fitting = minutes + u64::from(odd != retried);
    let max = if retried { 65_535 } else { 65_534 };
    fitting.min(max) as u16
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes `bytes` as lowercase hex digits.
pub(crate) fn hex_from(bytes: &[u8], text: &mut [u8]) {
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// The digits as a text.
pub(crate) fn hex_text(bytes: &[u8]) -> String {
    let mut digits = vec![0; bytes.len() * 2];
    hex_from(bytes, &mut digits);
    digits.into_iter().map(char::from).collect()
}

/// Reads lowercase hex digits; `None` for any other character.
pub(crate) fn hex_to(text: &[u8], bytes: &mut [u8]) -> Option<()> {
    for (pair, byte) in text.chunks_exact(2).zip(bytes) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(())
}

/// The standard alphabet of base64.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What a character stands for in base64; above 63 for those that stand for nothing.
const VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < LETTERS.len() {
        values[LETTERS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Writes 18 bytes as 24 characters of base64. Both directions are done for every
/// job of every command, and need nothing of what a general codec has to care about.
fn random_from(random: &[u8; 18], text: &mut [u8]) {
    for (letters, bytes) in text.chunks_exact_mut(4).zip(random.chunks_exact(3)) {
        let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for (place, letter) in letters.iter_mut().enumerate() {
            *letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
        }
    }
}

/// The reverse; `None` for a character that no node writes.
fn random_to(text: &[u8], random: &mut [u8; 18]) -> Option<()> {
    let mut seen = 0;
    for (letters, bytes) in text.chunks_exact(4).zip(random.chunks_exact_mut(3)) {
        let mut bits = 0;
        for &letter in letters {
            let value = VALUES[usize::from(letter)];
            seen |= value;
            bits = bits << 6 | u32::from(value & 63);
        }
        bytes.copy_from_slice(&bits.to_be_bytes()[1..]);
    }
    (seen < 64).then_some(())
}

fn digit(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn generator() -> IdGenerator {
        IdGenerator::new([0xab, 0xcd, 0xef, 0x01], [7; 32])
    }

    #[test]
    fn text_has_the_known_shape() {
        let text = generator().next(Span::from_secs(86_400), true).text();
        assert_eq!(&text[..11], b"D-abcdef01-");
        assert_eq!(&text[35..], b"-05a1");
    }

    #[test]
    fn text_and_id_round_trip() {
        let mut ids = generator();
        for _ in 0..1000 {
            let id = ids.next(Span::from_secs(60), true);
            assert_eq!(JobId::parse(&id.text()), Ok(Some(id)));
        }
    }

    #[test]
    fn random_bits_are_base64() {
        let random = std::array::from_fn(|i| i as u8 * 15);
        let mut text = [0; 24];
        random_from(&random, &mut text);
        assert_eq!(&text, b"AA8eLTxLWml4h5altMPS4fD/");
        let mut back = [0; 18];
        assert_eq!(random_to(&text, &mut back), Some(()));
        assert_eq!(back, random);
        for bad in [b'=', b'-', b'_', b' ', 0, 0xff] {
            text[23] = bad;
            assert_eq!(random_to(&text, &mut back), None, "{bad}");
        }
    }

    #[test]
    fn all_144_bits_differ_between_ids() {
        let mut ids = generator();
        let mut seen = HashSet::new();
        let (mut ones, mut zeros) = ([0u8; 18], [0u8; 18]);
        for _ in 0..2000 {
            let id = ids.next(Span::from_secs(60), true);
            assert!(seen.insert(id));
            for (i, byte) in id.random().iter().enumerate() {
                ones[i] |= byte;
                zeros[i] |= !byte;
            }
        }
        assert_eq!((ones, zeros), ([0xff; 18], [0xff; 18]));
    }

    #[test]
    fn ttl_field_is_never_below_the_ttl_and_tells_retry() {
        for (ms, retried, field) in [
            (1, true, 1),
            (1, false, 2),
            (60_000, true, 1),
            (60_001, true, 3),
            (60_001, false, 2),
            (86_400_000, true, 1441),
            (86_400_000, false, 1440),
            (65_535 * 60_000, true, 65_535),
            (65_535 * 60_000, false, 65_534),
            (u64::MAX, true, 65_535),
        ] {
            assert_eq!(
                ttl_field(Span::from_ms(ms), retried),
                field,
                "{ms} {retried}"
            );
        }
    }

    #[test]
    fn form_is_checked_before_digits() {
        let good = generator().next(Span::from_secs(60), true).text();
        assert_eq!(JobId::parse(&good[..39]), Err(Error::BadId));
        for at in [0, 1, 10, 35] {
            let mut bad = good;
            bad[at] = b'x';
            assert_eq!(JobId::parse(&bad), Err(Error::BadId), "byte {at}");
        }
        for at in [2, 9, 11, 34, 36, 39] {
            let mut odd = good;
            odd[at] = b'!';
            assert_eq!(JobId::parse(&odd), Ok(None), "byte {at}");
        }
        let mut upper = good;
        upper[2] = b'A';
        assert_eq!(JobId::parse(&upper), Ok(None), "only lowercase is made");
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_round_trip(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(Some(id)) = JobId::parse(&text) {
                prop_assert_eq!(&id.text()[..], &text[..]);
            }
        }
    }
}

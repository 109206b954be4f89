//! The bytes of a record or a message: the one place that knows the encoder.

use crate::body::{NextBody, MAX_LEN};
use bincode::config::{self, Configuration, Limit};
use bincode::enc::write::Writer;
use bincode::error::{DecodeError, EncodeError};
use bincode::{BorrowDecode, Encode};

/// What is read may claim no more than a body of the largest size, and the rest of a job.
const MAX_CLAIM: usize = MAX_LEN + (1 << 20);

fn format() -> Configuration<config::LittleEndian, config::Varint, Limit<MAX_CLAIM>> {
    config::standard().with_limit::<MAX_CLAIM>()
}

/// Puts a value behind these bytes.
#[inline]
pub(crate) fn append(value: &impl Encode, bytes: &mut Vec<u8>) {
    // Encoding into memory fails only for types that the format cannot express (maps of
    // unknown length and the like): none of ours is.
    let written = bincode::encode_into_writer(value, Appender(bytes), format());
    debug_assert!(written.is_ok());
}

/// The value at the front of these bytes, and how many it takes.
#[inline]
pub(crate) fn decode<'a, T: BorrowDecode<'a, NextBody<'a>>>(
    bytes: &'a [u8],
    body: NextBody<'a>,
) -> Result<(T, usize), DecodeError> {
    bincode::borrow_decode_from_slice_with_context(bytes, format(), body)
}

/// Appends what is encoded, without the detour over [`std::io::Write`].
struct Appender<'a>(&'a mut Vec<u8>);

impl Writer for Appender<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

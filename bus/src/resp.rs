//! RESP2, as far as a link needs it: commands out; statuses, errors and bulk
//! strings in.
//!
//! The decoder trusts nothing. It keeps at most one reply, of bounded size, and
//! takes memory for bytes that have come, not for those that were announced.

use bytes::{Bytes, BytesMut};
use std::fmt;

/// The longest line of a reply, its type byte and line end included. Error
/// replies of servers stay far below.
pub const MAX_LINE: usize = 4096;

/// Memory taken at once for a bulk string of announced length.
const FIRST_ROOM: usize = 64 << 10;

/// A command of small arguments.
pub fn command(args: &[&[u8]]) -> Bytes {
    let mut out = Vec::with_capacity(args.iter().map(|arg| arg.len() + 16).sum::<usize>() + 16);
    array_head(&mut out, args.len());
    for arg in args {
        bulk_head(&mut out, arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out.into()
}

/// What begins an array of `len` elements.
pub fn array_head(out: &mut Vec<u8>, len: usize) {
    head(out, b'*', len);
}

/// What stands before the bytes of a bulk string; CR LF follows them.
pub fn bulk_head(out: &mut Vec<u8>, len: usize) {
    head(out, b'$', len);
}

fn head(out: &mut Vec<u8>, kind: u8, mut number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.push(kind);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// A reply that a link can make sense of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+text`
    Status(Bytes),
    /// `-text`
    Error(Bytes),
    /// `$length bytes`
    Bulk(Bytes),
}

/// Why a peer's bytes make no sense. The connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A reply begins with this byte: not of a type that a link expects.
    UnknownType(u8),
    /// A line is longer than [`MAX_LINE`], or has a stray CR or LF.
    BadLine,
    /// The length of a bulk string is no number, or null.
    BadLength,
    /// A bulk string is longer than allowed.
    TooLong,
    /// A bulk string does not end where it said.
    BadEnd,
    /// A reply that was not asked for, or came before its request was sent.
    Unsolicited,
    /// A reply of a type that does not answer the request.
    WrongType,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ProtocolError::UnknownType(byte) => {
                return write!(f, "a reply begins with '{}'", byte.escape_ascii());
            }
            ProtocolError::BadLine => "an endless or broken line",
            ProtocolError::BadLength => "a bulk string without a length",
            ProtocolError::TooLong => "a bulk string longer than allowed",
            ProtocolError::BadEnd => "a bulk string that does not end where it said",
            ProtocolError::Unsolicited => "a reply that nobody asked for",
            ProtocolError::WrongType => "a reply of the wrong type",
        };
        f.write_str(text)
    }
}

impl std::error::Error for ProtocolError {}

/// Reads replies from bytes that come in pieces.
pub struct Decoder {
    max_bulk: usize,
    /// The line that is being read, or the bulk string with its CR LF.
    buffer: BytesMut,
    /// The length of the bulk string that is being read.
    bulk: Option<usize>,
    failed: Option<ProtocolError>,
}

impl Decoder {
    /// A decoder that takes bulk strings of up to `max_bulk` bytes.
    pub fn new(max_bulk: usize) -> Decoder {
        Decoder {
            max_bulk,
            buffer: BytesMut::new(),
            bulk: None,
            failed: None,
        }
    }

    /// Takes bytes off the front of `input` until a reply is complete or
    /// nothing is left. After an error there are only errors.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.step(input);
        if let Err(error) = result {
            self.failed = Some(error);
            self.buffer = BytesMut::new();
        }
        result
    }

    /// Bytes of memory held for a reply that is not complete.
    pub fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<Option<Reply>, ProtocolError> {
        loop {
            if let Some(len) = self.bulk {
                return self.read_bulk(len, input);
            }
            let Some(line) = self.read_line(input)? else {
                return Ok(None);
            };
            let text = line.slice(1..line.len() - 2);
            match line[0] {
                b'+' => return Ok(Some(Reply::Status(text))),
                b'-' => return Ok(Some(Reply::Error(text))),
                _ => self.bulk = Some(self.start_bulk(&text)?),
            }
        }
    }

    /// A whole line with its line end; its type is one of the three.
    fn read_line(&mut self, input: &mut &[u8]) -> Result<Option<Bytes>, ProtocolError> {
        let Some(&kind) = self.buffer.first().or(input.first()) else {
            return Ok(None);
        };
        if !matches!(kind, b'+' | b'-' | b'$') {
            return Err(ProtocolError::UnknownType(kind));
        }
        let end = input.iter().position(|&b| b == b'\n');
        let (piece, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
        if self.buffer.len() + piece.len() > MAX_LINE {
            return Err(ProtocolError::BadLine);
        }
        self.buffer.extend_from_slice(piece);
        *input = rest;
        if end.is_none() {
            return Ok(None);
        }
        let line = self.buffer.split().freeze();
        let inner = line.strip_suffix(b"\r\n").ok_or(ProtocolError::BadLine)?;
        if inner.contains(&b'\r') {
            return Err(ProtocolError::BadLine);
        }
        Ok(Some(line))
    }

    fn start_bulk(&mut self, text: &[u8]) -> Result<usize, ProtocolError> {
        const MAX_DIGITS: usize = 15;
        if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
            return Err(ProtocolError::BadLength);
        }
        if text.len() > MAX_DIGITS {
            return Err(ProtocolError::TooLong);
        }
        let digit = |n: usize, b: &u8| n * 10 + usize::from(b - b'0');
        let len = text.iter().fold(0, digit);
        if len > self.max_bulk {
            return Err(ProtocolError::TooLong);
        }
        self.buffer = BytesMut::with_capacity((len + 2).min(FIRST_ROOM));
        Ok(len)
    }

    fn read_bulk(&mut self, len: usize, input: &mut &[u8]) -> Result<Option<Reply>, ProtocolError> {
        let missing = len + 2 - self.buffer.len();
        let (piece, rest) = input.split_at(missing.min(input.len()));
        self.buffer.extend_from_slice(piece);
        *input = rest;
        if piece.len() < missing {
            return Ok(None);
        }
        let mut bulk = std::mem::take(&mut self.buffer);
        self.bulk = None;
        if !bulk.ends_with(b"\r\n") {
            return Err(ProtocolError::BadEnd);
        }
        bulk.truncate(len);
        Ok(Some(Reply::Bulk(bulk.freeze())))
    }
}

#[cfg(test)]
#[path = "resp_tests.rs"]
mod tests;

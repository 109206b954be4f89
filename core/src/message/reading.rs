//! Frames and answers as they are read.

use super::{Header, Malformed, Message, Speaker, MAX_ANSWERS, MAX_MESSAGES, PROTOCOL};
use crate::body::{Bodies, NextBody, Parts};
use crate::encoding::decode;
use bincode::BorrowDecode;

/// Reads a frame: its header, and then its messages.
pub fn read_frame<'a>(frame: impl Into<Parts<'a>>) -> Result<(Header, Messages<'a>), Malformed> {
    read_first(frame.into(), MAX_MESSAGES)
}

/// Reads an answer: who gave it, and then its messages.
pub fn read_answer(bytes: &[u8]) -> Result<(Speaker, Messages<'_>), Malformed> {
    read_first(bytes.into(), MAX_ANSWERS)
}

fn read_first<'a, T: BorrowDecode<'a, NextBody<'a>>>(
    Parts { bytes, bodies }: Parts<'a>,
    max: usize,
) -> Result<(T, Messages<'a>), Malformed> {
    let (version, rest) = bytes
        .split_first()
        .ok_or_else(|| Malformed("empty frame".into()))?;
    if *version != PROTOCOL {
        return Err(Malformed(format!(
            "protocol version {version}, this node speaks version {PROTOCOL}"
        )));
    }
    let decoded = decode(rest, bodies.next());
    let (first, len) = decoded.map_err(|error| Malformed(error.to_string()))?;
    let messages = Messages {
        rest: &rest[len..],
        bodies,
        max,
        left: max,
    };
    Ok((first, messages))
}

/// The messages of a frame in their order. After an error there are no more.
pub struct Messages<'a> {
    rest: &'a [u8],
    bodies: Bodies<'a>,
    max: usize,
    left: usize,
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return self.end().map(Err);
        }
        let decoded = match self.left {
            0 => Err(Malformed(format!("more than {} messages", self.max))),
            _ => {
                decode(self.rest, self.bodies.next()).map_err(|error| Malformed(error.to_string()))
            }
        };
        match decoded {
            Ok((message, len)) => {
                self.rest = &self.rest[len..];
                if Message::beside(&message).is_some() {
                    self.bodies.advance();
                }
                self.left -= 1;
                Some(Ok(message))
            }
            Err(error) => {
                self.rest = &[];
                self.bodies = Bodies::default();
                Some(Err(error))
            }
        }
    }
}

impl Messages<'_> {
    /// The end: no body may be left.
    fn end(&mut self) -> Option<Malformed> {
        let left = std::mem::take(&mut self.bodies).left();
        (left > 0).then(|| Malformed(format!("{left} bodies that belong to no message")))
    }
}

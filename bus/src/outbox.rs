//! What is to be sent to one peer: messages that wait, and the bytes of the
//! request that is being written.

use crate::counters::Charge;
use crate::message::{Message, Serials, FRAME_BYTES, FRAME_MESSAGES};
use crate::resp;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::IoSlice;

/// The command that carries a frame.
pub(crate) const COMMAND: &[u8] = b"DISQUE.BUS";

/// One request at a time is written; messages become a frame only when the one
/// before is written, so that a slow socket makes frames larger, not many.
#[derive(Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<(Message, Charge)>,
    /// Pieces of the request that is being written; none is empty.
    pieces: VecDeque<Bytes>,
    /// Holds the frame's bytes in account until they are written.
    charges: Vec<Charge>,
    /// The last message of which a byte may have been written.
    written: Option<u64>,
}

impl Outbox {
    pub(crate) fn push(&mut self, message: Message, charge: Charge) {
        self.waiting.push_back((message, charge));
    }

    /// How many messages wait for a frame.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a message waits for a frame.
    pub(crate) fn has_messages(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a request is not written to its end.
    pub(crate) fn is_writing(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// The last message that may have been written, at least in part.
    pub(crate) fn written(&self) -> Option<u64> {
        self.written
    }

    /// Puts a command behind what is being written.
    pub(crate) fn request(&mut self, command: Bytes) {
        self.pieces.push_back(command);
    }

    /// Makes a frame of the messages that wait, as many as it may hold; a PING
    /// if there are none. It counts as written from here on.
    pub(crate) fn frame(&mut self, prefix: &[u8]) -> Option<Serials> {
        let plan = self.plan(prefix.len());
        let mut head = plan.head();
        head.extend_from_slice(prefix);
        let mut bodies = Vec::with_capacity(plan.bodies);
        let mut serials: Option<Serials> = None;
        for (message, charge) in self.waiting.drain(..plan.count) {
            head.extend_from_slice(&message.bytes);
            bodies.extend(message.bodies);
            self.charges.push(charge);
            serials = Some(Serials {
                first: serials.map_or(message.serial, |s| s.first),
                last: message.serial,
                count: plan.count,
            });
        }
        head.extend_from_slice(b"\r\n");
        self.put(head, bodies);
        self.written = serials.map(|s| s.last).or(self.written);
        serials
    }

    /// What goes into the next frame.
    fn plan(&self, prefix_len: usize) -> Plan {
        let mut plan = Plan {
            count: 0,
            header_len: prefix_len,
            bodies: 0,
        };
        let mut total = prefix_len;
        for (message, _) in self.waiting.iter().take(FRAME_MESSAGES) {
            total += message.size();
            if plan.count > 0 && total > FRAME_BYTES {
                break;
            }
            plan.count += 1;
            plan.header_len += message.bytes.len();
            plan.bodies += message.bodies.len();
        }
        plan
    }

    /// Bodies stay where they are: each is a piece of its own.
    fn put(&mut self, mut piece: Vec<u8>, bodies: Vec<Bytes>) {
        for body in bodies {
            resp::bulk_head(&mut piece, body.len());
            self.pieces.push_back(std::mem::take(&mut piece).into());
            if !body.is_empty() {
                self.pieces.push_back(body);
            }
            piece.extend_from_slice(b"\r\n");
        }
        self.pieces.push_back(piece.into());
    }

    /// Fills `slices` with what comes next; how many it filled.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pairs = slices.iter_mut().zip(&self.pieces);
        pairs
            .map(|(slice, piece)| *slice = IoSlice::new(piece))
            .count()
    }

    /// Takes off what was written.
    pub(crate) fn advance(&mut self, mut bytes: usize) {
        while let Some(piece) = self.pieces.front_mut() {
            if bytes < piece.len() {
                let _ = piece.split_to(bytes);
                return;
            }
            bytes -= piece.len();
            self.pieces.pop_front();
        }
        debug_assert_eq!(bytes, 0, "more was written than there was");
        self.charges.clear();
    }

    /// Drops everything, for the next connection; how many messages waited.
    pub(crate) fn clear(&mut self) -> usize {
        let dropped = self.waiting.len();
        *self = Outbox::default();
        dropped
    }
}

/// What a frame will hold.
struct Plan {
    count: usize,
    /// Bytes of the header.
    header_len: usize,
    /// Arguments behind it.
    bodies: usize,
}

impl Plan {
    /// The command up to the header, with room for the header.
    fn head(&self) -> Vec<u8> {
        const AROUND: usize = 64;
        let mut head = Vec::with_capacity(self.header_len + AROUND);
        resp::array_head(&mut head, 2 + self.bodies);
        resp::bulk_head(&mut head, COMMAND.len());
        head.extend_from_slice(COMMAND);
        head.extend_from_slice(b"\r\n");
        resp::bulk_head(&mut head, self.header_len);
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;

    fn outbox(messages: impl IntoIterator<Item = Message>) -> Outbox {
        let mut outbox = Outbox::default();
        let counters = Counters::new();
        for message in messages {
            let charge = counters.admit(message.size(), usize::MAX).unwrap();
            outbox.push(message, charge);
        }
        outbox
    }

    fn of_size(serial: u64, size: usize) -> Message {
        Message::new(serial, vec![b'x'; size])
    }

    /// Writes `step` bytes at a time, seeing at most `width` pieces.
    fn write(outbox: &mut Outbox, step: usize, width: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while outbox.is_writing() {
            let mut slices = [IoSlice::new(&[]); 8];
            let filled = outbox.slices(&mut slices[..width]);
            assert!(filled > 0);
            let all: Vec<u8> = slices[..filled].iter().flat_map(|s| s.to_vec()).collect();
            let n = step.min(all.len());
            bytes.extend(&all[..n]);
            outbox.advance(n);
        }
        bytes
    }

    #[test]
    fn a_frame_is_one_command() {
        let expected = b"*4\r\n$10\r\nDISQUE.BUS\r\n$5\r\npAB1C\r\n$3\r\nxyz\r\n$0\r\n\r\n";
        for (step, width) in [(1, 1), (3, 2), (1000, 8)] {
            let mut outbox = outbox([
                Message::new(7, "A"),
                Message::new(8, "B1").with_body("xyz").with_body(""),
                Message::new(9, "C"),
            ]);
            let serials = outbox.frame(b"p").unwrap();
            assert_eq!((serials.first, serials.last, serials.count), (7, 9, 3));
            assert_eq!(write(&mut outbox, step, width), expected);
            assert_eq!(outbox.written(), Some(9));
        }
    }

    #[test]
    fn a_frame_without_messages_is_a_ping() {
        let mut outbox = outbox([]);
        assert_eq!(outbox.frame(b"pre"), None);
        let bytes = write(&mut outbox, 100, 8);
        assert_eq!(bytes, b"*2\r\n$10\r\nDISQUE.BUS\r\n$3\r\npre\r\n");
        assert_eq!(outbox.written(), None);
    }

    #[test]
    fn a_frame_holds_so_many_messages() {
        let mut outbox = outbox((0..FRAME_MESSAGES as u64 + 1).map(|n| of_size(n, 1)));
        assert_eq!(outbox.frame(b"").unwrap().count, FRAME_MESSAGES);
        assert_eq!(outbox.frame(b"").unwrap().count, 1);
    }

    #[test]
    fn a_frame_holds_so_many_bytes() {
        let half = FRAME_BYTES / 2;
        for (prefix, second, count) in [(0, half, 2), (0, half + 1, 1), (1, half, 1)] {
            let mut outbox = outbox([of_size(1, half), of_size(2, second)]);
            assert_eq!(outbox.frame(&vec![0; prefix]).unwrap().count, count);
        }
    }

    #[test]
    fn bodies_count_and_a_larger_message_goes_alone() {
        let body = vec![0; FRAME_BYTES * 2];
        let mut outbox = outbox([
            of_size(1, 1),
            of_size(2, 1).with_body(body),
            of_size(3, 1),
            of_size(4, 1),
        ]);
        let counts = [(); 3].map(|()| outbox.frame(b"").unwrap().count);
        assert_eq!(counts, [1, 1, 2]);
    }

    #[test]
    fn bytes_stay_in_account_until_they_are_written() {
        let counters = Counters::new();
        let mut outbox = Outbox::default();
        for serial in 0..2 {
            outbox.push(of_size(serial, 10), counters.admit(10, 100).unwrap());
        }
        outbox.frame(b"");
        assert_eq!(counters.read().queued_bytes, 20);
        write(&mut outbox, 100, 8);
        assert_eq!(counters.read().queued_bytes, 0);
        outbox.push(of_size(3, 10), counters.admit(10, 100).unwrap());
        assert_eq!(outbox.clear(), 1);
        assert_eq!(counters.read().queued_bytes, 0);
    }
}

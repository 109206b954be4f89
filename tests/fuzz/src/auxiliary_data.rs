//! Auxiliary data: whatever row of values an RDB holds, the load ends, the node that
//! takes it stays sound, and what it saves is read as it was written.

use crate::records::{check, fresh_node, with_header, START};
use disque_core::auxiliary::{load, save, ReadError, Reader, Writer, VERSION};
use disque_core::node::Node;

/// Takes the first byte as the version, and what follows as a row: a number is a byte,
/// bytes have their length in two in front, little endian. Its highest bit says that
/// they get the version and checksum of a batch.
pub fn auxiliary_data(input: &[u8]) {
    let (version, row) = match input.split_first() {
        Some((version, row)) => (i32::from(*version), row),
        None => (VERSION, input),
    };
    let mut strict = fresh_node(START, 0);
    let read = load(&mut Tape(row), version, |_, batch| {
        strict.apply(START, batch).map_err(|e| e.to_string())
    });
    check(&strict, START, "after the row");
    let mut lenient = fresh_node(START, 0);
    let mut bad = 0;
    let all_read = load(&mut Tape(row), version, |_, batch| {
        bad += usize::from(lenient.apply(START, batch).is_err());
        Ok(())
    });
    check(&lenient, START, "after what could be read of the row");
    assert_eq!(read.is_ok(), all_read.is_ok() && bad == 0);
    comes_back(&lenient);
}

/// What a node saves is read, and not without its end.
fn comes_back(node: &Node) {
    let mut saved = Row::default();
    save(node, START, &mut saved);
    let mut copy = fresh_node(START, 1);
    let read = load(&mut saved.reader(), VERSION, |_, batch| {
        copy.apply(START, batch).map_err(|e| e.to_string())
    });
    assert_eq!(read, Ok(()), "a row that cannot be read");
    check(&copy, START, "after its own row");
    assert_eq!(copy.job_count(), node.job_count());
    saved.0.pop();
    let read = load(&mut saved.reader(), VERSION, |_, _| Ok(()));
    assert!(read.is_err(), "read without its end");
}

/// A row that is read from bytes.
struct Tape<'a>(&'a [u8]);

impl Tape<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], ReadError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(ReadError)?;
        self.0 = rest;
        Ok(taken)
    }
}

impl Reader for Tape<'_> {
    type Bytes = Vec<u8>;

    fn number(&mut self) -> Result<u64, ReadError> {
        Ok(self.take(1)?[0].into())
    }

    fn bytes(&mut self) -> Result<Vec<u8>, ReadError> {
        const WITH_HEADER: u16 = 1 << 15;
        let length = self.take(2)?;
        let length = u16::from_le_bytes([length[0], length[1]]);
        let bytes = self.take(usize::from(length & !WITH_HEADER))?;
        Ok(match length & WITH_HEADER {
            0 => bytes.to_vec(),
            _ => with_header(bytes),
        })
    }
}

/// A row in memory.
#[derive(Default)]
struct Row(Vec<Value>);

enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Row {
    fn reader(&self) -> RowReader<'_> {
        RowReader(self.0.iter())
    }
}

impl Writer for Row {
    fn number(&mut self, value: u64) {
        self.0.push(Value::Number(value));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(Value::Bytes(bytes.to_vec()));
    }

    fn failed(&self) -> bool {
        false
    }
}

struct RowReader<'a>(std::slice::Iter<'a, Value>);

impl<'a> Reader for RowReader<'a> {
    type Bytes = &'a [u8];

    fn number(&mut self) -> Result<u64, ReadError> {
        match self.0.next() {
            Some(Value::Number(number)) => Ok(*number),
            _ => Err(ReadError),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], ReadError> {
        match self.0.next() {
            Some(Value::Bytes(bytes)) => Ok(bytes),
            _ => Err(ReadError),
        }
    }
}

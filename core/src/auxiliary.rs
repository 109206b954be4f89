//! The snapshot as it lies in the RDB (and so in the preamble of the append only file,
//! and in a full sync): auxiliary data, a row of values of which Redis knows numbers and
//! bytes. Each batch of records has a 1 in front, and a 0 ends the row.

use crate::clock::Now;
use crate::node::Node;
use std::ops::Deref;

/// The version of this framing. Records have a version of their own.
pub const VERSION: i32 = 1;

const BATCH: u64 = 1;
const END: u64 = 0;

/// Where a row is written.
pub trait Writer {
    /// Appends a number.
    fn number(&mut self, value: u64);
    /// Appends bytes.
    fn bytes(&mut self, bytes: &[u8]);
    /// Whether writing has failed: the rest is of no use.
    fn failed(&self) -> bool;
}

/// Where a row is read.
pub trait Reader {
    /// Bytes that were read.
    type Bytes: Deref<Target = [u8]>;
    /// The next value, which must be a number.
    fn number(&mut self) -> Result<u64, ReadError>;
    /// The next value, which must be bytes.
    fn bytes(&mut self) -> Result<Self::Bytes, ReadError>;
}

/// The row ends early or is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadError;

impl From<ReadError> for String {
    fn from(_: ReadError) -> String {
        "the data end early or are damaged".into()
    }
}

/// Writes all of a node. A row that broke off has no end mark and cannot be loaded.
pub fn save(node: &Node, now: Now, row: &mut impl Writer) {
    let written = node.snapshot(now, &mut |batch| {
        if row.failed() {
            return Err(());
        }
        row.number(BATCH);
        row.bytes(batch);
        Ok(())
    });
    if written.is_ok() {
        row.number(END);
    }
}

/// Reads a row and hands each batch to `take`, with its number from 1 on. An error of
/// `take` ends the load.
pub fn load(
    row: &mut impl Reader,
    version: i32,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    if version != VERSION {
        return Err(format!(
            "the RDB holds job data of version {version}, this module reads version {VERSION}"
        ));
    }
    for batch in 1.. {
        match row.number()? {
            BATCH => take(batch, &row.bytes()?)?,
            END => break,
            other => return Err(format!("an unknown mark, {other}, before batch {batch}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Identity;
    use crate::settings::Settings;

    const NOW: Now = Now {
        mono_ms: 1_000,
        wall_ms: 1_700_000_000_000,
    };

    /// A row of which the first values can be written.
    struct Row {
        values: Vec<Vec<u8>>,
        room: usize,
    }

    impl Writer for Row {
        fn number(&mut self, value: u64) {
            self.bytes(&value.to_le_bytes());
        }

        fn bytes(&mut self, bytes: &[u8]) {
            if !self.failed() {
                self.values.push(bytes.to_vec());
            }
        }

        fn failed(&self) -> bool {
            self.values.len() == self.room
        }
    }

    /// The values of a row one after the other.
    struct Values(std::vec::IntoIter<Vec<u8>>);

    impl Reader for Values {
        type Bytes = Vec<u8>;

        fn number(&mut self) -> Result<u64, ReadError> {
            let value = self.bytes()?.try_into().map_err(|_| ReadError)?;
            Ok(u64::from_le_bytes(value))
        }

        fn bytes(&mut self) -> Result<Vec<u8>, ReadError> {
            self.0.next().ok_or(ReadError)
        }
    }

    /// The row of a node, of which so many values could be written.
    fn saved(room: usize) -> Vec<Vec<u8>> {
        let identity = Identity {
            id: [0xab; 20],
            epoch: 1,
            term: 1,
        };
        let node = Node::new(identity, Settings::default(), [0; 32], NOW);
        let mut row = Row {
            values: Vec::new(),
            room,
        };
        save(&node, NOW, &mut row);
        row.values
    }

    /// How many batches are in a row.
    fn read(values: Vec<Vec<u8>>, version: i32) -> Result<u64, String> {
        let mut last = 0;
        let ended = load(&mut Values(values.into_iter()), version, |batch, _| {
            last = batch;
            Ok(())
        });
        ended.map(|()| last)
    }

    #[test]
    fn what_was_saved_is_read() {
        assert_eq!(read(saved(usize::MAX), VERSION), Ok(1));
    }

    #[test]
    fn a_row_that_broke_off_is_not_read() {
        let whole = saved(usize::MAX).len();
        for room in 0..whole {
            assert!(read(saved(room), VERSION).is_err(), "{room} of {whole}");
        }
    }

    #[test]
    fn other_versions_and_unknown_marks_are_refused() {
        let error = read(saved(usize::MAX), VERSION + 1).unwrap_err();
        assert!(error.contains("version 2"), "{error}");
        let mut values = saved(usize::MAX);
        let end = values.last_mut().expect("an end");
        *end = 7_u64.to_le_bytes().to_vec();
        let error = read(values, VERSION).unwrap_err();
        assert_eq!(error, "an unknown mark, 7, before batch 2");
    }
}

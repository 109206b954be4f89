//! The nodes file: what a node knows of itself even when its data are gone.
//!
//! A text of `name value` lines that ends in a checksum over the lines before
//! it. It is read with suspicion: a file that is not exactly as written is none.

use crate::job_id::hex_from;
use crate::node::Identity;
use std::fmt::Write;

/// What the file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodesFile {
    /// The node's identity; what stands in the data goes before it.
    pub identity: Identity,
    /// Whether the server wrote everything down and stopped. Taken back as soon
    /// as it starts again.
    pub clean_stop: bool,
}

const TITLE: &str = "disque-nodes 1";
/// A file that is longer than this was not written by [`NodesFile::to_text`].
pub const MAX_LEN: usize = 4096;

impl NodesFile {
    /// The whole text of the file.
    pub fn to_text(&self) -> String {
        let Identity { epoch, term, .. } = self.identity;
        let mut text = format!("{TITLE}\nid {}\n", self.identity.hex());
        let clean = if self.clean_stop { "yes" } else { "no" };
        // Writing to a String cannot fail.
        let _ = write!(text, "epoch {epoch}\nterm {term}\nclean-stop {clean}\n");
        let checksum = checksum(&text);
        text.push_str("checksum ");
        text.push_str(&checksum);
        text.push('\n');
        text
    }

    /// Reads the text back; the error says what is wrong with it.
    pub fn parse(text: &[u8]) -> Result<NodesFile, &'static str> {
        if text.len() > MAX_LEN {
            return Err("too long");
        }
        let text = std::str::from_utf8(text).map_err(|_| "not a text")?;
        let (body, sum) = text.rsplit_once("checksum ").ok_or("no checksum")?;
        if sum.strip_suffix('\n') != Some(checksum(body).as_str()) {
            return Err("wrong checksum");
        }
        let mut lines = body.lines();
        if lines.next() != Some(TITLE) {
            return Err("unknown format");
        }
        let mut value = |name: &str| {
            let (found, value) = lines.next()?.split_once(' ')?;
            (found == name).then_some(value)
        };
        let id = value("id").and_then(|hex| Identity::parse_hex(hex.as_bytes()));
        let epoch = value("epoch").and_then(|n| n.parse().ok());
        let term = value("term").and_then(|n| n.parse().ok());
        let clean_stop = match value("clean-stop") {
            Some("yes") => true,
            Some("no") => false,
            _ => return Err("clean-stop is neither yes nor no"),
        };
        let file = NodesFile {
            identity: Identity {
                id: id.ok_or("no node id")?,
                epoch: epoch.ok_or("no epoch")?,
                term: term.ok_or("no term")?,
            },
            clean_stop,
        };
        // Numbers with signs and zeros in front, lines after the last.
        if file.to_text() != text {
            return Err("not as it is written");
        }
        Ok(file)
    }
}

fn checksum(text: &str) -> String {
    let mut digits = [0; 8];
    hex_from(&crc32fast::hash(text.as_bytes()).to_be_bytes(), &mut digits);
    digits.iter().map(|&b| char::from(b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file() -> NodesFile {
        NodesFile {
            identity: Identity {
                id: [0xa5; 20],
                epoch: u64::MAX,
                term: 3,
            },
            clean_stop: true,
        }
    }

    #[test]
    fn round_trip() {
        let text = file().to_text();
        assert_eq!(NodesFile::parse(text.as_bytes()), Ok(file()));
    }

    #[test]
    fn any_change_is_noticed() {
        let text = file().to_text();
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert!(NodesFile::parse(&bytes).is_err(), "byte {at} bit {bit}");
            }
            assert!(
                NodesFile::parse(&text.as_bytes()[..at]).is_err(),
                "cut at {at}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(NodesFile::parse(&bytes).is_err());
        }
    }
}

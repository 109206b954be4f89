//! The nodes file: what a node knows of itself even when its data are gone.
//!
//! A text of `name value` lines that ends in a checksum over the lines before
//! it. It is read with suspicion: a file that is not exactly as written is none.

use crate::cluster::Contact;
use crate::job_id::hex_text;
use crate::node::Identity;
use std::fmt::Write;

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesFile {
    /// The node's identity; what stands in the data goes before it.
    pub identity: Identity,
    /// How often the node has started.
    pub incarnation: u64,
    /// Whether the server wrote everything down and stopped. Taken back as soon
    /// as it starts again.
    pub clean_stop: bool,
    /// How many batches of records the data held at least; see
    /// [`crate::node::Node::batches`].
    pub batches: u64,
    /// Whether each change was on disk before anybody saw its reply.
    pub synced: bool,
    /// The other nodes of the table.
    pub nodes: Vec<(Identity, Contact)>,
    /// Nodes that were forgotten: id, data epoch, wall-clock ms up to which.
    pub forgotten: Vec<([u8; 20], u64, u64)>,
}

/// How data that were loaded compare with what the file says of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// They are what was there at the clean stop, no less and no more.
    AsStopped,
    /// They hold at least what the file knows of.
    NotOlder,
    /// They are older than what the node has written, of another line, or gone.
    Older,
}

const TITLE: &str = "disque-nodes 1";
/// A file that is longer than this was not written by [`NodesFile::to_text`].
pub const MAX_LEN: usize = 512 << 10;

impl NodesFile {
    /// The whole text of the file.
    pub fn to_text(&self) -> String {
        let Identity { epoch, term, .. } = self.identity;
        let mut text = format!("{TITLE}\nid {}\n", self.identity.hex());
        let word = |yes| if yes { "yes" } else { "no" };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "epoch {epoch}\nterm {term}\nincarnation {}\nclean-stop {}\nbatches {}\nsynced {}\n",
            self.incarnation,
            word(self.clean_stop),
            self.batches,
            word(self.synced)
        );
        for (node, contact) in &self.nodes {
            let (id, Contact { host, port }) = (node.hex(), contact);
            let _ = writeln!(text, "node {id} {} {} {port} {host}", node.epoch, node.term);
        }
        for (id, epoch, until) in &self.forgotten {
            let _ = writeln!(text, "forgotten {} {epoch} {until}", hex_text(id));
        }
        let checksum = checksum(&text);
        let _ = writeln!(text, "checksum {checksum}");
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
        let incarnation = value("incarnation").and_then(|n| n.parse().ok());
        let clean_stop = value("clean-stop").and_then(yes_or_no);
        let batches = value("batches").and_then(|n| n.parse().ok());
        let synced = value("synced").and_then(yes_or_no);
        let mut file = NodesFile {
            identity: Identity {
                id: id.ok_or("no node id")?,
                epoch: epoch.ok_or("no epoch")?,
                term: term.ok_or("no term")?,
            },
            incarnation: incarnation.ok_or("no incarnation")?,
            clean_stop: clean_stop.ok_or("clean-stop is neither yes nor no")?,
            batches: batches.ok_or("no number of batches")?,
            synced: synced.ok_or("synced is neither yes nor no")?,
            nodes: Vec::new(),
            forgotten: Vec::new(),
        };
        for line in lines {
            file.take_line(line).ok_or("a line makes no sense")?;
        }
        // Numbers with signs and zeros in front, lines in another order.
        if file.to_text() != text {
            return Err("not as it is written");
        }
        Ok(file)
    }

    /// What is to be thought of data of this identity that hold so many batches.
    /// The counts of different lines of data say nothing of each other.
    pub fn age(&self, identity: &Identity, batches: u64) -> Age {
        let line = |identity: &Identity| (identity.id, identity.epoch);
        if line(identity) != line(&self.identity) || batches < self.batches {
            Age::Older
        } else if self.clean_stop && batches == self.batches {
            Age::AsStopped
        } else {
            Age::NotOlder
        }
    }

    fn take_line(&mut self, line: &str) -> Option<()> {
        let mut words = line.splitn(6, ' ');
        let kind = words.next()?;
        let id = Identity::parse_hex(words.next()?.as_bytes())?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let (first, second) = (number()?, number()?);
        match kind {
            "node" => {
                let port = u16::try_from(number()?).ok()?;
                let identity = Identity {
                    id,
                    epoch: first,
                    term: second,
                };
                let host = words.next()?.into();
                self.nodes.push((identity, Contact { host, port }));
            }
            "forgotten" => self.forgotten.push((id, first, second)),
            _ => return None,
        }
        Some(())
    }
}

fn yes_or_no(word: &str) -> Option<bool> {
    match word {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

fn checksum(text: &str) -> String {
    hex_text(&crc32fast::hash(text.as_bytes()).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity(n: u8) -> Identity {
        Identity {
            id: [n; 20],
            epoch: u64::from(n),
            term: 0,
        }
    }

    fn contact(host: &str, port: u16) -> Contact {
        Contact {
            host: host.into(),
            port,
        }
    }

    fn file() -> NodesFile {
        NodesFile {
            identity: Identity {
                id: [0xa5; 20],
                epoch: u64::MAX,
                term: 3,
            },
            incarnation: 7,
            clean_stop: true,
            batches: 12,
            synced: false,
            nodes: vec![
                (identity(1), contact("10.0.0.1", 1)),
                (identity(2), contact("a host", 65_535)),
            ],
            forgotten: vec![([9; 20], 4, 5)],
        }
    }

    #[test]
    fn round_trip() {
        let text = file().to_text();
        assert_eq!(NodesFile::parse(text.as_bytes()), Ok(file()));
    }

    #[test]
    fn data_are_as_stopped_only_if_nothing_is_missing_or_more() {
        let mut file = file();
        let own = file.identity;
        assert_eq!(file.age(&own, 12), Age::AsStopped);
        assert_eq!(file.age(&own, 11), Age::Older);
        assert_eq!(file.age(&own, 13), Age::NotOlder);
        let other = Identity { epoch: 1, ..own };
        assert_eq!(file.age(&other, 12), Age::Older);
        assert_eq!(file.age(&identity(1), 13), Age::Older);
        file.clean_stop = false;
        assert_eq!(file.age(&own, 12), Age::NotOlder);
        assert_eq!(file.age(&own, 0), Age::Older);
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

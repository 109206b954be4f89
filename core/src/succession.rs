//! Who is a node once its server is lost: a replica of it that was promoted.
//!
//! The promoted one keeps the node's id and adds 1 to its *term*: of two servers
//! with one id the one with the higher term is the node. It also begins another
//! line of data, since the last that the lost server did may be missing. The epoch
//! of that line follows from the one before it, so that whoever knows either line
//! knows that they belong together, in whatever order it hears of them.

use crate::cluster::Contact;
use crate::node::Identity;
use std::fmt;

/// Promotions in a row of which another node may hear only the last.
const UNHEARD: usize = 16;

impl Identity {
    /// The same node once a replica of it is promoted.
    pub fn promoted(&self) -> Identity {
        Identity {
            id: self.id,
            epoch: next_epoch(self.epoch),
            term: self.term.saturating_add(1),
        }
    }
}

/// The steps of Knuth's generator, which goes through all numbers before it meets
/// one again, and can be gone backwards.
const FACTOR: u64 = 6_364_136_223_846_793_005;
const STEP: u64 = 1_442_695_040_888_963_407;
/// `FACTOR * BACK` is 1.
const BACK: u64 = 13_877_824_140_714_322_085;

/// The data epoch that follows a promotion.
fn next_epoch(epoch: u64) -> u64 {
    epoch.wrapping_mul(FACTOR).wrapping_add(STEP)
}

/// The data epoch before a promotion.
fn last_epoch(epoch: u64) -> u64 {
    epoch.wrapping_sub(STEP).wrapping_mul(BACK)
}

/// The epochs that data of this one have after promotions.
pub fn descendants(epoch: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(epoch), |epoch| Some(next_epoch(*epoch)))
        .skip(1)
        .take(UNHEARD)
}

/// The epochs that data of this one had if they were promoted.
pub fn ancestors(epoch: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(epoch), |epoch| Some(last_epoch(*epoch)))
        .skip(1)
        .take(UNHEARD)
}

/// The server that is this node now, in place of one with a lower term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    /// Its term.
    pub term: u64,
    /// Where it is.
    pub contact: Contact,
}

const TERM: &str = "SUPERSEDED term ";
const PLACE: &str = " of this node is at ";
const ADVICE: &str = ": make this server its replica, or DISQUE RESET";

impl fmt::Display for Successor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contact { host, port } = &self.contact;
        write!(f, "{TERM}{}{PLACE}{host} {port}{ADVICE}", self.term)
    }
}

impl Successor {
    /// What an error reply says of the successor, if it is about one.
    pub fn parse(error: &str) -> Option<Successor> {
        let (term, rest) = error.strip_prefix(TERM)?.split_once(PLACE)?;
        Some(Successor {
            term: term.parse().ok()?,
            contact: Contact::parse(rest.strip_suffix(ADVICE)?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity(epoch: u64) -> Identity {
        Identity {
            id: [1; 20],
            epoch,
            term: 4,
        }
    }

    #[test]
    fn a_promoted_one_is_the_node_with_a_term_more_and_other_data() {
        let before = identity(7);
        let after = before.promoted();
        assert_eq!((after.id, after.term), (before.id, 5));
        assert_eq!(descendants(before.epoch).next(), Some(after.epoch));
        assert_eq!(ancestors(after.epoch).next(), Some(before.epoch));
    }

    #[test]
    fn other_errors_name_no_successor() {
        for text in [
            "SUPERSEDED",
            "SUPERSEDED term x of this node is at a 1: make this server its replica, or DISQUE RESET",
            "SUPERSEDED term 1 of this node is at a 99999: make this server its replica, or DISQUE RESET",
            "SUPERSEDED term 1 of this node is at a 1",
            "FORGOTTEN",
        ] {
            assert_eq!(Successor::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn promotions_are_seen_from_both_ends(epoch: u64) {
            let line: Vec<u64> = descendants(epoch).collect();
            prop_assert_eq!(line.len(), UNHEARD);
            let mut back: Vec<u64> = ancestors(line[UNHEARD - 1]).collect();
            prop_assert_eq!(back.pop(), Some(epoch));
            back.reverse();
            prop_assert_eq!(&back[..], &line[..UNHEARD - 1]);
            prop_assert!(!line.contains(&epoch));
        }

        #[test]
        fn what_is_said_of_a_successor_is_read_back(term: u64, port: u16, host in "[a-z0-9.:-]{1,40}") {
            let successor = Successor { term, contact: Contact { host, port } };
            prop_assert_eq!(Successor::parse(&successor.to_string()), Some(successor));
        }
    }
}

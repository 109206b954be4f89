//! Another server is this node now: a replica of it was promoted, while this one
//! could not be reached or was not told. It serves nothing until it is made a
//! replica, or reset.

use super::{Identity, Node};
use crate::clock::Now;
use crate::cluster::{Contact, Peer, PeerKey};
use crate::effects::{Answer, BusAction, Effects, News};
use crate::error::Error;
use crate::message::Listing;
use crate::mutants::Mutant;
use crate::record::Record;
use crate::succession::Successor;

/// What is known of a server that is this node as well.
pub(super) struct Doubled {
    other: Contact,
    /// Who told of it.
    pub by: PeerKey,
    /// When that was, monotonic ms.
    pub at: u64,
}

impl Peer {
    /// The node as one that it has superseded is told of it.
    pub(super) fn as_successor(&self) -> Successor {
        Successor {
            term: self.term,
            contact: self.contact.clone(),
        }
    }
}

impl Successor {
    /// As a table lists it under this node's own id.
    pub(super) fn listed(listing: &Listing<'_>) -> Successor {
        Successor {
            term: listing.term,
            contact: Contact::of(listing),
        }
    }
}

impl Node {
    /// The server that is this node in place of this one.
    pub fn successor(&self) -> Option<&Successor> {
        self.successor.as_ref()
    }

    /// Whether the jobs here are another server's to queue, hand out and settle, since
    /// that is the node. Nothing falls due then.
    pub(super) fn is_displaced(&self) -> bool {
        self.successor.is_some() || self.doubled.is_some()
    }

    /// Where another server is that is this node as well.
    pub fn double(&self) -> Option<&Contact> {
        self.doubled.as_ref().map(|double| &double.other)
    }

    /// Another server has this id and this term: clients that wait are sent away. It is
    /// not written down: which of the two goes on is for the operator to say.
    pub(super) fn set_doubled(&mut self, now: Now, other: Contact, by: PeerKey, fx: &mut Effects) {
        let double = Doubled {
            other: other.clone(),
            by,
            at: now.mono_ms,
        };
        if self.doubled.replace(double).is_some() {
            return;
        }
        self.answer_all_waiters(&Answer::Error(Error::Doubled), now, fx);
        self.refuse_all_adders(&Error::Doubled, now, fx);
        fx.news.push(News::IsDoubled(other));
    }

    /// The other one is gone, if that can be told.
    pub(super) fn end_double(&mut self, is_over: impl Fn(&Doubled) -> bool, fx: &mut Effects) {
        if self.doubled.take_if(|double| is_over(double)).is_some() {
            fx.news.push(News::IsAlone);
        }
    }

    /// Another process has spoken for this node, and has started so often. This one
    /// is there, so it goes on from that number: see [`crate::cluster::Double`].
    pub(super) fn count_on(&mut self, start: u64, fx: &mut Effects) {
        if start >= self.incarnation {
            self.incarnation = start.saturating_add(1);
            self.cluster.touch();
            fx.bus.push(BusAction::Introduce);
        }
    }

    /// Another server has this id and a higher term: clients that wait are sent away.
    /// It is written down, so that a restart changes nothing.
    pub(super) fn set_superseded(&mut self, now: Now, by: Successor, fx: &mut Effects) {
        if self.is_mutant(Mutant::SupersededServes) || !self.load_successor(by.clone()) {
            return;
        }
        self.cluster.touch();
        self.record_successor(fx);
        self.answer_all_waiters(&Answer::Error(Error::Superseded), now, fx);
        self.refuse_all_adders(&Error::Superseded, now, fx);
        fx.news.push(News::WasSuperseded(by));
    }

    /// A successor as it was written down; whether that is news.
    pub(super) fn load_successor(&mut self, by: Successor) -> bool {
        let known = self
            .successor
            .as_ref()
            .map_or(self.identity.term, |known| known.term);
        let is_news = by.term > known;
        if is_news {
            self.successor = Some(by);
        }
        is_news
    }

    /// The successor, as a line of the table under this node's own id.
    pub(super) fn superseded_line(&self) -> Option<(Identity, Contact)> {
        let Successor { term, contact } = self.successor.clone()?;
        Some((
            Identity {
                term,
                ..self.identity
            },
            contact,
        ))
    }

    fn record_successor(&self, fx: &mut Effects) {
        if let Some((identity, contact)) = self.superseded_line() {
            fx.records.push(&Record::Known(contact.listing(&identity)));
        }
    }
}

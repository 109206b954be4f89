//! Who belongs to the cluster: DISQUE MEET, FORGET, RESET, and the table that
//! was written down.

use super::{Identity, Node};
use crate::clock::Now;
use crate::cluster::{Cluster, Contact, Peer, PeerKey};
use crate::effects::{Answer, Effects, News};
use crate::error::Error;
use crate::message::{Listing, Message, Speaker};
use crate::nodes_file::NodesFile;
use crate::record::Record;
use crate::succession::Successor;
use rand::RngCore;

impl Node {
    /// DISQUE MEET, once the node at the address has said who it is. Meeting a
    /// node that is known tells where it is, if it is not linked where it was.
    pub fn met(
        &mut self,
        speaker: &Speaker,
        contact: Contact,
        fx: &mut Effects,
    ) -> Result<(), Error> {
        if speaker.id == self.identity.id {
            return Err(Error::MeetsItself);
        }
        if self.cluster.is_forgotten(&speaker.identity()) {
            return Err(Error::MeetsForgotten);
        }
        let host = contact.host.clone();
        self.add_peer(speaker, contact, fx);
        if self.cluster.is_superseded(speaker) {
            return Err(Error::CannotMeet(
                "a promoted replica is that node now".into(),
            ));
        }
        let linked = |peer: &Peer| peer.link.is_up();
        if self.cluster.supersedes(speaker) || !self.cluster.peer(&speaker.id).is_some_and(linked) {
            let change = self.cluster.update(speaker, Some(&host));
            self.carry_out(change, fx);
        }
        match self.cluster.peer(&speaker.id) {
            Some(_) => Ok(()),
            None => Err(Error::TooManyNodes),
        }
    }

    /// DISQUE FORGET: the node is gone for good, with its data. All are told, it
    /// as well, if it can still be reached.
    pub fn forget_node(&mut self, now: Now, id: &[u8], fx: &mut Effects) -> Result<(), Error> {
        let id = Identity::parse_hex(id).ok_or(Error::UnknownNode)?;
        if id == self.identity.id {
            return Err(Error::ForgetsItself);
        }
        let epoch = self.cluster.peer(&id).ok_or(Error::UnknownNode)?.epoch;
        let until = Cluster::forgotten_until(now);
        self.cluster.forget(id, epoch, until);
        fx.records.push(&Record::Forgotten { id, epoch, until });
        self.tell_all(&Message::Forgotten { id, epoch, until }, fx);
        self.remove_peer(&id, fx);
        Ok(())
    }

    /// DISQUE RESET: a new node without jobs, queues and acquaintances.
    pub fn reset(&mut self, now: Now, fx: &mut Effects) {
        self.flush(now, fx);
        for change in self.cluster.clear() {
            self.carry_out(Some(change), fx);
        }
        let mut id = [0; 20];
        self.rng.fill_bytes(&mut id);
        let epoch = self.rng.next_u64();
        self.set_identity(Identity { id, epoch, term: 0 });
        self.leaving = false;
        fx.records.push(&Record::Reset);
        fx.records.push(&Record::Node(self.identity));
    }

    /// The cluster has forgotten this node: clients that wait are sent away. It is
    /// written down as of any other node, so that a restart changes nothing.
    pub(super) fn set_forgotten(&mut self, now: Now, until: u64, fx: &mut Effects) {
        if self.was_forgotten() {
            return;
        }
        let Identity { id, epoch, .. } = self.identity;
        self.cluster.forget(id, epoch, until);
        fx.records.push(&Record::Forgotten { id, epoch, until });
        self.answer_all_waiters(&Answer::Error(Error::Forgotten), now, fx);
        self.refuse_all_adders(&Error::Forgotten, now, fx);
        fx.news.push(News::WasForgotten);
    }

    /// Refuses to serve when the cluster has forgotten this node, or another server
    /// is it.
    pub fn check_serving(&self) -> Result<(), Error> {
        if self.was_forgotten() {
            return Err(Error::Forgotten);
        }
        match (&self.successor, &self.doubled) {
            (Some(_), _) => Err(Error::Superseded),
            (None, Some(_)) => Err(Error::Doubled),
            (None, None) => Ok(()),
        }
    }

    /// A node of the table as it was written down.
    pub fn load_peer(&mut self, listing: &Listing<'_>) {
        let identity = Identity {
            id: listing.id,
            epoch: listing.epoch,
            term: listing.term,
        };
        let contact = Contact::of(listing);
        if identity.id == self.identity.id {
            self.load_successor(Successor::listed(listing));
            return;
        }
        // A later record of a node replaces an earlier one.
        self.cluster.remove(&identity.id);
        self.cluster.add(identity, contact);
    }

    /// What the nodes file is to hold. What was synced is for the caller to say.
    pub fn nodes_file(&self, clean_stop: bool) -> NodesFile {
        let listed = |peer: &Peer| (peer.identity(), peer.contact.clone());
        let peers = self.cluster.peers().map(listed);
        NodesFile {
            identity: self.identity,
            incarnation: self.incarnation,
            clean_stop,
            batches: self.batches,
            synced: false,
            nodes: peers.chain(self.superseded_line()).collect(),
            forgotten: self.cluster.forgotten().collect(),
        }
    }

    /// Starts with what the nodes file holds.
    pub fn restore_nodes(&mut self, file: &NodesFile) {
        self.incarnation = file.incarnation.saturating_add(1);
        self.restored = Some(file.clone());
        self.restore_table();
    }

    /// Takes the table of the nodes file, if it is that of this node.
    pub(super) fn restore_table(&mut self) {
        let Some(file) = &self.restored else {
            return;
        };
        if file.identity.id != self.identity.id {
            return;
        }
        for &(id, epoch, until) in &file.forgotten {
            self.cluster.forget(id, epoch, until);
        }
        let (own, others): (Vec<_>, Vec<_>) = file
            .nodes
            .clone()
            .into_iter()
            .partition(|(identity, _)| identity.id == self.identity.id);
        for (identity, contact) in others {
            self.cluster.add(identity, contact);
        }
        for (Identity { term, .. }, contact) in own {
            self.load_successor(Successor { term, contact });
        }
    }

    /// The peers to which frames pass and that answer, both ways.
    pub fn reachable_peers(&self, now: Now) -> impl Iterator<Item = PeerKey> + '_ {
        let timeout = self.settings.node_timeout_ms;
        self.cluster
            .peers()
            .filter(move |peer| peer.is_reachable(now, timeout))
            .map(|peer| peer.key)
    }
}

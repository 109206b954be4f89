//! What must hold of the table between any two calls, for tests.

use super::{hash, Cluster, FORGOTTEN, KNOWN, MAX_FORGOTTEN, MAX_NODES};
use crate::node::Identity;

impl Cluster {
    /// Checks the table of the node `me`; the text says what is wrong.
    pub fn check(&self, me: &Identity) -> Result<(), String> {
        let mut print = 0_u64;
        for (id, peer) in &self.peers {
            let name = peer.key;
            if *id != peer.id || self.keys.get(&name) != Some(id) {
                return Err(format!("{name:?} is not found by its key or id"));
            }
            if *id == me.id {
                return Err("the node stands in its own table".into());
            }
            if name.0 >= self.next_key {
                return Err(format!("{name:?} will be given out again"));
            }
            if self.forgotten.contains_key(&(*id, peer.epoch)) {
                return Err(format!("{name:?} was forgotten and stands in the table"));
            }
            print = print.wrapping_add(hash(KNOWN, id, peer.epoch));
        }
        for (id, epoch) in self.forgotten.keys() {
            print = print.wrapping_add(hash(FORGOTTEN, id, *epoch));
        }
        if print != self.fingerprint {
            return Err("the fingerprint is not that of the table".into());
        }
        if self.keys.len() != self.peers.len() {
            return Err(format!(
                "{} keys for {} nodes",
                self.keys.len(),
                self.peers.len()
            ));
        }
        let departed = self.departed.len();
        if self.size() > MAX_NODES || self.forgotten.len().max(departed) > MAX_FORGOTTEN {
            return Err("there are too many nodes".into());
        }
        Ok(())
    }
}

//! A replica takes a node's place while the server that was the node lives on: that one
//! is a *ghost*. It may be cut off from the others. Its clients stay with it, or go over
//! to the replica, until it serves no more; some time later it ends, with its data.
//!
//! It stands beside the nodes of the world, under a number of its own, and has all that
//! was under way for the node: nothing of that is for the replica.

use crate::site::Site;
use crate::world::{Event, World};
use disque_checker::{FaultKind, Lost};

/// A ghost has the number of its node, and this more.
pub const GHOST: usize = 100;

impl Event {
    /// Whether it befalls a process, not whatever stands at a number.
    pub fn is_of_process(&self) -> bool {
        !matches!(
            self,
            Event::Fault | Event::Operate | Event::Watch | Event::Drain
        )
    }
}

impl World {
    /// A server, a ghost too.
    pub fn look_at(&self, number: usize) -> &Site {
        let mut servers = self.servers();
        let found = servers.find(|(server, _)| **server == number);
        found.expect("a server of this world").1
    }

    /// Nodes and ghosts.
    pub fn servers(&self) -> impl Iterator<Item = (&usize, &Site)> {
        self.sites.iter().chain(&self.ghosts)
    }

    /// A replica that has followed a node at some distance takes its place.
    pub fn supersede(&mut self, node: usize) {
        let ghost = node + GHOST;
        let site = self.sites.get_mut(&node).expect("a node of this world");
        let replica = site.replica(node, &mut self.random);
        // What is done from now on it does not receive in any case.
        let lost = match replica.disk.lost {
            Lost::Nothing => Lost::Since(self.now),
            behind => behind,
        };
        let old = std::mem::replace(site, replica);
        self.ghosts.insert(ghost, old);
        self.hand_process_over(node, ghost);
        self.net.hand_process_over(node, ghost);
        for client in self.clients.iter_mut().filter(|client| client.node == node) {
            client.node = ghost;
        }
        self.begin_stop(ghost, FaultKind::Supersede, lost);
        self.moved = true;
        self.move_site(node);
        let longest = self.random.pick(&[10, 1_000, 5_000, 15_000]);
        let until_start = self.random.range(1, longest);
        self.schedule(node, until_start, Event::Restart);
        self.cut_off_ghost(ghost, until_start);
        let longest = self.random.pick(&[1_000, 30_000, 60_000]);
        let rest = self.random.range(1, longest);
        self.schedule(ghost, until_start + rest, Event::Retire);
    }

    /// Nothing, some or all of what passes between a ghost and others is held up, longer
    /// than it takes the replica to start.
    fn cut_off_ghost(&mut self, ghost: usize, until_start: u64) {
        let until = self.now + until_start + self.outage();
        let share = self.random.pick(&[0, 500, 1_000, 1_000]);
        for other in 0..self.sites.len() {
            for way in [(ghost, other), (other, ghost)] {
                if self.random.chance(share) {
                    self.net.cuts.insert(way, until);
                }
            }
        }
    }

    /// Whether a client at a ghost goes over to the replica, where its turn comes then:
    /// sooner or later, unless it waits.
    pub fn leaves_ghost(&mut self, client: usize) -> bool {
        let number = self.clients[client].node;
        if number < GHOST || self.clients[client].waiting.is_some() {
            return false;
        }
        if self.is_serving(number) && !self.random.chance(200) {
            return false;
        }
        self.clients[client].node = number - GHOST;
        self.schedule(number - GHOST, 0, Event::Act(client));
        true
    }

    /// A ghost ends for good: it is made a replica, or switched off. Not before it knows
    /// that it was superseded, once all is healed: it must find that out.
    pub fn retire(&mut self, ghost: usize) {
        if self.draining && self.is_serving(ghost) {
            self.schedule(ghost, 1_000, Event::Retire);
            return;
        }
        self.site(ghost).is_silent = self.random.chance(500);
        self.end_process(ghost);
        self.end_stop(ghost);
    }

    /// Whether no ghost serves any more.
    pub fn no_ghost_serves(&self) -> Result<(), String> {
        let serves = |site: &Site| {
            let node = site.node.as_ref();
            node.is_some_and(|node| node.check_serving().is_ok())
        };
        match self.ghosts.iter().find(|(_, site)| serves(site)) {
            Some((ghost, _)) => Err(format!("node {ghost} serves, and was superseded")),
            None => Ok(()),
        }
    }
}

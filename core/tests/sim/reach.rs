//! The links as the nodes see them, against what they are.

use crate::site::Site;
use crate::world::World;
use disque_core::cluster::PeerKey;
use disque_core::node::Node;

impl World {
    /// The links, as the node sees them and as they are.
    pub fn check_links(&mut self, node: usize) -> Result<(), String> {
        let site = self.site(node);
        let inside = site.node.as_ref().expect("the node is up");
        for peer in inside.cluster().peers() {
            let Some(link) = site.links.get(&peer.key) else {
                return Err(format!("there is no link to {:?}", peer.key));
            };
            let up = link.up();
            let seen = match peer.link {
                disque_core::cluster::LinkState::Up(connection) => Some(connection),
                _ => None,
            };
            if up != seen {
                return Err(format!("the link is {up:?}, the node believes {seen:?}"));
            }
        }
        if site.links.len() + 1 != inside.cluster().size() {
            return Err("there are more links than nodes of the table".into());
        }
        Ok(())
    }

    /// Whoever a node takes for reachable was answered by it not long ago. What
    /// was heard may be old when a network lets go what it had held: a while it
    /// may be wrong.
    pub fn check_reach(&mut self, node: usize) -> Result<(), String> {
        let (at, long) = (self.now, 2 * self.profile.settings.node_timeout_ms);
        let wrong = self.reached_wrongly(node, long);
        let guard = &mut self.site(node).guard;
        guard.wrong_since.retain(|key, _| wrong.contains(key));
        for key in wrong {
            let since = *guard.wrong_since.entry(key).or_insert(at);
            if since + long < at {
                return Err(format!(
                    "node {node} has reached for {long} ms one that it answers nothing"
                ));
            }
        }
        Ok(())
    }

    fn reached_wrongly(&self, node: usize, long: u64) -> Vec<PeerKey> {
        let timeout = self.profile.settings.node_timeout_ms;
        let site = self.look_at(node);
        let inside = site.node.as_ref().expect("the node is up");
        let (me, now) = (inside.identity().id, site.clocks.now(self.now));
        let answered = |id: &[u8; 20]| {
            let servers = self.servers().filter(|(_, s)| s.stalled_until <= self.now);
            let servers = servers.filter_map(|(_, s)| Some((s, s.node.as_ref()?)));
            // Of two that have one id, either may be the one that is reached.
            let there: Vec<_> = servers.filter(|(_, n)| n.identity().id == *id).collect();
            let hears = |(site, there): &(&Site, &Node)| {
                let then = site.clocks.now(self.now);
                let own = there.cluster().peer(&me);
                own.is_none_or(|own| own.answered_within(then, long))
            };
            there.is_empty() || there.iter().any(hears)
        };
        let reached = inside.cluster().peers();
        let reached = reached.filter(|peer| peer.is_reachable(now, timeout));
        let wrong = reached.filter(|peer| !answered(&peer.id));
        wrong.map(|peer| peer.key).collect()
    }
}

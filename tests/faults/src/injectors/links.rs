//! What passes between nodes, and between nodes and clients.

use super::Injector;
use crate::net::{Net, Pair, Party, Rule};
use disque_checker::FaultKind;
use rand::Rng;
use std::thread;
use std::time::Duration;

/// At least a heartbeat of each node falls into a fault of the links.
const HEARTBEAT: Duration = Duration::from_millis(1_000);
/// Between two cuts of a node that comes and goes.
const BETWEEN: Duration = Duration::from_millis(300);

impl Injector<'_> {
    /// Nodes on one side reach none on the other.
    pub(super) fn halves(&mut self) -> Result<(), String> {
        let side = self.random.random_range(1..self.nodes.len());
        self.cut(|from, to| (from < side) != (to < side))
    }

    /// A node reaches no other, and is reached by none.
    pub(super) fn isolate(&mut self, node: usize) -> Result<(), String> {
        self.cut(|from, to| from == node || to == node)
    }

    /// Each node reaches its neighbours only.
    pub(super) fn ring(&mut self) -> Result<(), String> {
        let count = self.nodes.len();
        self.cut(|from, to| !are_neighbours(count, from, to))
    }

    pub(super) fn cut_one_way(&mut self, node: usize, other: usize) -> Result<(), String> {
        self.cut(|from, to| (from, to) == (node, other))
    }

    /// Clients do not reach a node which others reach.
    pub(super) fn cut_clients(&mut self, node: usize) -> Result<(), String> {
        let node = Party::Node(node);
        self.cut_pairs(&[(Party::Clients, node), (node, Party::Clients)])
    }

    /// A node comes and goes.
    pub(super) fn flap(&mut self, node: usize) -> Result<(), String> {
        for _ in 0..3 {
            self.isolate(node)?;
            thread::sleep(BETWEEN);
        }
        Ok(())
    }

    /// All links are slow and narrow.
    pub(super) fn slow(&mut self) -> Result<(), String> {
        let rule = Rule::Slow {
            delay_ms: self.random.random_range(10..300),
            bytes_per_s: self.random.random_range(20_000..1_000_000),
        };
        let pairs = pairs(self.nodes.len(), |_, _| true);
        self.treat(&pairs, rule)
    }

    /// Connections of a node break in the middle of frames.
    pub(super) fn break_frames(&mut self, node: usize) -> Result<(), String> {
        let pairs = pairs(self.nodes.len(), |from, to| from == node || to == node);
        self.treat(&pairs, Rule::Break)
    }

    fn cut(&mut self, is_cut: impl Fn(usize, usize) -> bool) -> Result<(), String> {
        self.cut_pairs(&pairs(self.nodes.len(), is_cut))
    }

    fn cut_pairs(&mut self, pairs: &[Pair]) -> Result<(), String> {
        let time = HEARTBEAT + self.some_time();
        let fault = self.begin(0, FaultKind::Cut);
        self.nodes.net.cut(pairs)?;
        thread::sleep(time);
        let proof = self.nodes.net.is_cut();
        self.nodes.net.heal()?;
        self.history.end_fault(fault);
        proof
    }

    fn treat(&mut self, pairs: &[Pair], rule: Rule) -> Result<(), String> {
        let time = HEARTBEAT + self.some_time();
        let fault = self.begin(0, FaultKind::Rough);
        let Net::Gates(gates) = &mut self.nodes.net else {
            return Err("there are no proxies".into());
        };
        gates.treat(pairs, rule);
        thread::sleep(time);
        let proof = gates.has_treated();
        gates.between.clear();
        self.history.end_fault(fault);
        proof
    }
}

/// The pairs of nodes that are meant.
fn pairs(count: usize, is_one: impl Fn(usize, usize) -> bool) -> Vec<Pair> {
    let all = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to && is_one(*from, *to))
        .map(|(from, to)| (Party::Node(from), Party::Node(to)))
        .collect()
}

/// Whether a node reaches another one in a ring: the next one, and the one before. Three
/// nodes are a ring in any case: then the next one only.
fn are_neighbours(count: usize, from: usize, to: usize) -> bool {
    let is_next = (from + 1) % count == to;
    let is_before = (to + 1) % count == from;
    is_next || (count > 3 && is_before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_ring_each_reaches_some_and_is_reached_and_not_all_are() {
        for (count, reached) in [(3, 1), (4, 2), (5, 2)] {
            let open = pairs(count, |from, to| are_neighbours(count, from, to));
            for node in (0..count).map(Party::Node) {
                let there = open.iter().filter(|(from, _)| *from == node).count();
                let back = open.iter().filter(|(_, to)| *to == node).count();
                assert_eq!((there, back), (reached, reached));
            }
        }
    }
}

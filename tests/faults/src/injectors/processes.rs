//! Processes that end, stand still, and start again.

use super::Injector;
use crate::nodes::Nodes;
use disque_checker::{FaultKind, Lost};
use disque_testing::{wait_for, Persistence};
use rand::Rng;
use std::thread;
use std::time::Duration;

/// A process that stands still says nothing for so long.
const SILENCE: Duration = Duration::from_millis(150);
/// How often what depends on the moment is tried.
const TRIES: usize = 20;

impl Injector<'_> {
    pub(super) fn kill(&mut self, nodes: &[usize]) -> Result<(), String> {
        let lost = self.lost_by_kill();
        let begin = |node: &usize| self.begin(*node, FaultKind::Kill);
        let faults: Vec<u64> = nodes.iter().map(begin).collect();
        for &node in nodes {
            self.kill_and_lose(node, lost);
        }
        let mut answering = nodes.iter().filter(|node| self.answers(**node));
        if let Some(node) = answering.next() {
            return Err(format!("node {node} answers though it was killed"));
        }
        thread::sleep(self.some_time());
        for (&node, fault) in nodes.iter().zip(faults) {
            self.start_again(node, fault);
        }
        Ok(())
    }

    fn answers(&self, node: usize) -> bool {
        self.nodes.answers(node, SILENCE)
    }

    /// Killed while a child writes the append only file anew.
    pub(super) fn kill_in_rewrite(&mut self, node: usize) -> Result<(), String> {
        const DONE: &str = "Background AOF rewrite terminated with success";
        for _ in 0..TRIES {
            let before = said(self.nodes, node, DONE);
            let mut client = self.nodes.servers[node].client();
            let started = client.run("BGREWRITEAOF");
            let (fault, lost) = (self.begin(node, FaultKind::Kill), self.lost_by_kill());
            self.kill_and_lose(node, lost);
            let in_time =
                !started.raw().starts_with(b"-") && said(self.nodes, node, DONE) == before;
            self.start_again(node, fault);
            if in_time {
                return Ok(());
            }
        }
        Err(format!("no rewrite of node {node} was interrupted"))
    }

    /// Killed, and killed again while it loads its data.
    pub(super) fn kill_in_load(&mut self, node: usize) -> Result<(), String> {
        const LOADS: &str = "Reading RDB";
        const READY: &str = "Ready to accept connections";
        const LIMIT: Duration = Duration::from_secs(30);
        // What Redis waits after each command that it loads, in us.
        const SLOW: &str = "key-load-delay";
        for _ in 0..TRIES {
            let (fault, lost) = (self.begin(node, FaultKind::Kill), self.lost_by_kill());
            self.kill_and_lose(node, lost);
            let before = [LOADS, READY].map(|text| said(self.nodes, node, text));
            self.nodes.servers[node].configure(SLOW, "2000");
            self.nodes.servers[node].begin();
            wait_for(LIMIT, "a node loads its data", || {
                (said(self.nodes, node, LOADS) > before[0]).then_some(())
            });
            let some = self.random.random_range(0..100);
            thread::sleep(Duration::from_millis(some));
            self.nodes.servers[node].kill9();
            let in_time = said(self.nodes, node, READY) == before[1];
            self.nodes.servers[node].configure(SLOW, "0");
            self.start_again(node, fault);
            if in_time {
                return Ok(());
            }
        }
        Err(format!("no load of node {node} was interrupted"))
    }

    pub(super) fn pause(&mut self, node: usize) -> Result<(), String> {
        // Seldom long.
        let most = [1_000, 5_000, 5_000, 15_000, 60_000][self.random.random_range(0..5)];
        let longest = self.longest_pause.as_millis().max(1_000) as u64;
        let most = longest.min(most);
        let time = Duration::from_millis(self.random.random_range(200..=most));
        let fault = self.begin(node, FaultKind::Pause);
        self.nodes.servers[node].sigstop();
        let answers = self.answers(node);
        thread::sleep(time);
        self.nodes.servers[node].sigcont();
        self.history.end_fault(fault);
        match answers {
            true => Err(format!("node {node} answers though it stands still")),
            false => Ok(()),
        }
    }

    pub(super) fn rolling_restart(&mut self) -> Result<(), String> {
        let lost = match self.nodes.plan.persistence {
            Persistence::None => Lost::All,
            _ => Lost::Nothing,
        };
        for node in 0..self.nodes.len() {
            let fault = self.begin(node, FaultKind::Kill);
            self.nodes.servers[node].stop_clean();
            self.history.lost(node, FaultKind::Kill, lost);
            let answers = self.answers(node);
            self.start_again(node, fault);
            if answers {
                return Err(format!("node {node} answers though it was stopped"));
            }
        }
        Ok(())
    }
}

/// How often a node's log says something.
fn said(nodes: &Nodes, node: usize, text: &str) -> usize {
    nodes.servers[node].log().matches(text).count()
}

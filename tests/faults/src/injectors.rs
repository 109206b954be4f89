//! What is done to servers and links. Each act lasts until its direct effect is over,
//! is written down with what it cost, and proves that it worked.

use crate::gate::Rule;
use crate::history::History;
use crate::nodes::Nodes;
use disque_checker::{FaultKind, Lost};
use disque_testing::{node_lines, Persistence};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::fs::OpenOptions;
use std::thread;
use std::time::Duration;

/// Redis may hold back what it has to write for so long while it syncs.
const HELD_BACK_MS: u64 = 2_000;
/// A process that stands still says nothing for so long.
const SILENCE: Duration = Duration::from_millis(150);

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    KillOne,
    KillTwo,
    KillAll,
    KillInRewrite,
    Pause,
    RollingRestart,
    Split,
    CutOneWay,
    Flap,
    Slow,
    BreakFrames,
    LoseTail,
    FillMemory,
    Replace,
}

const ACTS: [Act; 14] = [
    Act::KillOne,
    Act::KillTwo,
    Act::KillAll,
    Act::KillInRewrite,
    Act::Pause,
    Act::RollingRestart,
    Act::Split,
    Act::CutOneWay,
    Act::Flap,
    Act::Slow,
    Act::BreakFrames,
    Act::LoseTail,
    Act::FillMemory,
    Act::Replace,
];

/// Does one thing after the other.
pub struct Injector<'a> {
    pub nodes: &'a mut Nodes,
    pub history: &'a History,
    pub random: &'a mut ChaCha8Rng,
}

impl Injector<'_> {
    /// Something that can be done to these servers.
    pub fn any(&mut self) -> Act {
        let files = self.nodes.persistence != Persistence::None;
        loop {
            let act = ACTS[self.random.random_range(0..ACTS.len())];
            if files || !matches!(act, Act::KillInRewrite | Act::LoseTail) {
                return act;
            }
        }
    }

    /// Does it. The error says that it did not work.
    pub fn inject(&mut self, act: Act) -> Result<(), String> {
        let node = self.random.random_range(0..self.nodes.len());
        let other = (node + self.random.random_range(1..self.nodes.len())) % self.nodes.len();
        match act {
            Act::KillOne => self.kill(&[node]),
            Act::KillTwo => self.kill(&[node, other]),
            Act::KillAll => self.kill(&(0..self.nodes.len()).collect::<Vec<_>>()),
            Act::KillInRewrite => self.kill_in_rewrite(node),
            Act::Pause => self.pause(node),
            Act::RollingRestart => self.rolling_restart(),
            Act::Split => {
                let side = self.random.random_range(1..self.nodes.len());
                let rule = |from, to| ((from < side) != (to < side)).then_some(Rule::Hold);
                self.treat(FaultKind::Cut, rule)
            }
            Act::CutOneWay => self.treat(FaultKind::Cut, |from, to| {
                ((from, to) == (node, other)).then_some(Rule::Hold)
            }),
            Act::Flap => self.flap(node),
            Act::Slow => {
                let rule = Rule::Slow {
                    delay_ms: self.random.random_range(10..300),
                    bytes_per_s: self.random.random_range(20_000..1_000_000),
                };
                self.treat(FaultKind::Rough, |_, _| Some(rule))
            }
            Act::BreakFrames => self.treat(FaultKind::Rough, |from, to| {
                (from == node || to == node).then_some(Rule::Break)
            }),
            Act::LoseTail => self.lose_tail(node),
            Act::FillMemory => self.fill_memory(node),
            Act::Replace => self.replace(node, other),
        }
    }

    fn some_time(&mut self) -> Duration {
        let most = [500, 2_000, 6_000][self.random.random_range(0..3)];
        Duration::from_millis(self.random.random_range(100..most))
    }

    /// What a node loses that is killed now.
    fn lost_by_kill(&self) -> Lost {
        match self.nodes.persistence {
            Persistence::AofAlways => Lost::Nothing,
            Persistence::None => Lost::All,
            _ => Lost::Since(self.history.now().saturating_sub(HELD_BACK_MS)),
        }
    }

    fn kill(&mut self, nodes: &[usize]) -> Result<(), String> {
        let lost = self.lost_by_kill();
        let now = self.history.now();
        let begin = |node| self.history.begin_fault(now, node, FaultKind::Kill, lost);
        let faults: Vec<u64> = nodes.iter().map(|&node| begin(node)).collect();
        for &node in nodes {
            self.nodes.servers[node].kill9();
        }
        if let Some(node) = nodes
            .iter()
            .find(|node| self.nodes.answers(**node, SILENCE))
        {
            return Err(format!("node {node} answers though it was killed"));
        }
        thread::sleep(self.some_time());
        for (&node, fault) in nodes.iter().zip(faults) {
            self.nodes.servers[node].start_again();
            self.history.end_fault(fault);
        }
        Ok(())
    }

    /// Killed while a child writes the append only file anew.
    fn kill_in_rewrite(&mut self, node: usize) -> Result<(), String> {
        const TRIES: usize = 20;
        let rewritten = |nodes: &Nodes| {
            let log = nodes.servers[node].log();
            log.matches("Background AOF rewrite terminated with success")
                .count()
        };
        for _ in 0..TRIES {
            let before = rewritten(self.nodes);
            let mut client = self.nodes.servers[node].client();
            let started = client.run("BGREWRITEAOF");
            let lost = self.lost_by_kill();
            let now = self.history.now();
            let fault = self.history.begin_fault(now, node, FaultKind::Kill, lost);
            self.nodes.servers[node].kill9();
            let in_time = !started.raw().starts_with(b"-") && rewritten(self.nodes) == before;
            self.nodes.servers[node].start_again();
            self.history.end_fault(fault);
            if in_time {
                return Ok(());
            }
        }
        Err(format!("no rewrite of node {node} was interrupted"))
    }

    fn pause(&mut self, node: usize) -> Result<(), String> {
        let most = [1_000, 5_000, 15_000][self.random.random_range(0..3)];
        let time = Duration::from_millis(self.random.random_range(200..most));
        let now = self.history.now();
        let fault = self
            .history
            .begin_fault(now, node, FaultKind::Pause, Lost::Nothing);
        self.nodes.servers[node].sigstop();
        let answers = self.nodes.answers(node, SILENCE);
        thread::sleep(time);
        self.nodes.servers[node].sigcont();
        self.history.end_fault(fault);
        match answers {
            true => Err(format!("node {node} answers though it stands still")),
            false => Ok(()),
        }
    }

    fn rolling_restart(&mut self) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            let lost = match self.nodes.persistence {
                Persistence::None => Lost::All,
                _ => Lost::Nothing,
            };
            let now = self.history.now();
            let fault = self.history.begin_fault(now, node, FaultKind::Kill, lost);
            self.nodes.servers[node].stop_clean();
            let answers = self.nodes.answers(node, SILENCE);
            self.nodes.servers[node].start_again();
            self.history.end_fault(fault);
            if answers {
                return Err(format!("node {node} answers though it was stopped"));
            }
        }
        Ok(())
    }

    /// Treats what passes between nodes by a rule for each pair, for some time.
    fn treat(
        &mut self,
        kind: FaultKind,
        rule: impl Fn(usize, usize) -> Option<Rule>,
    ) -> Result<(), String> {
        // At least a heartbeat of each node falls into it.
        let time = Duration::from_millis(1_000) + self.some_time();
        let before = self.nodes.between.hits();
        let now = self.history.now();
        let fault = self.history.begin_fault(now, 0, kind, Lost::Nothing);
        for from in 0..self.nodes.len() {
            for to in 0..self.nodes.len() {
                if let Some(rule) = rule(from, to) {
                    self.nodes.between.set(from, to, rule);
                }
            }
        }
        thread::sleep(time);
        self.nodes.between.clear();
        self.history.end_fault(fault);
        match self.nodes.between.hits() == before {
            true => Err("nothing came by that was to be kept from passing".into()),
            false => Ok(()),
        }
    }

    /// A node comes and goes.
    fn flap(&mut self, node: usize) -> Result<(), String> {
        for _ in 0..3 {
            self.treat(FaultKind::Cut, |from, to| {
                (from == node || to == node).then_some(Rule::Hold)
            })?;
            thread::sleep(Duration::from_millis(300));
        }
        Ok(())
    }

    /// The end of the append only file is gone, as after a power cut.
    fn lose_tail(&mut self, node: usize) -> Result<(), String> {
        const LOAD: Duration = Duration::from_millis(600);
        let path = self.nodes.servers[node].growing_file();
        let path = path.ok_or("there is no append only file")?;
        let length = || std::fs::metadata(&path).map(|data| data.len());
        let since = self.history.now().saturating_sub(HELD_BACK_MS);
        let before = length().map_err(|error| error.to_string())?;
        thread::sleep(LOAD);
        let now = self.history.now();
        let lost = Lost::Since(since);
        let fault = self.history.begin_fault(now, node, FaultKind::Kill, lost);
        self.nodes.servers[node].kill9();
        let written = length().map_err(|error| error.to_string())?;
        let kept = self.random.random_range(before..=written.max(before));
        let file = OpenOptions::new().write(true).open(&path);
        let cut = file.and_then(|file| file.set_len(kept));
        cut.map_err(|error| error.to_string())?;
        let left = length().map_err(|error| error.to_string())?;
        thread::sleep(self.some_time());
        self.nodes.servers[node].start_again();
        self.history.end_fault(fault);
        match left == kept {
            true => Ok(()),
            false => Err(format!("{left} bytes are left, not {kept}")),
        }
    }

    fn fill_memory(&mut self, node: usize) -> Result<(), String> {
        let now = self.history.now();
        let fault = self
            .history
            .begin_fault(now, node, FaultKind::Full, Lost::Nothing);
        let mut client = self.nodes.servers[node].client();
        client.run("CONFIG SET maxmemory 1mb").expect_ok();
        let full = client.run("SET some thing");
        thread::sleep(self.some_time());
        client.run("CONFIG SET maxmemory 0").expect_ok();
        self.history.end_fault(fault);
        match full.raw().starts_with(b"-OOM") {
            true => Ok(()),
            false => Err(format!("memory is not full: {full:?}")),
        }
    }

    /// A node is gone for good, is forgotten, and another one stands in its place.
    fn replace(&mut self, node: usize, other: usize) -> Result<(), String> {
        let old = self.nodes.id(node);
        let now = self.history.now();
        let fault = self
            .history
            .begin_fault(now, node, FaultKind::Remove, Lost::All);
        self.nodes.servers[node].kill9();
        let mut client = self.nodes.servers[other].client();
        client.run(&format!("DISQUE FORGET {old}")).expect_ok();
        let known = node_lines(&mut client).iter().any(|line| line.id == old);
        self.nodes.servers[node].wipe();
        self.nodes.servers[node].start_again();
        self.nodes.introduce(node);
        self.nodes.meet(other, node);
        self.history.end_fault(fault);
        match known || self.nodes.id(node) == old {
            true => Err(format!("{old} is still there")),
            false => Ok(()),
        }
    }
}

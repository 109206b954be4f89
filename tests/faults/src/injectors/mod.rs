//! What is done to servers and links. Each act lasts until its direct effect is over,
//! is written down with what it cost, and proves that it worked.

mod files;
mod links;
mod membership;
mod processes;
mod resources;

use crate::history::History;
use crate::net::Net;
use crate::nodes::Nodes;
use disque_checker::{FaultKind, Lost};
use disque_testing::Persistence;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// Redis may hold back what it has to write for so long while it syncs.
const HELD_BACK_MS: u64 = 2_000;

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    KillOne,
    KillTwo,
    KillAll,
    KillInRewrite,
    KillInLoad,
    Pause,
    RollingRestart,
    Halves,
    Isolate,
    Ring,
    CutOneWay,
    ClientsOnly,
    Flap,
    Slow,
    BreakFrames,
    LoseTail,
    FlipBit,
    LoseFile,
    FillDisk,
    FillMemory,
    SetClock,
    Replace,
    ForgetAlive,
    Leave,
    LeaveAndStay,
}

/// All of it.
pub const ACTS: [Act; 25] = [
    Act::KillOne,
    Act::KillTwo,
    Act::KillAll,
    Act::KillInRewrite,
    Act::KillInLoad,
    Act::Pause,
    Act::RollingRestart,
    Act::Halves,
    Act::Isolate,
    Act::Ring,
    Act::CutOneWay,
    Act::ClientsOnly,
    Act::Flap,
    Act::Slow,
    Act::BreakFrames,
    Act::LoseTail,
    Act::FlipBit,
    Act::LoseFile,
    Act::FillDisk,
    Act::FillMemory,
    Act::SetClock,
    Act::Replace,
    Act::ForgetAlive,
    Act::Leave,
    Act::LeaveAndStay,
];

/// The acts that a text names, between commas.
pub fn acts_named(names: &str) -> Vec<Act> {
    let find = |name: &str| {
        let act = ACTS.iter().find(|act| format!("{act:?}") == name);
        *act.unwrap_or_else(|| panic!("no act is called {name}: there are {ACTS:?}"))
    };
    names.split(',').map(find).collect()
}

/// Does one thing after the other.
pub struct Injector<'a> {
    pub nodes: &'a mut Nodes,
    pub history: &'a History,
    pub random: &'a mut ChaCha8Rng,
    /// How long a process stands still at most.
    pub longest_pause: Duration,
}

impl Injector<'_> {
    /// Something of all this that can be done to these servers, if anything.
    pub fn any(&mut self, acts: &[Act]) -> Option<Act> {
        let possible = acts.iter().filter(|act| self.is_possible(**act));
        let possible: Vec<&Act> = possible.collect();
        let count = possible.len();
        (count > 0).then(|| *possible[self.random.random_range(0..count)])
    }

    fn is_possible(&self, act: Act) -> bool {
        let plan = &self.nodes.plan;
        let writes = plan.persistence != Persistence::None;
        match act {
            Act::KillInRewrite | Act::KillInLoad | Act::FlipBit | Act::LoseFile => writes,
            // What was synced before each reply does not end with the power; at-most-once
            // jobs rely on it.
            Act::LoseTail => plan.persistence == Persistence::Aof,
            Act::FillDisk => writes && plan.disks,
            Act::Slow | Act::BreakFrames => matches!(self.nodes.net, Net::Gates(_)),
            Act::SetClock => plan.clocks,
            _ => true,
        }
    }

    /// Does it. The error says that it did not work.
    pub fn inject(&mut self, act: Act) -> Result<(), String> {
        let count = self.nodes.len();
        let node = self.random.random_range(0..count);
        let other = (node + self.random.random_range(1..count)) % count;
        match act {
            Act::KillOne => self.kill(&[node]),
            Act::KillTwo => self.kill(&[node, other]),
            Act::KillAll => self.kill(&(0..count).collect::<Vec<_>>()),
            Act::KillInRewrite => self.kill_in_rewrite(node),
            Act::KillInLoad => self.kill_in_load(node),
            Act::Pause => self.pause(node),
            Act::RollingRestart => self.rolling_restart(),
            Act::Halves => self.halves(),
            Act::Isolate => self.isolate(node),
            Act::Ring => self.ring(),
            Act::CutOneWay => self.cut_one_way(node, other),
            Act::ClientsOnly => self.cut_clients(node),
            Act::Flap => self.flap(node),
            Act::Slow => self.slow(),
            Act::BreakFrames => self.break_frames(node),
            Act::LoseTail => self.lose_tail(node),
            Act::FlipBit => self.flip_bit(node),
            Act::LoseFile => self.lose_file(node),
            Act::FillDisk => self.fill_disk(node),
            Act::FillMemory => self.fill_memory(node),
            Act::SetClock => self.set_clock(node),
            Act::Replace => self.replace(node, other),
            Act::ForgetAlive => self.forget_alive(node, other),
            Act::Leave => self.leave(node, other),
            Act::LeaveAndStay => self.leave_and_stay(node),
        }
    }

    fn some_time(&mut self) -> Duration {
        let most = [500, 2_000, 6_000][self.random.random_range(0..3)];
        Duration::from_millis(self.random.random_range(100..most))
    }

    /// Something begins to go wrong with a node, now.
    fn begin(&self, node: usize, kind: FaultKind) -> u64 {
        self.history.begin_fault(node, kind, Lost::Nothing)
    }

    /// Kills a node, which loses something with that.
    fn kill_and_lose(&mut self, node: usize, lost: Lost) {
        self.nodes.servers[node].kill9();
        self.history.lost(node, FaultKind::Kill, lost);
    }

    /// What a node loses that is killed now.
    fn lost_by_kill(&self) -> Lost {
        match self.nodes.plan.persistence {
            Persistence::AofAlways => Lost::Nothing,
            Persistence::None => Lost::All,
            _ => Lost::Since(self.history.now().saturating_sub(HELD_BACK_MS)),
        }
    }

    /// Whoever is down is started again, and the fault ends.
    fn start_again(&mut self, node: usize, fault: u64) {
        self.nodes.servers[node].start_again();
        self.history.end_fault(fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_found_by_their_names() {
        assert_eq!(acts_named("FlipBit,Leave"), [Act::FlipBit, Act::Leave]);
        let names = ACTS.map(|act| format!("{act:?}"));
        assert_eq!(acts_named(&names.join(",")), ACTS);
    }
}

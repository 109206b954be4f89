//! Memory, disks, clocks.

use super::Injector;
use disque_checker::FaultKind;
use disque_testing::{wait_for, Persistence};
use rand::Rng;
use std::thread;
use std::time::Duration;

/// How soon a node under load notices that it cannot write.
const NOTICED: Duration = Duration::from_secs(30);
/// Clocks are set ahead by up to so many seconds, and back by up to so many: what a
/// node has written down may come later by the second after a restart.
const AHEAD_S: i64 = 300;
const BACK_S: i64 = 10;

impl Injector<'_> {
    pub(super) fn fill_memory(&mut self, node: usize) -> Result<(), String> {
        let fault = self.begin(node, FaultKind::Full);
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

    /// Redis ends where it syncs before each reply and cannot write; else it refuses
    /// to change anything.
    pub(super) fn fill_disk(&mut self, node: usize) -> Result<(), String> {
        match self.nodes.plan.persistence {
            Persistence::AofAlways => self.fill_disk_and_die(node),
            _ => self.fill_disk_and_refuse(node),
        }
    }

    fn fill_disk_and_die(&mut self, node: usize) -> Result<(), String> {
        let fault = self.begin(node, FaultKind::Kill);
        self.fill(node)?;
        let status = self.nodes.servers[node].await_exit();
        let log = self.nodes.servers[node].log();
        self.free(node)?;
        self.start_again(node, fault);
        match !status.success() && log.contains("Can't recover from AOF write error") {
            true => Ok(()),
            false => Err(format!("node {node} ended with {status} on a full disk")),
        }
    }

    fn fill_disk_and_refuse(&mut self, node: usize) -> Result<(), String> {
        let fault = self.begin(node, FaultKind::Refuse);
        self.fill(node)?;
        let mut client = self.nodes.servers[node].client();
        let mut write = || client.run("SET some thing");
        wait_for(NOTICED, "a node refuses on a full disk", || {
            write().raw().starts_with(b"-MISCONF").then_some(())
        });
        thread::sleep(self.some_time());
        self.free(node)?;
        let mut client = self.nodes.servers[node].client();
        wait_for(NOTICED, "a node takes writes again", || {
            let written = client.run("SET some thing");
            (written.raw() == b"+OK\r\n").then_some(())
        });
        self.history.end_fault(fault);
        Ok(())
    }

    fn fill(&self, node: usize) -> Result<(), String> {
        let filled = self.nodes.servers[node].disk().fill();
        match filled.map_err(|error| error.to_string())? {
            0 => Err("the disk was full before".into()),
            _ => Ok(()),
        }
    }

    fn free(&self, node: usize) -> Result<(), String> {
        let freed = self.nodes.servers[node].disk().free();
        freed.map_err(|error| error.to_string())
    }

    /// The clock of a node is set, or that of all.
    pub(super) fn set_clock(&mut self, node: usize) -> Result<(), String> {
        let all = self.random.random_bool(0.3);
        let jump = self.random.random_range(-BACK_S..=AHEAD_S);
        for node in (0..self.nodes.len()).filter(|one| all || *one == node) {
            self.nodes.ahead[node] += jump;
            let server = &self.nodes.servers[node];
            let before = server.wall_clock();
            self.history.clock_set(node, jump * 1_000);
            server.step_clock(self.nodes.ahead[node]);
            let jumped = server.wall_clock() - before;
            // Asking takes time too.
            if !(jump..jump + 10).contains(&jumped) {
                return Err(format!(
                    "the clock of node {node} jumped by {jumped} s, not {jump} s"
                ));
            }
        }
        Ok(())
    }
}

//! What clients of a replicated world see and what goes wrong, as a history for
//! the checker of clusters.

use crate::drain::REPAIR_MS;
use crate::ghost::GHOST;
use crate::world::{Event, World};
use disque_checker::{check, Event as Line, Fault, FaultKind, Limits, Lost, Op, Phase, Served};
use disque_core::job_id::JobId;
use std::collections::BTreeSet;

/// How often it is looked at whether the nodes are one cluster, in ms.
const WATCH_MS: u64 = 100;

/// The history of a run.
#[derive(Default)]
pub struct Ledger {
    lines: Vec<Line>,
    calls: u64,
    /// Every job that was heard of.
    pub ids: BTreeSet<JobId>,
    /// Those whose producer was told their id.
    pub promised: BTreeSet<JobId>,
    /// Whether a node was leaving or short of memory, and refused copies.
    pub some_refused: bool,
    /// Those that were settled by FASTACK, of which not all nodes may have heard.
    pub dropped: BTreeSet<JobId>,
    /// From then on no node is waited for that did not hear of a FASTACK.
    pub late_from: u64,
    /// How far clocks were set back, in all.
    pub set_back: u64,
    /// How far they were set ahead, in all: so much sooner may a node that starts
    /// find that a TTL is over.
    pub set_ahead: u64,
    /// The fault that lasts while the nodes are not one cluster.
    apart: Option<u64>,
    /// Whether they have been one.
    has_begun: bool,
}

/// How a node is called, and so the ghost of it.
pub fn name(node: usize) -> String {
    format!("n{}", node % GHOST)
}

impl World {
    /// A number for a call.
    pub fn next_line(&mut self) -> u64 {
        self.next_lines(1)
    }

    /// So many numbers, of which it returns the first.
    pub fn next_lines(&mut self, count: u64) -> u64 {
        let first = self.ledger.calls + 1;
        self.ledger.calls += count;
        first
    }

    /// An event of a call at a node, now.
    pub fn line(&self, node: usize, call: u64, phase: Phase, op: Op) -> Line {
        Line::new(self.now, call, phase, op).at(name(node))
    }

    /// Writes an event down.
    pub fn note(&mut self, line: Line) {
        self.trace.line(format!("{:>9}   {}", "", line.to_line()));
        self.ledger.lines.push(line);
    }

    fn begin_fault(&mut self, node: usize, fault: Fault) -> Option<u64> {
        if !self.profile.replicated {
            return None;
        }
        let call = self.next_line();
        let mut line = self.line(node, call, Phase::Invoke, Op::Fault);
        line.fault = Some(fault);
        self.note(line);
        Some(call)
    }

    /// Something goes wrong for some time.
    pub fn fault_for(&mut self, node: usize, kind: FaultKind, to: Option<usize>, ms: u64) {
        let fault = Fault {
            kind,
            to: to.map(name),
            lost: Lost::Nothing,
            jump: None,
        };
        if let Some(call) = self.begin_fault(node, fault) {
            let mut end = self.line(node, call, Phase::Ok, Op::Fault);
            end.t += ms;
            self.note(end);
        }
    }

    /// A node leaves, and too few stay for as many copies as were asked for.
    pub fn begin_leaving(&mut self, node: usize) {
        let fault = Fault {
            kind: FaultKind::Leave,
            to: None,
            lost: Lost::All,
            jump: None,
        };
        let call = self.begin_fault(node, fault);
        self.site(node).thinned = call;
    }

    /// It stays after all.
    pub fn end_leaving(&mut self, node: usize) {
        if let Some(call) = self.site(node).thinned.take() {
            let line = self.line(node, call, Phase::Ok, Op::Fault);
            self.note(line);
        }
    }

    /// A clock was set.
    pub fn clock_set(&mut self, node: usize, jump: i64) {
        let fault = Fault {
            kind: FaultKind::Clock,
            to: None,
            lost: Lost::Nothing,
            jump: Some(jump),
        };
        if self.begin_fault(node, fault).is_some() {
            self.ledger.set_back += jump.min(0).unsigned_abs();
            self.ledger.set_ahead += jump.max(0).unsigned_abs();
        }
    }

    /// A node stops, or another server is it, and has lost this.
    pub fn begin_stop(&mut self, node: usize, kind: FaultKind, lost: Lost) {
        let fault = Fault {
            kind,
            to: None,
            lost,
            jump: None,
        };
        let call = self.begin_fault(node, fault);
        self.site(node).stopped = call;
    }

    /// It is back, or is over.
    pub fn end_stop(&mut self, node: usize) {
        if let Some(call) = self.site(node).stopped.take() {
            let line = self.line(node, call, Phase::Ok, Op::Fault);
            self.note(line);
        }
    }

    /// Looks whether the nodes are one cluster. While they are not, something is
    /// wrong, whatever it is. Clients begin when they are for the first time.
    pub fn watch_over(&mut self) -> Result<(), String> {
        let is_one = self.is_one_cluster();
        match (&is_one, self.ledger.apart) {
            (Err(_), None) => {
                let fault = Fault {
                    kind: FaultKind::Rough,
                    to: None,
                    lost: Lost::Nothing,
                    jump: None,
                };
                self.ledger.apart = self.begin_fault(0, fault);
            }
            (Ok(()), Some(call)) => {
                self.ledger.apart = None;
                let line = self.line(0, call, Phase::Ok, Op::Fault);
                self.note(line);
            }
            _ => {}
        }
        if !self.ledger.has_begun {
            match is_one {
                Ok(()) => {
                    self.ledger.has_begun = true;
                    self.look_at_all();
                    self.begin();
                    if self.profile.settings.max_memory > 0 {
                        // Nodes refuse now and then, up to the end.
                        self.fault_for(0, FaultKind::Full, None, self.profile.end);
                    }
                }
                Err(why) if self.now > 60_000 => {
                    return Err(format!("no cluster comes to be: {why}"));
                }
                Err(_) => {}
            }
        }
        self.schedule(0, WATCH_MS, Event::Watch);
        Ok(())
    }

    /// Judges what was written down.
    pub fn judge(&mut self) -> Result<(), String> {
        let report = check(&self.ledger.lines, &self.limits());
        if let Ok(path) = std::env::var("DISQUE_SIM_HISTORY") {
            let lines = self.ledger.lines.iter();
            let text: String = lines.map(|line| line.to_line() + "\n").collect();
            std::fs::write(path, text).map_err(|error| error.to_string())?;
        }
        self.trace.line(format!("{:?}", report.summary));
        match report.violations.is_empty() {
            true => Ok(()),
            false => Err(report.to_string()),
        }
    }

    fn limits(&self) -> Limits {
        let timeout = self.profile.settings.node_timeout_ms;
        Limits {
            // What clients get is written down at once.
            slack: 5,
            spread: 500 + 6 * self.profile.latency,
            settle: 5_000 + 3 * timeout + WATCH_MS,
            repair: REPAIR_MS,
            // A request and a job wait for the frames before them. Where others are
            // served meanwhile, a job goes on to the next node that asks, and on.
            stuck: 1_000 + 15 * self.profile.latency,
            stuck_after_fault: 2_000 + 3 * timeout,
            stuck_retry_cap: u64::MAX,
            retry_spread: 500,
            served: Served::Everywhere,
            memory: u64::MAX,
        }
    }
}

//! What goes wrong, and how it all comes to an end.

use crate::disk::Stop;
use crate::oracle::history::{Settling, What};
use crate::profile::Severity;
use crate::site::queue_name;
use crate::world::{Event, World};
use disque_checker::FaultKind;
use disque_core::job::State;
use disque_core::node::get::GetJob;
use disque_core::queue::Pause;

#[derive(Clone, Copy, Debug)]
enum Fault {
    Stop(Stop),
    /// A replica takes its place while it lives.
    Supersede,
    /// It is killed soon, between saying something and writing it.
    Unwritten,
    Stall,
    ClockJump,
    Snapshot,
    Leaving,
    Flush,
}

impl World {
    /// The next fault, if this run has any.
    pub fn schedule_fault(&mut self, node: usize) {
        let pace = self.profile.fault_pace;
        if pace < u64::MAX {
            let wait = self.random.range(1, 2 * pace);
            self.schedule(node, wait, Event::Fault);
        }
    }

    pub fn fault(&mut self, node: usize) -> Result<(), String> {
        self.schedule_fault(node);
        let alone = u64::from(!self.profile.replicated);
        let single = u64::from(self.sites.len() == 1);
        let stopped = u64::from(self.profile.severity >= Severity::Stopped);
        let wiped = u64::from(self.profile.severity >= Severity::Wiped);
        let has_replica = self.site(node).disk.keeps_snapshots();
        let older = self.profile.severity >= Severity::Older;
        let promoted = u64::from(older && has_replica);
        let superseded = promoted * (1 - alone) * u64::from(!self.moved);
        let fault = self.random.weighted(&[
            (1 - alone.max(1 - wiped), Fault::Stop(Stop::Wiped)),
            (2 * promoted, Fault::Stop(Stop::Promoted)),
            (6 * superseded, Fault::Supersede),
            (4 * stopped, Fault::Stop(Stop::Kill)),
            (4 * stopped, Fault::Stop(Stop::PowerLoss)),
            (2 * stopped, Fault::Stop(Stop::Clean)),
            (5 * stopped * (1 - alone), Fault::Unwritten),
            (4, Fault::Stall),
            (6, Fault::ClockJump),
            (3, Fault::Snapshot),
            (single, Fault::Leaving),
            (alone, Fault::Flush),
        ]);
        self.trace.line(format!("{:>9}   {fault:?}", ""));
        match fault {
            Fault::Stop(stop) => self.stop(node, stop),
            Fault::Supersede => {
                self.supersede(node);
                Ok(())
            }
            Fault::Unwritten => {
                self.site(node).is_doomed = true;
                Ok(())
            }
            Fault::Stall => {
                let ms = self.random.pick(&[50, 1_000, 20_000]);
                let ms = self.random.range(1, ms);
                self.site(node).stalled_until = self.now + ms;
                self.fault_for(node, FaultKind::Pause, None, ms);
                Ok(())
            }
            Fault::ClockJump => {
                if self.profile.clock_jumps {
                    // An hour back makes what a restart finds an hour late.
                    let back = if self.profile.replicated {
                        -10_000
                    } else {
                        -3_600_000
                    };
                    let ms = self.random.pick(&[back, 3_600_000, -1_500, 1_500]);
                    self.site(node).clocks.jump(ms);
                    self.clock_set(node, ms);
                }
                Ok(())
            }
            Fault::Snapshot => {
                let at = self.now;
                self.site(node).snapshot(at);
                self.tell(node, What::Snapshot)
            }
            Fault::Leaving => {
                self.set_leaving(node, true)?;
                self.set_leaving(node, false)
            }
            Fault::Flush => {
                self.call(node, |node, now, fx| node.flush(now, fx));
                self.conclude(node, true, What::Flushed)?;
                self.answer(node)
            }
        }
    }

    /// DISQUE LEAVING.
    pub fn set_leaving(&mut self, node: usize, leaving: bool) -> Result<(), String> {
        self.ledger.some_refused |= leaving;
        self.call(node, |node, now, fx| node.set_leaving(leaving, now, fx));
        self.conclude(node, true, What::Leaving(leaving))?;
        self.answer(node)
    }

    /// Consumes what is there; again when more falls due, until nothing is.
    pub fn drain(&mut self, node: usize) -> Result<(), String> {
        if self.sites.len() > 1 {
            return self.end_cluster();
        }
        if self.site(node).node.is_none() {
            self.schedule(node, 1_000, Event::Drain);
            return Ok(());
        }
        if !self.draining {
            self.draining = true;
            for queue in 0..self.profile.queues {
                self.set_pause(node, queue, Pause::default())?;
            }
            let waiting: Vec<_> = self.site(node).waiting.keys().copied().collect();
            for waiter in waiting {
                self.unblock(node, waiter)?;
            }
        }
        self.consume(node)?;
        let inside = self.site(node).node.as_ref().expect("it is up");
        let Some(wake) = inside.next_wake() else {
            return self.finish(node);
        };
        let at = self.now;
        let due = self.site(node).clocks.world_time(wake);
        self.schedule(node, due.saturating_sub(at).max(1), Event::Drain);
        Ok(())
    }

    fn consume(&mut self, node: usize) -> Result<(), String> {
        let names: Vec<_> = (0..self.profile.queues).map(queue_name).collect();
        let get = GetJob {
            queues: names.iter().map(Vec::as_slice).collect(),
            count: 1_000,
            nohang: true,
            timeout_ms: None,
            with_counters: true,
        };
        let queues = (0..names.len()).collect();
        let jobs = self.get_at_once(node, &get, queues, true)?;
        let ids: Vec<_> = jobs.unwrap_or_default().iter().map(|job| job.id).collect();
        self.settle(node, Settling::Ack, ids, true)
    }

    /// There is nothing to wait for. So there must be nothing at all.
    fn finish(&mut self, node: usize) -> Result<(), String> {
        let totals = self.site(node).node.as_ref().expect("it is up").totals();
        let left = (
            totals.jobs,
            totals.queues,
            totals.blocked_clients,
            totals.job_bytes,
        );
        if left != ([0; State::COUNT], 0, 0, 0) {
            return Err(format!(
                "at rest with (jobs, queues, clients, bytes) = {left:?}"
            ));
        }
        self.done = true;
        self.tell(node, What::Drained)
    }
}

//! What follows when nodes come and go, or when this one was away itself.

use super::have::Walk;
use super::{Standing, FIRST_WAIT_MS};
use crate::clock::Now;
use crate::collections::Poll;
use crate::copies::Duty;
use crate::effects::Effects;
use crate::holders::Holder;
use crate::node::Node;

/// A turn that comes this much after jobs fell due is late.
const LATE_MS: u64 = 200;
/// How long a node reads what others told it meanwhile, before it queues those jobs.
const REST_MS: u64 = 200;

/// What a node keeps in mind about its cluster beside the single jobs.
pub struct Vigil {
    /// How often this node has been away, so that others may have taken over its
    /// jobs: a start counts, and each time that it stood still for node-timeout.
    pub doubts: u32,
    /// When it came back last, monotonic ms.
    doubted_at: u64,
    /// When it last looked, monotonic ms.
    looked_at: Option<u64>,
    /// When the last turn was, monotonic ms.
    turned_at: u64,
    /// Jobs that fell due wait until then; 0 if they need not.
    pub(super) rests_until: u64,
    /// Live jobs with fewer copies than were asked for, as far as is known here.
    pub under_replicated: u64,
    /// Nodes have come or gone: jobs from this key on are still to be looked at.
    copies_from: Option<u32>,
    /// The same for dummy acks.
    acks_from: Option<u32>,
    /// The changes of the table that were looked at.
    changes: u64,
    /// The walk that compares copies.
    pub(super) walk: Walk,
    /// The incarnation of this node that last started without a clean stop before.
    pub unclean_start: u64,
}

impl Default for Vigil {
    fn default() -> Self {
        Vigil {
            doubts: 1,
            doubted_at: 0,
            looked_at: None,
            turned_at: 0,
            rests_until: 0,
            under_replicated: 0,
            copies_from: None,
            acks_from: None,
            changes: 0,
            walk: Walk::default(),
            unclean_start: 0,
        }
    }
}

impl Vigil {
    /// How long others that are not up yet are waited for.
    pub fn grace_until(&self, node_timeout_ms: u64) -> u64 {
        self.doubted_at.saturating_add(node_timeout_ms)
    }

    /// Has all jobs with copies looked at.
    pub fn look_at_all(&mut self) {
        self.copies_from = Some(0);
        self.acks_from = Some(0);
    }

    /// This node was away.
    pub fn doubt(&mut self, now: Now) {
        self.doubts = self.doubts.saturating_add(1);
        self.doubted_at = now.mono_ms;
    }

    /// Whether jobs that fell due wait still: see [`Node::rest_if_late`].
    pub(super) fn rests(&self, now: Now) -> bool {
        now.mono_ms < self.rests_until
    }

    /// Whether all questions of the last fast walk were sent before a time.
    pub fn compared_before(&self, mono_ms: u64) -> bool {
        self.walk.was_over(mono_ms)
    }

    /// Whether there are jobs to look at.
    pub fn has_work(&self) -> bool {
        self.copies_from.is_some() || self.acks_from.is_some()
    }
}

impl Node {
    /// How many jobs have fewer copies than were asked for, as far as this node
    /// knows.
    pub fn under_replicated(&self) -> u64 {
        self.vigil.under_replicated
    }

    /// Sees to all that is due about copies, at most about `max` steps of each kind.
    pub(in crate::node) fn run_copies(&mut self, now: Now, max: usize, fx: &mut Effects) {
        self.look_around(now);
        let mut moves = max as u32;
        for _ in 0..max {
            let Poll::Due(copies) = self.copies.poll(now, &mut moves) else {
                break;
            };
            self.act(copies, now, fx);
        }
        let mut moves = max as u32;
        for _ in 0..max {
            let Poll::Due(key) = self.acks.poll(now, &mut moves) else {
                break;
            };
            self.ask_about(key, now, fx);
        }
        self.settled.forget_old(now, max);
        self.walk(now, fx);
        self.sweep(now, max, fx);
    }

    /// Notices that this node stood still. A command may come before the turn that
    /// is late, so whatever hands out jobs looks first.
    pub(in crate::node) fn notice_standstill(&mut self, now: Now) {
        let timeout = self.settings.node_timeout_ms;
        let last = self.vigil.looked_at.replace(now.mono_ms);
        let stood_still = last.is_some_and(|last| now.mono_ms.saturating_sub(last) > timeout);
        if stood_still && !self.cluster.is_alone() {
            self.vigil.doubt(now);
        }
    }

    /// Has jobs with copies wait a moment if this turn is late. A node that stood
    /// still, if only shortly, finds jobs due of which others have told meanwhile that
    /// they are settled or still worked at: that waits in its sockets, and is read
    /// first. A backlog is no reason, there turn follows turn; nor are two late turns
    /// on end.
    pub(in crate::node) fn rest_if_late(&mut self, now: Now) {
        let turned_at = std::mem::replace(&mut self.vigil.turned_at, now.mono_ms);
        let late = |since: u64| now.mono_ms.saturating_sub(since) > LATE_MS;
        let rested = self.vigil.rests_until > 0;
        if rested && !self.vigil.rests(now) {
            self.vigil.rests_until = 0;
        } else if !rested && late(turned_at) && self.jobs.next_wake().is_some_and(late) {
            self.vigil.rests_until = now.after(REST_MS);
        }
    }

    /// Notices that this node stood still, or that nodes have come or gone.
    pub(in crate::node) fn look_around(&mut self, now: Now) {
        self.notice_standstill(now);
        let timeout = self.settings.node_timeout_ms;
        let returned = self.cluster.note_reachable(now, timeout);
        if self.cluster.take_doubts(now, timeout) {
            self.compare_copies(now);
        }
        if returned || self.vigil.changes != self.cluster.changes() {
            self.vigil.changes = self.cluster.changes();
            self.vigil.look_at_all();
            self.federation.repeat_soon();
        }
    }

    /// The copies at some node are in doubt, or the own ones: all are compared soon.
    pub(in crate::node) fn compare_copies(&mut self, now: Now) {
        self.vigil.walk.hurry(now);
    }

    fn act(&mut self, copies_key: u32, now: Now, fx: &mut Effects) {
        let copies = &self.copies[copies_key];
        let key = copies.job;
        match copies.duty {
            Duty::None => {}
            Duty::Spread => self.spread_again(key, now, fx),
            Duty::Repair => self.repair(key, now, fx),
            Duty::Entrust => self.entrust(key, now, fx),
            Duty::Part => self.go_on_parting(key, now, fx),
            Duty::Collect | Duty::AwaitCollection => self.collect(key, now, fx),
            Duty::HandOver => self.give_up_handed(key, now, fx),
        }
    }

    /// Looks at some of the jobs that are to be looked at: what waited for a node
    /// that is back goes on at once, and copies that are gone are made up for.
    fn sweep(&mut self, now: Now, max: usize, fx: &mut Effects) {
        for _ in 0..max {
            let Some(from) = self.vigil.copies_from else {
                break;
            };
            let Some(copies) = self.copies.next_occupied(from) else {
                self.vigil.copies_from = None;
                break;
            };
            self.vigil.copies_from = Some(copies + 1);
            self.look_at(copies, now, fx);
        }
        for _ in 0..max {
            let Some(from) = self.vigil.acks_from else {
                break;
            };
            let Some(key) = self.acks.next_occupied(from) else {
                self.vigil.acks_from = None;
                break;
            };
            self.vigil.acks_from = Some(key + 1);
            if let Some(ack) = self.acks.get_mut(key) {
                ack.tries = 0;
            }
            self.ask_about(key, now, fx);
        }
    }

    /// Whether a job has been sent to as many nodes as are to have it, and nothing
    /// tells that one of these did not get it.
    fn is_under_way(&self, copies_key: u32, now: Now) -> bool {
        let copies = &self.copies[copies_key];
        let wanted = usize::from(self.jobs[copies.job].options.replicate);
        let arrives = |holder| match self.standing(holder, now) {
            Standing::Reachable(peer) => self
                .cluster
                .by_key(peer)
                .is_some_and(|peer| peer.reachable_since <= copies.heard_at),
            Standing::Gone => false,
            Standing::Own | Standing::Unreachable => true,
        };
        let is_left = |holder: &Holder| self.standing(*holder, now) != Standing::Gone;
        let left = copies.holders.iter().filter(is_left).count();
        left >= wanted && copies.holders.unconfirmed().all(arrives)
    }

    fn look_at(&mut self, copies_key: u32, now: Now, fx: &mut Effects) {
        let key = self.copies[copies_key].job;
        match self.copies[copies_key].duty {
            Duty::None => {}
            // The one that collects may do so still.
            Duty::AwaitCollection | Duty::HandOver => return,
            Duty::Spread if self.is_under_way(copies_key, now) => {}
            duty => {
                let copies = &mut self.copies[copies_key];
                copies.tries = 0;
                if duty == Duty::Spread {
                    // What was sent before may be lost: nothing is waited for.
                    copies.heard_at = 0;
                }
                let soon = match duty {
                    Duty::Collect => now.mono_ms,
                    _ => now.after(FIRST_WAIT_MS / 10),
                };
                let at = soon.min(self.copies.act_at(copies_key));
                self.copies.schedule(copies_key, duty, at);
            }
        }
        self.tell_again(key, now, fx);
        self.check_copies(key, now, fx);
    }
}

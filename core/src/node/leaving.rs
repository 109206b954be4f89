//! A node that leaves its cluster: what it has goes to the nodes that stay, whether
//! consumers wait there or not.
//!
//! It goes over its jobs again and again, a bounded number of them on their way at a
//! time. Each gets the copies that it should have elsewhere; then another holder takes
//! it over, and it is dropped here. Acknowledgements go to a node that stays. What
//! finds no target is counted.

use super::replication::Talk;
use super::Node;
use crate::clock::{Now, NEVER};
use crate::cluster::PeerKey;
use crate::copies::Duty;
use crate::effects::{Answer, Effects, Gate};
use crate::error::Error;
use crate::holders::{Holder, Pairs};
use crate::job::State;
use crate::job_id::JobId;
use crate::message::Message;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Jobs on their way at a time.
const WINDOW: usize = 500;
/// How soon it is seen whether some of them have arrived.
const LOOK_MS: u64 = 10;
/// How soon it goes over what is left again.
const PASS_MS: u64 = 1_000;

/// How far a node that leaves has come.
#[derive(Default)]
pub struct Drain {
    /// Jobs that have got another copy: perhaps they can go now.
    soon: Vec<JobId>,
    /// Jobs on their way, and until when they are waited for.
    window: Vec<JobId>,
    window_until: u64,
    /// The next job of this pass; past the last one, the next dummy ack.
    jobs_from: Option<u32>,
    acks_from: u32,
    /// When it goes on.
    next_at: u64,
    /// What had no target in this pass, and in the last one.
    stuck: u64,
    no_target: u64,
    refusals: Refusals,
}

/// Nodes that have refused jobs, and have taken none since: of one queue, or, for want
/// of memory, of any.
#[derive(Default)]
struct Refusals {
    by: BTreeSet<(Holder, Option<u32>)>,
    /// What they were asked for again in this pass.
    tried: BTreeSet<Option<u32>>,
}

/// Whether nodes are to be asked to take a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asking {
    Freely,
    /// To see whether they still refuse.
    ToSee,
    No,
}

impl Refusals {
    /// Where all nodes have refused, they are asked for one job in each pass.
    fn asking(&mut self, targets: &[Holder], queue: u32) -> Asking {
        if targets.is_empty() {
            return Asking::No;
        }
        let queue = Some(queue);
        let is_full = |one: &Holder| self.by.contains(&(*one, None));
        let refuses = |one: &Holder| is_full(one) || self.by.contains(&(*one, queue));
        if !targets.iter().all(refuses) {
            return Asking::Freely;
        }
        let all_full = targets.iter().all(is_full);
        let is_first = self.tried.insert(if all_full { None } else { queue });
        if is_first {
            Asking::ToSee
        } else {
            Asking::No
        }
    }
}

/// What became of something that is to leave.
enum Step {
    Gone,
    UnderWay,
    Stuck,
}

impl Node {
    /// DISQUE LEAVING yes: clients that wait are sent away, and jobs go elsewhere.
    /// DISQUE LEAVING no: as before.
    pub fn set_leaving(&mut self, leaving: bool, now: Now, fx: &mut Effects) {
        self.leaving = leaving;
        self.drain = Drain {
            jobs_from: Some(0),
            ..Drain::default()
        };
        self.cluster.beat_soon();
        self.vigil.look_at_all();
        if leaving {
            self.answer_all_waiters(&Answer::Error(Error::Leaving), now, fx);
        }
    }

    /// How many jobs and acknowledgements found no node that takes them, when this node
    /// that leaves last went over all.
    pub fn no_target(&self) -> u64 {
        self.drain.no_target
    }

    /// When there is something to take away next.
    pub(super) fn next_drain(&self) -> Option<u64> {
        let left = self.job_count() + self.acks.len() > 0;
        if !self.leaving || !left {
            return None;
        }
        Some(if self.drain.soon.is_empty() {
            self.drain.next_at
        } else {
            0
        })
    }

    /// A copy of the job has come to be: this one can perhaps go.
    pub(super) fn drain_soon(&mut self, key: u32) {
        if self.leaving {
            self.drain.soon.push(self.jobs[key].id);
        }
    }

    /// A node does not take a job of this queue, or none for want of memory.
    pub(super) fn note_no_taker(&mut self, key: u32, by: Holder, full: bool) {
        if self.leaving {
            let queue = (!full).then_some(self.jobs[key].queue);
            self.drain.refusals.by.insert((by, queue));
        }
    }

    /// A node has taken a job.
    pub(super) fn note_taker(&mut self, key: u32, by: Holder) {
        let queue = self.jobs[key].queue;
        self.drain.refusals.by.remove(&(by, None));
        self.drain.refusals.by.remove(&(by, Some(queue)));
    }

    /// Whether to ask for a job to be taken by nodes that surely do not have it.
    fn asking(&mut self, key: u32, now: Now) -> Asking {
        let copies = self.copies.get(self.jobs[key].copies).into_iter();
        let confirmed = copies.flat_map(|copies| copies.holders.confirmed());
        let confirmed: SmallVec<[Holder; 8]> = confirmed.collect();
        let targets = self.targets(&confirmed, now);
        let queue = self.jobs[key].queue;
        self.drain.refusals.asking(&targets, queue)
    }

    /// Goes on with what leaves, about `max` steps.
    pub(super) fn run_drain(&mut self, now: Now, max: usize, fx: &mut Effects) {
        for id in std::mem::take(&mut self.drain.soon) {
            if let Some(key) = self.live(&id) {
                self.leave_job(key, now, fx);
            }
        }
        if !self.leaving || now.mono_ms < self.drain.next_at {
            return;
        }
        let jobs = &self.jobs;
        self.drain.window.retain(|id| jobs.find(id).is_some());
        if now.mono_ms >= self.drain.window_until {
            self.drain.window.clear();
            self.drain.window_until = now.after(PASS_MS);
        }
        self.drain.next_at = now.after(LOOK_MS);
        for _ in 0..max {
            if self.drain.window.len() >= WINDOW {
                return;
            }
            let Some((id, step)) = self.leave_next(now, fx) else {
                self.drain.no_target = std::mem::take(&mut self.drain.stuck);
                self.drain.jobs_from = Some(0);
                self.drain.acks_from = 0;
                self.drain.refusals.tried.clear();
                self.drain.next_at = now.after(PASS_MS);
                return;
            };
            match step {
                Step::Gone => {}
                Step::UnderWay => self.drain.window.push(id),
                Step::Stuck => self.drain.stuck += 1,
            }
        }
    }

    fn leave_next(&mut self, now: Now, fx: &mut Effects) -> Option<(JobId, Step)> {
        if let Some(from) = self.drain.jobs_from {
            let Some(key) = self.jobs.next_occupied(from) else {
                self.drain.jobs_from = None;
                return self.leave_next(now, fx);
            };
            self.drain.jobs_from = Some(key + 1);
            let id = self.jobs[key].id;
            return Some((id, self.leave_job(key, now, fx)));
        }
        let key = self.acks.next_occupied(self.drain.acks_from)?;
        self.drain.acks_from = key + 1;
        let ack = self.acks.get(key)?;
        let (id, left) = (ack.id, ack.expire_at.saturating_sub(now.mono_ms));
        Some((id, self.leave_ack(id, left, Pairs::NONE, now, fx)))
    }

    fn leave_job(&mut self, key: u32, now: Now, fx: &mut Effects) -> Step {
        let job = &self.jobs[key];
        if self.cluster.is_alone() {
            return Step::Stuck;
        }
        if job.is_acked() {
            let left = job.expire_at.saturating_sub(now.mono_ms);
            let (id, list) = (job.id, self.holder_list(key));
            return self.leave_ack(id, left, list.pairs(), now, fx);
        }
        if job.state == State::WaitRepl || self.is_handed(key) {
            return Step::UnderWay;
        }
        if job.at_most_once() {
            return self.leave_at_most_once(key, now, fx);
        }
        let Ok(copies_key) = self.copies_of(key) else {
            return Step::Stuck;
        };
        if !self.leaves_to_others(key, now) {
            if matches!(self.copies[copies_key].duty, Duty::Entrust | Duty::Part) {
                // A copy was lost meanwhile.
                self.copies.schedule(copies_key, Duty::None, NEVER);
            }
            let asking = self.asking(key, now);
            if asking == Asking::No {
                return Step::Stuck;
            }
            self.check_copies(key, now, fx);
            if self.copies[copies_key].duty != Duty::Repair {
                return Step::Stuck;
            }
            self.copies.schedule(copies_key, Duty::Repair, now.mono_ms);
            return if asking == Asking::Freely {
                Step::UnderWay
            } else {
                Step::Stuck
            };
        }
        if self.may_part(key, now) {
            return self.leave_to_others(key, now, fx);
        }
        if self.copies[copies_key].duty != Duty::Entrust {
            self.copies[copies_key].tries = 0;
            self.entrust(key, now, fx);
        }
        Step::UnderWay
    }

    /// Others have all copies, and one of them sees to the job.
    fn leave_to_others(&mut self, key: u32, now: Now, fx: &mut Effects) -> Step {
        let parts = self.copies[self.jobs[key].copies].duty == Duty::Part;
        if !parts && self.part(key, now, fx) {
            Step::Gone
        } else if self.waits_to_part(key, now) {
            Step::Stuck
        } else {
            Step::UnderWay
        }
    }

    /// It moves; one that was delivered nobody will ever get again.
    fn leave_at_most_once(&mut self, key: u32, now: Now, fx: &mut Effects) -> Step {
        if !self.jobs[key].may_be_queued() {
            self.remove_recorded(key, now, fx);
            return Step::Gone;
        }
        let asking = self.asking(key, now);
        if asking != Asking::No && self.move_on(key, &[], now, fx) && asking == Asking::Freely {
            Step::UnderWay
        } else {
            Step::Stuck
        }
    }

    /// Whether the nodes that stay have as many copies as they can and should.
    pub(super) fn leaves_to_others(&self, key: u32, now: Now) -> bool {
        let staying = self.cluster.peers().filter(|peer| !peer.leaving).count();
        let wanted = usize::from(self.jobs[key].options.replicate).min(staying);
        self.leaving && wanted > 0 && self.copies_that_stay(key, now) >= wanted
    }

    /// KEEPACK to a node that stays, one that has the job if possible.
    fn leave_ack(
        &mut self,
        id: JobId,
        ttl_left_ms: u64,
        holders: Pairs<'_>,
        now: Now,
        fx: &mut Effects,
    ) -> Step {
        let Some(peer) = self.keeper_of(&id, now) else {
            return Step::Stuck;
        };
        let message = Message::KeepAck {
            id,
            ttl_left_ms,
            holders,
        };
        fx.send_to([peer], &message, Gate::Written);
        Step::UnderWay
    }

    fn keeper_of(&self, id: &JobId, now: Now) -> Option<PeerKey> {
        let key = self.jobs.find(id);
        key.and_then(|key| self.heir(key, now))
            .map(|(_, peer)| peer)
            .or_else(|| self.target_peers(now).next())
    }

    /// KEEPACK.
    pub(super) fn take_keep_ack(
        &mut self,
        id: &JobId,
        ttl_left_ms: u64,
        holders: Pairs<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let now = talk.now;
        if let Some(key) = self.jobs.find(id) {
            let copies = self.copies_of(key)?;
            self.merge(copies, holders)?;
            self.record_holders(key, talk.fx);
            if self.jobs[key].is_acked() {
                self.copies.schedule(copies, Duty::Collect, now.mono_ms);
            } else {
                self.settle_job(key, now, talk.fx);
            }
        } else {
            // Though it be remembered as settled: that passes.
            self.keep_dummy(*id, now.after(ttl_left_ms), now, talk.fx);
        }
        talk.answer(&Message::AckKept { id: *id });
        Ok(())
    }

    /// Another node keeps the acknowledgement.
    pub(super) fn take_ack_kept(&mut self, id: &JobId, talk: &mut Talk<'_, '_>) {
        if let Some(key) = self.jobs.find(id).filter(|key| self.jobs[*key].is_acked()) {
            self.remove_recorded(key, talk.now, talk.fx);
        } else if let Some(key) = self.acks.find(id) {
            self.forget_dummy(key, talk.fx);
        }
    }
}

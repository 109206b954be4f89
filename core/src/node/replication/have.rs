//! HAVE: comparing what nodes believe of each other's copies.
//!
//! Messages are lost, and a node that was killed may have lost the end of its data.
//! So each node walks its jobs again and again, and asks every possible holder
//! whether it has them, and whether it is the one to queue them. The walk is slow,
//! unless a node has started without having stopped: then the copies there are in
//! doubt, and it goes as fast as is reasonable.

use super::Talk;
use crate::clock::Now;
use crate::cluster::PeerKey;
use crate::effects::Effects;
use crate::job::State;
use crate::job_id::JobId;
use crate::message::{JobIds, Message};
use crate::node::Node;
use std::collections::BTreeMap;

/// Between two steps of a walk.
const SLOW_STEP_MS: u64 = 1_000;
const FAST_STEP_MS: u64 = 10;
/// Jobs in a step of a fast walk, and the most in one of a slow walk.
const STEP: usize = 500;

/// Where a walk is.
#[derive(Default)]
pub(super) struct Walk {
    from: u32,
    next_at: u64,
    fast: bool,
    /// When the last fast walk came to its end, monotonic ms.
    ended_at: u64,
}

impl Walk {
    /// Starts a fast walk over all jobs.
    pub fn hurry(&mut self, now: Now) {
        *self = Walk {
            from: 0,
            next_at: now.mono_ms,
            fast: true,
            ended_at: 0,
        };
    }

    fn end(&mut self, now: Now) {
        self.from = 0;
        if std::mem::take(&mut self.fast) {
            self.ended_at = now.mono_ms;
        }
    }

    /// Whether no fast walk was on its way at a time or has been since.
    pub fn was_over(&self, mono_ms: u64) -> bool {
        !self.fast && self.ended_at < mono_ms
    }
}

/// What a node is asked in one step.
#[derive(Default)]
struct Question {
    ids: Vec<JobId>,
    mine: Vec<JobId>,
}

impl Node {
    /// When the walk goes on; `None` where there is nobody to ask, or nothing to ask
    /// about.
    pub(in crate::node) fn next_walk(&self) -> Option<u64> {
        let idle = self.copies.is_empty() || self.cluster.is_alone();
        (!idle).then_some(self.vigil.walk.next_at)
    }

    /// The next step of the walk, if it is time.
    pub(super) fn walk(&mut self, now: Now, fx: &mut Effects) {
        if self.next_walk().is_none_or(|at| at > now.mono_ms) {
            return;
        }
        let fast = self.vigil.walk.fast;
        let steps = (self.settings.sweep_ms / SLOW_STEP_MS).max(1) as usize;
        let (count, pause) = match fast {
            true => (STEP, FAST_STEP_MS),
            false => (self.copies.len().div_ceil(steps).min(STEP), SLOW_STEP_MS),
        };
        self.vigil.walk.next_at = now.after(pause);
        let mut questions = BTreeMap::<PeerKey, Question>::new();
        for _ in 0..count {
            let Some(copies) = self.copies.next_occupied(self.vigil.walk.from) else {
                self.vigil.walk.end(now);
                break;
            };
            self.vigil.walk.from = copies + 1;
            let key = self.copies[copies].job;
            // One on its way to another node is not in doubt before that one answers.
            let rests = self.copies[copies].handed.is_none();
            if rests && Self::waits_for_requeue(self.jobs[key].state) {
                let mine = self.copies[copies].responsible == Some(self.own);
                for peer in self.others(key, now) {
                    let question = questions.entry(peer).or_default();
                    question.ids.push(self.jobs[key].id);
                    if mine {
                        question.mine.push(self.jobs[key].id);
                    }
                }
            }
        }
        for (peer, Question { ids, mine }) in questions {
            let (ids, mine) = (JobIds::encode(&ids), JobIds::encode(&mine));
            fx.send(
                peer,
                &Message::Have {
                    ids: ids.ids(),
                    mine: mine.ids(),
                },
            );
        }
    }

    /// HAVE.
    pub(super) fn take_have(
        &mut self,
        ids: JobIds<'_>,
        mine: JobIds<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        for id in mine.iter() {
            let claimed = self.live(&id).filter(|key| self.is_responsible(*key));
            if let Some(key) = claimed.filter(|key| self.jobs[*key].state != State::WaitRepl) {
                // Both believe it of themselves: the higher turn decides.
                self.correct(key, talk);
            }
        }
        let (mut missing, mut not_mine) = (Vec::new(), Vec::new());
        for id in ids.iter() {
            if self.answer_settled(&id, true, talk) {
                continue;
            }
            let Some(key) = self.live(&id) else {
                missing.push(id);
                continue;
            };
            let copies = self.copies_of(key)?;
            self.confirm(key, talk.from, talk.now, talk.fx);
            let mine = self.copies[copies].responsible == Some(self.own);
            if !mine && self.jobs[key].state != State::WaitRepl {
                not_mine.push(id);
            }
        }
        if !missing.is_empty() || !not_mine.is_empty() {
            let (missing, not_mine) = (JobIds::encode(&missing), JobIds::encode(&not_mine));
            talk.answer(&Message::Lacking {
                missing: missing.ids(),
                not_mine: not_mine.ids(),
            });
        }
        Ok(())
    }

    /// The answer to it.
    pub(super) fn take_lacking(
        &mut self,
        missing: JobIds<'_>,
        not_mine: JobIds<'_>,
        talk: &mut Talk<'_, '_>,
    ) {
        for id in missing.iter() {
            self.take_unknown(&id, talk);
        }
        for id in not_mine.iter() {
            let copies = self.live(&id).map(|key| self.jobs[key].copies);
            if let Some(copies) = copies.and_then(|key| self.copies.get_mut(key)) {
                // Whoever was believed to be the one is not: nobody is believed.
                if copies.responsible == Some(talk.from) {
                    copies.responsible = None;
                }
            }
        }
    }
}

//! Lost copies: counting what is left, and who of the holders makes up for them.

use super::spread::LONGEST_WAIT_MS;
use super::{doubled, Talk, FIRST_WAIT_MS};
use crate::clock::{Now, NEVER};
use crate::copies::{Duty, NO_COPIES};
use crate::effects::{Effects, Gate};
use crate::holders::{Holder, Pairs};
use crate::job_id::JobId;
use crate::message::Message;
use crate::mutants::Mutant;
use crate::node::Node;

/// Another node makes up for lost copies when nothing was heard for this long of
/// the one whose turn it is.
const HEARD_MS: u64 = 3_000;

impl Node {
    /// Looks whether a live job has all its copies, and sees to it if not.
    pub(in crate::node) fn check_copies(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let job = &self.jobs[key];
        let copies_key = job.copies;
        if self.copies.get(copies_key).is_none() || job.is_acked() {
            return;
        }
        let short = !job.at_most_once() && self.missing(key, now) > 0;
        self.set_short(copies_key, short);
        let duty = self.copies[copies_key].duty;
        match (short, duty) {
            (false, Duty::Spread | Duty::Repair) => {
                self.copies.schedule(copies_key, Duty::None, NEVER);
                self.copies[copies_key].tries = 0;
                self.tell_holders_if_new(key, now, fx);
            }
            (true, Duty::None) => {
                let wait = if self.repairs_first(key, now) {
                    FIRST_WAIT_MS
                } else {
                    HEARD_MS
                };
                self.copies
                    .schedule(copies_key, Duty::Repair, now.after(wait));
            }
            _ => {}
        }
    }

    /// How many copies are missing.
    pub(in crate::node) fn missing(&self, key: u32, now: Now) -> usize {
        let job = &self.jobs[key];
        if job.copies == NO_COPIES {
            return 0;
        }
        usize::from(job.options.replicate).saturating_sub(self.copies_that_stay(key, now))
    }

    /// How many nodes surely have a copy, and stay.
    pub(in crate::node) fn copies_that_stay(&self, key: u32, now: Now) -> usize {
        let copies = self.copies.get(self.jobs[key].copies).into_iter();
        let confirmed = copies.flat_map(|copies| copies.holders.confirmed());
        confirmed.filter(|holder| self.counts(*holder, now)).count()
    }

    pub(in crate::node) fn set_short(&mut self, copies: u32, short: bool) {
        let copies = &mut self.copies[copies];
        if copies.short != short {
            copies.short = short;
            if short {
                self.vigil.under_replicated += 1;
            } else {
                self.vigil.under_replicated -= 1;
            }
        }
    }

    /// It is time to make up for lost copies, unless another node does.
    pub(super) fn repair(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let copies_key = self.jobs[key].copies;
        let heard_at = self.copies[copies_key].heard_at;
        let silent = now.mono_ms >= heard_at.saturating_add(HEARD_MS);
        if self.missing(key, now) == 0 {
            self.copies.schedule(copies_key, Duty::None, NEVER);
            self.check_copies(key, now, fx);
            return;
        }
        let idle = self.is_mutant(Mutant::OnlyOriginRepairs) && !self.has_made(key);
        let acts = !idle && (self.leaving || self.repairs_first(key, now) || silent);
        let copies = &mut self.copies[copies_key];
        let wait = if acts {
            copies.tries = copies.tries.saturating_add(1);
            doubled(FIRST_WAIT_MS, copies.tries, LONGEST_WAIT_MS)
        } else {
            HEARD_MS
        };
        self.copies
            .schedule(copies_key, Duty::Repair, now.after(wait));
        if acts {
            self.add_copies(key, now, fx);
        }
    }

    /// Whether a job was added at this node.
    fn has_made(&self, key: u32) -> bool {
        self.jobs[key].id.to_bytes()[..4] == self.identity.id[..4]
    }

    /// Whether it is this node that makes up for lost copies: of the holders that
    /// it reaches, the one of the lowest rank.
    fn repairs_first(&self, key: u32, now: Now) -> bool {
        let id = &self.jobs[key].id;
        let rank = |holder| self.holders.pair(holder).rank(id);
        let own = rank(self.own);
        let Some(copies) = self.copies.get(self.jobs[key].copies) else {
            return false;
        };
        let reachable = |holder: &Holder| self.reach(*holder, now).is_some();
        let mut others = copies.holders.confirmed().filter(reachable);
        others.all(|holder| rank(holder) > own)
    }

    /// All copies are there: the others are told who has one, where they could not
    /// know it from the job itself.
    fn tell_holders_if_new(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let options = self.jobs[key].options;
        let copies = &mut self.copies[self.jobs[key].copies];
        let grown = std::mem::take(&mut copies.grown);
        if grown || options.sync < options.replicate {
            self.tell_holders(key, now, fx);
        }
    }

    pub(super) fn tell_holders(&self, key: u32, now: Now, fx: &mut Effects) {
        let list = self.holder_list(key);
        let message = Message::Holders {
            id: self.jobs[key].id,
            holders: list.pairs(),
        };
        self.tell_others(key, now, &message, Gate::Written, fx);
    }

    /// HOLDERS.
    pub(super) fn take_holders(
        &mut self,
        id: &JobId,
        pairs: Pairs<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.live_or_deny(id, talk) else {
            return Ok(());
        };
        let copies_key = self.copies_of(key)?;
        let set = self.read_set(pairs)?;
        let own = self.own;
        let keeps = !self.keeps_none(key);
        let copies = &mut self.copies[copies_key];
        let before = copies.holders.clone();
        copies.learn(&set);
        for holder in set.confirmed().filter(|one| keeps || *one != own) {
            copies.holders.confirm(holder);
        }
        if !set.contains(talk.from) {
            copies.holders.remove(talk.from);
            if copies.responsible == Some(talk.from) {
                copies.responsible = None;
            }
        }
        if keeps {
            copies.holders.confirm(own);
        }
        copies.heard_at = talk.now.mono_ms;
        if copies.holders != before {
            self.ask_new_holders(key, &before, talk.now, talk.fx);
            self.copy_confirmed(key, talk.now, talk.fx);
        } else {
            self.check_copies(key, talk.now, talk.fx);
        }
        self.note_acquainted(key, talk.from, &set, talk.now);
        Ok(())
    }
}

//! WILLDROP: before a node gives its copy of a live job up, the other possible holders
//! must know of each other.
//!
//! An acknowledgement goes to the holders that its node knows of, and from these to the
//! ones that they know of. A copy that is given up may be the only way from some to
//! others: those that were named since the job was made, by messages of which one may
//! be lost.

use super::spread::LONGEST_WAIT_MS;
use super::{doubled, Standing, Talk, FIRST_WAIT_MS};
use crate::clock::{Now, NEVER};
use crate::copies::{Duty, Parting};
use crate::effects::{Effects, Gate};
use crate::holders::{Holder, HolderSet, Pairs};
use crate::job_id::JobId;
use crate::message::Message;
use crate::node::Node;

impl Node {
    /// Whether this node, which leaves or has no room, has a job only until the others
    /// know of each other: they have the copies, and another one queues it.
    pub(in crate::node) fn may_part(&self, key: u32, now: Now) -> bool {
        let Some(copies) = self.copies.get(self.jobs[key].copies) else {
            return false;
        };
        let responsible = copies.responsible.map(|one| self.standing(one, now));
        match responsible {
            Some(Standing::Own) => false,
            _ if !self.keeps_none(key) => self.leaves_to_others(key, now),
            None | Some(Standing::Gone) => false,
            Some(Standing::Reachable(_) | Standing::Unreachable) => true,
        }
    }

    /// Gives this node's copy up, at once or when the others have answered. Whether it
    /// is gone.
    pub(in crate::node) fn part(&mut self, key: u32, now: Now, fx: &mut Effects) -> bool {
        let copies = &mut self.copies[self.jobs[key].copies];
        if !copies.named {
            self.drop_copy(key, now, fx);
            return true;
        }
        copies.tries = 0;
        self.ask_to_part(key, now, fx)
    }

    /// All have answered, or they are asked again.
    pub(super) fn go_on_parting(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let copies_key = self.jobs[key].copies;
        if self.may_part(key, now) {
            self.ask_to_part(key, now, fx);
        } else if self.keeps_none(key) {
            self.copies.schedule(copies_key, Duty::Entrust, now.mono_ms);
        } else {
            // It is needed here after all.
            self.copies.schedule(copies_key, Duty::None, NEVER);
            self.check_copies(key, now, fx);
        }
    }

    /// Asks those that have not answered. Whether there are none, and the copy is gone.
    fn ask_to_part(&mut self, key: u32, now: Now, fx: &mut Effects) -> bool {
        let left = self.left_to_ask(key, now);
        if left.unanswered.is_empty() {
            self.drop_copy(key, now, fx);
            return true;
        }
        let list = self.holder_list(key);
        let message = Message::WillDrop {
            id: self.jobs[key].id,
            holders: list.pairs(),
        };
        let reached = left.unanswered.iter();
        let reached = reached.filter_map(|holder| self.reach(*holder, now));
        fx.send_to(reached, &message, Gate::Written);
        let copies_key = self.jobs[key].copies;
        let copies = &mut self.copies[copies_key];
        copies.parting = Some(Box::new(left));
        let wait = doubled(FIRST_WAIT_MS, copies.tries, LONGEST_WAIT_MS);
        copies.tries = copies.tries.saturating_add(1);
        self.copies
            .schedule(copies_key, Duty::Part, now.after(wait));
        false
    }

    /// Who has to answer yet: everybody, where others came to be known since all were
    /// asked. Whoever is gone need not.
    fn left_to_ask(&self, key: u32, now: Now) -> Parting {
        let copies = &self.copies[self.jobs[key].copies];
        let asked = copies.parting.as_deref();
        let asked = asked.filter(|asked| asked.holders.includes(&copies.holders));
        let mut left = asked.cloned().unwrap_or_else(|| Parting {
            holders: copies.holders.clone(),
            unanswered: copies.holders.iter().collect(),
        });
        let counts = |holder: &mut Holder| {
            !matches!(self.standing(*holder, now), Standing::Own | Standing::Gone)
        };
        left.unanswered.retain(counts);
        left
    }

    /// Whether it is a node out of reach for which this one has a job yet.
    pub(in crate::node) fn waits_to_part(&self, key: u32, now: Now) -> bool {
        let parting = &self.copies[self.jobs[key].copies].parting;
        parting.as_deref().is_some_and(|parting| {
            let mut unanswered = parting.unanswered.iter();
            unanswered.any(|holder| self.reach(*holder, now).is_none())
        })
    }

    /// WILLDROP.
    pub(super) fn take_will_drop(
        &mut self,
        id: &JobId,
        pairs: Pairs<'_>,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        let Some(key) = self.live_or_deny(id, talk) else {
            return Ok(());
        };
        let copies_key = self.copies_of(key)?;
        let before = self.copies[copies_key].holders.clone();
        if self.merge(copies_key, pairs)? {
            self.record_holders(key, talk.fx);
            self.ask_new_holders(key, &before, talk.now, talk.fx);
        }
        let list = self.holder_list(key);
        talk.answer(&Message::Holders {
            id: *id,
            holders: list.pairs(),
        });
        Ok(())
    }

    /// A holder has said whom it knows.
    pub(super) fn note_acquainted(&mut self, key: u32, from: Holder, known: &HolderSet, now: Now) {
        let parting = self.copies[self.jobs[key].copies].parting.as_deref();
        if parting.is_some_and(|parting| known.includes(&parting.holders)) {
            self.let_part(key, from, now);
        }
    }

    /// A holder knows all others, or has no copy. With the last one this node gives its
    /// own up: by the timer, which knows all the rules.
    pub(super) fn let_part(&mut self, key: u32, from: Holder, now: Now) {
        let copies_key = self.jobs[key].copies;
        let copies = self.copies.get_mut(copies_key);
        let Some(parting) = copies.and_then(|copies| copies.parting.as_deref_mut()) else {
            return;
        };
        parting.unanswered.retain(|holder| *holder != from);
        if parting.unanswered.is_empty() {
            self.copies.schedule(copies_key, Duty::Part, now.mono_ms);
        }
    }

    /// The job is dropped here, and the others are told.
    fn drop_copy(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let own = self.own;
        self.copies[self.jobs[key].copies].holders.remove(own);
        self.tell_holders(key, now, fx);
        self.remove_recorded(key, now, fx);
    }
}

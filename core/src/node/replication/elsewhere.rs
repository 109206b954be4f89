//! Jobs of which this node keeps no copy, since it has no room or leaves.
//!
//! A new one is in its memory until other nodes have it, and one of them has taken
//! it over (ENQUEUE). An at-most-once job has no copies: it moves, as in a hand-over.

use super::spread::LONGEST_WAIT_MS;
use super::{doubled, Talk, FIRST_WAIT_MS};
use crate::clock::{Now, NEVER};
use crate::cluster::PeerKey;
use crate::copies::Duty;
use crate::effects::{Effects, Gate, WaiterId};
use crate::error::Error;
use crate::holders::Holder;
use crate::job::State;
use crate::message::Message;
use crate::node::add::Place;
use crate::node::Node;

impl Node {
    /// Whether this node has the job only until others have it.
    pub(in crate::node) fn keeps_none(&self, key: u32) -> bool {
        let copies = self.copies.get(self.jobs[key].copies);
        copies.is_some_and(|copies| !copies.holders.is_confirmed(self.own))
    }

    /// An at-most-once job that was just added goes to another node.
    pub(in crate::node) fn start_moving(
        &mut self,
        key: u32,
        waiter: Option<WaiterId>,
        now: Now,
        fx: &mut Effects,
    ) -> Result<(), Error> {
        let mut copies = self.first_copies(key, Place::Elsewhere, now);
        copies.adder = waiter;
        let copies = self.copies.insert(copies)?;
        self.jobs[key].copies = copies;
        if !self.move_on(key, &[], now, fx) {
            self.copies.schedule(copies, Duty::HandOver, now.mono_ms);
        }
        Ok(())
    }

    /// Moves an at-most-once job to a node that is none of those. Whether there is one.
    pub(in crate::node) fn move_on(
        &mut self,
        key: u32,
        without: &[Holder],
        now: Now,
        fx: &mut Effects,
    ) -> bool {
        let target = self.pick(self.jobs[key].queue, 1, without, now).pop();
        let Some(peer) = target.and_then(|holder| self.reach(holder, now)) else {
            return false;
        };
        self.lift(key);
        self.hand_over(key, peer, now, fx)
    }

    /// A node does not take an at-most-once job whose producer waits: nobody got it, so
    /// it may go to another one.
    pub(in crate::node) fn move_to_another(
        &mut self,
        key: u32,
        full: bool,
        talk: &mut Talk<'_, '_>,
    ) {
        let copies_key = self.jobs[key].copies;
        if self.copies[copies_key].handed != Some(talk.from) {
            return;
        }
        self.copies[copies_key].handed = None;
        self.copies.schedule(copies_key, Duty::None, NEVER);
        self.jobs[key].withheld = false;
        let refused = self.note_refusal(key, talk.from, full);
        if self.move_on(key, &refused, talk.now, talk.fx) {
            return;
        }
        let error = self
            .producer_of(key)
            .map_or(Error::NoRepl, |one| one.error());
        self.fail_add(key, error, talk.now, talk.fx);
        self.remove_recorded(key, talk.now, talk.fx);
    }

    /// ENQUEUE: another holder is to queue the job from now on. Repeated until it is
    /// answered; this node then drops the job.
    pub(in crate::node) fn entrust(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let copies_key = self.jobs[key].copies;
        let heir = self.heir(key, now);
        let none = self.keeps_none(key);
        if !none && (!self.leaving || heir.is_none()) {
            // It stays, for now at least.
            self.copies.schedule(copies_key, Duty::None, NEVER);
            self.check_copies(key, now, fx);
            return;
        }
        if none && self.may_part(key, now) {
            // It was taken over; the answer that said so is lost.
            self.part(key, now, fx);
            return;
        }
        let copies = &mut self.copies[copies_key];
        copies.tries = copies.tries.saturating_add(1);
        let wait = doubled(FIRST_WAIT_MS, copies.tries - 1, LONGEST_WAIT_MS);
        let handed_over = !none && copies.handed.is_some();
        self.copies
            .schedule(copies_key, Duty::Entrust, now.after(wait));
        match heir {
            None => self.find_heir(key, now, fx),
            Some(_) if handed_over => {}
            Some((_, peer)) if self.jobs[key].state == State::Queued => {
                self.lift(key);
                self.hand_over(key, peer, now, fx);
            }
            Some((holder, peer)) => {
                if none {
                    self.copies[copies_key].handed = Some(holder);
                }
                self.send_enqueue(key, peer, now, fx);
            }
        }
    }

    fn send_enqueue(&self, key: u32, to: PeerKey, now: Now, fx: &mut Effects) {
        let list = self.holder_list(key);
        let message = Message::Enqueue {
            id: self.jobs[key].id,
            delay_ms: self.time_left(key, now),
            claim: self.claim(key),
            holders: list.pairs(),
        };
        fx.send_to([to], &message, Gate::Written);
    }

    /// No other node is known to have the job any more: it is copied again, or kept
    /// here if there is room now.
    fn find_heir(&mut self, key: u32, now: Now, fx: &mut Effects) {
        if self.place_of_new() == Ok(Place::Here) {
            self.keep_after_all(key, now, fx);
        } else {
            self.add_copies(key, now, fx);
        }
    }

    /// The job stays here, and is this node's to queue.
    pub(in crate::node) fn keep_after_all(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let (own, copies_key) = (self.own, self.jobs[key].copies);
        self.take_turn(key);
        self.copies.schedule(copies_key, Duty::None, NEVER);
        self.confirm(key, own, now, fx);
    }

    /// The holder that takes the job over: it stays, and surely has it. The one that was
    /// asked before, so that no two get it; else first one where consumers wait.
    pub(in crate::node) fn heir(&self, key: u32, now: Now) -> Option<(Holder, PeerKey)> {
        let job = &self.jobs[key];
        let copies = self.copies.get(job.copies)?;
        let requests = &self.queues[job.queue].requests;
        let wanted = |peer: PeerKey| requests.iter().any(|one| one.from == peer);
        let stays = copies
            .holders
            .confirmed()
            .filter(|one| self.counts(*one, now));
        let reached = stays.filter_map(|one| Some((one, self.reach(one, now)?)));
        reached.max_by_key(|(one, peer)| {
            let rank = self.holders.pair(*one).rank(&job.id);
            (copies.handed == Some(*one), wanted(*peer), rank)
        })
    }

    /// A node that was to take a job over does not.
    pub(in crate::node) fn choose_another_heir(&mut self, key: u32, not: Holder, now: Now) {
        let copies_key = self.jobs[key].copies;
        if let Some(copies) = self.copies.get_mut(copies_key) {
            if copies.duty == Duty::Entrust {
                copies.holders.doubt(not);
                let soon = now.after(FIRST_WAIT_MS / 10);
                self.copies.schedule(copies_key, Duty::Entrust, soon);
            }
        }
    }
}

//! Which nodes get a copy of a job, when it is added and when one is missing, and how
//! often it is sent to them.

use super::{doubled, Talk, FIRST_WAIT_MS};
use crate::clock::Now;
use crate::cluster::{Peer, PeerKey};
use crate::copies::{Copies, Duty};
use crate::effects::{Effects, Gate, WaiterId};
use crate::error::Error;
use crate::holders::Holder;
use crate::job::Options;
use crate::job_id::JobId;
use crate::message::Message;
use crate::node::add::Place;
use crate::node::Node;
use rand::RngCore;
use smallvec::SmallVec;

/// One more node is tried this soon where a producer waits.
const EARLY_MS: u64 = 250;
/// Waits before copies are sent again double up to this.
pub(super) const LONGEST_WAIT_MS: u64 = 30_000;

/// Where the jobs of one command have their copies. All of a batch have them on the
/// same nodes: it takes a frame to each of these, and the answers of no others.
pub(in crate::node) struct Plan {
    targets: SmallVec<[Holder; 4]>,
    /// When the copies are looked at again.
    wait_ms: u64,
}

/// Tells the nodes that can keep a copy now.
fn takes_copies(now: Now, node_timeout_ms: u64) -> impl Fn(&&Peer) -> bool {
    move |peer| !peer.leaving && peer.is_reachable(now, node_timeout_ms)
}

impl Node {
    /// How many nodes can keep a copy of a new job now.
    pub(in crate::node) fn nodes_for_copies(&self, place: Place, now: Now) -> usize {
        self.target_peers(now).count() + usize::from(place == Place::Here)
    }

    /// The nodes that can keep a copy now.
    pub(in crate::node) fn target_peers(&self, now: Now) -> impl Iterator<Item = PeerKey> + '_ {
        let takes = takes_copies(now, self.settings.node_timeout_ms);
        self.cluster.peers().filter(takes).map(|peer| peer.key)
    }

    /// The same among the holders, without those.
    pub(in crate::node) fn targets(
        &mut self,
        without: &[Holder],
        now: Now,
    ) -> SmallVec<[Holder; 8]> {
        let takes = takes_copies(now, self.settings.node_timeout_ms);
        let pairs = self.cluster.peers().filter(takes).map(Peer::pair);
        let numbers = self.holders.numbers(pairs);
        numbers.filter(|one| !without.contains(one)).collect()
    }

    /// Up to `count` nodes that can keep a copy of a job of this queue and are not among
    /// those: first where consumers wait for it, else random ones.
    pub(super) fn pick(
        &mut self,
        queue: u32,
        count: usize,
        without: &[Holder],
        now: Now,
    ) -> SmallVec<[Holder; 4]> {
        let mut free = self.targets(without, now);
        let mut picked = SmallVec::new();
        let requests = self.queues[queue].requests.clone();
        for request in requests {
            let holder = self.holder_of(request.from);
            let place = free.iter().position(|one| Some(*one) == holder);
            if let Some(place) = place.filter(|_| picked.len() < count) {
                picked.push(free.swap_remove(place));
            }
        }
        while picked.len() < count && !free.is_empty() {
            let place = self.rng.next_u32() as usize % free.len();
            picked.push(free.swap_remove(place));
        }
        picked
    }

    /// The same, of nodes that are no possible holders either.
    pub(super) fn pick_new(
        &mut self,
        key: u32,
        count: usize,
        without: &[Holder],
        now: Now,
    ) -> SmallVec<[Holder; 4]> {
        let holders = &self.copies[self.jobs[key].copies].holders;
        let mut known: SmallVec<[Holder; 8]> = holders.iter().collect();
        known.extend_from_slice(without);
        self.pick(self.jobs[key].queue, count, &known, now)
    }

    /// Where the copies of jobs go that are about to be added.
    pub(in crate::node) fn plan_copies(
        &mut self,
        queue: u32,
        options: &Options,
        place: Place,
        waiter: Option<WaiterId>,
        now: Now,
    ) -> Plan {
        // A node that has just come up gets what is sent now: it has not missed it.
        self.look_around(now);
        let others = usize::from(options.replicate) - usize::from(place == Place::Here);
        Plan {
            targets: self.pick(queue, others, &[self.own], now),
            wait_ms: match waiter {
                Some(_) => self.patience(EARLY_MS),
                None => self.first_wait(),
            },
        }
    }

    /// Has a job that was just added copied.
    pub(in crate::node) fn start_spreading(
        &mut self,
        key: u32,
        place: Place,
        waiter: Option<WaiterId>,
        plan: &Plan,
        now: Now,
        fx: &mut Effects,
    ) -> Result<(), Error> {
        let mut copies = self.first_copies(key, place, now);
        for holder in &plan.targets {
            copies.holders.add(*holder);
        }
        copies.adder = waiter;
        let copies = self.copies.insert(copies)?;
        self.jobs[key].copies = copies;
        self.send_copies(key, Gate::Open, now, fx);
        let at = now.after(plan.wait_ms);
        self.copies.schedule(copies, Duty::Spread, at);
        self.set_short(copies, true);
        Ok(())
    }

    /// What is known of the copies of a job that is just added.
    pub(super) fn first_copies(&self, key: u32, place: Place, now: Now) -> Copies {
        let mut copies = Copies::new(key, self.own);
        if place == Place::Elsewhere {
            copies.holders.doubt(self.own);
        }
        copies.turn = 1;
        copies.responsible = Some(self.own);
        copies.asked = self.vigil.doubts;
        copies.heard_at = now.mono_ms;
        copies
    }

    /// How long to wait for an answer before asking again: the slowest link sets
    /// it.
    pub(super) fn first_wait(&self) -> u64 {
        self.patience(FIRST_WAIT_MS)
    }

    /// At least so long, and longer than answers have taken of late.
    fn patience(&self, least: u64) -> u64 {
        let slow = |peer: &Peer| peer.round_trip_ms.max(peer.copy_ms);
        let slowest = self.cluster.peers().map(slow).max();
        let wait = slowest.unwrap_or(0).saturating_mul(3);
        wait.clamp(least, LONGEST_WAIT_MS)
    }

    /// Sends the job to all that may hold a copy and have not confirmed it.
    fn send_copies(&self, key: u32, gate: Gate, now: Now, fx: &mut Effects) {
        let copies = &self.copies[self.jobs[key].copies];
        self.send_copies_to(key, copies.holders.unconfirmed(), gate, now, fx);
    }

    fn send_copies_to(
        &self,
        key: u32,
        to: impl Iterator<Item = Holder>,
        gate: Gate,
        now: Now,
        fx: &mut Effects,
    ) {
        let list = self.holder_list(key);
        let message = Message::ReplJob(self.copy_image(key, &list, now));
        let peers = to.filter_map(|holder| self.reach(holder, now));
        fx.send_to(peers, &message, gate);
    }

    /// Copies were not confirmed in time.
    pub(super) fn spread_again(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let wait = self.first_wait();
        let copies_key = self.jobs[key].copies;
        let copies = &mut self.copies[copies_key];
        // Others that were sent before it were answered late: it is on its way.
        let due = copies.heard_at.saturating_add(wait);
        if copies.tries == 0 && now.mono_ms < due {
            self.copies.schedule(copies_key, Duty::Spread, due);
            self.try_another(key, now, fx);
            return;
        }
        copies.tries = copies.tries.saturating_add(1);
        if copies.heard_at == 0 {
            copies.heard_at = now.mono_ms;
        }
        let wait = doubled(wait, copies.tries, LONGEST_WAIT_MS);
        self.copies
            .schedule(copies_key, Duty::Spread, now.after(wait));
        let one_more = usize::from(self.missing(key, now) > 0);
        let added = self.pick_new(key, one_more, &[], now);
        self.send_again(key, &added, now, fx);
    }

    /// A producer waits, and a node that hangs is not known to hang yet: one more node
    /// gets a copy, once. Those that were sent one are left in peace.
    fn try_another(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let copies = &self.copies[self.jobs[key].copies];
        if copies.adder.is_none() || copies.held || copies.grown {
            return;
        }
        let added = self.pick_new(key, 1, &[], now);
        let gate = self.name(key, &added, fx);
        self.send_copies_to(key, added.into_iter(), gate, now, fx);
    }

    /// Sends the job to as many further nodes as copies are missing, or to one more if
    /// that was done before; and again to those that have not answered.
    pub(super) fn add_copies(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let missing = self.missing(key, now);
        let count = if self.copies[self.jobs[key].copies].resent {
            usize::from(missing > 0)
        } else {
            missing.saturating_sub(self.pending(key, &[], now))
        };
        let added = self.pick_new(key, count, &[], now);
        self.send_again(key, &added, now, fx);
    }

    fn send_again(&mut self, key: u32, added: &[Holder], now: Now, fx: &mut Effects) {
        let copies = &mut self.copies[self.jobs[key].copies];
        copies.resent |= !copies.holders.is_complete();
        let gate = self.name(key, added, fx);
        self.send_copies(key, gate, now, fx);
    }

    /// How many nodes may still answer that they have a copy, but for those.
    fn pending(&self, key: u32, without: &[Holder], now: Now) -> usize {
        let copies = &self.copies[self.jobs[key].copies];
        let unconfirmed = copies.holders.unconfirmed();
        unconfirmed
            .filter(|one| !without.contains(one) && self.reach(*one, now).is_some())
            .count()
    }

    /// Adds nodes to the possible holders. Who may hold a job must be known before it
    /// can: returns when it may be sent there.
    fn name(&mut self, key: u32, added: &[Holder], fx: &mut Effects) -> Gate {
        if added.is_empty() {
            return Gate::Open;
        }
        let copies = &mut self.copies[self.jobs[key].copies];
        for holder in added {
            copies.grown |= copies.name(*holder);
        }
        self.record_holders(key, fx);
        Gate::Written
    }

    /// A node keeps no copy.
    pub(super) fn take_not_kept(&mut self, id: &JobId, full: bool, talk: &mut Talk<'_, '_>) {
        let Some(key) = self.live(id) else {
            return;
        };
        self.note_no_taker(key, talk.from, full);
        let Some(copies) = self.copies.get_mut(self.jobs[key].copies) else {
            return;
        };
        // Who is responsible has it, if only until another one takes it over.
        let has_it = copies.responsible == Some(talk.from);
        if has_it || copies.holders.is_confirmed(talk.from) {
            return;
        }
        let eager = copies.tries < 8;
        // It may yet take it if it was sent twice. And to name it anew for each try
        // would be written down each time.
        if eager && !copies.resent {
            copies.holders.remove(talk.from);
        }
        let refused = self.note_refusal(key, talk.from, full);
        let copies = &mut self.copies[self.jobs[key].copies];
        if eager && matches!(copies.duty, Duty::Spread | Duty::Repair) {
            copies.tries += 1;
            self.replace_refused(key, &refused, talk.now, talk.fx);
        }
        self.give_up_if_refused(key, talk.now, talk.fx);
    }

    /// Nodes keep no copy: as many others get one.
    fn replace_refused(&mut self, key: u32, refused: &[Holder], now: Now, fx: &mut Effects) {
        let pending = self.pending(key, refused, now);
        let count = self.missing(key, now).saturating_sub(pending);
        let added = self.pick_new(key, count, refused, now);
        let gate = self.name(key, &added, fx);
        self.send_copies_to(key, added.into_iter(), gate, now, fx);
    }
}

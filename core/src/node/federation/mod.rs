//! Jobs go to the nodes where consumers wait.
//!
//! A node whose clients wait on an empty queue tells the others how many jobs they
//! want (NEEDJOBS). That stands until it is replaced or not repeated, so a job that
//! comes up anywhere is on its way at once. A node asks only while clients wait and
//! its queue is empty: that alone keeps jobs from going to and fro.
//!
//! - here: what is asked for, and what is given to whom;
//! - [`handover`]: one job on its way.

mod handover;

use super::replication::Talk;
use super::Node;
use crate::clock::Now;
use crate::cluster::PeerKey;
use crate::effects::{Effects, Gate};
use crate::memory::Pressure;
use crate::message::Message;
use crate::queue::Request;
use std::collections::{BTreeSet, VecDeque};

/// How often a request that stands is repeated.
const REPEAT_MS: u64 = 1_000;
/// A request lapses this long after it was last repeated.
const LAPSE_MS: u64 = 3_000;
/// The most jobs that are asked for, or given, at a time.
const MOST: u64 = 1_000;

/// What a node keeps in mind of requests, its own and others'.
#[derive(Default)]
pub struct Federation {
    /// Queues for which jobs are to be asked for now.
    wanting: VecDeque<u32>,
    /// Queues for which a request of this node stands.
    asking: BTreeSet<u32>,
    /// Queues of which jobs can perhaps be given.
    giving: VecDeque<u32>,
    /// When requests are repeated, and which of them comes next.
    repeat_at: u64,
    repeat_from: Option<u32>,
    serial: u64,
    /// Jobs given to others so far.
    given: u64,
}

impl Federation {
    /// Whether there is something to do at once.
    pub fn has_work(&self) -> bool {
        !self.wanting.is_empty() || !self.giving.is_empty() || self.repeat_from.is_some()
    }

    /// Without queues. Numbers go on: others remember them.
    pub fn emptied(self) -> Federation {
        Federation {
            serial: self.serial,
            given: self.given,
            ..Federation::default()
        }
    }

    /// Requests are repeated soon: there is a node that does not know them.
    pub fn repeat_soon(&mut self) {
        self.repeat_at = 0;
    }
}

impl Node {
    /// When requests are repeated next.
    pub(super) fn next_request(&self) -> Option<u64> {
        (!self.federation.asking.is_empty()).then_some(self.federation.repeat_at)
    }

    /// A client waits on a queue: if nobody was asked for so many jobs, the others
    /// are asked.
    pub(super) fn want(&mut self, queue: u32) {
        if self.cluster.is_alone() || self.leaving || !self.settings.federation {
            return;
        }
        let entry = &mut self.queues[queue];
        if entry.wanted > entry.asked && !entry.is_wanting {
            entry.is_wanting = true;
            self.federation.wanting.push_back(queue);
        }
    }

    /// A queue has jobs that other nodes have asked for, perhaps.
    pub(super) fn offer(&mut self, queue: u32) {
        let entry = &mut self.queues[queue];
        let unwanted = entry.waiters.is_empty() && entry.has_deliverable();
        if unwanted && !entry.requests.is_empty() && !entry.is_giving {
            entry.is_giving = true;
            self.federation.giving.push_back(queue);
        }
    }

    /// Asks and gives, about `max` queues of each.
    pub(super) fn federate(&mut self, now: Now, max: usize, fx: &mut Effects) {
        for _ in 0..max {
            let Some(queue) = self.federation.wanting.pop_front() else {
                break;
            };
            if let Some(entry) = self.queues.get_mut(queue) {
                entry.is_wanting = false;
                self.request(queue, now, fx);
            }
        }
        for _ in 0..max {
            let Some(queue) = self.federation.giving.pop_front() else {
                break;
            };
            if let Some(entry) = self.queues.get_mut(queue) {
                entry.is_giving = false;
                self.give(queue, now, fx);
            }
        }
    }

    /// Repeats requests if it is time, about `max` of them.
    pub(super) fn repeat_requests(&mut self, now: Now, max: usize, fx: &mut Effects) {
        if self.next_request().is_some_and(|at| at <= now.mono_ms) {
            self.federation.repeat_at = now.after(REPEAT_MS);
            self.federation.repeat_from = Some(0);
        }
        for _ in 0..max {
            let Some(from) = self.federation.repeat_from else {
                return;
            };
            let Some(&queue) = self.federation.asking.range(from..).next() else {
                self.federation.repeat_from = None;
                return;
            };
            self.federation.repeat_from = Some(queue + 1);
            if self.queues.get(queue).is_some() {
                self.request(queue, now, fx);
            } else {
                self.federation.asking.remove(&queue);
            }
        }
    }

    /// NEEDJOBS to all: as many jobs as are wanted here, or none any more.
    fn request(&mut self, queue: u32, now: Now, fx: &mut Effects) {
        let wants = self.settings.federation
            && !self.leaving
            && self.pressure() < Pressure::Full
            && self.queues[queue].order.is_empty()
            && !self.queues[queue].pause.output;
        let entry = &mut self.queues[queue];
        let count = if wants { entry.wanted.min(MOST) } else { 0 };
        entry.asked = count;
        if count == 0 {
            if !self.federation.asking.remove(&queue) {
                return;
            }
        } else {
            self.federation.asking.insert(queue);
        }
        self.federation.serial += 1;
        let message = Message::NeedJobs {
            queue: &self.queues[queue].name,
            count: count as u32,
            serial: self.federation.serial,
        };
        fx.send_to(self.reachable_peers(now), &message, Gate::Open);
    }

    /// NEEDJOBS.
    pub(super) fn take_need_jobs(
        &mut self,
        name: &[u8],
        count: u32,
        serial: u64,
        talk: &mut Talk<'_, '_>,
    ) -> Result<(), String> {
        self.check_queue_name(name)
            .map_err(|error| error.to_string())?;
        let known = self.queues.find(name);
        if known.is_none() && (count == 0 || self.check_room_for_queue(name).is_err()) {
            return Ok(());
        }
        let queue = self.queues.find_or_create(name, talk.now)?;
        let from = talk.with;
        let entry = &mut self.queues[queue];
        let before = entry.requests.iter().position(|one| one.from == from);
        if let Some(place) = before {
            if entry.requests[place].serial > serial {
                return Ok(());
            }
            entry.requests.remove(place);
        }
        if count > 0 {
            entry.requests.push(Request {
                from,
                count: u64::from(count).min(MOST),
                serial,
                until: talk.now.after(LAPSE_MS),
            });
        }
        self.offer(queue);
        self.watch_if_unused(queue, talk.now);
        Ok(())
    }

    /// Gives jobs to those that have asked, one each in turn: all that are asked for
    /// where there are twice as many, else half of what there is.
    fn give(&mut self, queue: u32, now: Now, fx: &mut Effects) {
        self.drop_lapsed(queue, now);
        let entry = &self.queues[queue];
        let asked: u64 = entry.requests.iter().map(|one| one.count).sum();
        let there = entry.order.len() as u64;
        if !self.settings.federation
            || asked == 0
            || !entry.waiters.is_empty()
            || !entry.has_deliverable()
        {
            return;
        }
        let gives = if there >= 2 * asked {
            asked
        } else {
            asked.min((there / 2).max(1))
        };
        for _ in 0..gives.min(MOST) {
            let Some(to) = self.next_request_of(queue) else {
                return;
            };
            let Some(key) = self.lift_own_front(queue, now, fx) else {
                return;
            };
            if !self.hand_over(key, to, now, fx) {
                return;
            }
        }
    }

    fn drop_lapsed(&mut self, queue: u32, now: Now) {
        let timeout = self.settings.node_timeout_ms;
        let cluster = &self.cluster;
        let stands = |one: &Request| {
            let peer = cluster.by_key(one.from);
            one.until > now.mono_ms
                && peer.is_some_and(|peer| !peer.leaving && peer.is_reachable(now, timeout))
        };
        self.queues[queue].requests.retain(stands);
    }

    /// Whose turn it is, and one job less is asked for there.
    fn next_request_of(&mut self, queue: u32) -> Option<PeerKey> {
        let requests = &mut self.queues[queue].requests;
        let mut request = requests.first().copied()?;
        requests.remove(0);
        request.count -= 1;
        if request.count > 0 {
            requests.push(request);
        }
        Some(request.from)
    }

    /// A node has refused a job: it is not given more before it asks anew.
    fn withdraw(&mut self, queue: u32, from: PeerKey) {
        self.queues[queue]
            .requests
            .retain(|request| request.from != from);
    }
}

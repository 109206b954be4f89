//! How a replicated world ends: with a consumer at every node until all jobs are
//! settled, and then with nothing left of them anywhere.

use crate::ledger::name;
use crate::site::{queue_name, Site};
use crate::workers::Deed;
use crate::world::World;
use disque_checker::{Left, Op, Phase};
use disque_core::clock::Now;
use disque_core::job::{Job, State};
use disque_core::job_id::JobId;
use disque_core::node::get::GetJob;
use disque_core::node::inspect::Shown;
use disque_core::node::Node;

/// The longest RETRY, twice, the longest DELAY and hold of a consumer.
const DRAIN_MS: u64 = 150_000;
/// How long a copy that is missing may stay so once its nodes are reachable.
pub const REPAIR_MS: u64 = 10_000;
/// What was lost with a connection that was up again before anybody missed it is sent
/// again when thrice the time is over that answers have taken, late ones too, and after
/// this at most.
const RESEND_MS: u64 = 30_000;
/// When copies that are left of a FASTACK are given up: twice the longest RETRY.
const LATE_MS: u64 = 40_000;
/// How long the settled are remembered, and then some.
const FORGET_MS: u64 = 90_000;

impl World {
    /// When there must be as many copies of each job as were asked for: from now on
    /// all nodes reach each other.
    pub fn mend_deadline(&self) -> u64 {
        // Mutants are looked at before the slow walk has been everywhere, which is
        // fast where there are few jobs: a seed in which sound nodes are as slow shows
        // nothing of them, and fails.
        let resend = match cfg!(mutants) {
            true => RESEND_MS.min(45 * self.profile.latency),
            false => RESEND_MS,
        };
        self.now + REPAIR_MS + resend
    }

    /// A job that was promised and of which there are fewer copies than were asked for,
    /// if there is one.
    pub fn short_of_copies(&self) -> Option<String> {
        if self.ledger.some_refused {
            // That a node has room again is found out by asking it, after 30 s at most;
            // what one that left has wrongly told of others, by the slow walk.
            return None;
        }
        let jobs = self.ledger.promised.difference(&self.ledger.dropped);
        let mut short = jobs.filter(|id| {
            let nodes = self.sites.values().map(|site| {
                let node = site.node.as_ref().expect("all nodes run");
                job_of(node, site.clocks.now(self.now), id)
            });
            let copies: Vec<&Job> = nodes.flatten().collect();
            let is_live = |job: &&&Job| !job.is_acked() && !job.at_most_once();
            let live = copies.iter().filter(is_live).count();
            // Where one is acknowledged the others hear of it.
            let lives_on = |job: &&Job| job.options.ttl.ms() > self.now + self.ledger.set_ahead;
            let counts = live > 0 && live == copies.len() && copies.iter().all(lives_on);
            counts && live < usize::from(copies[0].options.replicate)
        });
        let id = short.next()?;
        Some(format!("{id} in {}", self.what_is_left()))
    }

    /// When everything must have been consumed that is.
    pub fn drain_deadline(&self) -> u64 {
        self.now + self.ledger.set_back + DRAIN_MS + 12 * self.profile.settings.node_timeout_ms
    }

    /// When nothing may be left of what was settled.
    pub fn forget_deadline(&self) -> u64 {
        self.now + FORGET_MS + 12 * self.profile.settings.node_timeout_ms
    }

    /// At every node a client waits on every queue.
    pub fn drain_everywhere(&mut self) -> Result<(), String> {
        let line = self.line(0, 0, Phase::Info, Op::Heal);
        self.note(line);
        self.ledger.late_from = self.now + LATE_MS;
        for node in 0..self.sites.len() {
            for queue in 0..self.profile.queues {
                self.drain_queue(node, queue)?;
            }
        }
        Ok(())
    }

    /// A client waits there from now on.
    pub fn drain_queue(&mut self, node: usize, queue: usize) -> Result<(), String> {
        let name = queue_name(queue);
        let get = GetJob {
            queues: std::iter::once(name.as_slice()).collect(),
            count: 1,
            nohang: false,
            timeout_ms: None,
            with_counters: false,
        };
        self.get_or_wait(node, &get, None)
    }

    /// Whether all jobs are settled. Jobs that a node may keep for long are settled
    /// where they lie, by consumers that were slow.
    pub fn is_drained(&mut self) -> Result<bool, String> {
        for (node, id) in self.given_away() {
            self.work_done(node, id, Deed::FastAck)?;
        }
        let nodes = self.sites.values().filter_map(|site| site.node.as_ref());
        Ok(nodes.map(live_jobs).sum::<u64>() == 0)
    }

    /// At-most-once jobs that were delivered, or may have been; and copies at nodes
    /// that did not hear of a FASTACK, once whoever would deliver them has had the
    /// time.
    fn given_away(&self) -> Vec<(usize, JobId)> {
        let mut found = Vec::new();
        let is_late = self.now >= self.ledger.late_from;
        for (&number, site) in &self.sites {
            let node = site.node.as_ref().expect("all nodes run");
            let now = site.clocks.now(self.now);
            let is_over = |id: &&JobId| {
                let job = job_of(node, now, id);
                job.is_some_and(|job| {
                    let is_given = job.at_most_once() && !job.may_be_queued();
                    let is_dropped = is_late && self.ledger.dropped.contains(id);
                    !job.is_acked() && (is_given || is_dropped)
                })
            };
            let ids = self.ledger.ids.iter().filter(is_over);
            found.extend(ids.map(|&id| (number, id)));
        }
        found
    }

    /// Writes down that it is so, and lets the last consumers go.
    pub fn drained(&mut self) -> Result<(), String> {
        let line = self.line(0, 0, Phase::Info, Op::Drained);
        self.note(line);
        for node in 0..self.sites.len() {
            self.hang_up_all(node)?;
        }
        Ok(())
    }

    /// Those that wait for jobs are gone; an ADDJOB is waited for.
    pub fn let_go_of_consumers(&mut self, node: usize) -> Result<(), String> {
        let waiting = self.site(node).pending.iter();
        let consumers = waiting.filter(|(_, pending)| pending.is_consumer());
        let consumers: Vec<_> = consumers.map(|(&waiter, _)| waiter).collect();
        for waiter in consumers {
            self.hang_up(node, waiter)?;
        }
        Ok(())
    }

    /// All clients that wait at a node are gone.
    fn hang_up_all(&mut self, node: usize) -> Result<(), String> {
        let waiting: Vec<_> = self.site(node).pending.keys().copied().collect();
        for waiter in waiting {
            self.hang_up(node, waiter)?;
        }
        Ok(())
    }

    /// Whether nothing is left of any job.
    pub fn is_empty(&self) -> bool {
        self.sites
            .keys()
            .all(|&node| self.left(node) == Left::default())
    }

    /// Writes down what each node holds.
    pub fn look_at_all(&mut self) {
        for node in 0..self.sites.len() {
            let mut line = self.line(node, 0, Phase::Info, Op::Left);
            line.left = Some(self.left(node));
            self.note(line);
        }
    }

    fn left(&self, node: usize) -> Left {
        let node = self.sites[&node].node.as_ref().expect("all nodes run");
        let totals = node.totals();
        Left {
            jobs: node.job_count() as u64,
            acks: node.ack_count() as u64,
            waiters: (totals.blocked_clients + totals.waiting_producers) as u64,
            ..Left::default()
        }
    }

    /// What keeps the drain from ending: the jobs that are left, where they are,
    /// and which nodes have them for holders.
    pub fn what_is_left(&self) -> String {
        let mut jobs = Vec::new();
        for id in &self.ledger.ids {
            let at = |(&number, site): (&usize, &Site)| {
                let node = site.node.as_ref().expect("all nodes run");
                let now = site.clocks.now(self.now);
                Some(match node.show(now, id)? {
                    Shown::Job(view) => format!(
                        "{} {:?} in {:?} ms, holders {}",
                        name(number),
                        view.job.state,
                        view.requeue_within_ms.unwrap_or(0),
                        self.names(&node.holders(view.job, true))
                    ),
                    Shown::DummyAck { .. } => format!("{} acknowledged", name(number)),
                })
            };
            let found: Vec<_> = self.sites.iter().filter_map(at).collect();
            if !found.is_empty() {
                jobs.push(format!("{id}: {}", found.join("; ")));
            }
        }
        jobs.join(", ")
    }

    fn names(&self, ids: &[String]) -> String {
        let of = |id: &String| {
            let is = |(_, site): &(&usize, &Site)| {
                site.node
                    .as_ref()
                    .is_some_and(|n| n.identity().hex() == *id)
            };
            let found = self.sites.iter().find(is);
            found.map_or("?".into(), |(&number, _)| name(number))
        };
        ids.iter().map(of).collect::<Vec<_>>().join(" ")
    }
}

fn live_jobs(node: &Node) -> u64 {
    let jobs = node.totals().jobs;
    node.job_count() as u64 - jobs[State::Acked as usize]
}

fn job_of<'a>(node: &'a Node, now: Now, id: &JobId) -> Option<&'a Job> {
    match node.show(now, id)? {
        Shown::Job(view) => Some(view.job),
        Shown::DummyAck { .. } => None,
    }
}

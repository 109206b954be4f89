//! How a replicated world ends: with a consumer at every node until all jobs are
//! settled, and then with nothing left of them anywhere.

use crate::ledger::name;
use crate::site::queue_name;
use crate::workers::Deed;
use crate::world::World;
use disque_checker::{Left, Op, Phase};
use disque_core::clock::Now;
use disque_core::job::{Job, State};
use disque_core::job_id::JobId;
use disque_core::message::Claim;
use disque_core::node::get::GetJob;
use disque_core::node::inspect::Shown;
use disque_core::node::{hex, Node};

/// The longest RETRY, twice, the longest DELAY and hold of a consumer.
const DRAIN_MS: u64 = 150_000;
/// How long the settled are remembered, and then some.
const FORGET_MS: u64 = 90_000;

/// What a node still holds, in words.
const SHOWN: usize = 5;

impl World {
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

    /// Whether all jobs are settled. At-most-once jobs that will not be delivered
    /// again are: consumers that were slow come now.
    pub fn is_drained(&mut self) -> Result<bool, String> {
        for (node, id) in self.given_away() {
            self.work_done(node, id, Deed::Ack)?;
        }
        let nodes = self.sites.values().filter_map(|site| site.node.as_ref());
        Ok(nodes.map(live_jobs).sum::<u64>() == 0)
    }

    /// At-most-once jobs that were delivered, or may have been.
    fn given_away(&self) -> Vec<(usize, JobId)> {
        let mut found = Vec::new();
        for (&number, site) in &self.sites {
            let node = site.node.as_ref().expect("all nodes run");
            let now = site.clocks.now(self.now);
            let is_over = |id: &&JobId| {
                let job = job_of(node, now, id);
                job.is_some_and(|job| !job.is_acked() && job.at_most_once() && !job.may_be_queued())
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

    /// What keeps the drain from ending.
    pub fn what_is_left(&mut self) -> String {
        let mut text = String::new();
        for node in 0..self.sites.len() {
            let left = self.left(node);
            text += &format!("\n{}: {left:?}", name(node));
            let ids: Vec<_> = self.ledger.ids.iter().copied().collect();
            let mut shown_of_node = 0;
            for id in ids {
                if shown_of_node == SHOWN {
                    break;
                }
                let shown = self.call(node, |node, now, _| match node.show(now, &id)? {
                    Shown::Job(view) => Some(format!(
                        "{id} {:?} {:?} ttl {} requeue {:?} holders {:?} confirmed {:?}",
                        view.job.state,
                        turn(node.belief(view.job)),
                        view.ttl_left_ms,
                        view.requeue_within_ms,
                        short(node.holders(view.job, false)),
                        short(node.holders(view.job, true)),
                    )),
                    Shown::DummyAck { ttl_left_ms, .. } => {
                        Some(format!("{id} acknowledged, ttl {ttl_left_ms}"))
                    }
                });
                if let Some(shown) = shown {
                    text += &format!("\n  {shown}");
                    shown_of_node += 1;
                }
            }
        }
        text
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

/// A claim in few words.
fn turn(claim: Claim) -> String {
    let who = claim.responsible.map(|pair| hex(&pair.id));
    let who = who.map_or("nobody".into(), |id| id[..4].to_string());
    format!("turn {} of {who} attempt {}", claim.turn, claim.attempt)
}

/// Nodes by the first digits of their ids.
fn short(ids: Vec<String>) -> String {
    let short: Vec<&str> = ids.iter().map(|id| &id[..4]).collect();
    short.join(" ")
}

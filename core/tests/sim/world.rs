//! The world of a run: virtual time, and what happens in it, one event after
//! the other.
//!
//! Events lie in a heap by (time, sequence). Each belongs to a node; the nodes
//! stand in a map. One seed decides everything.

use crate::client::{Client, Step};
use crate::disk::Stop;
use crate::ending::Ending;
use crate::ghost::GHOST;
use crate::ledger::Ledger;
use crate::net::{Net, SocketId, Way};
use crate::oracle::history::{Call, Entry, Told, What};
use crate::profile::Profile;
use crate::random::Random;
use crate::site::{queue_name, Site};
use crate::trace::Trace;
use crate::workers::Deed;
use disque_checker::FaultKind;
use disque_core::clock::Now;
use disque_core::cluster::PeerKey;
use disque_core::effects::{BusAction, Effects, Gate};
use disque_core::job_id::{IdGenerator, JobId};
use disque_core::node::get::Receipt;
use disque_core::node::Node;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// What can happen.
#[derive(Debug)]
pub enum Event {
    /// A client does what it likes.
    Act(usize),
    /// A client has done its work on a job.
    Work(usize, JobId, Step),
    /// A worker of a replicated world has done its work on a job.
    Deed(JobId, Deed),
    /// In a replicated world that is drained a client waits on a queue.
    Thirst(usize),
    /// Whether the nodes of a replicated world are one cluster is looked at.
    Watch,
    /// The node's timer.
    Wake,
    /// The second of `appendfsync everysec` is over.
    Sync,
    /// The server finds that the client of a reply was gone.
    Undeliver(u64, Vec<Receipt>),
    /// Something comes out of a connection.
    Arrive(SocketId, Way),
    /// A frame comes from a connection that was given up.
    ArriveLate(SocketId),
    /// The timer of a link.
    LinkDue(PeerKey),
    /// What was gated may leave.
    OpenGate,
    /// An operator acts, or the network fails.
    Operate,
    /// DISQUE MEET.
    Meet(usize),
    /// Nothing: the node is looked at.
    Look,
    /// Something goes wrong.
    Fault,
    /// A node that is down starts again.
    Restart,
    /// A ghost ends.
    Retire,
    /// Clients have stopped; what is left is consumed.
    Drain,
}

struct Scheduled {
    at: u64,
    sequence: u64,
    node: usize,
    event: Event,
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

/// More events than any run needs: beyond it a node never comes to rest.
const MAX_EVENTS: u64 = 2_000_000;

/// Everything there is in a run.
pub struct World {
    pub random: Random,
    pub profile: Profile,
    pub now: u64,
    pub sites: BTreeMap<usize, Site>,
    /// Servers that were nodes until a replica took their place.
    pub ghosts: BTreeMap<usize, Site>,
    pub clients: Vec<Client>,
    pub trace: Trace,
    /// What clients and faults of a replicated world do.
    pub ledger: Ledger,
    pub net: Net,
    pub ending: Option<Ending>,
    /// Whether a server has come up at another address: only one does, or two
    /// may lose each other.
    pub moved: bool,
    /// Makes ids that no node knows.
    pub strangers: IdGenerator,
    pub next_call: Call,
    pub next_body: u64,
    /// Whether clients have stopped.
    pub draining: bool,
    /// Whether the last node is empty and nothing is left to do.
    pub done: bool,
    heap: BinaryHeap<Reverse<Scheduled>>,
    sequence: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let profile = Profile::new(&mut random);
        let mut trace = Trace::new();
        trace.line(format!("seed {seed}: {profile:?}"));
        let mut site = |number| {
            let settings = profile.settings.clone();
            let policy = match number {
                0 => profile.policy,
                _ => profile.any_policy(&mut random),
            };
            (number, Site::new(number, policy, settings, &mut random))
        };
        let sites = (0..profile.nodes).map(&mut site).collect();
        let mut client = |number| Client {
            node: match profile.replicated {
                true => number % profile.nodes,
                false => random.range(0, profile.nodes as u64 - 1) as usize,
            },
            waiting: None,
        };
        World {
            clients: (0..profile.clients).map(&mut client).collect(),
            sites,
            ghosts: BTreeMap::new(),
            strangers: IdGenerator::new([0xee; 4], random.bytes()),
            net: Net::new(profile.latency),
            random,
            profile,
            now: 0,
            trace,
            ledger: Ledger::default(),
            ending: None,
            moved: false,
            next_call: 1,
            next_body: 1,
            draining: false,
            done: false,
            heap: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// Makes nodes of it that break a rule.
    #[cfg(mutants)]
    pub fn breed(&mut self, mutant: disque_core::mutants::Mutant) {
        for site in self.sites.values_mut() {
            site.settings.mutant = Some(mutant);
        }
    }

    /// Runs to the end. The error says what did not hold.
    pub fn run(&mut self) -> Result<(), String> {
        let nodes: Vec<usize> = self.sites.keys().copied().collect();
        for node in nodes {
            self.tell_started(node)?;
            self.start(node)?;
            if node > 0 && (self.profile.replicated || self.random.chance(900)) {
                let soon = self.random.range(0, 2_000);
                self.schedule(node, soon, Event::Meet(node - 1));
            }
            self.schedule(node, 0, Event::Look);
        }
        if self.profile.replicated {
            self.schedule(0, 0, Event::Watch);
        } else {
            self.begin();
        }
        let mut events = 0;
        while !self.done {
            let Some(Reverse(next)) = self.heap.pop() else {
                return Err("nothing is left to happen, and the node is not empty".into());
            };
            self.now = next.at;
            self.happen(next)?;
            events += 1;
            if events > MAX_EVENTS {
                return Err("the node never comes to rest".into());
            }
        }
        Ok(())
    }

    /// Clients, operators and faults begin.
    pub fn begin(&mut self) {
        for node in 0..self.sites.len() {
            self.schedule_fault(node);
        }
        self.schedule_operator();
        self.schedule(0, self.profile.end, Event::Drain);
        for client in 0..self.clients.len() {
            let soon = self.random.range(0, self.profile.pace);
            self.schedule(self.clients[client].node, soon, Event::Act(client));
        }
    }

    /// Lets something happen in `ms`.
    pub fn schedule(&mut self, node: usize, ms: u64, event: Event) {
        self.sequence += 1;
        self.heap.push(Reverse(Scheduled {
            at: self.now.saturating_add(ms),
            sequence: self.sequence,
            node,
            event,
        }));
    }

    fn happen(&mut self, next: Scheduled) -> Result<(), String> {
        let Scheduled { node, event, .. } = next;
        let stalled_until = self.site(node).stalled_until;
        if stalled_until > self.now {
            self.schedule(node, stalled_until - self.now, event);
            return Ok(());
        }
        self.trace
            .line(format!("{:>9} node {node} {event:?}", self.now));
        let up = self.site(node).node.is_some();
        match event {
            Event::Act(client) if self.profile.replicated => self.act_worker(client)?,
            Event::Act(client) => self.act(client)?,
            Event::Work(client, id, step) if up && self.ending.is_none() => {
                self.work(client, id, step)?
            }
            Event::Deed(id, deed) => self.work_done(node, id, deed)?,
            Event::Thirst(queue) if up => self.drain_queue(node, queue)?,
            Event::Watch => self.watch_over()?,
            Event::Wake if up => self.wake(node)?,
            Event::Undeliver(session, receipts) if up && session == self.site(node).session => {
                self.undeliver(node, &receipts)?
            }
            Event::Sync => self.site(node).disk.sync(),
            Event::Arrive(socket, way) => self.arrive(socket, way)?,
            Event::ArriveLate(socket) if up => self.arrive_late(node, socket)?,
            Event::LinkDue(key) if up => self.link_due(node, key)?,
            Event::OpenGate if up => self.open_gate(node)?,
            Event::Operate if !self.draining => self.operate(node)?,
            Event::Meet(other) if up => self.meet(node, other),
            Event::Fault if up && !self.draining => self.fault(node)?,
            Event::Restart => self.start(node)?,
            Event::Retire => self.retire(node),
            Event::Drain => self.drain(node)?,
            _ => {}
        }
        self.settle_down(node)
    }

    /// A node without anything begins.
    pub fn tell_started(&mut self, node: usize) -> Result<(), String> {
        self.tell(
            node,
            What::Started {
                memory_limited: self.profile.settings.max_memory > 0,
                deliver_after_crash: self.profile.settings.deliver_after_crash,
            },
        )
    }

    /// A server, a ghost too.
    pub fn site(&mut self, node: usize) -> &mut Site {
        let servers = match node < GHOST {
            true => &mut self.sites,
            false => &mut self.ghosts,
        };
        servers.get_mut(&node).expect("a server of this world")
    }

    /// Calls a node that is up.
    pub fn call<R>(
        &mut self,
        node: usize,
        call: impl FnOnce(&mut Node, Now, &mut Effects) -> R,
    ) -> R {
        let at = self.now;
        let site = self.site(node);
        let now = site.clocks.now(at);
        call(
            site.node.as_mut().expect("the node is up"),
            now,
            &mut site.fx,
        )
    }

    /// Writes the records of the calls since the last time.
    pub fn write(&mut self, node: usize) {
        let at = self.now;
        let site = self.site(node);
        let synced = site.disk.is_synced();
        let written = site.write(at).to_vec();
        site.fx.records.clear();
        self.trace.bytes(&written);
        let site = self.site(node);
        if synced && !site.disk.is_synced() {
            self.schedule(node, 1_000, Event::Sync);
        }
    }

    /// Tells the checker what happened.
    pub fn tell(&mut self, node: usize, what: What) -> Result<(), String> {
        if self.profile.replicated {
            // The ledger has what clients see.
            return Ok(());
        }
        let at = self.now;
        let site = self.site(node);
        let entry = Entry {
            at,
            wall: site.clocks.now(at).wall_ms,
            log: site.disk.written(),
            what,
        };
        if !matches!(entry.what, What::CaughtUp { .. }) {
            self.trace.line(format!("{:>9}   {:?}", "", entry.what));
        }
        self.site(node)
            .checker
            .observe(&entry)
            .map_err(|violation| format!("{:?}: {}", violation.kind, violation.text))
    }

    /// A command is over: waiting clients are served, unless that is left to
    /// the timer, and what it did is written and told.
    pub fn conclude(&mut self, node: usize, serve: bool, what: What) -> Result<(), String> {
        if serve {
            let slice = self.profile.slice;
            self.call(node, |node, now, fx| node.serve(now, slice, fx));
        }
        self.write(node);
        self.tell(node, what)
    }

    /// Hands out the answers of the calls since the last time.
    pub fn answer(&mut self, node: usize) -> Result<(), String> {
        self.carry_out(node)?;
        let site = self.site(node);
        let answers = site.take_answers();
        site.fx.clear();
        for (id, told) in answers {
            if self.profile.replicated {
                self.answer_worker(node, id, told)?;
                continue;
            }
            let Some(waiting) = self.site(node).waiting.remove(&id) else {
                return Err(format!("{id:?} is answered, and does not wait"));
            };
            self.clients[waiting.client].waiting = None;
            self.tell(
                node,
                What::Answered {
                    call: waiting.call,
                    told: told.clone(),
                },
            )?;
            if let Told::Jobs(jobs) = told {
                self.receive(waiting.client, jobs);
            }
        }
        Ok(())
    }

    /// A process that is to die does so once it has said something that is not written
    /// yet: what was not gated has left, and nothing else.
    pub fn dies_unwritten(&mut self, node: usize) -> Result<bool, String> {
        let slice = self.profile.slice;
        if !self.site(node).is_doomed {
            return Ok(false);
        }
        self.call(node, |node, now, fx| node.serve(now, slice, fx));
        let leaves = |action: &BusAction| {
            matches!(
                action,
                BusAction::Send {
                    gate: Gate::Open,
                    ..
                }
            )
        };
        let site = self.site(node);
        let says_more = !site.fx.records.is_empty() && site.fx.bus.iter().any(leaves);
        if !says_more || self.random.chance(500) {
            return Ok(false);
        }
        let site = self.site(node);
        site.is_doomed = false;
        site.fx.records.clear();
        self.carry_out(node)?;
        self.trace
            .line(format!("{:>9}   node {node} dies before it writes", ""));
        self.stop(node, Stop::Kill)?;
        Ok(true)
    }

    fn wake(&mut self, node: usize) -> Result<(), String> {
        let at = self.now;
        let site = self.site(node);
        if site.armed != Some(at) {
            return Ok(());
        }
        site.armed = None;
        let slice = self.profile.slice;
        self.call(node, |node, now, fx| node.run_due(now, slice, fx));
        if self.dies_unwritten(node)? {
            return Ok(());
        }
        self.write(node);
        self.answer(node)
    }

    fn undeliver(&mut self, node: usize, receipts: &[Receipt]) -> Result<(), String> {
        self.call(node, |node, _, fx| node.undeliver(receipts, fx));
        let deliveries = receipts.iter().map(|r| (r.id, r.attempt)).collect();
        self.conclude(node, false, What::Returned { deliveries })
    }

    /// After each event: what must hold is checked, and the timer is set.
    fn settle_down(&mut self, node: usize) -> Result<(), String> {
        let at = self.now;
        if self.site(node).node.is_none() {
            return Ok(());
        }
        self.answer(node)?;
        let site = self.site(node);
        let now = site.clocks.now(at);
        let inside = site.node.as_ref().expect("it is up");
        inside.check_invariants(now)?;
        site.check_life(now.wall_ms)?;
        self.check_links(node)?;
        self.check_reach(node)?;
        let site = self.site(node);
        let inside = site.node.as_ref().expect("it is up");
        let totals = inside.totals();
        let registered = totals.blocked_clients + totals.waiting_producers;
        let known = site.waiting.len() + site.pending.len();
        if registered != known {
            return Err(format!(
                "{registered} clients wait in the node, {known} outside"
            ));
        }
        if known > 0 && inside.check_serving().is_err() {
            return Err(format!("{known} clients wait where nobody serves them"));
        }
        let Some(wake) = inside.next_wake() else {
            site.armed = None;
            return self.caught_up(node);
        };
        let due = site.clocks.world_time(wake).max(at);
        if due > at {
            self.caught_up(node)?;
        }
        let site = self.site(node);
        if site.armed.is_none_or(|armed| armed < at || due < armed) {
            let lateness = self.profile.timer_lateness;
            let late = match due > at {
                true => self.random.range(0, lateness),
                false => 0,
            };
            self.site(node).armed = Some(due + late);
            self.schedule(node, due + late - at, Event::Wake);
        }
        Ok(())
    }

    fn caught_up(&mut self, node: usize) -> Result<(), String> {
        let queues = self.profile.queues;
        let what = self.call(node, |node, _, _| What::CaughtUp {
            jobs: node.job_count() as u64,
            lengths: (0..queues)
                .map(|queue| node.queue_len(&queue_name(queue)) as u64)
                .collect(),
        });
        self.tell(node, what)
    }

    fn start(&mut self, node: usize) -> Result<(), String> {
        let at = self.now;
        let site = self.sites.get_mut(&node).expect("a node of this world");
        let promoted = site.is_promoted;
        let complete = site.start(at, &mut self.random)?;
        site.fx.records.clear();
        if !std::mem::take(&mut self.site(node).is_new) {
            self.tell(node, What::Restarted { complete })?;
        }
        if promoted {
            self.tell(node, What::Snapshot)?;
        }
        self.end_stop(node);
        self.answer(node)
    }

    /// The node stops. It comes back later.
    pub fn stop(&mut self, node: usize, stop: Stop) -> Result<(), String> {
        let at = self.now;
        if stop == Stop::Clean {
            self.site(node).snapshot(at);
            self.tell(node, What::Snapshot)?;
        }
        let site = self.sites.get_mut(&node).expect("a node of this world");
        let kept = site.disk.stop(stop, &mut self.random);
        site.identities.retain(|(log, _)| *log <= kept);
        site.is_silent = !matches!(stop, Stop::Clean | Stop::Kill);
        site.is_promoted = stop == Stop::Promoted;
        let lost = site.disk.lost;
        if site.is_silent {
            site.clocks.reboot(&mut self.random);
        }
        self.end_process(node);
        self.begin_stop(node, FaultKind::Kill, lost);
        // Two that move at a time may lose each other.
        if stop == Stop::Promoted && !std::mem::replace(&mut self.moved, true) {
            self.move_site(node);
        }
        let longest = self.random.pick(&[1_000, 5_000, 15_000]);
        let down = self.random.range(1, longest);
        self.schedule(node, down, Event::Restart);
        self.tell(node, What::Crashed { kept })
    }

    /// A process is gone, with its connections.
    pub fn end_process(&mut self, node: usize) {
        let site = self.site(node);
        site.node = None;
        site.fx.clear();
        site.waiting.clear();
        site.armed = None;
        for client in self.clients.iter_mut().filter(|client| client.node == node) {
            client.waiting = None;
        }
        self.cut_off_workers(node);
        self.end_connections(node);
    }

    /// What is to happen to the process at a number happens to it at another one.
    pub fn hand_process_over(&mut self, from: usize, to: usize) {
        let events = std::mem::take(&mut self.heap).into_iter();
        let moved = events.map(|Reverse(mut next)| {
            if next.node == from && next.event.is_of_process() {
                next.node = to;
            }
            Reverse(next)
        });
        self.heap = moved.collect();
    }

    pub fn digest(&self) -> u64 {
        self.trace.digest()
    }
}

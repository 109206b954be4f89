//! How a run of several nodes ends: the network heals, operators make one
//! cluster of what there is, and it must come to be one, and be quiet.

use crate::guard::Pair;
use crate::oracle::history::What;
use crate::site::{queue_name, Site};
use crate::world::{Event, World};
use disque_core::queue::Pause;
use std::collections::{BTreeMap, BTreeSet};

/// How often the cluster is looked at.
const LOOK_MS: u64 = 250;
/// How many heartbeats the quiet cluster is watched for.
const WATCHED_BEATS: u64 = 10;
/// Rounds of FORGET for nodes that are no more. The first may name a data epoch
/// that others never heard of.
const ROUNDS: u64 = 6;

/// How far the end has come.
#[derive(Debug)]
pub enum Ending {
    /// Everything heals: until then.
    Healing { until: u64 },
    /// Operators have met all and forget what is no more.
    Joining {
        deadline: u64,
        next_round: u64,
        round: u64,
    },
    /// In a replicated world: lost copies are made up for.
    Mending { deadline: u64 },
    /// In a replicated world: clients consume what there is, everywhere.
    Draining { deadline: u64 },
    /// All is settled, and goes from memory.
    Emptying { deadline: u64 },
    /// A PAUSE was sent to all, and links are watched.
    Watching {
        until: u64,
        frames: BTreeMap<(usize, u32), u64>,
        pause: Pause,
    },
}

impl World {
    /// The next step of the end.
    pub fn end_cluster(&mut self) -> Result<(), String> {
        let at = self.now;
        let timeout = self.profile.settings.node_timeout_ms;
        let next = match self.ending.take() {
            None => {
                self.heal()?;
                // The longest stall, the longest way down, a pause of a link.
                Ending::Healing { until: at + 20_000 }
            }
            Some(Ending::Healing { until }) if at < until && !self.all_run() => {
                Ending::Healing { until }
            }
            Some(Ending::Healing { .. }) => {
                self.meet_all();
                Ending::Joining {
                    deadline: at + 40_000 + 12 * timeout,
                    next_round: at + 2 * timeout + 1_000,
                    round: 0,
                }
            }
            Some(Ending::Joining {
                deadline,
                mut next_round,
                mut round,
            }) => match self.is_one_cluster() {
                // What was sent before has arrived by then.
                Ok(()) if self.profile.replicated => Ending::Mending {
                    deadline: self.mend_deadline(),
                },
                Ok(()) if at >= self.quiet_from() => self.watch()?,
                Err(why) if at >= deadline => {
                    return Err(format!("the nodes do not become one cluster: {why}"));
                }
                _ => {
                    if at >= next_round && round < ROUNDS && !self.profile.replicated {
                        self.forget_strangers()?;
                        round += 1;
                        next_round = at + 2 * timeout + 1_000;
                    }
                    Ending::Joining {
                        deadline,
                        next_round,
                        round,
                    }
                }
            },
            Some(Ending::Mending { deadline }) => match self.short_of_copies() {
                Some(_) if at < deadline => Ending::Mending { deadline },
                Some(short) => return Err(format!("copies are not made up for: {short}")),
                None => {
                    self.drain_everywhere()?;
                    Ending::Draining {
                        deadline: self.drain_deadline(),
                    }
                }
            },
            Some(Ending::Draining { deadline }) => self.go_on_draining(deadline)?,
            Some(Ending::Emptying { deadline }) if self.is_empty() || at >= deadline => {
                self.look_at_all();
                self.done = true;
                return self.judge();
            }
            Some(Ending::Emptying { deadline }) => Ending::Emptying { deadline },
            Some(Ending::Watching {
                until,
                frames,
                pause,
            }) if at < until => Ending::Watching {
                until,
                frames,
                pause,
            },
            Some(Ending::Watching { frames, pause, .. }) => {
                self.check_quiet(&frames, pause)?;
                return self.finish_all();
            }
        };
        self.ending = Some(next);
        self.schedule(0, LOOK_MS, Event::Drain);
        Ok(())
    }

    /// When what was sent before the end, or by operators since, has arrived.
    fn quiet_from(&self) -> u64 {
        let timeout = self.profile.settings.node_timeout_ms;
        self.profile.end.max(self.net.gate_opened) + 2 * timeout + 1_000
    }

    fn heal(&mut self) -> Result<(), String> {
        self.draining = true;
        self.sites
            .values_mut()
            .for_each(|site| site.is_doomed = false);
        self.net.cuts.clear();
        self.net.mutes.clear();
        self.net.latency = self.net.latency.min(20);
        let servers: Vec<usize> = self.servers().map(|(&number, _)| number).collect();
        for node in servers {
            self.site(node).refuses_until = 0;
            if self.profile.replicated {
                self.make_at_home(node)?;
            }
            if self.site(node).node.is_some() {
                self.let_go_of_consumers(node)?;
                let waiting: Vec<_> = self.site(node).waiting.keys().copied().collect();
                for waiter in waiting {
                    self.unblock(node, waiter)?;
                }
            }
        }
        Ok(())
    }

    /// A node has room, and does not leave.
    fn make_at_home(&mut self, node: usize) -> Result<(), String> {
        let site = self.site(node);
        let was_limited = std::mem::take(&mut site.settings.max_memory) > 0;
        let settings = site.settings.clone();
        if site.node.is_some() {
            self.call(node, |node, _, _| node.set_settings(settings));
            self.set_leaving(node, false)?;
        }
        self.ledger.some_refused |= was_limited;
        Ok(())
    }

    fn go_on_draining(&mut self, deadline: u64) -> Result<Ending, String> {
        if self.is_drained()? {
            self.drained()?;
            return Ok(Ending::Emptying {
                deadline: self.forget_deadline(),
            });
        }
        if self.now < deadline {
            return Ok(Ending::Draining { deadline });
        }
        let left = self.what_is_left();
        Err(self.judge().err().unwrap_or_default()
            + "not all is consumed in the end: "
            + &left.replace('\n', " "))
    }

    fn all_run(&self) -> bool {
        let runs = |site: &Site| site.node.is_some() && site.stalled_until <= self.now;
        self.sites.values().all(runs)
    }

    fn meet_all(&mut self) {
        let count = self.sites.len();
        for from in 0..count {
            for to in from + 1..count {
                if self.is_serving(from) {
                    self.meet(from, to);
                }
            }
        }
    }

    /// Pairs that a node which serves has forgotten.
    fn forgotten(&self) -> BTreeSet<Pair> {
        let nodes = self.sites.values().filter_map(|site| site.node.as_ref());
        let serving = nodes.filter(|node| !node.was_forgotten());
        let lists = serving.flat_map(|node| node.cluster().forgotten());
        lists.map(|(id, epoch, _)| (id, epoch)).collect()
    }

    /// The nodes that must become one cluster: neither have others forgotten
    /// them nor do they believe so.
    fn members(&self) -> Vec<usize> {
        let forgotten = self.forgotten();
        let belongs = |(_, site): &(&usize, &Site)| {
            let Some(node) = &site.node else {
                return false;
            };
            let identity = node.identity();
            !node.was_forgotten() && !forgotten.contains(&(identity.id, identity.epoch))
        };
        let sites = self.sites.iter().filter(belongs);
        sites.map(|(&node, _)| node).collect()
    }

    /// Nodes that believe themselves forgotten, and that no node remembers so.
    fn strays(&self) -> Vec<usize> {
        let forgotten = self.forgotten();
        let strays = self.sites.iter().filter(|(_, site)| {
            site.node.as_ref().is_some_and(|node| {
                let identity = node.identity();
                node.was_forgotten() && !forgotten.contains(&(identity.id, identity.epoch))
            })
        });
        strays.map(|(&node, _)| node).collect()
    }

    /// Operators forget the nodes that are no more, or believe themselves
    /// forgotten.
    fn forget_strangers(&mut self) -> Result<(), String> {
        let members = self.members();
        let inside = |&node: &usize| {
            self.sites[&node]
                .node
                .as_ref()
                .expect("it is up")
                .identity()
                .id
        };
        let ids: BTreeSet<[u8; 20]> = members.iter().map(inside).collect();
        // One that believes itself forgotten while nobody remembers it would come
        // back by its own connections: it is met, to be forgotten.
        if let Some(&first) = members.first() {
            for stray in self.strays() {
                self.meet(first, stray);
            }
        }
        for node in members {
            let table = self.sites[&node].node.as_ref().expect("it is up").cluster();
            let strange = table.peers().map(|peer| peer.id);
            let strange: Vec<_> = strange.filter(|id| !ids.contains(id)).collect();
            for id in strange {
                self.forget(node, &id)?;
                self.schedule(node, 0, Event::Look);
            }
        }
        Ok(())
    }

    /// Whether all members know each other and nobody else, and hear each other.
    pub fn is_one_cluster(&self) -> Result<(), String> {
        if !self.all_run() {
            return Err("not all run".into());
        }
        self.no_ghost_serves()?;
        let members = self.members();
        let timeout = self.profile.settings.node_timeout_ms;
        let mut prints = BTreeSet::new();
        for &me in &members {
            let site = &self.sites[&me];
            let inside = site.node.as_ref().expect("it is up");
            let now = site.clocks.now(self.now);
            for &other in members.iter().filter(|&&other| other != me) {
                let there = self.sites[&other].node.as_ref().expect("it is up");
                let peer = inside.cluster().peer(&there.identity().id);
                let peer = peer.ok_or(format!("node {me} does not know node {other}"))?;
                if peer.epoch != there.identity().epoch {
                    return Err(format!("node {me} knows older data of node {other}"));
                }
                if !peer.is_reachable(now, timeout) {
                    return Err(format!("node {me} does not reach node {other}: {peer:?}"));
                }
                if peer.leaving != there.is_leaving() {
                    return Err(format!("node {me} believes of {other}: {}", peer.leaving));
                }
            }
            if inside.cluster().size() != members.len() {
                return Err(format!("node {me} knows others: {:?}", members));
            }
            if inside.ack_count() > 0 && !self.profile.replicated {
                return Err(format!("node {me} keeps {} acks", inside.ack_count()));
            }
            prints.insert(inside.cluster().fingerprint(inside.identity()));
        }
        if !members.is_empty() && !self.strays().is_empty() {
            return Err("a node that believes itself forgotten is not".into());
        }
        if prints.len() > 1 {
            let lists = members.iter().map(|node| {
                let site = &self.sites[node];
                let cluster = site.node.as_ref().expect("it is up").cluster();
                let forgotten: Vec<_> = cluster.forgotten().collect();
                (site.clocks.now(self.now).wall_ms, forgotten)
            });
            let lists: Vec<_> = lists.collect();
            return Err(format!("the tables of members differ: {lists:?}"));
        }
        self.outsiders_know(&members)
    }

    /// A node that was forgotten, and talks to members, knows it.
    fn outsiders_know(&self, members: &[usize]) -> Result<(), String> {
        let forgotten = self.forgotten();
        for (number, site) in &self.sites {
            let inside = site.node.as_ref().expect("it is up");
            let identity = inside.identity();
            if inside.was_forgotten() || !forgotten.contains(&(identity.id, identity.epoch)) {
                continue;
            }
            for &member in members {
                let there = &self.sites[&member];
                let member_id = there.node.as_ref().expect("it is up").identity().id;
                let knows = inside.cluster().peer(&member_id);
                if knows.is_some_and(|peer| peer.contact.host == there.host) {
                    return Err(format!("node {number} does not know that it was forgotten"));
                }
            }
        }
        Ok(())
    }

    /// From here on everything is as it should be: a PAUSE goes to all, and what
    /// the links carry is counted.
    fn watch(&mut self) -> Result<Ending, String> {
        let interval = self.profile.beat_ms();
        let pause = Pause {
            input: self.random.chance(500),
            output: true,
        };
        // The frame of a node that is no more, and that nobody was told to
        // forget, would bring it back.
        self.lose_late();
        let mut frames = BTreeMap::new();
        for &node in &self.members() {
            for (key, link) in &self.sites[&node].links {
                frames.insert((node, key.0), link.meter.frames);
            }
        }
        if let Some(&first) = self.members().first() {
            self.broadcast(first, 0, pause)?;
            self.schedule(first, 0, Event::Look);
        }
        Ok(Ending::Watching {
            until: self.now + interval * WATCHED_BEATS,
            frames,
            pause,
        })
    }

    fn check_quiet(
        &mut self,
        frames: &BTreeMap<(usize, u32), u64>,
        pause: Pause,
    ) -> Result<(), String> {
        self.is_one_cluster()
            .map_err(|why| format!("the cluster does not stay one: {why}"))?;
        let queue = queue_name(0);
        let interval = self.profile.beat_ms();
        let lateness = self.profile.timer_lateness;
        // The PAUSE goes in a frame of its own, or with a heartbeat.
        let most = WATCHED_BEATS + 3;
        let least = (interval * WATCHED_BEATS / (interval + lateness)).saturating_sub(2);
        for node in self.members() {
            let site = &self.sites[&node];
            let inside = site.node.as_ref().expect("it is up");
            if inside.pause_state(&queue) != pause {
                return Err(format!(
                    "node {node} did not get the PAUSE of a healthy cluster"
                ));
            }
            for (key, link) in &site.links {
                let before = frames.get(&(node, key.0)).copied();
                let before = before.ok_or("a link was made in a quiet cluster")?;
                let sent = link.meter.frames - before;
                if !(least..=most).contains(&sent) {
                    return Err(format!(
                        "node {node} sent {sent} frames on a quiet link, not {least} to {most}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn finish_all(&mut self) -> Result<(), String> {
        let nodes: Vec<usize> = self.sites.keys().copied().collect();
        for node in nodes {
            self.call(node, |node, now, fx| node.flush(now, fx));
            self.conclude(node, true, What::Flushed)?;
            self.answer(node)?;
            self.tell(node, What::Drained)?;
        }
        self.done = true;
        Ok(())
    }
}

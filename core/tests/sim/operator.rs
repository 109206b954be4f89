//! What operators do to a cluster, and what befalls the network between nodes.

use crate::disk::Stop;
use crate::guard::NEVER_WRITTEN;
use crate::oracle::history::What;
use crate::profile::Severity;
use crate::site::{queue_name, Site};
use crate::world::{Event, World};
use disque_checker::FaultKind;
use disque_core::node::hex;
use disque_core::queue::Pause;

#[derive(Clone, Copy, Debug)]
enum Act {
    Meet,
    Broadcast,
    /// PAUSE with BCAST by a node that dies before it is written down.
    Unwritten,
    Leave,
    Forget,
    Reset,
    /// Another machine takes the address of one that is gone.
    Replace,
    Move,
    CutOneWay,
    CutAnswers,
    Split,
    Refuse,
    /// So much time passes that it is not remembered any more who was forgotten.
    Month,
}

impl World {
    /// The next act, if this run has any.
    pub fn schedule_operator(&mut self) {
        let pace = self.profile.operator_pace;
        if self.sites.len() > 1 && pace < u64::MAX {
            let wait = self.random.range(1, 2 * pace);
            let node = self.any_site();
            self.schedule(node, wait, Event::Operate);
        }
    }

    fn any_site(&mut self) -> usize {
        self.random.range(0, self.sites.len() as u64 - 1) as usize
    }

    pub fn other_site(&mut self, node: usize) -> usize {
        let count = self.sites.len();
        let step = self.random.range(1, count as u64 - 1) as usize;
        (node + step) % count
    }

    /// An operator acts at a node, or the network fails.
    pub fn operate(&mut self, node: usize) -> Result<(), String> {
        self.schedule_operator();
        let drastic = u64::from(self.profile.drastic);
        let alone = u64::from(!self.profile.replicated);
        let apart = u64::from(self.profile.severity >= Severity::Apart);
        let leaves = u64::from(self.profile.leaves);
        let act = self.random.weighted(&[
            (8 * alone, Act::Meet),
            (4 * alone, Act::Broadcast),
            (alone, Act::Unwritten),
            (3 * leaves * (1 - alone), Act::Leave),
            (3 * drastic, Act::Forget),
            (drastic, Act::Reset),
            (drastic, Act::Replace),
            (alone, Act::Move),
            (5 * apart, Act::CutOneWay),
            (3 * apart, Act::CutAnswers),
            (3 * apart, Act::Split),
            (2 * apart, Act::Refuse),
            (drastic, Act::Month),
        ]);
        self.trace.line(format!("{:>9}   {act:?}", ""));
        let up = self.site(node).node.is_some();
        match act {
            Act::CutOneWay => {
                let (other, ms) = (self.other_site(node), self.outage());
                self.cut(node, other, ms);
                Ok(())
            }
            Act::CutAnswers => {
                let other = self.other_site(node);
                let ms = self.outage() + 4 * self.profile.settings.node_timeout_ms;
                self.net.mutes.insert((node, other), self.now + ms);
                self.fault_for(other, FaultKind::Cut, Some(node), ms);
                Ok(())
            }
            Act::Split => self.split(),
            Act::Meet if up => {
                let other = self.other_site(node);
                self.meet(node, other);
                Ok(())
            }
            Act::Broadcast if self.is_serving(node) => {
                let pause = Pause {
                    input: self.random.chance(400),
                    output: self.random.chance(400),
                };
                let queue = self.random.range(0, self.profile.queues as u64 - 1);
                self.broadcast(node, queue as usize, pause)
            }
            Act::Unwritten if self.is_serving(node) => {
                let mut queue = NEVER_WRITTEN.to_vec();
                queue.extend(self.now.to_le_bytes());
                let pause = Pause {
                    input: true,
                    output: true,
                };
                self.call(node, |node, now, fx| {
                    let paused = node.pause(now, &queue, pause, fx);
                    node.broadcast_pause(&queue, fx);
                    paused
                })
                .map_err(|error| error.to_string())?;
                self.carry_out(node)?;
                self.stop(node, Stop::Kill)
            }
            Act::Leave if up => {
                let leaving = !self
                    .site(node)
                    .node
                    .as_ref()
                    .is_some_and(|n| n.is_leaving());
                let stays = |site: &&Site| site.node.as_ref().is_some_and(|n| !n.is_leaving());
                let staying = self.sites.values().filter(stays).count();
                self.end_leaving(node);
                // A job may have been copied to all nodes there were.
                if leaving && staying <= self.profile.nodes {
                    self.begin_leaving(node);
                }
                self.set_leaving(node, leaving)
            }
            Act::Forget if self.is_serving(node) => self.forget_any(node),
            Act::Reset if up => self.reset(node),
            Act::Replace => self.replace(node),
            Act::Move if up && !self.moved => {
                self.moved = true;
                self.stop(node, Stop::Clean)?;
                self.move_site(node);
                Ok(())
            }
            Act::Month if self.profile.clock_jumps => {
                const MONTH_MS: i64 = 32 * 86_400_000;
                self.lose_late();
                for site in self.sites.values_mut() {
                    site.clocks.jump(MONTH_MS);
                }
                Ok(())
            }
            Act::Refuse => {
                let ms = self.outage();
                self.site(node).refuses_until = self.now + ms;
                self.fault_for(node, FaultKind::Refuse, None, ms);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub fn outage(&mut self) -> u64 {
        let timeout = self.profile.settings.node_timeout_ms;
        let longest = if self.profile.replicated { 8 } else { 4 };
        let most = self
            .random
            .pick(&[100, timeout, 4 * timeout, longest * timeout]);
        self.random.range(1, most)
    }

    /// Two groups of nodes cannot talk to each other for a while.
    fn split(&mut self) -> Result<(), String> {
        let (sides, ms) = (self.random.range(1, 30), self.outage());
        let count = self.sites.len();
        for from in 0..count {
            for to in 0..count {
                if sides >> from & 1 != sides >> to & 1 {
                    self.cut(from, to, ms);
                }
            }
        }
        Ok(())
    }

    /// Whether a node is up and takes commands of clients.
    pub fn is_serving(&mut self, node: usize) -> bool {
        let inside = &self.site(node).node;
        inside.as_ref().is_some_and(|n| n.check_serving().is_ok())
    }

    /// PAUSE with BCAST.
    pub fn broadcast(&mut self, node: usize, queue: usize, pause: Pause) -> Result<(), String> {
        let name = queue_name(queue);
        let done = self.call(node, |node, now, fx| {
            let paused = node.pause(now, &name, pause, fx);
            node.broadcast_pause(&name, fx);
            paused
        });
        done.map_err(|error| format!("PAUSE: {error}"))?;
        self.conclude(node, true, What::paused(queue, pause.to_bits()))?;
        self.answer(node)
    }

    fn forget_any(&mut self, node: usize) -> Result<(), String> {
        let inside = self.site(node).node.as_ref().expect("the node is up");
        let ids: Vec<[u8; 20]> = inside.cluster().peers().map(|peer| peer.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let id = self.random.pick(&ids);
        self.forget(node, &id)
    }

    /// DISQUE FORGET.
    pub fn forget(&mut self, node: usize, id: &[u8; 20]) -> Result<(), String> {
        self.trace
            .line(format!("{:>9}   node {node} forgets {}", "", hex(id)));
        let id = hex(id);
        self.call(node, |node, now, fx| {
            node.forget_node(now, id.as_bytes(), fx)
        })
        .map_err(|error| format!("FORGET: {error}"))?;
        self.write(node);
        self.answer(node)
    }

    /// DISQUE RESET.
    pub fn reset(&mut self, node: usize) -> Result<(), String> {
        self.call(node, |node, now, fx| node.reset(now, fx));
        self.site(node).guard.reset();
        self.conclude(node, true, What::Reset)?;
        let site = self.site(node);
        let identity = *site.node.as_ref().expect("the node is up").identity();
        site.identities.push((site.disk.written(), identity));
        self.answer(node)?;
        self.introduce(node);
        self.answer(node)
    }

    /// The machine is gone for good, and another one is set up at its address.
    fn replace(&mut self, node: usize) -> Result<(), String> {
        if self.site(node).node.is_none() {
            return Ok(());
        }
        self.stop(node, Stop::PowerLoss)?;
        let policy = self.profile.any_policy(&mut self.random);
        let site = self.sites.get_mut(&node).expect("a node of this world");
        site.renew(policy, &mut self.random);
        self.tell_started(node)
    }
}

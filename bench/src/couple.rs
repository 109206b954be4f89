//! Two nodes that know each other, and the way of jobs with two copies.

use crate::solo::{job, node, START};
use disque_core::body::Packet;
use disque_core::clock::Now;
use disque_core::cluster::{Contact, PeerKey};
use disque_core::effects::{BusAction, Effects};
use disque_core::message::encode_header;
use disque_core::node::add::AddJob;
use disque_core::node::Node;

const CONNECTION: u64 = 1;
/// As long as heartbeats need until each knows that the other hears it.
const ROUNDS: usize = 100;
const ROUND_MS: u64 = 100;

/// Two nodes; the first one's producers want two copies.
pub struct Couple {
    nodes: [Node; 2],
    fx: Effects,
    now: Now,
}

/// A frame from the first node.
pub struct Frame {
    to: PeerKey,
    packet: Packet,
}

impl Frame {
    /// As the other node gets it.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }
}

/// What the second node answers to it.
pub struct Answer {
    from: PeerKey,
    bytes: Vec<u8>,
}

impl Couple {
    /// Two nodes that reach each other.
    pub fn new() -> Couple {
        let mut couple = Couple {
            nodes: [node(1), node(2)],
            fx: Effects::new(),
            now: START,
        };
        let contact = Contact {
            host: "second".into(),
            port: 7711,
        };
        let speaker = couple.nodes[1].speaker();
        let met = couple.nodes[0].met(&speaker, contact, &mut couple.fx);
        met.expect("a new node");
        couple.carry_out(0);
        for _ in 0..ROUNDS {
            couple.now.mono_ms += ROUND_MS;
            couple.now.wall_ms += ROUND_MS;
            for side in [0, 1] {
                let (node, now) = (&mut couple.nodes[side], couple.now);
                node.run_due(now, 100, &mut couple.fx);
                couple.carry_out(side);
            }
        }
        assert_eq!(couple.nodes[0].reachable_peers(couple.now).count(), 1);
        couple
    }

    /// ADDJOB at the first node, with two copies to wait for; its message, if it was
    /// to be sent at once.
    pub fn add(&mut self) -> Option<Packet> {
        self.add_all(job().bodies).pop()
    }

    /// The same with ADDJOBS.
    pub fn add_all(&mut self, bodies: &[&[u8]]) -> Vec<Packet> {
        let add = AddJob {
            replicate: Some(2),
            bodies,
            ..job()
        };
        let (node, now) = (&mut self.nodes[0], self.now);
        let added = node.add_job(now, &add, true, &mut self.fx);
        added.expect("the other node is reachable");
        let messages = self.fx.bus.drain(..).filter_map(|action| match action {
            BusAction::Send { message, .. } => Some(message),
            _ => None,
        });
        let messages = messages.collect();
        self.finish();
        messages
    }

    /// The messages of so many jobs, in one frame.
    pub fn frame(&mut self, jobs: usize) -> Frame {
        let messages = (0..jobs).filter_map(|_| self.add()).collect();
        self.frame_of(messages)
    }

    /// The messages of a batch, in one frame.
    pub fn frame_of_batch(&mut self, bodies: &[&[u8]]) -> Frame {
        let messages = self.add_all(bodies);
        self.frame_of(messages)
    }

    fn frame_of(&self, messages: Vec<Packet>) -> Frame {
        let (node, now) = (&self.nodes[0], self.now);
        let to = node.reachable_peers(now).next().expect("it is reachable");
        let mut packet = Packet::from(encode_header(&node.header(Some(to), CONNECTION)));
        messages.iter().for_each(|message| packet.append(message));
        Frame { to, packet }
    }

    /// The second node takes a frame.
    pub fn take(&mut self, frame: &Frame) -> Answer {
        let (node, now) = (&mut self.nodes[1], self.now);
        let answer = node.handle_frame(now, &frame.packet, "first", &mut self.fx);
        self.finish();
        Answer {
            from: frame.to,
            bytes: answer.expect("a good frame"),
        }
    }

    /// The first node takes the answer, and its producers have their ids; how many.
    pub fn confirm(&mut self, answer: &Answer) -> usize {
        let (node, now) = (&mut self.nodes[0], self.now);
        let taken = node.handle_answer(now, answer.from, &answer.bytes, &mut self.fx);
        taken.expect("a good answer");
        let answered = self.fx.answers.len();
        self.finish();
        answered
    }

    /// Does what a node wants done, while they get to know each other.
    fn carry_out(&mut self, side: usize) {
        loop {
            let actions = std::mem::take(&mut self.fx.bus);
            self.finish();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.act(side, action);
            }
        }
    }

    fn act(&mut self, side: usize, action: BusAction) {
        let (now, fx) = (self.now, &mut self.fx);
        let [first, second] = &mut self.nodes;
        let (node, other) = match side {
            0 => (first, second),
            _ => (second, first),
        };
        match action {
            BusAction::Connect(key) => node.link_up(now, key, CONNECTION, fx),
            BusAction::Disconnect(_) | BusAction::Introduce => {}
            BusAction::Send { to, message, .. } => {
                let header = encode_header(&node.header(Some(to), CONNECTION));
                let mut frame = Packet::from(header);
                frame.append(&message);
                // What the other one wants is left to its own next turn.
                let mut others = Effects::new();
                let answer = other.handle_frame(now, &frame, "other", &mut others);
                let answer = answer.expect("a good frame");
                let taken = node.handle_answer(now, to, &answer, fx);
                taken.expect("a good answer");
                let wishes = std::mem::take(&mut others.bus);
                let connects = wishes.into_iter().filter_map(|wish| match wish {
                    BusAction::Connect(key) => Some(key),
                    _ => None,
                });
                connects.for_each(|key| other.link_up(now, key, CONNECTION, &mut others));
            }
        }
    }

    fn finish(&mut self) {
        std::hint::black_box(self.fx.records.bytes());
        self.fx.clear();
    }
}

impl Default for Couple {
    fn default() -> Couple {
        Couple::new()
    }
}

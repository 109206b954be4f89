//! Frames and answers of other nodes: whatever they say, the node stays sound, what
//! it answers can be read, and a second node that only takes its records has the
//! same table.
//!
//! Messages are drawn from those that there are, and also as a kind with any bytes
//! behind it: so a kind that is new is met without a change here.

use crate::draw::Draw;
use crate::records::{check, copy_of, fresh_node, with_body, START};
use disque_core::body::Parts;
use disque_core::clock::Now;
use disque_core::cluster::{Contact, PeerKey};
use disque_core::effects::{BusAction, Effects};
use disque_core::message::{
    encode_answer, encode_header, encode_message, read_answer, Header, Heartbeat, Listing, Message,
    Speaker,
};
use disque_core::node::load::Completeness;
use disque_core::node::Node;
use disque_core::nodes_file::NodesFile;
use std::collections::BTreeSet;

/// An input that is longer adds no more than time.
const MAX_STEPS: usize = 200;
/// An answer is not much larger than the frame that it answers, and a table.
const MAX_ANSWER: usize = 1 << 20;
const NUMBERS: [u64; 8] = [0, 1, 2, 3, 250, 1 << 32, u64::MAX - 1, u64::MAX];
const HOSTS: [&str; 8] = [
    "10.0.0.1",
    "::1",
    "a-host.example",
    "",
    "two words",
    "line\nend",
    "\0",
    "höst",
];
const NAMES: [&[u8]; 4] = [b"a", b"", b"\0\r\n", &[0xff; 70_000]];
/// How long between two steps, in ms. Not so long that it is no longer known who
/// was forgotten: no record tells the second node of that.
const TIMES: [u64; 6] = [0, 1, 500, 1_000, 5_001, 100_000];

/// Takes the bytes as a frame and as an answer, then as the messages of either,
/// then as a sequence of steps.
pub fn frames(bytes: &[u8]) {
    let mut run = Run::new();
    run.frame(bytes, "10.0.0.9");
    run.settle("any bytes");
    run.answer(PeerKey(1), bytes);
    run.settle("any answer");
    let (header, speaker) = (encode_header(&run.header(1)), encode_answer(&speaker(1)));
    let frame = [&header, bytes].concat();
    run.frame(with_body(&frame), "10.0.0.1");
    run.settle("messages with a body");
    run.frame(&frame, "10.0.0.1");
    run.settle("messages");
    let key = run.node.cluster().peer(&[1; 20]).map(|peer| peer.key);
    let answer = [&speaker, bytes].concat();
    run.answer(key.unwrap_or(PeerKey(1)), &answer);
    run.settle("answers");

    let mut run = Run::new();
    let mut draw = Draw::new(bytes);
    for _ in 0..MAX_STEPS {
        if draw.is_empty() {
            break;
        }
        let what = run.step(&mut draw);
        run.settle(what);
    }
    copy_of(&run.node, run.now, 0);
}

/// How the node with this number presents itself.
fn speaker(node: u8) -> Speaker {
    Speaker {
        id: [node; 20],
        epoch: 1,
        term: 0,
        incarnation: 1,
        process: 1,
        port: 7711,
    }
}

struct Run {
    now: Now,
    node: Node,
    /// Takes the records and nothing else, like a replica.
    follower: Node,
    fx: Effects,
    /// The nodes that the links would be connected to.
    linked: BTreeSet<PeerKey>,
    /// Restarts so far.
    starts: u8,
}

impl Run {
    fn new() -> Run {
        Run {
            now: START,
            node: fresh_node(START, 0),
            follower: fresh_node(START, 0),
            fx: Effects::new(),
            linked: BTreeSet::new(),
            starts: 0,
        }
    }

    /// What the node with this number would put in front of its frames.
    fn header(&self, node: u8) -> Header {
        Header {
            from: speaker(node),
            to: Some(self.node.identity().id),
            connection: 1,
        }
    }

    fn frame<'a>(&mut self, frame: impl Into<Parts<'a>>, from_host: &str) {
        let frame = frame.into();
        let len = frame.bytes.len();
        let answer = self
            .node
            .handle_frame(self.now, frame, from_host, &mut self.fx);
        let Ok(answer) = answer else {
            return;
        };
        assert!(
            answer.len() <= MAX_ANSWER + len,
            "{} bytes answer {}",
            answer.len(),
            len
        );
        let (from, messages) = read_answer(&answer).expect("an answer that cannot be read");
        assert_eq!(from.id, self.node.identity().id);
        for message in messages {
            message.expect("a message of an answer that cannot be read");
        }
    }

    /// Whether it can be read is the node's to say.
    fn answer(&mut self, key: PeerKey, answer: &[u8]) {
        let _ = self.node.handle_answer(self.now, key, answer, &mut self.fx);
    }

    /// Does one thing and says what it was.
    fn step(&mut self, draw: &mut Draw<'_>) -> &'static str {
        match draw.byte() % 12 {
            0..=3 => self.drawn_frame(draw),
            4 => self.crowd(draw),
            5 | 6 => self.drawn_answer(draw),
            7 | 8 => self.link(draw),
            9 => self.pass_time(draw),
            10 => self.operator(draw),
            _ => self.restart(draw.flag()),
        }
    }

    fn drawn_frame(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let from = self.drawn_speaker(draw);
        let to = match draw.byte() {
            255 => None,
            254 => Some([7; 20]),
            _ => Some(self.node.identity().id),
        };
        let mut frame = encode_header(&Header {
            from,
            to,
            connection: draw.one_of(&NUMBERS),
        });
        messages(draw, &mut frame);
        let hosts = ["10.0.0.1", "10.0.0.2", "::1", "127.0.0.1"];
        self.frame(&frame, draw.one_of(&hosts));
        "a frame"
    }

    /// A frame about more nodes than a cluster has, known or forgotten.
    fn crowd(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let mut frame = encode_header(&self.header(1));
        let (first, forgotten) = (draw.byte(), draw.flag());
        for n in 0..300_u16 {
            let mut id = [first; 20];
            id[..2].copy_from_slice(&n.to_le_bytes());
            frame.extend(encode_message(&if forgotten {
                Message::Forgotten {
                    id,
                    epoch: 1,
                    until: u64::MAX,
                }
            } else {
                Message::Known(Listing {
                    id,
                    epoch: 1,
                    term: 0,
                    host: "10.0.0.3",
                    port: n,
                })
            }));
        }
        self.frame(&frame, "10.0.0.1");
        "a crowd"
    }

    fn drawn_answer(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let mut from = self.drawn_speaker(draw);
        let key = self.some_peer(draw);
        if let Some(peer) = self.node.cluster().by_key(key).filter(|_| draw.flag()) {
            from.id = peer.id;
        }
        let mut answer = encode_answer(&from);
        messages(draw, &mut answer);
        self.answer(key, &answer);
        "an answer"
    }

    fn drawn_speaker(&self, draw: &mut Draw<'_>) -> Speaker {
        Speaker {
            id: id(draw, self.node.identity().id),
            epoch: draw.one_of(&NUMBERS),
            term: draw.one_of(&NUMBERS),
            incarnation: draw.one_of(&NUMBERS),
            process: draw.one_of(&NUMBERS),
            port: draw.one_of(&[7711, 7712, 0, u16::MAX]),
        }
    }

    /// The key of a node of the table; of none where it is empty.
    fn some_peer(&self, draw: &mut Draw<'_>) -> PeerKey {
        let keys: Vec<PeerKey> = self.node.cluster().peers().map(|peer| peer.key).collect();
        if keys.is_empty() {
            return PeerKey(u32::MAX);
        }
        draw.one_of(&keys)
    }

    fn link(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let key = self.some_peer(draw);
        let (node, now, fx) = (&mut self.node, self.now, &mut self.fx);
        match draw.byte() % 4 {
            0 | 1 => node.link_up(now, key, draw.one_of(&NUMBERS), fx),
            2 => node.link_down(key, "it broke", fx),
            _ => {
                let errors = [
                    "LOADING Redis is loading",
                    "READONLY a replica",
                    "",
                    "FORGOTTEN the cluster has forgotten this node",
                ];
                node.link_refused(now, key, draw.one_of(&errors), fx);
            }
        }
        "news of a link"
    }

    fn pass_time(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let ms = draw.one_of(&TIMES);
        self.now.mono_ms += ms;
        self.now.wall_ms += ms;
        self.node.run_due(self.now, 100, &mut self.fx);
        "time"
    }

    fn operator(&mut self, draw: &mut Draw<'_>) -> &'static str {
        match draw.byte() % 8 {
            0..=2 => {
                let speaker = self.drawn_speaker(draw);
                let contact = Contact {
                    host: draw.one_of(&HOSTS[..3]).into(),
                    port: speaker.port,
                };
                let _ = self.node.met(&speaker, contact, &mut self.fx);
                "DISQUE MEET"
            }
            3..=5 => {
                let id = disque_core::node::hex(&id(draw, self.node.identity().id));
                let _ = self.node.forget_node(self.now, id.as_bytes(), &mut self.fx);
                "DISQUE FORGET"
            }
            6 => {
                let leaving = draw.flag();
                self.node.set_leaving(leaving, self.now, &mut self.fx);
                "DISQUE LEAVING"
            }
            _ => {
                self.node.reset(self.now, &mut self.fx);
                "DISQUE RESET"
            }
        }
    }

    /// A restart from the snapshot and the nodes file, or from one of them.
    fn restart(&mut self, with_data: bool) -> &'static str {
        self.carry_out();
        self.starts = self.starts.wrapping_add(1);
        let text = self.node.nodes_file(true).to_text();
        let file = NodesFile::parse(text.as_bytes()).expect("a nodes file that cannot be read");
        if with_data {
            self.node = copy_of(&self.node, self.now, self.starts);
        } else {
            self.node = fresh_node(self.now, self.starts);
            self.node.set_identity(file.identity);
            self.node.restore_nodes(&file);
            assert_eq!(self.node.nodes_file(true).nodes, file.nodes);
            // The data are gone, and so are their records.
            self.follower = copy_of(&self.node, self.now, 0);
        }
        self.linked.clear();
        let fx = &mut self.fx;
        self.node.connect_all(fx);
        self.node.finish_load(self.now, Completeness::Complete, fx);
        "a restart"
    }

    /// What the caller of a node does after each call, and what must hold then.
    fn settle(&mut self, what: &str) {
        self.carry_out();
        check(&self.node, self.now, what);
        check(&self.follower, self.now, "the follower");
        let keys: BTreeSet<PeerKey> = self.node.cluster().peers().map(|peer| peer.key).collect();
        assert_eq!(self.linked, keys, "{what}: links to others than the table");
        let (own, copy) = (self.node.nodes_file(false), self.follower.nodes_file(false));
        assert_eq!(own.identity, copy.identity, "{what} is not written down");
        assert_eq!(own.nodes, copy.nodes, "{what} is not written down");
        assert_eq!(own.forgotten, copy.forgotten, "{what} is not written down");
    }

    fn carry_out(&mut self) {
        for action in &self.fx.bus {
            match action {
                BusAction::Connect(key) => {
                    self.linked.insert(*key);
                }
                BusAction::Disconnect(key) => {
                    self.linked.remove(key);
                }
                BusAction::Send { .. } | BusAction::Introduce => {}
            }
        }
        if !self.fx.records.is_empty() {
            let taken = self.follower.apply(self.now, self.fx.records.packet());
            assert_eq!(taken, Ok(()), "records that cannot be read");
        }
        self.fx.clear();
    }
}

/// The id of one of a few nodes; of the one that is tested, now and then.
fn id(draw: &mut Draw<'_>, own: [u8; 20]) -> [u8; 20] {
    match draw.byte() % 8 {
        7 => own,
        n => [n + 1; 20],
    }
}

/// Up to eight messages, some of them damaged.
fn messages(draw: &mut Draw<'_>, frame: &mut Vec<u8>) {
    for _ in 0..draw.byte() % 8 {
        let mut message = message(draw);
        if draw.byte() % 8 == 7 && !message.is_empty() {
            let at = usize::from(draw.byte()) % message.len();
            match draw.byte() % 3 {
                0 => message[at] ^= draw.byte(),
                1 => message.truncate(at),
                _ => message.insert(at, draw.byte()),
            }
        }
        // Many of one kind: what each costs must not add up.
        let times = if draw.byte() == 255 { 700 } else { 1 };
        frame.extend(message.repeat(times));
    }
}

fn message(draw: &mut Draw<'_>) -> Vec<u8> {
    let own = [0xab; 20];
    let message = match draw.byte() % 8 {
        0 => Message::Heartbeat(Heartbeat {
            leaving: draw.flag(),
            answered: draw.flag(),
            unclean_start: draw.one_of(&NUMBERS),
            table: draw.one_of(&NUMBERS),
        }),
        1 => Message::Known(Listing {
            id: id(draw, own),
            epoch: draw.one_of(&NUMBERS),
            term: draw.one_of(&NUMBERS),
            host: draw.one_of(&HOSTS),
            port: draw.one_of(&[7711, 0, u16::MAX]),
        }),
        2 => Message::Forgotten {
            id: id(draw, own),
            epoch: draw.one_of(&NUMBERS),
            until: draw.one_of(&[0, 1, 1_700_000_000_000, 1_900_000_000_000, u64::MAX]),
        },
        3 => Message::Pause {
            queue: draw.one_of(&NAMES),
            pause: draw.byte(),
        },
        4 => Message::Address {
            host: draw.one_of(&HOSTS),
        },
        5 => Message::Stopped {
            reason: draw.one_of(&HOSTS),
        },
        // A kind that this code does not know, or one with any content.
        _ => {
            let mut bytes = vec![draw.byte() % 32];
            for _ in 0..draw.byte() % 40 {
                bytes.push(draw.byte());
            }
            return bytes;
        }
    };
    encode_message(&message)
}

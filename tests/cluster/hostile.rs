//! What a client that may use DISQUE.BUS can do with it: nothing that hurts the
//! server.

use crate::common::*;
use disque_core::message::{encode_header, encode_message, Header, Heartbeat, Listing};
use disque_core::message::{Message, Speaker};

/// Numbers for a test that draws: the same seed gives the same run.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        // xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

fn id_bytes(hex: &str) -> [u8; 20] {
    let mut id = [0; 20];
    for (n, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap();
    }
    id
}

/// What a node that nobody knows would say to `server`.
fn header(from: u8, server: &Server) -> Vec<u8> {
    let own = server.client().run("DISQUE MYID").expect_text();
    encode_header(&Header {
        from: Speaker {
            id: [from; 20],
            epoch: 1,
            term: 0,
            incarnation: 1,
            process: 1,
            port: 1,
        },
        to: Some(id_bytes(&own)),
        connection: 1,
    })
}

fn messages() -> Vec<Vec<u8>> {
    let beat = Heartbeat {
        leaving: false,
        answered: true,
        unclean_start: 0,
        table: 7,
    };
    let listing = Listing {
        id: [3; 20],
        epoch: 2,
        term: 0,
        host: "127.0.0.1",
        port: 1,
    };
    [
        Message::Heartbeat(beat),
        Message::Known(listing),
        Message::Forgotten {
            id: [4; 20],
            epoch: 2,
            until: u64::MAX,
        },
        Message::Pause {
            queue: b"queue",
            pause: 1,
        },
        Message::Address { host: "localhost" },
        Message::Stopped { reason: "why not" },
    ]
    .iter()
    .map(encode_message)
    .collect()
}

#[track_caller]
fn expect_alive(cluster: &Cluster) {
    let mut c = cluster[0].client();
    let id = add(&mut c, "alive", "x");
    assert_eq!(deliveries(&c.run("GETJOB FROM alive"))[0].id, id);
    c.run(&format!("ACKJOB {id}")).expect_number(1);
    let other = cluster.id(1);
    cluster.wait_line(0, &other, "the link is up", |line| line.connected);
}

#[test]
fn bytes_of_no_meaning_are_errors_and_cost_no_memory() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    let mut draw = Draw(42);
    let mut send = |c: &mut Client| {
        for len in 0..300 {
            let mut frame = draw.bytes(len);
            if len > 0 && len % 2 == 0 {
                // The right version, so that more of it is read. A few of them
                // even ask who is there.
                frame[0] = 1;
                c.call(&[b"DISQUE.BUS", &frame[..]]);
                continue;
            }
            c.call(&[b"DISQUE.BUS", &frame[..]]).expect_any_error();
        }
        c.call(&[&b"DISQUE.BUS"[..], &vec![1; 1 << 20]])
            .expect_any_error();
    };
    send(&mut c);
    let before = cluster[0].used_memory();
    for _ in 0..5 {
        send(&mut c);
    }
    let grown = cluster[0].used_memory() - before;
    assert!(grown < 2 << 20, "memory grew by {grown} bytes");
    assert_eq!(node_lines(&mut c).len(), 2);
    c.run("DISQUE.BUS").expect_wrong_arity();
    expect_alive(&cluster);
}

#[test]
fn frames_that_end_early_or_are_changed_do_no_harm() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    let mut frame = header(9, &cluster[0]);
    let start = frame.len();
    // Without the one that ends the reading.
    for message in &messages()[..5] {
        frame.extend(message);
    }
    for len in 0..start {
        c.call(&[b"DISQUE.BUS", &frame[..len]]).expect_any_error();
    }
    for len in start..frame.len() {
        c.call(&[b"DISQUE.BUS", &frame[..len]]).expect_bulk();
    }
    let mut draw = Draw(7);
    for _ in 0..3000 {
        let mut changed = frame.clone();
        for _ in 0..=draw.below(3) {
            let at = draw.below(changed.len());
            changed[at] ^= 1 << draw.below(8);
        }
        c.call(&[b"DISQUE.BUS", &changed[..]]);
    }
    expect_alive(&cluster);
    // Whatever came in, the nodes file can be read again.
    let mut cluster = cluster;
    let id = cluster.id(0);
    cluster[0].restart();
    assert_eq!(cluster.id(0), id);
    assert!(!cluster[0].log_contains("the nodes file is not used"));
}

#[test]
fn lengths_that_lie_take_no_memory() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    let start = header(9, &cluster[0]);
    let before = cluster[0].used_memory();
    for kind in 0..=20_u8 {
        for length in [
            &[0xfb, 0xff, 0xff][..],
            &[0xfc, 0xff, 0xff, 0xff, 0xff],
            &[0xfc, 0xff, 0xff, 0xff, 0x1f],
            &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] {
            for pad in [0, 20, 22, 30] {
                let mut frame = start.clone();
                frame.push(kind);
                frame.extend(vec![1; pad]);
                frame.extend_from_slice(length);
                frame.extend_from_slice(b"abc");
                c.call(&[b"DISQUE.BUS", &frame[..]]);
            }
        }
    }
    let grown = cluster[0].used_memory() - before;
    assert!(grown < 2 << 20, "memory grew by {grown} bytes");
    expect_alive(&cluster);
}

/// A host comes from whoever speaks, and goes into the nodes file, the replies
/// and the log.
#[test]
fn hosts_that_are_none_are_refused() {
    let mut cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    let long = "x".repeat(100_000);
    for (n, host) in ["", "a b", "a\nb", "a\r\nb", "\0", "ü", &long]
        .iter()
        .enumerate()
    {
        let listing = Listing {
            id: [100 + n as u8; 20],
            epoch: 2,
            term: 0,
            host,
            port: 1,
        };
        for message in [Message::Known(listing), Message::Address { host }] {
            let mut frame = header(9, &cluster[0]);
            frame.extend(encode_message(&message));
            c.call(&[b"DISQUE.BUS", &frame[..]]).expect_bulk();
        }
    }
    // The two of the cluster, and the one that spoke.
    let lines = node_lines(&mut c);
    assert_eq!(lines.len(), 3, "{lines:?}");
    let id = cluster.id(0);
    cluster[0].restart();
    assert_eq!(cluster.id(0), id);
    assert_eq!(node_lines(&mut cluster[0].client()).len(), 3);
}

#[test]
fn a_cluster_has_room_for_so_many_nodes_and_no_more() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    let before = cluster[0].used_memory();
    let mut frame = header(9, &cluster[0]);
    for n in 0..2000_u16 {
        let mut id = [0; 20];
        id[..2].copy_from_slice(&n.to_le_bytes());
        let listing = Listing {
            id,
            epoch: 2,
            term: 0,
            host: "127.0.0.1",
            port: 1,
        };
        frame.extend(encode_message(&Message::Known(listing)));
    }
    for n in 0..20_000_u32 {
        let mut id = [1; 20];
        id[..4].copy_from_slice(&n.to_le_bytes());
        frame.extend(encode_message(&Message::Forgotten {
            id,
            epoch: 1,
            until: u64::MAX,
        }));
        if frame.len() > 200 << 10 {
            c.call(&[b"DISQUE.BUS", &frame[..]]);
            frame = header(9, &cluster[0]);
        }
    }
    assert_eq!(node_lines(&mut c).len(), 256);
    let grown = cluster[0].used_memory() - before;
    assert!(grown < 16 << 20, "memory grew by {grown} bytes");
    expect_alive(&cluster);
}

#[test]
fn in_transactions_and_scripts_it_is_refused() {
    let cluster = Cluster::new(2);
    let mut frame = header(9, &cluster[0]);
    frame.extend(messages().concat());
    let mut c = cluster[0].client();
    c.run("MULTI").expect_ok();
    c.call(&[b"DISQUE.BUS", &frame[..]]);
    let reply = c.run("EXEC");
    if let Value::Array(items) = reply.value() {
        assert!(matches!(items[0], Value::Error(_)), "{reply:?}");
    } else {
        reply.expect_any_error();
    }
    let script = b"return redis.call('DISQUE.BUS', ARGV[1])";
    c.call(&[b"EVAL", &script[..], b"0", &frame[..]])
        .expect_any_error();
    assert_eq!(node_lines(&mut c).len(), 2);
    expect_alive(&cluster);
}

#[test]
fn frames_of_the_node_itself_or_for_another_one_are_refused() {
    let cluster = Cluster::new(2);
    let own = id_bytes(&cluster.id(0));
    let speaker = |id| Speaker {
        id,
        epoch: 1,
        term: 0,
        incarnation: u64::MAX,
        process: 1,
        port: 1,
    };
    let mut c = cluster[0].client();
    for (from, to) in [(own, own), ([9; 20], [8; 20])] {
        let frame = encode_header(&Header {
            from: speaker(from),
            to: Some(to),
            connection: u64::MAX,
        });
        c.call(&[b"DISQUE.BUS", &frame[..]]).expect_error("ERR");
    }
    assert_eq!(node_lines(&mut c).len(), 2);
    expect_alive(&cluster);
}

#[test]
fn clients_without_the_right_to_it_are_kept_out() {
    let cluster = Cluster::new(2);
    let mut c = cluster[0].client();
    c.run("ACL SETUSER worker on >pw ~* +@all -disque.bus")
        .expect_ok();
    let mut worker = cluster[0].client();
    worker.run("AUTH worker pw").expect_ok();
    let frame = header(9, &cluster[0]);
    worker
        .call(&[b"DISQUE.BUS", &frame[..]])
        .expect_error("NOPERM");
    assert_eq!(node_lines(&mut c).len(), 2);
}

mod beside;

use super::*;
use crate::clock::Now;
use crate::effects::Effects;
use crate::job_id::IdGenerator;
use crate::node::load::Completeness;
use crate::node::Node;
use crate::settings::Settings;
use crate::span::Span;
use proptest::collection::vec;
use proptest::prelude::*;

const NOW: Now = Now {
    mono_ms: 1_000,
    wall_ms: 1_700_000_000_000,
};

/// Bytes that a borrowed record can point into.
#[derive(Clone, Debug)]
struct Bytes {
    queue: Vec<u8>,
    body: Vec<u8>,
}

/// A record of each kind but for what it borrows.
#[derive(Clone, Debug)]
struct Shape {
    kind: u8,
    id: JobId,
    time: u64,
    numbers: [u64; 3],
    spans: [u32; 3],
    small: [u16; 4],
    flag: bool,
    state: u8,
}

const KINDS: u8 = 19;

fn id(seed: u8) -> JobId {
    IdGenerator::new([seed; 4], [seed; 32]).next(Span::from_secs(86_400), true)
}

fn shape() -> impl Strategy<Value = Shape> {
    let numbers = (any::<u64>(), any::<[u64; 3]>(), any::<[u32; 3]>());
    let rest = (any::<[u16; 4]>(), any::<bool>(), 0..5u8);
    (0..KINDS, any::<u8>(), numbers, rest).prop_map(|(kind, seed, numbers, rest)| Shape {
        kind,
        id: id(seed),
        time: numbers.0,
        numbers: numbers.1,
        spans: numbers.2,
        small: rest.0,
        flag: rest.1,
        state: rest.2,
    })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    (vec(any::<u8>(), 0..40), vec(any::<u8>(), 0..300))
        .prop_map(|(queue, body)| Bytes { queue, body })
}

fn record<'a>(shape: &Shape, bytes: &'a Bytes) -> Record<'a> {
    let id = shape.id;
    let queue = bytes.queue.as_slice();
    let holders = Pairs::new(&bytes.body, shape.small[0] % 4);
    match shape.kind {
        0 => Record::Node(Identity {
            id: [shape.flag.into(); 20],
            epoch: shape.numbers[0],
            term: shape.numbers[1],
        }),
        1 => Record::Job(JobImage {
            id,
            queue,
            body: Carried::Within(&bytes.body),
            ctime: shape.numbers[0],
            expire_at: shape.numbers[1],
            requeue_at: shape.numbers[2],
            options: Options {
                replicate: shape.small[0],
                sync: shape.small[1],
                ttl: Span::from_ms(shape.spans[0].into()),
                delay: Span::from_ms(shape.spans[1].into()),
                retry: Span::from_secs(shape.spans[2].into()),
            },
            state: match shape.state {
                0 => State::Delayed,
                1 => State::Active,
                2 => State::Queued,
                3 => State::WaitRepl,
                _ => State::Acked,
            },
            attempt: shape.spans[0] ^ shape.spans[1],
            nacks: shape.small[2],
            additional_deliveries: shape.small[3],
            withheld: shape.flag,
            copies: (shape.small[1] % 2 == 0).then_some(CopiesImage {
                holders,
                turn: shape.spans[1],
                responsible: shape.flag.then_some(Pair {
                    id: [shape.state; 20],
                    epoch: shape.time,
                }),
            }),
        }),
        2 => Record::Delivered {
            id,
            requeue_at: shape.time,
        },
        3 => Record::Returned { id },
        4 => Record::Requeued {
            id,
            nack: shape.flag,
        },
        5 => Record::Postponed {
            id,
            requeue_at: shape.time,
        },
        6 => Record::Removed { id },
        7 => Record::Paused {
            queue,
            pause: shape.state,
        },
        8 => Record::Flushed,
        9 => Record::Withheld { id },
        10 => Record::Known(Listing {
            id: [shape.state; 20],
            epoch: shape.time,
            term: u64::from(shape.small[0]),
            host: "node.example",
            port: shape.small[1],
        }),
        11 => Record::NodeGone {
            id: [shape.state; 20],
        },
        12 => Record::Forgotten {
            id: [shape.state; 20],
            epoch: shape.time,
            until: u64::from(shape.small[0]),
        },
        13 => Record::Holders { id, holders },
        14 => Record::Acked { id },
        15 => Record::DummyAck {
            id,
            until: shape.time,
        },
        16 => Record::DummyGone { id },
        17 => Record::Reset,
        _ => Record::Position {
            batches: shape.time,
        },
    }
}

fn batch(records: &[Record<'_>]) -> Vec<u8> {
    let mut batch = RecordBatch::default();
    records.iter().for_each(|record| batch.push(record));
    batch.bytes().to_vec()
}

/// Bytes behind a header that fits them: what only the decoder can refuse.
fn with_header(records: &[u8]) -> Vec<u8> {
    let mut batch = vec![VERSION];
    batch.extend(crc32fast::hash(records).to_le_bytes());
    batch.extend(records);
    batch
}

fn read<'a>(batch: impl Into<Parts<'a>>) -> Result<Vec<Record<'a>>, Malformed> {
    Records::read(batch)?.collect()
}

/// One record of each kind, with numbers of every encoded length.
fn one_of_each() -> Vec<Record<'static>> {
    vec![
        Record::Node(Identity {
            id: *b"a node of twenty b..",
            epoch: 0x0123_4567_89ab_cdef,
            term: 3,
        }),
        Record::Job(JobImage {
            id: id(1),
            queue: b"mail:out",
            body: Carried::Within(b"\0\r\n\xff body"),
            ctime: 1_700_000_000_000_000_001,
            expire_at: 1_700_086_400_000,
            requeue_at: 0,
            options: Options {
                replicate: 1,
                sync: 300,
                ttl: Span::from_ms(86_400_000),
                delay: Span::ZERO,
                retry: Span::from_secs(3_000_000),
            },
            state: State::Queued,
            attempt: 70_000,
            nacks: 65_535,
            additional_deliveries: 250,
            withheld: false,
            copies: Some(CopiesImage {
                holders: Pairs::new(&[7; 56], 1),
                turn: 70_000,
                responsible: Some(Pair {
                    id: [7; 20],
                    epoch: 300,
                }),
            }),
        }),
        Record::Job(JobImage {
            id: id(2),
            queue: b"",
            body: Carried::Within(b""),
            ctime: 0,
            expire_at: u64::MAX,
            requeue_at: 251,
            options: Options {
                replicate: 65_535,
                sync: 0,
                ttl: Span::from_ms(1),
                delay: Span::from_secs(Span::MAX_SECONDS),
                retry: Span::ZERO,
            },
            state: State::Delayed,
            attempt: 0,
            nacks: 0,
            additional_deliveries: 0,
            withheld: true,
            copies: None,
        }),
        Record::Holders {
            id: id(1),
            holders: Pairs::new(&[7; 28], 1),
        },
        Record::Acked { id: id(1) },
        Record::DummyAck {
            id: id(3),
            until: 1_700_086_400_000,
        },
        Record::DummyGone { id: id(3) },
        Record::Position { batches: 250 },
        Record::Delivered {
            id: id(1),
            requeue_at: 1_700_000_010_000,
        },
        Record::Returned { id: id(1) },
        Record::Requeued {
            id: id(1),
            nack: true,
        },
        Record::Postponed {
            id: id(1),
            requeue_at: 0,
        },
        Record::Removed { id: id(1) },
        Record::Paused {
            queue: b"mail:out",
            pause: 3,
        },
        Record::Flushed,
        Record::Withheld { id: id(2) },
        Record::Known(Listing {
            id: [7; 20],
            epoch: u64::MAX,
            term: 251,
            host: "node.example",
            port: 65_535,
        }),
        Record::NodeGone { id: [7; 20] },
        Record::Forgotten {
            id: [8; 20],
            epoch: 1,
            until: 1_700_000_000_000,
        },
        Record::Reset,
    ]
}

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/records-v1.bin");

/// Version 1 was released: what it wrote is read for ever, and as long as this
/// is the version that is written, it is written in the same way.
#[test]
fn version_1_reads_and_writes_as_released() {
    let fixture = std::fs::read(FIXTURE).expect("the fixture is part of the sources");
    assert_eq!(read(&fixture), Ok(one_of_each()));
    assert_eq!(batch(&one_of_each()), fixture);
}

/// For a new version, under a new name: fixtures are never rewritten.
#[test]
#[ignore = "writes the fixture where there is none"]
fn write_the_fixture() {
    write_new(FIXTURE, &batch(&one_of_each()));
}

fn write_new(path: &str, bytes: &[u8]) {
    let new = std::fs::File::options()
        .write(true)
        .create_new(true)
        .open(path);
    let mut file = new.expect("there is none yet");
    std::io::Write::write_all(&mut file, bytes).unwrap();
}

#[test]
fn an_empty_batch_is_no_bytes_and_no_bytes_are_no_batch() {
    assert!(RecordBatch::default().bytes().is_empty());
    assert!(read(&[][..]).is_err());
    let mut batch = RecordBatch::default();
    batch.push(&Record::Flushed);
    let once = batch.bytes().to_vec();
    batch.clear();
    assert!(batch.is_empty() && batch.bytes().is_empty());
    batch.push(&Record::Flushed);
    assert_eq!(batch.bytes(), once);
}

#[test]
fn other_versions_are_refused() {
    let mut bytes = batch(&one_of_each());
    for version in (0..=255).filter(|version| ![VERSION, VERSION_BESIDE].contains(version)) {
        bytes[0] = version;
        let error = read(&bytes).unwrap_err();
        assert_eq!(
            (error.offset, &*error.reason),
            (0, "unknown format version")
        );
    }
}

#[test]
fn unknown_kinds_are_refused_at_their_place() {
    let known = batch(&[Record::Flushed]);
    for kind in KINDS..=250 {
        let bytes = with_header(&[&known[HEADER..], &[kind]].concat());
        let error = read(&bytes).unwrap_err();
        assert_eq!(error.offset, known.len(), "kind {kind}: {error}");
    }
}

#[test]
fn bytes_after_the_last_record_are_refused() {
    let records = batch(&one_of_each());
    for trailing in [&[0][..], &[0xff], &[1, 2, 3]] {
        let with_checksum = with_header(&[&records[HEADER..], trailing].concat());
        assert!(read(&with_checksum).is_err(), "{trailing:?}");
        let without = [&records, trailing].concat();
        assert_eq!(read(&without).unwrap_err().reason, "wrong checksum");
    }
}

/// With a checksum that fits, what comes before the cut is still read; nothing
/// that was not written is.
#[test]
fn a_batch_cut_anywhere_gives_only_what_was_whole() {
    let whole = batch(&one_of_each());
    for end in 0..whole.len() {
        assert!(Records::read(&whole[..end]).is_err(), "cut at {end}");
        let Some(records) = whole.get(HEADER..end) else {
            continue;
        };
        let cut = with_header(records);
        let read: Vec<_> = Records::read(&cut).unwrap().collect();
        let sound: Vec<_> = read.iter().filter_map(|r| r.as_ref().ok()).collect();
        let expected = one_of_each();
        assert!(sound.len() < expected.len());
        assert!(
            sound.iter().zip(&expected).all(|(a, b)| *a == b),
            "cut at {end}"
        );
        assert!(
            read.len() - sound.len() <= 1,
            "after an error there is nothing"
        );
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let sound = batch(&one_of_each());
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Records::read(&bytes).is_err(), "bit {bit}");
    }
}

/// A length that the bytes do not bear out is refused before anything is taken
/// for it: bodies are borrowed from the batch.
#[test]
fn lengths_are_not_believed() {
    // A pause of a queue whose name claims 4 GiB, then 16 EiB.
    for length in [&[252, 0xff, 0xff, 0xff, 0xff][..], &[253; 9], &[0xff; 9]] {
        let bytes = with_header(&[&[7], length].concat());
        assert!(read(&bytes).is_err(), "{length:?}");
    }
    let bytes = batch(&one_of_each());
    let within = bytes.as_ptr_range();
    for record in read(&bytes).unwrap() {
        if let Record::Job(job) = record {
            let body = job.body.bytes();
            assert!(body.is_empty() || within.contains(&body.as_ptr()));
            assert!(job.queue.is_empty() || within.contains(&job.queue.as_ptr()));
        }
    }
}

/// Applies a batch, whatever it holds, and lets time pass.
fn survives(batches: &[Vec<u8>]) -> Result<(), String> {
    let identity = Identity {
        id: [0; 20],
        epoch: 0,
        term: 0,
    };
    let mut node = Node::new(identity, Settings::default(), [1; 32], NOW);
    let mut fx = Effects::new();
    for batch in batches {
        let _ = node.apply(NOW, batch);
        node.check_invariants(NOW)?;
    }
    node.finish_load(NOW, Completeness::MayLackDeliveries, &mut fx);
    node.check_invariants(NOW)?;
    for later in [0, 1, 1_000, 1 << 40, u64::MAX / 2] {
        let now = Now {
            mono_ms: NOW.mono_ms + later,
            wall_ms: NOW.wall_ms.saturating_add(later),
        };
        for _ in 0..20 {
            node.run_due(now, 100, &mut fx);
            node.check_invariants(now)?;
        }
    }
    node.snapshot(NOW, &mut |batch| Records::read(batch).map(|_| ()))
        .map_err(|malformed| malformed.to_string())
}

proptest! {
    #[test]
    fn records_round_trip(shapes in vec(shape(), 1..20), bytes in bytes()) {
        let records: Vec<_> = shapes.iter().map(|shape| record(shape, &bytes)).collect();
        let batch = batch(&records);
        prop_assert_eq!(read(&batch), Ok(records));
    }

    /// Any records in any order: about few jobs, so that they meet.
    #[test]
    fn no_records_break_a_node(
        shapes in vec((shape(), 0..4u8), 0..60),
        bytes in bytes(),
    ) {
        let records = shapes.iter().map(|(shape, number)| {
            let shape = Shape { id: id(*number), ..shape.clone() };
            batch(&[record(&shape, &bytes)])
        });
        let batches: Vec<_> = records.collect();
        prop_assert_eq!(survives(&batches), Ok(()));
    }

    #[test]
    fn no_bytes_break_a_node(bytes in vec(any::<u8>(), 0..400)) {
        prop_assert_eq!(survives(&[bytes.clone(), with_header(&bytes)]), Ok(()));
    }

    /// Bytes that are nearly records, behind a checksum that fits.
    #[test]
    fn no_damage_breaks_a_node(
        shapes in vec(shape(), 1..10),
        bytes in bytes(),
        damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let records: Vec<_> = shapes.iter().map(|shape| record(shape, &bytes)).collect();
        let mut damaged = batch(&records)[HEADER..].to_vec();
        for (index, byte) in damage {
            let at = index.index(damaged.len());
            damaged[at] = byte;
        }
        prop_assert_eq!(survives(&[with_header(&damaged)]), Ok(()));
    }
}

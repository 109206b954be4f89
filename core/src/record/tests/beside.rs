//! Batches with large bodies beside them.

use super::*;
use crate::body::{Body, LARGE};

/// A large body; each seed makes another one.
fn large(seed: usize) -> Vec<u8> {
    let bytes = (0..LARGE + seed).map(|n| (n * (seed + 1) % 251) as u8);
    bytes.collect()
}

/// Jobs with these bodies, and a record between them and behind.
fn packet(bodies: &[&[u8]]) -> Packet {
    let mut batch = RecordBatch::default();
    for (seed, body) in (1..).zip(bodies) {
        let body = Body::from(*body);
        batch.push(&job(seed, body.carried()));
        batch.push(&Record::Acked { id: id(seed) });
    }
    batch.packet().clone()
}

fn job(seed: u8, body: Carried<'_>) -> Record<'_> {
    Record::Job(JobImage {
        id: id(seed),
        queue: b"q",
        body,
        ctime: 1,
        expire_at: 1_700_086_400_000,
        requeue_at: 0,
        options: Options {
            replicate: 1,
            sync: 1,
            ttl: Span::from_ms(86_400_000),
            delay: Span::ZERO,
            retry: Span::from_ms(300_000),
        },
        state: State::Queued,
        attempt: 0,
        nacks: 0,
        additional_deliveries: 0,
        withheld: false,
        copies: None,
    })
}

/// A body, and its number if it stood beside.
type Found = (Vec<u8>, Option<usize>);

/// What is read of bytes with these bodies beside them.
fn read_with(bytes: &[u8], bodies: &[&[u8]]) -> Result<Vec<Found>, Malformed> {
    let parts = Parts {
        bytes,
        bodies: bodies.iter().copied().collect(),
    };
    let mut found = Vec::new();
    for record in Records::read(parts)? {
        if let Record::Job(image) = record? {
            found.push((image.body.bytes().to_vec(), image.body.number()));
        }
    }
    Ok(found)
}

#[test]
fn large_bodies_stand_beside_and_small_ones_in_their_records() {
    let (first, second) = (large(1), large(2));
    let small = vec![7; LARGE - 1];
    let packet = packet(&[&first, &small, &second]);
    assert_eq!(packet.bytes[0], VERSION_BESIDE);
    assert!(packet.bytes.len() < small.len() + 1_000);
    let beside: Vec<&[u8]> = packet.bodies.iter().map(AsRef::as_ref).collect();
    assert_eq!(beside, [&first[..], &second]);
    let read = read_with(&packet.bytes, &beside);
    let expected = [(first, Some(0)), (small, None), (second, Some(1))];
    assert_eq!(read, Ok(expected.to_vec()));
}

#[test]
fn a_batch_shares_the_body_of_the_job() {
    let body = Body::from(&large(1)[..]);
    let mut batch = RecordBatch::default();
    batch.push_given(&job(1, body.carried()), Some(5));
    batch.push(&job(1, body.carried()));
    let bodies = batch.bodies().map(|(body, number)| (body.as_ptr(), number));
    let expected = [(body.as_ptr(), Some(5)), (body.as_ptr(), None)];
    assert_eq!(bodies.collect::<Vec<_>>(), expected);
    batch.clear();
    assert_eq!(batch.bodies().count(), 0);
    batch.push(&Record::Flushed);
    assert_eq!(batch.bytes()[0], VERSION);
}

/// Each is refused with the place of the record that it is about.
#[test]
fn missing_surplus_and_wrong_bodies_are_refused() {
    let (first, second, other) = (large(1), large(2), large(3));
    let bytes = packet(&[&first, &second]).bytes;
    let one_record = packet(&[&first]).bytes.len();
    let cases: [(&[&[u8]], _, _); 6] = [
        (&[], HEADER, "its body is missing"),
        (&[&first], one_record, "its body is missing"),
        (&[&second, &first], HEADER, "wrong checksum of its body"),
        (&[&first, &other], one_record, "wrong checksum of its body"),
        (
            &[&first, &second[1..]],
            one_record,
            "wrong checksum of its body",
        ),
        (
            &[&first, &second, &other],
            bytes.len(),
            "1 bodies that belong to no record",
        ),
    ];
    for (bodies, offset, reason) in cases {
        let error = read_with(&bytes, bodies).unwrap_err();
        assert_eq!(error.offset, offset, "{error}");
        assert!(error.reason.contains(reason), "{error}");
    }
    let error = read_with(&batch(&one_of_each()), &[&first]).unwrap_err();
    assert!(error.reason.contains("belong to no record"), "{error}");
}

/// A large body within its record is what version 1 had, and what snapshots have.
#[test]
fn large_bodies_within_their_records_are_read() {
    let body = large(1);
    let bytes = batch(&[job(1, Carried::Within(&body))]);
    assert_eq!(bytes[0], VERSION);
    assert_eq!(read_with(&bytes, &[]), Ok(vec![(body, None)]));
}

/// What the fixture holds; its bodies are not in it.
fn fixture_bodies() -> [Vec<u8>; 2] {
    [large(4), large(5)]
}

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/records-v2.bin");

#[test]
fn version_2_reads_and_writes_as_released() {
    let fixture = std::fs::read(FIXTURE).expect("the fixture is part of the sources");
    let [first, second] = fixture_bodies();
    assert_eq!(packet(&[&first, b"small", &second]).bytes, fixture);
    let read = read_with(&fixture, &[&first, &second]);
    let expected = [
        (first, Some(0)),
        (b"small".to_vec(), None),
        (second, Some(1)),
    ];
    assert_eq!(read, Ok(expected.to_vec()));
}

/// For a new version, under a new name: fixtures are never rewritten.
#[test]
#[ignore = "writes the fixture where there is none"]
fn write_the_fixture() {
    let [first, second] = fixture_bodies();
    write_new(FIXTURE, &packet(&[&first, b"small", &second]).bytes);
}

proptest! {
    /// Damage to the bytes or to a body is found.
    #[test]
    fn no_damage_goes_unseen(
        at in any::<proptest::sample::Index>(),
        bit in 0..8_u8,
        in_body in any::<bool>(),
    ) {
        let sound = packet(&[&large(1), b"small"]);
        let (mut bytes, mut body) = (sound.bytes.clone(), large(1));
        let damaged = if in_body { &mut body } else { &mut bytes };
        let at = at.index(damaged.len());
        damaged[at] ^= 1 << bit;
        prop_assert!(read_with(&bytes, &[&body]).is_err());
    }
}

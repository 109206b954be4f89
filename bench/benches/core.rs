//! The core by itself: `cargo bench -p disque-bench`.

use disque_bench::couple::Couple;
use disque_bench::solo::Solo;
use disque_core::message::{encode_message, read_frame, Message};
use divan::counter::ItemsCount;
use divan::Bencher;
use std::hint::black_box;

/// Jobs that are queued before.
const DEPTHS: [usize; 2] = [10_000, 1_000_000];
const MANY: usize = 100;

fn main() {
    divan::main();
}

#[divan::bench(args = DEPTHS)]
fn add_and_take(bencher: Bencher<'_, '_>, depth: usize) {
    let mut solo = Solo::with_jobs(depth);
    bencher.bench_local(|| {
        let id = solo.add();
        let got = solo.get(1);
        solo.ack(&got);
        id
    });
}

#[divan::bench(args = DEPTHS)]
fn take_and_requeue_100(bencher: Bencher<'_, '_>, depth: usize) {
    let mut solo = Solo::with_jobs(depth);
    bencher.counter(ItemsCount::new(MANY)).bench_local(|| {
        let got = solo.get(MANY as u64);
        solo.requeue(&got)
    });
}

#[divan::bench(args = DEPTHS)]
fn add_take_and_ack_100(bencher: Bencher<'_, '_>, depth: usize) {
    let mut solo = Solo::with_jobs(depth);
    bencher.counter(ItemsCount::new(MANY)).bench_local(|| {
        (0..MANY).for_each(|_| _ = black_box(solo.add()));
        let got = solo.get(MANY as u64);
        solo.ack(&got)
    });
}

#[divan::bench(args = DEPTHS)]
fn delays_of_100_end(bencher: Bencher<'_, '_>, depth: usize) {
    let mut solo = Solo::with_jobs(depth);
    bencher.counter(ItemsCount::new(MANY)).bench_local(|| {
        solo.delay(MANY);
        let got = solo.get(MANY as u64);
        solo.ack(&got)
    });
}

#[divan::bench]
fn hundred_jobs_with_two_copies(bencher: Bencher<'_, '_>) {
    let mut couple = Couple::new();
    bencher.counter(ItemsCount::new(MANY)).bench_local(|| {
        let frame = couple.frame(MANY);
        let answer = couple.take(&frame);
        couple.confirm(&answer)
    });
}

#[divan::bench]
fn write_a_message(bencher: Bencher<'_, '_>) {
    let message = Message::Pause {
        queue: b"queue",
        pause: 1,
    };
    bencher.bench(|| encode_message(&message));
}

#[divan::bench]
fn read_a_frame_of_100(bencher: Bencher<'_, '_>) {
    let mut couple = Couple::new();
    let frame = couple.frame(MANY);
    let read = || read_frame(frame.packet()).map(|(_, messages)| messages.count());
    bencher.counter(ItemsCount::new(MANY)).bench(read);
}

//! What a command costs in the core, for callgrind: `make instructions`.
//!
//! Without an argument it lists the kinds of commands, a line each, with how many it
//! does of them. With the name of a kind it does these inside [`counted`], where the
//! script has callgrind look, and all others outside.

use disque_bench::couple::Couple;
use disque_bench::solo::{Solo, BODY};
use std::hint::black_box;

/// Jobs that are there before: the tables have some size.
const BEFORE: usize = 5_000;
const COMMANDS: usize = 1_000;
/// Ids of one command, messages of one frame.
const MANY: usize = 100;
/// Bodies of one ADDJOBS.
const BATCH: usize = 16;

fn main() {
    let mut solo = Solo::with_jobs(BEFORE);
    count("ADDJOB", COMMANDS, || {
        (0..COMMANDS).for_each(|_| _ = black_box(solo.add()));
    });
    let mut got = Vec::with_capacity(COMMANDS);
    count("GETJOB", COMMANDS, || {
        got.extend((0..COMMANDS).map(|_| solo.get(1)));
    });
    count("ACKJOB", COMMANDS, || {
        got.iter().for_each(|id| _ = black_box(solo.ack(id)));
    });
    let mut got = Vec::with_capacity(COMMANDS / MANY);
    count("GETJOB COUNT 100", COMMANDS / MANY, || {
        got.extend((0..COMMANDS / MANY).map(|_| solo.get(MANY as u64)));
    });
    count("NACK of 100", COMMANDS / MANY, || {
        got.iter().for_each(|ids| _ = black_box(solo.requeue(ids)));
    });
    let got: Vec<_> = (0..COMMANDS / MANY)
        .map(|_| solo.get(MANY as u64))
        .collect();
    count("ACKJOB of 100", COMMANDS / MANY, || {
        got.iter().for_each(|ids| _ = black_box(solo.ack(ids)));
    });
    let batch = [&BODY[..]; BATCH];
    count("ADDJOBS of 16", MANY, || {
        (0..MANY).for_each(|_| _ = black_box(solo.add_all(&batch)));
    });

    let mut couple = Couple::new();
    count("ADDJOB REPLICATE 2", MANY, || {
        (0..MANY).for_each(|_| _ = black_box(couple.add()));
    });
    let frames: Vec<_> = (0..COMMANDS / MANY).map(|_| couple.frame(MANY)).collect();
    let mut answers = Vec::with_capacity(frames.len());
    count("frame of 100 REPLJOB", frames.len(), || {
        answers.extend(frames.iter().map(|frame| couple.take(frame)));
    });
    let mut answered = 0;
    count("answer of 100 GOTJOB", frames.len(), || {
        answered = answers.iter().map(|answer| couple.confirm(answer)).sum();
    });
    assert_eq!(answered, COMMANDS, "a producer was not answered");
    count("ADDJOBS of 16, REPLICATE 2", MANY, || {
        (0..MANY).for_each(|_| _ = black_box(couple.add_all(&batch)));
    });
    let frames: Vec<_> = (0..MANY).map(|_| couple.frame_of_batch(&batch)).collect();
    let answers: Vec<_> = frames.iter().map(|frame| couple.take(frame)).collect();
    let mut answered = 0;
    count("answer of 16 GOTJOB of a batch", MANY, || {
        answered = answers.iter().map(|answer| couple.confirm(answer)).sum();
    });
    assert_eq!(answered, MANY, "a producer was not answered");
}

fn count(kind: &str, commands: usize, mut work: impl FnMut()) {
    match std::env::args().nth(1) {
        None => {
            println!("{commands} {kind}");
            work();
        }
        Some(wanted) if wanted == kind => counted(&mut work),
        Some(_) => work(),
    }
}

/// The name by which callgrind finds it.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

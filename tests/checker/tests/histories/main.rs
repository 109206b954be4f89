//! Histories made by hand: each promise broken once, and beside it a twin in
//! which the same is no fault of the nodes.

mod again;
mod lost;
mod phantom;
mod story;
mod stuck;
mod times;

use disque_checker::{Class, FaultKind, Left, Limits, Lost, Op};
use story::Story;

/// Long enough for anything to settle.
const LATER: u64 = 60_000;

#[test]
fn a_healthy_run_breaks_nothing() {
    let mut story = Story::new();
    let waiting = story.at(0).get("b");
    let job = story.at(100).add("a");
    story.at(110).receive(waiting, "b", &job);
    story.at(200).ok(Op::Ack, "c", &job);
    let report = story.at(LATER).drained().sound();
    assert_eq!(report.summary.added, 1);
    assert_eq!(report.summary.delivered, 1);
    assert_eq!(report.summary.settled, 1);
    assert_eq!(report.summary.longest_wait, 9);
    assert!(report.summary.drained);
}

#[test]
fn nothing_is_left_above_the_base_line() {
    let nothing = Left::default();
    let some = [
        Left { jobs: 1, ..nothing },
        Left { acks: 1, ..nothing },
        Left {
            waiters: 1,
            ..nothing
        },
        Left {
            blocked: 1,
            ..nothing
        },
        Left {
            memory: 1 << 30,
            ..nothing
        },
    ];
    for left in some {
        let mut story = Story::new();
        story.left("a", nothing).at(LATER).left("a", left);
        story.broken(Class::Leak);

        let mut story = Story::new();
        story.left("a", left).at(LATER).left("a", left).sound();
    }
}

#[test]
fn faults_are_counted_by_kind() {
    let mut story = Story::new();
    story.at(0).cut("a", "b").at(5).end();
    story.at(6).cut("b", "a").at(7).end();
    story.at(8).kill("a", Lost::Nothing).at(9).end();
    let report = story.sound();
    assert_eq!(report.summary.faults[&FaultKind::Cut], 2);
    assert_eq!(report.summary.faults[&FaultKind::Kill], 1);
}

#[test]
fn a_history_that_contradicts_itself_is_refused() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.end_of_nothing(&job);
    story.broken(Class::Unreadable);
}

#[test]
fn a_history_survives_being_written_and_read() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).kill("a", Lost::Since(5)).at(20).end();
    story.at(30).deliver("a", &job);
    story.at(LATER).drained();
    let lines: String = story.events.iter().map(|e| e.to_line() + "\n").collect();
    let read = disque_checker::event::read(lines.as_bytes()).unwrap();
    assert_eq!(read, story.events);
    let (one, other) = (
        story.report(),
        disque_checker::check(&read, &Limits::default()),
    );
    assert_eq!(one.violations, other.violations);
    assert_eq!(one.summary, other.summary);
}

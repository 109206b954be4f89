//! What comes and should not.

use crate::story::Story;
use crate::LATER;
use disque_checker::{Class, Lost, Phase};

#[test]
fn what_was_never_added_does_not_come() {
    let mut story = Story::new();
    let job = story.stranger();
    story.at(10).deliver("a", &job).broken(Class::Phantom);
}

#[test]
fn a_body_comes_as_it_was_added() {
    let mut story = Story::new();
    let mut job = story.at(0).add("a");
    job.body = job.body.replace("R1", "R2");
    story.at(10).deliver("a", &job).broken(Class::Phantom);
}

#[test]
fn a_job_comes_from_its_queue_under_its_id() {
    let mut story = Story::new();
    let mut job = story.at(0).add("a");
    job.queue = "other".into();
    story.at(10).deliver("a", &job).broken(Class::Phantom);

    let mut story = Story::new();
    let mut job = story.at(0).add("a");
    job.id = "D-other".into();
    story.at(10).deliver("a", &job).broken(Class::Phantom);
}

#[test]
fn what_was_refused_does_not_come() {
    for error in ["NOREPL", "MAXLEN", "PAUSED", "OOM"] {
        let mut story = Story::new();
        let job = story.at(0).add_ending("a", Phase::Fail, error);
        story.at(10).deliver("a", &job).broken(Class::Phantom);
    }
}

#[test]
fn what_was_given_up_or_never_answered_may_come() {
    for error in ["NOREPL", "the connection is gone"] {
        let mut story = Story::new();
        let job = story.at(0).add_ending("a", Phase::Info, error);
        let report = story.at(10).deliver("b", &job).at(LATER).drained().sound();
        assert_eq!(report.summary.unknown, 1);
    }
}

#[test]
fn what_was_given_up_does_not_come_for_ever() {
    let mut story = Story::new();
    let job = story.at(0).add_ending("a", Phase::Info, "NOREPL");
    story
        .at(LATER)
        .deliver("b", &job)
        .broken(Class::Resurrected);
}

#[test]
fn a_refusal_may_be_lost_with_the_end_of_the_data() {
    for (node, since, may_come) in [("a", 0, true), ("a", 500, false), ("b", 0, false)] {
        let mut story = Story::new();
        let job = story
            .at(10)
            .add_ending("a", Phase::Fail, "OOM Memory is full");
        story.at(900).kill(node, Lost::Since(since)).at(1_000).end();
        story.at(2_000).deliver("a", &job);
        story.broken_if(!may_come, Class::Phantom);
    }
}

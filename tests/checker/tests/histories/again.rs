//! What comes again.

use crate::story::{Story, RETRY};
use crate::LATER;
use disque_checker::{Cause, Class, Lost, Op, Phase};

#[test]
fn a_job_settled_in_time_comes_once() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.at(20).ok(Op::Ack, "a", &job);
    story.at(RETRY + 20).deliver("a", &job);
    story.broken(Class::Duplicated);
}

#[test]
fn a_job_comes_again_when_retry_is_over_and_not_before() {
    for (at, is_due) in [(RETRY + 20, true), (RETRY / 2, false)] {
        let mut story = Story::new();
        let job = story.at(0).add("a");
        story.at(10).deliver("a", &job);
        story.at(at).deliver("a", &job);
        match is_due {
            true => assert_eq!(story.sound().summary.again[&Cause::Retry], 1),
            false => drop(story.broken(Class::Duplicated)),
        }
    }
}

#[test]
fn an_ack_that_was_not_taken_settles_nothing() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.at(20).command(Op::Ack, Phase::Fail, "b", &job);
    story.at(RETRY + 20).deliver("a", &job);
    assert_eq!(story.sound().summary.again[&Cause::Retry], 1);
}

#[test]
fn an_ack_may_cross_a_delivery() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(0).deliver("a", &job);
    story.at(RETRY).ok(Op::Ack, "b", &job);
    story.at(RETRY + 100).deliver("a", &job);
    assert_eq!(story.sound().summary.again[&Cause::Retry], 1);
}

#[test]
fn working_puts_retry_off() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(0).deliver("a", &job);
    story.at(RETRY / 2).ok(Op::Working, "a", &job);
    story.at(RETRY + 100).deliver("a", &job);
    story.broken(Class::Duplicated);
}

#[test]
fn working_may_cross_a_delivery() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(0).deliver("a", &job);
    story.at(RETRY).ok(Op::Working, "b", &job);
    story.at(RETRY + 5).deliver("a", &job);
    assert_eq!(story.sound().summary.again[&Cause::Retry], 1);
}

#[test]
fn a_nack_explains_one_delivery() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.at(20).ok(Op::Nack, "a", &job);
    story.at(30).deliver("a", &job);
    assert_eq!(story.sound().summary.again[&Cause::Nack], 1);
    story.at(100).deliver("a", &job);
    story.broken(Class::Duplicated);
}

#[test]
fn a_nack_may_cross_a_delivery() {
    for (nack_at, crosses) in [(RETRY + 10 - 100, true), (RETRY + 10 - 800, false)] {
        let mut story = Story::new();
        let job = story.at(0).add("a");
        story.at(10).deliver("a", &job);
        story.at(nack_at).ok(Op::Nack, "b", &job);
        // The node that falls due has not heard of it.
        story.at(RETRY + 10).deliver("a", &job);
        story.at(RETRY + 300).deliver("b", &job);
        story.broken_if(!crosses, Class::Duplicated);
    }
}

#[test]
fn retry_runs_at_a_node_that_has_not_heard_of_another_delivery() {
    let again = |last: u64| {
        let mut story = Story::new();
        story.want.retry = 200;
        let job = story.at(0).add("a");
        story.at(10).deliver("a", &job);
        story.at(100).ok(Op::Nack, "b", &job);
        story.at(100).deliver("b", &job);
        story.at(220).deliver("a", &job);
        // Each delivery explains one: that of the other node when its own RETRY is over.
        story.at(last).deliver("b", &job);
        story
    };
    again(310).sound();
    again(240).broken(Class::Duplicated);
}

#[test]
fn a_nack_that_counted_nothing_explains_nothing() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.at(20).counted(Op::Nack, 0, "a", &job);
    story.at(30).deliver("a", &job);
    story.broken(Class::Duplicated);
}

#[test]
fn enqueue_explains_a_delivery() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.at(20).ok(Op::Enqueue, "a", &job);
    story.at(30).deliver("a", &job);
    assert_eq!(story.sound().summary.again[&Cause::Command], 1);
}

#[test]
fn a_fault_explains_a_delivery_while_it_is_near() {
    for (at, is_near) in [(5_000, true), (25_000, false)] {
        let mut story = Story::new();
        story.want.retry = 100_000;
        let job = story.at(0).add("a");
        story.at(10).cut("b", "a").at(2_000).end();
        story.at(at).deliver("a", &job);
        story.at(at + 10).deliver("b", &job);
        match is_near {
            true => assert_eq!(story.sound().summary.again[&Cause::Fault], 1),
            false => drop(story.broken(Class::Duplicated)),
        }
    }
}

#[test]
fn a_clock_that_is_set_explains_no_delivery() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.at(20).set_clock("a", 3_600_000);
    story.at(30).deliver("a", &job);
    story.broken(Class::Duplicated);
}

#[test]
fn fastack_holds_unless_something_went_wrong() {
    for is_wrong in [true, false] {
        let mut story = Story::new();
        let job = story.at(0).add("a");
        if is_wrong {
            story.at(5).cut("a", "b").at(1_000).end();
        }
        story.at(2_000).deliver("a", &job);
        story.at(2_010).ok(Op::FastAck, "a", &job);
        story.at(LATER).deliver("b", &job);
        match is_wrong {
            true => assert_eq!(story.sound().summary.again[&Cause::FastAck], 1),
            false => drop(story.broken(Class::Duplicated)),
        }
    }
}

#[test]
fn at_most_once_is_never_twice_whatever_goes_wrong() {
    let mut story = Story::new();
    story.want.retry = 0;
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    let report = story.sound();
    assert_eq!(report.summary.at_most_once, 1);
    story.at(20).ok(Op::Nack, "a", &job);
    story.at(30).kill("a", Lost::All);
    story.at(40).deliver("b", &job).broken(Class::MoreThanOnce);
}

#[test]
fn an_acknowledged_job_does_not_come_back_once_all_is_well() {
    for (at, class) in [(5_000, None), (LATER, Some(Class::Resurrected))] {
        let mut story = Story::new();
        let job = story.at(0).add("a");
        story.at(5).cut("a", "b");
        story.at(10).deliver("a", &job);
        story.at(20).ok(Op::Ack, "a", &job);
        story.at(3_000).end();
        story.at(at).deliver("b", &job);
        match class {
            Some(class) => drop(story.broken(class)),
            None => assert_eq!(story.sound().summary.again[&Cause::Fault], 1),
        }
    }
}

#[test]
fn an_ack_is_lost_with_the_one_node_that_knew() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.at(15).cut("a", "b");
    story.at(20).ok(Op::Ack, "a", &job);
    story.at(30).kill("a", Lost::All);
    story.at(1_000).heal();
    story.at(LATER).deliver("b", &job);
    assert_eq!(story.sound().summary.again[&Cause::Loss], 1);
}

#[test]
fn a_node_lost_long_after_all_knew_explains_nothing() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.at(20).ok(Op::Ack, "a", &job);
    story.at(30_000).kill("a", Lost::All).at(30_500).end();
    story
        .at(LATER)
        .deliver("b", &job)
        .broken(Class::Resurrected);
}

#[test]
fn a_holder_with_older_data_than_the_ack_may_bring_it_back() {
    for (since, is_older) in [(10, true), (20_000, false)] {
        let mut story = Story::new();
        let job = story.at(0).add("a");
        story.at(10).deliver("a", &job);
        story.at(20).ok(Op::Ack, "a", &job);
        story.at(30_000).kill("b", Lost::Since(since));
        story.at(30_500).end();
        story.at(LATER).deliver("b", &job);
        match is_older {
            true => assert_eq!(story.sound().summary.again[&Cause::Loss], 1),
            false => drop(story.broken(Class::Resurrected)),
        }
    }
}

#[test]
fn an_ack_is_lost_with_a_superseded_node_that_took_it_alone() {
    // Before the replica was left behind, while the old one served, and after that.
    for (acked, is_lost) in [(20, false), (30_400, true), (31_000, false)] {
        let mut story = Story::new();
        let job = story.at(0).add("a");
        story.at(10).deliver("a", &job);
        story.at(acked).ok(Op::Ack, "a", &job);
        story.at(30_000).supersede("a", 29_900).at(30_500).end();
        story.at(LATER).deliver("a", &job);
        match is_lost {
            true => assert_eq!(story.sound().summary.again[&Cause::Loss], 1),
            false => drop(story.broken(Class::Resurrected)),
        }
    }
}

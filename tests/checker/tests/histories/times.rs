//! DELAY and TTL.

use crate::story::{Story, TTL};
use disque_checker::{Class, Lost};

#[test]
fn a_delay_is_kept() {
    for (at, is_early) in [(2_000, true), (3_000, false)] {
        let mut story = Story::new();
        story.want.delay = 3_000;
        let job = story.at(0).add("a");
        story.at(at).deliver("a", &job);
        story.broken_if(is_early, Class::Early);
    }
}

#[test]
fn the_delay_of_a_nack_is_kept_where_it_was_heard_of() {
    for is_wrong in [true, false] {
        let mut story = Story::new();
        let job = story.at(0).add("a");
        story.at(10).deliver("a", &job);
        if is_wrong {
            story.at(15).cut("a", "b");
        }
        story.at(20).nack("a", 5_000, &job);
        story.at(3_000).deliver("b", &job);
        match is_wrong {
            true => assert_eq!(story.sound().summary.early_after_nack, 1),
            false => drop(story.broken(Class::Early)),
        }
    }
}

#[test]
fn nothing_comes_after_its_ttl() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(TTL + 1_000).deliver("a", &job);
    story.broken(Class::Expired);
}

#[test]
fn a_node_that_stood_still_may_give_what_is_over() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(TTL - 10).pause("a").at(TTL + 990).end();
    let report = story.at(TTL + 1_000).deliver("a", &job).sound();
    assert_eq!(report.summary.late_after_fault, 1);
}

#[test]
fn a_restart_under_a_clock_that_was_set_back_may_take_longer() {
    for (jump, is_stuck) in [(-20_000, false), (20_000, true)] {
        let mut story = Story::new();
        story.want.delay = 1_000;
        let job = story.at(0).add("a");
        story.at(10).set_clock("a", jump);
        story.at(20).kill("a", Lost::Nothing).at(30).end();
        story.get("a");
        story.at(20_000).deliver("a", &job);
        story.broken_if(is_stuck, Class::Stuck);
    }
}

#[test]
fn a_restart_under_a_clock_that_was_set_may_keep_a_job_longer() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).set_clock("a", -3_600_000);
    story.at(20).kill("a", Lost::Nothing).at(30).end();
    story.at(TTL + 1_000).deliver("a", &job).sound();
}

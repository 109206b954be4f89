//! Jobs that do not come.

use crate::story::{Story, TTL};
use crate::LATER;
use disque_checker::{Class, Excuse, Lost, Op, Phase};

#[test]
fn a_job_that_never_comes_is_lost() {
    let mut story = Story::new();
    story.at(0).add("a");
    story.at(LATER).drained().broken(Class::Lost);
}

#[test]
fn nothing_is_said_of_missing_jobs_before_all_is_consumed() {
    let mut story = Story::new();
    story.at(0).add("a");
    assert!(!story.sound().summary.drained);
}

#[test]
fn a_job_may_end_with_its_ttl() {
    let mut story = Story::new();
    story.at(0).add("a");
    let report = story.at(TTL + 100).drained().sound();
    assert_eq!(report.summary.missing[&Excuse::Expired], 1);
}

#[test]
fn a_job_that_is_not_settled_comes_again() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.at(LATER).drained().broken(Class::Lost);
}

#[test]
fn an_ack_without_an_answer_may_have_settled_it() {
    let mut story = Story::new();
    let job = story.at(0).add("a");
    story.at(10).deliver("a", &job);
    story.command(Op::Ack, Phase::Info, "a", &job);
    story.at(LATER).drained().sound();
}

#[test]
fn fewer_holders_than_copies_excuse_no_loss() {
    for lost in [1, 2] {
        let mut story = Story::new();
        story.want.replicate = 3;
        story.want.sync = 3;
        story.at(0).add("a");
        for (node, at) in ["a", "b"].iter().take(lost).zip([1_000, 2_000]) {
            story.at(at).kill(node, Lost::All).at(at + 500).end();
        }
        story.at(LATER).drained().broken(Class::Lost);
    }
}

#[test]
fn as_many_holders_as_copies_excuse_a_loss() {
    let mut story = Story::new();
    story.want.replicate = 2;
    story.want.sync = 2;
    story.at(0).add("a");
    story.at(1_000).kill("a", Lost::All).at(1_500).end();
    story.at(2_000).kill("b", Lost::All).at(2_500).end();
    let report = story.at(LATER).drained().sound();
    assert_eq!(report.summary.missing[&Excuse::HoldersLost], 1);
}

#[test]
fn holders_that_are_lost_one_by_one_are_made_up_for() {
    let mut story = Story::new();
    story.want.replicate = 2;
    story.want.sync = 2;
    story.at(0).add("a");
    story.at(1_000).kill("a", Lost::All).at(1_500).end();
    story.at(20_000).kill("b", Lost::All).at(20_500).end();
    story.at(LATER).drained().broken(Class::Lost);
}

#[test]
fn there_is_no_copy_at_a_node_that_leaves() {
    for (leaves, is_lost) in [(true, false), (false, true)] {
        let mut story = Story::new();
        story.want.replicate = 3;
        story.want.sync = 3;
        story.at(0).add("a");
        if leaves {
            story.at(1_000).leave("c");
        }
        story.at(20_000).kill("a", Lost::All).at(20_500).end();
        story.at(21_000).kill("b", Lost::All).at(21_500).end();
        story.at(LATER).drained();
        story.broken_if(is_lost, Class::Lost);
    }
}

#[test]
fn sync_counts_at_once_and_replicate_later() {
    for (at, is_lost) in [(1_000, false), (20_000, true)] {
        let mut story = Story::new();
        story.want.replicate = 2;
        story.want.sync = 0;
        story.at(0).add("a");
        story.at(at).kill("a", Lost::All).at(at + 500).end();
        story.at(LATER).drained();
        story.broken_if(is_lost, Class::Lost);
    }
}

#[test]
fn what_was_written_before_the_tail_is_not_lost_with_it() {
    for (since, is_lost) in [(5_000, true), (0, false)] {
        let mut story = Story::new();
        story.at(0).add("a");
        story
            .at(6_000)
            .kill("a", Lost::Since(since))
            .at(6_500)
            .end();
        story.at(LATER).drained();
        story.broken_if(is_lost, Class::Lost);
    }
}

#[test]
fn a_superseded_node_takes_what_it_had_alone_and_nothing_else() {
    // When it was added, with how many copies; the replica received nothing after 900.
    for (added, copies, is_lost) in [
        (0, 1, true),
        (950, 1, false),
        (1_400, 1, false),
        (1_400, 2, true),
        (1_600, 1, true),
    ] {
        let mut story = Story::new();
        (story.want.replicate, story.want.sync) = (copies, copies);
        story.at(1_000).supersede("a", 900).at(1_500).end();
        story.at(added).add("a");
        story.at(LATER).drained();
        story.broken_if(is_lost, Class::Lost);
    }
}

#[test]
fn a_calm_before_a_job_was_added_makes_up_for_nothing() {
    let mut story = Story::new();
    (story.want.replicate, story.want.sync) = (3, 2);
    story.at(2_000).leave("b").at(60_000).end();
    story.at(50_000).add("b");
    story
        .at(51_000)
        .kill("a", Lost::Since(49_000))
        .at(51_500)
        .end();
    let report = story.at(LATER).drained().sound();
    assert_eq!(report.summary.missing[&Excuse::HoldersLost], 1);
}

#[test]
fn a_kill_that_costs_nothing_excuses_nothing() {
    let mut story = Story::new();
    story.at(0).add("a");
    story.at(1_000).kill("a", Lost::Nothing).at(1_500).end();
    story.at(LATER).drained().broken(Class::Lost);
}

#[test]
fn at_most_once_is_delivered_in_health() {
    let mut story = Story::new();
    story.want.retry = 0;
    story.at(0).add("a");
    story.at(LATER).drained().broken(Class::Lost);
}

#[test]
fn at_most_once_may_be_lost_with_a_link_or_a_client() {
    let mut story = Story::new();
    story.want.retry = 0;
    story.at(0).add("a");
    story.at(10).cut("a", "b").at(1_000).end();
    let report = story.at(LATER).drained().sound();
    assert_eq!(report.summary.missing[&Excuse::AtMostOnce], 1);

    let mut story = Story::new();
    story.want.retry = 0;
    story.at(0).add("a");
    let call = story.at(10).get("a");
    story.at(11).end_get(call, Phase::Info, "a");
    story.at(LATER).drained().sound();
}

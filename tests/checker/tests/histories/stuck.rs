//! Clients that wait beside a job.

use crate::story::{Story, RETRY};
use crate::LATER;
use disque_checker::{Class, Lost, Served};

#[test]
fn nobody_waits_beside_a_job() {
    let mut story = Story::new();
    story.at(0).get("b");
    let job = story.at(10).add("a");
    story.at(3_000).deliver("a", &job).broken(Class::Stuck);
}

#[test]
fn a_job_that_was_lost_on_its_way_to_a_client_comes_after_its_retry() {
    for (attempt, since, is_stuck) in [(2, 500, false), (1, 500, true), (2, 3_000, true)] {
        let mut story = Story::new();
        story.at(0).get("b");
        let job = story.at(10).add("a");
        story.at(10 + since + RETRY).deliver("a", &job);
        story.last().attempt = Some(attempt);
        story.broken_if(is_stuck, Class::Stuck);
    }
}

#[test]
fn a_job_that_is_delayed_is_waited_for() {
    let mut story = Story::new();
    story.want.delay = 3_000;
    story.at(0).get("b");
    let job = story.at(10).add("a");
    story.at(3_020).deliver("a", &job).sound();
}

#[test]
fn waiting_counts_where_the_job_is_queued_if_nothing_is_promised_elsewhere() {
    for (node, is_stuck) in [("b", false), ("a", true)] {
        let mut story = Story::new();
        story.limits.served = Served::WhereQueued(vec!["a".into(), "b".into()]);
        story.at(0).get(node);
        let job = story.at(10).add("a");
        story.at(3_000).deliver("a", &job);
        story.broken_if(is_stuck, Class::Stuck);
    }
}

#[test]
fn after_a_fault_clients_at_all_nodes_find_it() {
    for (nodes, is_stuck) in [(vec!["b"], false), (vec!["a", "b"], true)] {
        let mut story = Story::new();
        story.limits.served = Served::WhereQueued(vec!["a".into(), "b".into()]);
        let job = story.at(0).add("a");
        story.at(10).kill("a", Lost::Nothing).at(500).end();
        for node in nodes {
            story.at(600).get(node);
        }
        story.at(20_000).deliver("a", &job);
        story.broken_if(is_stuck, Class::Stuck);
    }
}

#[test]
fn a_fault_gives_time_for_a_while() {
    for (at, is_stuck) in [(4_000, false), (20_000, true)] {
        let mut story = Story::new();
        story.at(0).get("b");
        story.at(0).cut("a", "b");
        let job = story.at(10).add("a");
        story.at(1_000).end();
        story.at(at).deliver("b", &job);
        story.broken_if(is_stuck, Class::Stuck);
    }
}

#[test]
fn nobody_waits_beside_a_job_that_is_gone() {
    for (lost, is_stuck) in [(Lost::Nothing, true), (Lost::All, false)] {
        let mut story = Story::new();
        story.want.ttl = 40_000;
        story.at(0).get("a");
        story.at(10).cut("a", "b");
        story.add("a");
        story.at(20).kill("a", lost);
        story.at(30).heal();
        story.at(40).get("a");
        story.at(LATER).drained();
        story.broken_if(is_stuck, Class::Stuck);
    }
}

#[test]
fn a_job_that_is_due_again_is_not_waited_for_long() {
    for (late, is_stuck) in [(600, false), (5_000, true)] {
        let mut story = Story::new();
        let job = story.at(0).add("a");
        story.at(10).deliver("a", &job);
        story.at(20).get("b");
        story.at(10 + RETRY + late).deliver("b", &job);
        story.broken_if(is_stuck, Class::Stuck);
    }
}

//! Jobs that go to where clients wait.

use super::net::Net;
use super::*;

fn add_many(net: &mut Net, at: usize, count: usize) {
    for _ in 0..count {
        net.on(at, |node, now, fx| node.add_job(now, &job(), false, fx))
            .expect("it is added");
    }
}

fn wait(net: &mut Net, at: usize, clients: usize) {
    for _ in 0..clients {
        net.on(at, |node, now, _| node.block(now, &get_from(&["q"], 1)))
            .expect("it waits");
    }
}

fn served(net: &Net, at: usize) -> usize {
    let answers = net.servers[at].answers.iter();
    let jobs = answers.filter(|(_, answer)| matches!(answer, Answer::Jobs(_)));
    jobs.count()
}

/// Longer than messages take, far shorter than requests are repeated.
const SOON_MS: u64 = 200;

#[test]
fn all_jobs_go_to_the_clients_that_wait_before_these_ask_again() {
    let mut net = Net::new(2);
    add_many(&mut net, 0, 9);
    wait(&mut net, 1, 10);
    // Half of what there is at a time, and more when these have arrived.
    net.pass(SOON_MS);
    assert_eq!(served(&net, 1), 9);
}

#[test]
fn clients_for_whom_jobs_here_were_too_few_are_asked_for() {
    let mut net = Net::new(2);
    add_many(&mut net, 0, 2);
    wait(&mut net, 1, 5);
    add_many(&mut net, 1, 3);
    // It comes to ask while there are jobs left for others.
    net.on(1, |node, now, fx| node.run_due(now, 1, fx));
    assert_eq!(served(&net, 1), 1);
    net.pass(SOON_MS);
    assert_eq!(served(&net, 1), 5);
}

#[test]
fn a_queue_is_kept_while_others_ask_for_its_jobs() {
    let mut net = Net::new(2);
    let settings = Settings {
        queue_idle_ms: 4_500,
        ..net.servers[0].kit.node.settings().clone()
    };
    net.on(0, |node, _, _| node.set_settings(settings));
    let waiter = net.on(1, |node, now, _| node.block(now, &get_from(&["q"], 1)));
    let waiter = waiter.expect("it waits");
    net.pass(SOON_MS);
    let is_known = |net: &Net| {
        let kit = &net.servers[0].kit;
        kit.node.queue_stat(kit.now, b"q").is_some()
    };
    // Nothing uses it here, for longer than an idle queue is kept.
    for step in 0..70 {
        assert!(is_known(&net), "after {step} tenths of a second");
        net.pass(100);
    }
    net.on(1, |node, now, fx| node.forget_waiter(waiter, now, fx));
    net.pass(5_000);
    assert!(!is_known(&net));
}

#[test]
fn a_queue_that_gives_out_again_is_asked_for() {
    let mut net = Net::new(2);
    let pause = |net: &mut Net, output| {
        let pause = Pause {
            output,
            ..Pause::default()
        };
        net.on(1, |node, now, fx| node.pause(now, b"q", pause, fx))
            .expect("it is paused");
    };
    pause(&mut net, true);
    wait(&mut net, 1, 1);
    add_many(&mut net, 0, 1);
    net.pass(2_000);
    assert_eq!(served(&net, 1), 0);
    pause(&mut net, false);
    net.pass(SOON_MS);
    assert_eq!(served(&net, 1), 1);
}

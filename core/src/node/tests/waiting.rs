//! Clients that wait.

use super::*;

#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    let mut kit = Kit::new();
    let waiters: Vec<_> = (0..3)
        .map(|_| kit.block(&get_from(&["q"], 1)).unwrap())
        .collect();
    for waiter in waiters {
        let id = kit.add(&job());
        assert_eq!(kit.answers(), [(waiter, vec![id])]);
    }
    assert_eq!(kit.node.totals().blocked_clients, 0);
}

#[test]
fn a_client_that_waits_on_several_queues_is_answered_once() {
    let mut kit = Kit::new();
    let waiter = kit.block(&get_from(&["a", "b"], 1)).unwrap();
    let id = kit.add_to("b");
    assert_eq!(kit.answers(), [(waiter, vec![id])]);
    for queue in ["a", "b"] {
        kit.add_to(queue);
        assert!(kit.answers().is_empty(), "{queue}");
    }
}

#[test]
fn a_blocked_client_gets_up_to_count_jobs() {
    let mut kit = Kit::new();
    let waiter = kit.block(&get_from(&["a", "b"], 3)).unwrap();
    let added = kit.call(|node, now, fx| {
        ["a", "a", "b", "b"].map(|queue| {
            let add = AddJob {
                queue: queue.as_bytes(),
                ..job()
            };
            done(node.add_job(now, &add, true, fx))
        })
    });
    kit.serve();
    assert_eq!(
        kit.answers(),
        [(waiter, vec![added[0], added[2], added[1]])]
    );
}

#[test]
fn nobody_overtakes_on_a_second_queue() {
    let mut kit = Kit::new();
    let first = kit.block(&get_from(&["b"], 1)).unwrap();
    let second = kit.block(&get_from(&["a", "b"], 2)).unwrap();
    let [in_a, in_b] = kit.call(|node, now, fx| {
        ["a", "b"].map(|queue| {
            let add = AddJob {
                queue: queue.as_bytes(),
                ..job()
            };
            done(node.add_job(now, &add, true, fx))
        })
    });
    kit.serve();
    let mut answers = kit.answers();
    answers.sort();
    assert_eq!(answers, [(first, vec![in_b]), (second, vec![in_a])]);
}

#[test]
fn a_wait_ends_with_null_at_its_time() {
    let mut kit = Kit::new();
    let timed = GetJob {
        timeout_ms: Some(500),
        ..get_from(&["q"], 1)
    };
    let waiter = kit.block(&timed).unwrap();
    let patient = kit.block(&get_from(&["q"], 1)).unwrap();
    kit.pass(499);
    assert!(kit.answers().is_empty());
    kit.pass(1);
    assert_eq!(kit.fx.answers, [(waiter, Answer::Null)]);
    let id = kit.add(&job());
    assert_eq!(kit.answers(), [(patient, vec![id])]);
}

#[test]
fn a_client_that_is_gone_takes_nothing() {
    let mut kit = Kit::new();
    let gone = kit.block(&get_from(&["q", "other"], 1)).unwrap();
    kit.call(|node, now, fx| node.forget_waiter(gone, now, fx));
    // A second time it is nobody's business.
    kit.call(|node, now, fx| node.forget_waiter(gone, now, fx));
    let id = kit.add(&job());
    assert!(kit.answers().is_empty());
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn serving_goes_on_where_it_stopped() {
    let mut kit = Kit::new();
    for _ in 0..10 {
        kit.block(&get_from(&["q"], 1)).unwrap();
    }
    let add = |node: &mut Node, now, fx: &mut Effects| node.add_job(now, &job(), true, fx).unwrap();
    for _ in 0..10 {
        kit.call(|node, now, fx| add(node, now, fx));
    }
    kit.call(|node, now, fx| node.serve(now, 4, fx));
    assert_eq!(kit.answers().len(), 4);
    assert_eq!(kit.node.next_wake(), Some(0));
    kit.run();
    assert_eq!(kit.node.totals().blocked_clients, 0);
}

#[test]
fn a_retry_wakes_a_waiting_client() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.take();
    let waiter = kit.block(&get_from(&["q"], 1)).unwrap();
    kit.pass(10_500);
    assert_eq!(kit.answers(), [(waiter, vec![id])]);
}

#[test]
fn a_leaving_node_sends_clients_away_and_gives_what_it_has() {
    let mut kit = Kit::new();
    let waiter = kit.block(&get_from(&["empty"], 1)).unwrap();
    let id = kit.add(&job());
    kit.call(|node, now, fx| node.set_leaving(true, now, fx));
    let error = Answer::Error(Error::Leaving);
    assert_eq!(kit.fx.answers, [(waiter, error)]);
    assert_eq!(kit.take(), Some(id));
    let before = dump_all(&kit.node, kit.now);
    assert_eq!(kit.block(&get_from(&["q"], 1)), Err(Error::Leaving));
    assert_eq!(dump_all(&kit.node, kit.now), before);
}

#[test]
fn the_most_blocked_clients_is_exact() {
    let mut kit = Kit::with(Settings {
        max_blocked_clients: 2,
        ..Settings::default()
    });
    let get = get_from(&["q"], 1);
    let first = kit.block(&get).unwrap();
    kit.block(&get).unwrap();
    let before = dump_all(&kit.node, kit.now);
    let more = get_from(&["new"], 1);
    assert_eq!(kit.block(&more), Err(Error::TooManyBlocked));
    assert_eq!(dump_all(&kit.node, kit.now), before);
    kit.call(|node, now, fx| node.forget_waiter(first, now, fx));
    kit.block(&get).unwrap();
}

#[test]
fn waiter_ids_are_never_used_twice() {
    let mut kit = Kit::new();
    let mut seen = Vec::new();
    for _ in 0..50 {
        let waiter = kit.block(&get_from(&["q"], 1)).unwrap();
        assert!(seen.last() < Some(&waiter), "they rise");
        kit.call(|node, now, fx| node.forget_waiter(waiter, now, fx));
        seen.push(waiter);
    }
}

//! NACK, ENQUEUE, DEQUEUE, WORKING, ACKJOB: what they do and what they count.

use super::*;

fn at_most_once() -> AddJob<'static> {
    AddJob {
        retry: Some(Span::ZERO),
        ..job()
    }
}

#[test]
fn nack_and_enqueue_count_apart_and_only_what_they_moved() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    assert_eq!((kit.nack(id), kit.enqueue(id)), (0, 0), "it is queued");
    kit.take();
    assert_eq!(kit.nack(id), 1);
    assert_eq!(kit.nack(id), 0);
    kit.take();
    assert_eq!(kit.enqueue(id), 1);
    assert_eq!(kit.counters(id), (1, 1));
    assert_eq!((kit.nack(unknown_id()), kit.enqueue(unknown_id())), (0, 0));
    let stats = kit.node.totals().stats;
    assert_eq!((stats.nacked, stats.requeued), (1, 1));
}

#[test]
fn enqueue_ends_a_delay() {
    let mut kit = Kit::new();
    let id = kit.add(&AddJob {
        delay: Span::from_secs(100),
        ..job()
    });
    assert_eq!(kit.take(), None);
    assert_eq!(kit.enqueue(id), 1);
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn a_dequeued_job_comes_back_a_retry_later() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    assert_eq!((kit.dequeue(id), kit.dequeue(id)), (1, 0));
    assert_eq!(kit.dequeue(unknown_id()), 0);
    kit.pass(9_999);
    assert_eq!(kit.take(), None);
    kit.pass(501);
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn a_job_that_nobody_had_counts_no_delivery_more_when_it_comes_back() {
    let mut kit = Kit::new();
    let dequeued = kit.add(&job());
    assert_eq!(kit.dequeue(dequeued), 1);
    let delayed = kit.add(&AddJob {
        delay: Span::from_secs(2),
        ..job()
    });
    assert_eq!(kit.working(delayed), Ok(10));
    let taken = kit.add(&job());
    assert_eq!(kit.take(), Some(taken));
    kit.pass(10_501);
    for id in [dequeued, delayed] {
        assert_eq!(kit.state(id), Some(State::Queued));
        assert_eq!(kit.counters(id), (0, 0));
    }
    assert_eq!(kit.counters(taken), (0, 1));
    assert_eq!(kit.node.totals().stats.requeued, 1);
    // Had once, it counts: taken off its queue or not.
    assert_eq!(kit.dequeue(taken), 1);
    kit.pass(10_501);
    assert_eq!(kit.counters(taken), (0, 2));
}

#[test]
fn an_at_most_once_job_is_never_put_back_once_delivered() {
    let mut kit = Kit::new();
    let id = kit.add(&at_most_once());
    assert_eq!(kit.take(), Some(id));
    assert_eq!(kit.requeue_within(id), None);
    assert_eq!((kit.nack(id), kit.enqueue(id)), (0, 0));
    assert_eq!(kit.counters(id), (0, 0));
    kit.pass(900_000);
    assert_eq!(kit.take(), None);
    assert_eq!(kit.ack(id), 1);
}

#[test]
fn an_at_most_once_job_that_was_dequeued_comes_back_by_enqueue_only() {
    let mut kit = Kit::new();
    let id = kit.add(&at_most_once());
    assert_eq!(kit.dequeue(id), 1);
    kit.pass(900_000);
    assert_eq!(kit.take(), None);
    assert_eq!(kit.enqueue(id), 1);
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn working_puts_the_next_delivery_off_by_one_retry_from_now() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.take();
    kit.pass(8_000);
    assert_eq!(kit.working(id), Ok(10));
    kit.pass(9_999);
    assert_eq!(kit.take(), None);
    kit.pass(501);
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn working_takes_a_queued_job_off_its_queue() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    assert_eq!(kit.working(id), Ok(10));
    assert_eq!(kit.state(id), Some(State::Active));
    assert_eq!(kit.take(), None);
}

#[test]
fn working_does_not_shorten_a_delay() {
    let mut kit = Kit::new();
    let id = kit.add(&AddJob {
        delay: Span::from_secs(100),
        ..job()
    });
    assert_eq!(kit.working(id), Ok(10));
    kit.pass(99_999);
    assert_eq!(kit.take(), None);
    kit.pass(1);
    assert_eq!(kit.take(), Some(id));
}

#[test]
fn working_answers_the_retry_rounded_up() {
    let mut kit = Kit::new();
    let short = kit.add(&AddJob {
        retry: Some(Span::from_ms(1)),
        ..job()
    });
    let once = kit.add(&at_most_once());
    assert_eq!(kit.working(short), Ok(1));
    let before = dump_all(&kit.node, kit.now);
    assert_eq!(kit.working(once), Ok(0));
    assert_eq!(dump_all(&kit.node, kit.now), before);
}

#[test]
fn working_is_refused_once_half_of_the_ttl_is_over() {
    let mut kit = Kit::new();
    let id = kit.add(&job());
    kit.take();
    kit.skip(500_000);
    assert_eq!(kit.working(id), Ok(10));
    kit.skip(1);
    let before = dump_all(&kit.node, kit.now);
    assert_eq!(kit.working(id), Err(Error::TooLate));
    assert_eq!(kit.working(unknown_id()), Err(Error::NoJob));
    let none = kit.call(|node, now, fx| node.working(now, None, fx));
    assert_eq!(none, Err(Error::NoJob));
    assert_eq!(dump_all(&kit.node, kit.now), before);
}

#[test]
fn settling_counts_what_was_there_once() {
    let mut kit = Kit::new();
    let [a, b, c] = [0; 3].map(|_| kit.add(&job()));
    let ids = [a, unknown_id(), a, b];
    assert_eq!(kit.call(|node, now, fx| node.ack_jobs(now, &ids, fx)), 2);
    assert_eq!(kit.call(|node, now, fx| node.fast_ack(now, &ids, fx)), 0);
    assert_eq!(kit.call(|node, now, fx| node.delete_jobs(now, &[c], fx)), 1);
    let totals = kit.node.totals();
    assert_eq!((totals.jobs, totals.job_bytes), ([0; 5], 0));
    let stats = totals.stats;
    assert_eq!((stats.acked, stats.fast_acked, stats.deleted), (2, 0, 1));
}

#[test]
fn acks_of_unknown_jobs_leave_nothing() {
    let mut kit = Kit::new();
    let before = dump_all(&kit.node, kit.now);
    let mut strangers = IdGenerator::new([1; 4], [1; 32]);
    for _ in 0..1_000 {
        let id = strangers.next(Span::from_secs(60), true);
        assert_eq!(kit.ack(id), 0);
        assert!(kit.fx.is_empty());
    }
    assert_eq!(dump_all(&kit.node, kit.now), before);
}

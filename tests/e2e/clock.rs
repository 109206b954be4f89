//! Steps of the wall clock: deadlines follow true time.

use crate::common::*;

fn with_fake_clock() -> Server {
    Server::start(Options::new().fake_clock())
}

#[test]
fn a_step_forward_or_back_brings_no_job_early_or_late() {
    for step in [3600, -3600] {
        let server = with_fake_clock();
        let mut c = server.client();
        let delivered = c.add("delivered", "x", "RETRY 2");
        c.take("delivered");
        let delayed = c.add("delayed", "x", "DELAY 2");
        let start = Instant::now();
        server.step_clock(step);
        c.run("GETJOB TIMEOUT 1200 FROM delivered delayed")
            .expect_null_array();
        for (queue, id) in [("delivered", &delivered), ("delayed", &delayed)] {
            let job = c.wait_job(queue, secs(8)).expect("late");
            assert_eq!(&job.id, id);
            expect_between(start.elapsed(), secs(2), LATE);
        }
    }
}

#[test]
fn a_step_forward_expires_nothing() {
    let server = with_fake_clock();
    let mut c = server.client();
    let ids = [
        c.add("q", "x", "TTL 100"),
        c.add("q", "x", "TTL 100 DELAY 90"),
        c.add("q", "x", "TTL 100 RETRY 0"),
    ];
    server.step_clock(3600);
    c.run("GETJOB TIMEOUT 800 FROM other").expect_null_array();
    for id in &ids {
        let ttl = c.show(id).expect("expired early").ttl;
        assert!((95..=100).contains(&ttl), "{ttl}");
    }
}

#[test]
fn a_step_back_still_expires_in_time() {
    let server = with_fake_clock();
    let mut c = server.client();
    let id = c.add("q", "x", "TTL 1");
    server.step_clock(-3600);
    eventually(secs(4), "the job expires", || c.show(&id).is_none());
}

#[test]
fn time_outs_of_waiting_clients_are_kept() {
    for step in [3600, -3600] {
        let server = with_fake_clock();
        let mut c = server.client();
        let start = Instant::now();
        c.start("GETJOB TIMEOUT 1000 FROM q");
        server.wait_blocked(1);
        server.step_clock(step);
        c.expect_silence(ms(500));
        c.reply().expect_null_array();
        expect_between(start.elapsed(), secs(1), secs(1));
    }
}

#[test]
fn creation_times_grow_and_ids_stay_unique_over_a_step_back() {
    let server = with_fake_clock();
    let mut c = server.client();
    let before = c.add("q", "1", "");
    server.step_clock(-3600);
    let after = c.add("q", "2", "");
    assert_ne!(before, after);
    let (old, new) = (
        c.show(&before).unwrap().ctime,
        c.show(&after).unwrap().ctime,
    );
    assert!(new > old, "{new} after {old}");
    let jobs = c.get_now("COUNT 2 FROM q");
    assert_eq!((jobs[0].text(), jobs[1].text()), ("1", "2"));
}

#[test]
fn time_passes_for_jobs_while_the_server_is_down() {
    let mut server = Server::start(
        Options::new()
            .fake_clock()
            .persistence(Persistence::AofAlways),
    );
    let mut c = server.client();
    let short = c.add("q", "short", "TTL 60");
    let long = c.add("q", "long", "TTL 6000");
    let delivered = c.add("p", "x", "RETRY 60 TTL 6000");
    c.take("p");
    server.stop_clean();
    server.step_clock(120);
    server.start_again();
    let mut c = server.client();
    eventually(secs(3), "the short one expires", || {
        c.show(&short).is_none()
    });
    let ttl = c.show(&long).unwrap().ttl;
    assert!((5860..=5880).contains(&ttl), "{ttl}");
    assert_eq!(c.wait_job("p", secs(3)).expect("overdue").id, delivered);
}

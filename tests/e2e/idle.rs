//! A node with nothing to do does nothing.

use crate::common::*;

/// How often the server's process was woken in `time`.
fn wakeups(server: &Server, time: Duration) -> u64 {
    let before = server.wakeups();
    std::thread::sleep(time);
    server.wakeups() - before
}

#[test]
fn jobs_that_are_not_due_wake_nobody() {
    let _alone = quiet_machine();
    let with_jobs = Server::start(Options::new().alone());
    let plain = Server::start(Options::new().alone().without_module());
    let mut c = with_jobs.client();
    for n in 0..50 {
        c.add("delayed", "x", "DELAY 1000");
        c.add("delivered", "x", "RETRY 1000");
        c.take("delivered");
        c.add("queued", &n.to_string(), "RETRY 1000");
    }
    let mut waiting = with_jobs.client();
    waiting.start("GETJOB TIMEOUT 600000 FROM other");
    with_jobs.wait_blocked(1);
    let (cpu_before, time) = (with_jobs.cpu_time(), secs(3));
    let woken = wakeups(&with_jobs, time);
    let cpu = with_jobs.cpu_time() - cpu_before;
    // Redis itself wakes ten times a second.
    let base = wakeups(&plain, time);
    assert!(
        woken <= base + 30,
        "woken {woken} times in {time:?}, plain Redis {base}"
    );
    assert!(cpu <= ms(60), "{cpu:?} of processor time in {time:?}");
}

//! w7: the memory that a snapshot takes while jobs come and go: what the server changes
//! meanwhile is there twice.

use crate::commands::acknowledge;
use crate::compare::{line, median, Aim};
use crate::systems::{add_jobs, empty_jobs, with_module};
use crate::Plan;
use disque_testing::{eventually, Server};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Jobs that are added, then taken and acknowledged, at a time.
const BATCH: usize = 2_000;
const SLOW: Duration = Duration::from_secs(300);

/// How much a server grows by BGSAVE under load.
pub fn snapshot(plan: &Plan) {
    println!("\nw7 BGSAVE of {} jobs while others come and go", plan.jobs);
    let server = with_module();
    add_jobs(&server, "kept", plan.jobs);
    let turns: Vec<(f64, f64)> = (0..plan.rounds).map(|_| under_load(&server)).collect();
    let growth = median(turns.iter().map(|turn| turn.0));
    let aim = Aim::AtMost(1.3);
    line("resident memory: x before", "", growth, None, &aim, growth);
    let jobs = median(turns.iter().map(|turn| turn.1));
    line("jobs meanwhile", "jobs/s", jobs, None, &Aim::None, jobs);
    empty_jobs(&server);
}

/// Growth of the memory of server and child together, and the jobs per second
/// meanwhile.
fn under_load(server: &Server) -> (f64, f64) {
    let (ended, jobs) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                add_jobs(server, "q", BATCH);
                acknowledge(server, BATCH, 100);
                jobs.fetch_add(BATCH, Ordering::Relaxed);
            }
        });
        eventually(SLOW, "the load", || jobs.load(Ordering::Relaxed) > 0);
        let before = server.info_number("memory", "used_memory_rss") as f64;
        let (start, first) = (std::time::Instant::now(), jobs.load(Ordering::Relaxed));
        server.client().run("BGSAVE");
        eventually(SLOW, "the snapshot", || {
            server.info_number("persistence", "rdb_bgsave_in_progress") == 0
        });
        let jobs = jobs.load(Ordering::Relaxed) - first;
        let rate = jobs as f64 / start.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        let info = server.info("persistence");
        assert_eq!(info["rdb_last_bgsave_status"], "ok");
        let copied = server.info_number("persistence", "rdb_last_cow_size") as f64;
        ((before + copied) / before, rate)
    })
}

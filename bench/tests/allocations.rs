//! How often the core allocates for a job: once, for its body. All else grows with the
//! most jobs that there are at a time.

use allocation_counter::measure;
use disque_bench::solo::Solo;

const JOBS: u64 = 10_000;

/// A node whose tables have had room for so many jobs.
fn used() -> Solo {
    let mut solo = Solo::with_jobs(JOBS as usize);
    let ids = solo.get(JOBS);
    solo.ack(&ids);
    solo
}

#[test]
fn a_job_that_is_added_taken_and_acknowledged_is_allocated_once() {
    let mut solo = used();
    let mut ids = Vec::with_capacity(JOBS as usize);
    let adding = measure(|| {
        for _ in 0..JOBS {
            ids.push(solo.add());
        }
    });
    let taking = measure(|| {
        for _ in 0..JOBS {
            assert_eq!(solo.get(1).len(), 1);
        }
    });
    let acknowledging = measure(|| {
        for id in &ids {
            assert_eq!(solo.ack(&[*id]), 1);
        }
    });
    // The list of ids that `get` returns here is not the core's.
    let taking = taking.count_total - JOBS;
    let all = adding.count_total + taking + acknowledging.count_total;
    assert!(
        all <= JOBS + JOBS / 10,
        "for {JOBS} jobs: {} to add, {taking} to take, {} to acknowledge them",
        adding.count_total,
        acknowledging.count_total
    );
}

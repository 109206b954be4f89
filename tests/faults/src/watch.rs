//! Looks whether the machine lets the run have its way.
//!
//! A process that is ready to run and gets no processor stands still, as one that is
//! paused: it is written down as a pause of its node, or of all if it is this thread
//! that waits. So a machine that is busy with other things makes a run say
//! less, and does not make it fail.

use crate::history::History;
use crate::nodes::NODE_TIMEOUT_MS;
use disque_checker::{FaultKind, Lost};
use disque_testing::{waits_for_processor, Pulse};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(100);
/// Who waits for so long in all, in a stretch of [`STRETCH`] looks, stood still. The
/// bounds of the checker allow for less.
const STILL: Duration = Duration::from_millis(NODE_TIMEOUT_MS * 2 / 5);
const STRETCH: usize = 5;

/// What one process waited at the last looks.
#[derive(Default)]
struct Waits {
    /// Of each thread, so far.
    total: BTreeMap<u32, Duration>,
    /// Of the thread that waited most, between looks.
    last: [Duration; STRETCH],
    looks: usize,
}

impl Waits {
    /// How long it waited lately.
    fn look(&mut self, pid: u32) -> Duration {
        let total: BTreeMap<u32, Duration> = waits_for_processor(pid).into_iter().collect();
        let waited = total.iter().filter_map(|(thread, waited)| {
            let before = self.total.get(thread)?;
            Some(waited.saturating_sub(*before))
        });
        self.last[self.looks % STRETCH] = waited.max().unwrap_or_default();
        self.looks += 1;
        self.total = total;
        self.last.iter().sum()
    }
}

/// Writes pauses down until it is over. Returns for how long nodes stood still.
pub fn watch(history: &History, pulses: &[Pulse], over: &AtomicBool) -> Duration {
    let mut nodes: Vec<Waits> = pulses.iter().map(|_| Waits::default()).collect();
    let mut still = Duration::ZERO;
    let mut looked = Instant::now();
    let mut since = history.now();
    let pause = |since, node| {
        let fault = history.begin_fault_at(since, node, FaultKind::Pause, Lost::Nothing);
        history.end_fault(fault);
    };
    while !over.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        let late = looked.elapsed().saturating_sub(LOOK);
        looked = Instant::now();
        let all = late >= STILL;
        for (node, waits) in nodes.iter_mut().enumerate() {
            let waited = pulses[node].pid().map(|pid| waits.look(pid));
            if all || waited.is_some_and(|waited| waited >= STILL) {
                pause(since.saturating_sub(STRETCH_MS), node);
                still += LOOK + late;
            }
        }
        since = history.now();
    }
    still
}

/// A stretch of looks, in ms.
const STRETCH_MS: u64 = LOOK.as_millis() as u64 * STRETCH as u64;

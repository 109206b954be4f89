//! The kinds of jobs, each in a queue of its own.

use disque_checker::{Op, Want};

/// Short, so that what has to come again does so while the run lasts.
pub const RETRY_MS: u64 = 2_000;
/// The largest REPLICATE.
pub const MOST_COPIES: usize = 3;
const DELAY_MS: u64 = 1_000;
const TTL_MS: u64 = 3_600_000;

/// A kind of job.
#[derive(Clone, Debug)]
pub struct Mode {
    pub name: &'static str,
    pub want: Want,
    /// How consumers settle its jobs.
    pub settle: Op,
    /// Of a hundred jobs, how many are given back.
    pub nacked: u32,
}

impl Mode {
    fn new(name: &'static str, replicate: u32, sync: u32) -> Mode {
        Mode {
            name,
            want: Want {
                replicate,
                sync,
                retry: RETRY_MS,
                ttl: TTL_MS,
                delay: 0,
            },
            settle: Op::Ack,
            nacked: 5,
        }
    }

    pub fn at_most_once(&self) -> bool {
        self.want.retry == 0
    }

    /// Whether some of its jobs may be left at a node that did not hear how they
    /// ended: delivered at-most-once jobs, and copies after a FASTACK.
    pub fn may_be_left(&self) -> bool {
        self.at_most_once() || self.settle == Op::FastAck
    }

    /// The words of an ADDJOB.
    pub fn add(&self, body: &str, timeout_ms: u64) -> Vec<String> {
        let want = &self.want;
        let mut words: Vec<String> = ["ADDJOB", self.name, body].map(String::from).into();
        let options = [
            ("REPLICATE", want.replicate.into()),
            ("SYNC", want.sync.into()),
            ("RETRY", want.retry / 1_000),
            ("TTL", want.ttl / 1_000),
            ("DELAY", want.delay / 1_000),
        ];
        words.push(timeout_ms.to_string());
        for (option, value) in options {
            words.extend([option.to_string(), value.to_string()]);
        }
        words
    }
}

/// All kinds.
pub fn modes() -> Vec<Mode> {
    let mut once = Mode::new("once", 1, 1);
    once.want.retry = 0;
    let mut delay = Mode::new("delay", 2, 2);
    delay.want.delay = DELAY_MS;
    let mut fast = Mode::new("fastack", 2, 2);
    fast.settle = Op::FastAck;
    let mut nack = Mode::new("nack", 2, 2);
    nack.nacked = 40;
    vec![
        Mode::new("r1", 1, 1),
        Mode::new("r2", 2, 2),
        Mode::new("r3", 3, 3),
        Mode::new("sync1", 3, 1),
        Mode::new("async", 3, 0),
        once,
        delay,
        fast,
        nack,
    ]
}

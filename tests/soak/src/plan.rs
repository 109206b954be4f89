//! What the load does and when: the same in each cycle, so that equal moments of two
//! cycles find the same number of jobs.
//!
//! A cycle is busy first and calm then. All that is added is settled when the calm is
//! half over, but the jobs that wait for two cycles: those of the last two are there at
//! each calm. Likewise what is remembered for three cycles, of settled jobs and of
//! queues without jobs, is that of the last three.

use std::time::Duration;

pub const CYCLE: Duration = Duration::from_secs(20);
/// Jobs are added for so long.
pub const BUSY: Duration = Duration::from_secs(14);
/// When the append only files are rewritten under load.
pub const REWRITE_AT: Duration = Duration::from_secs(7);
/// When the calm is over for long that samples are taken.
pub const SAMPLE_AT: Duration = Duration::from_secs(18);
/// How long settled jobs and idle queues are remembered: three cycles.
pub const MEMORY_S: u64 = 60;
/// Cycles after which the state is steady: those of [`MEMORY_S`], after the first
/// jobs that wait for two, and one more.
pub const SETTLING_CYCLES: u64 = 6;

/// Jobs that producers add in a cycle: a multiple of [`PATTERN`], so that each cycle
/// has as many of each kind.
pub const JOBS: u32 = 3_800;
/// Visits in a cycle, each with a job of its own.
pub const VISITS: u32 = 200;
const PATTERN: u32 = 100;

/// A kind of job, by what consumers do with it. Each has a queue of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// Delayed for a moment.
    Soon,
    /// Delayed for two cycles.
    Late,
    /// Given back once.
    Nack,
    /// Settled without waiting for the other nodes.
    Fast,
    /// At most once.
    Once,
    /// Not settled in time at first.
    Forgotten,
    /// More time is asked for.
    Working,
    /// Acknowledged at another node.
    Elsewhere,
    /// The producer does not wait for the copies.
    Async,
}

/// All kinds, each with how many of [`PATTERN`] jobs are of it.
const KINDS: [(Kind, u32); 10] = [
    (Kind::Plain, 57),
    (Kind::Soon, 10),
    (Kind::Late, 10),
    (Kind::Nack, 4),
    (Kind::Fast, 4),
    (Kind::Once, 4),
    (Kind::Forgotten, 3),
    (Kind::Working, 2),
    (Kind::Elsewhere, 3),
    (Kind::Async, 3),
];

impl Kind {
    /// The kind of a cycle's job with this number.
    fn of(job: u32) -> Kind {
        let mut left = job % PATTERN;
        for (kind, share) in KINDS {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        unreachable!("the shares are {PATTERN} in sum")
    }

    pub fn queue(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Soon => "soon",
            Kind::Late => "late",
            Kind::Nack => "nack",
            Kind::Fast => "fast",
            Kind::Once => "once",
            Kind::Forgotten => "forgotten",
            Kind::Working => "working",
            Kind::Elsewhere => "elsewhere",
            Kind::Async => "async",
        }
    }

    pub fn with_queue(queue: &str) -> Option<Kind> {
        let kinds = KINDS.iter().map(|(kind, _)| *kind);
        kinds.into_iter().find(|kind| kind.queue() == queue)
    }

    fn options(self) -> String {
        match self {
            Kind::Soon => "DELAY 1".into(),
            Kind::Late => format!("DELAY {}", 2 * CYCLE.as_secs()),
            Kind::Once => "RETRY 0".into(),
            Kind::Forgotten => "RETRY 1".into(),
            Kind::Async => "ASYNC".into(),
            _ => String::new(),
        }
    }
}

/// The queues for which consumers at a node wait: not all, so that jobs have to move.
pub fn queues_at(node: usize, nodes: usize) -> Vec<&'static str> {
    let all = KINDS.iter().enumerate();
    let here = all.filter(|(number, _)| number % nodes != node);
    here.map(|(_, (kind, _))| kind.queue()).collect()
}

/// The words of the ADDJOB of a cycle's job with this number.
pub fn add(job: u32) -> Vec<String> {
    let kind = Kind::of(job);
    let copies = match kind {
        Kind::Once => 1,
        _ => copies(job),
    };
    let text = format!("ADDJOB {} {} 0 REPLICATE {copies}", kind.queue(), body(job));
    words(&format!("{text} {}", kind.options()))
}

/// How many copies a job or visit with this number asks for.
pub fn copies(number: u32) -> u32 {
    1 + number % 3
}

/// Now and then a large body, which the links treat in another way.
fn body(job: u32) -> String {
    const LARGE_EACH: u32 = 50;
    let length = if job % LARGE_EACH == 0 { 40_000 } else { 100 };
    "x".repeat(length)
}

/// The words of a command.
pub fn words(command: &str) -> Vec<String> {
    let words = command.split_ascii_whitespace();
    words.map(String::from).collect()
}

/// When in a cycle the `number`th of `count` things is done.
pub fn moment(number: u32, count: u32) -> Duration {
    BUSY * number / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cycle_has_as_many_jobs_of_each_kind() {
        assert_eq!(JOBS % PATTERN, 0);
        for (kind, share) in KINDS {
            let count = (0..JOBS).filter(|job| Kind::of(*job) == kind).count();
            assert_eq!(count as u32, JOBS / PATTERN * share, "{kind:?}");
        }
    }

    #[test]
    fn consumers_wait_for_each_kind_at_some_nodes() {
        for (kind, _) in KINDS {
            let here = |node: &usize| queues_at(*node, 3).contains(&kind.queue());
            assert_eq!((0..3).filter(here).count(), 2, "{kind:?}");
            assert_eq!(Kind::with_queue(kind.queue()), Some(kind));
        }
    }

    #[test]
    fn a_sample_finds_whole_cycles() {
        // What is due or forgotten for a sample began in the calm of another cycle.
        let memory = Duration::from_secs(MEMORY_S);
        assert_eq!(memory.as_secs() % CYCLE.as_secs(), 0);
        assert!(BUSY < SAMPLE_AT && SAMPLE_AT < CYCLE);
        assert!(CYCLE * SETTLING_CYCLES as u32 > memory + 2 * CYCLE);
    }

    #[test]
    fn words_of_an_add() {
        let body = "x".repeat(100);
        let add = |job| add(job).join(" ");
        assert_eq!(add(1), format!("ADDJOB plain {body} 0 REPLICATE 2"));
        assert_eq!(
            add(67),
            format!("ADDJOB late {body} 0 REPLICATE 2 DELAY 40")
        );
        assert_eq!(add(85), format!("ADDJOB once {body} 0 REPLICATE 1 RETRY 0"));
        assert_eq!(add(0).len(), "ADDJOB plain  0 REPLICATE 1".len() + 40_000);
    }
}

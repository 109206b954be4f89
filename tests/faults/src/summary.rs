//! What happened, in numbers.

use crate::injectors::Act;
use crate::nodes::Plan;
use disque_checker::{Cause, Class, Excuse, Report, Summary};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What came of one run.
pub struct Outcome {
    summary: Summary,
    broken: BTreeMap<Class, u64>,
    acts: Vec<Act>,
    plan: Plan,
    still: Duration,
}

impl Outcome {
    pub fn new(report: &Report, acts: Vec<Act>, plan: Plan, still: Duration) -> Outcome {
        let mut broken = BTreeMap::new();
        for violation in &report.violations {
            *broken.entry(violation.class).or_default() += 1;
        }
        Outcome {
            summary: report.summary.clone(),
            broken,
            acts,
            plan,
            still,
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        let (summary, broken) = (&self.summary, self.broken.values().sum::<u64>());
        format!(
            "{} nodes, {:?}, {}, {} added, {} delivered, {} broken promises, {:?}",
            self.plan.count,
            self.plan.persistence,
            self.plan.between(),
            summary.added,
            summary.delivered,
            broken,
            self.acts
        )
    }
}

/// What came of all runs.
#[derive(Default)]
pub struct Table {
    /// By what lay between the nodes.
    runs: BTreeMap<&'static str, u64>,
    added: u64,
    refused: u64,
    unknown: u64,
    delivered: u64,
    again: BTreeMap<Cause, u64>,
    missing: BTreeMap<Excuse, u64>,
    broken: BTreeMap<Class, u64>,
    acts: BTreeMap<Act, u64>,
    longest_wait: u64,
    worst_recovery: u64,
    still: Duration,
}

impl Table {
    pub fn add(&mut self, outcome: Outcome) {
        let summary = outcome.summary;
        *self.runs.entry(outcome.plan.between()).or_default() += 1;
        self.added += summary.added;
        self.refused += summary.refused;
        self.unknown += summary.unknown;
        self.delivered += summary.delivered;
        self.still += outcome.still;
        self.longest_wait = self.longest_wait.max(summary.longest_wait);
        self.worst_recovery = self.worst_recovery.max(summary.worst_recovery);
        for (cause, count) in summary.again {
            *self.again.entry(cause).or_default() += count;
        }
        for (excuse, count) in summary.missing {
            *self.missing.entry(excuse).or_default() += count;
        }
        for (class, count) in outcome.broken {
            *self.broken.entry(class).or_default() += count;
        }
        for act in outcome.acts {
            *self.acts.entry(act).or_default() += 1;
        }
    }

    fn broken(&self, classes: &[Class]) -> u64 {
        let count = |class| self.broken.get(class).copied().unwrap_or(0);
        classes.iter().map(count).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (between, count) in &self.runs {
            writeln!(f, "runs            {count} {between}")?;
        }
        writeln!(f, "added           {}", self.added)?;
        writeln!(f, "refused         {}", self.refused)?;
        writeln!(f, "unknown         {}", self.unknown)?;
        writeln!(f, "delivered       {}", self.delivered)?;
        for (cause, count) in &self.again {
            writeln!(f, "again           {count} {cause:?}")?;
        }
        for (excuse, count) in &self.missing {
            writeln!(f, "did not come    {count} {excuse:?}")?;
        }
        for (act, count) in &self.acts {
            writeln!(f, "done            {count} {act:?}")?;
        }
        writeln!(f, "no processor    {} s of nodes", self.still.as_secs())?;
        writeln!(f, "longest wait    {} ms", self.longest_wait)?;
        writeln!(f, "worst recovery  {} ms", self.worst_recovery)?;
        let twice = [Class::Duplicated, Class::MoreThanOnce, Class::Resurrected];
        let times = [Class::Early, Class::Expired, Class::Unreadable];
        writeln!(f, "unexplained     {}", self.broken(&twice))?;
        writeln!(f, "phantom         {}", self.broken(&[Class::Phantom]))?;
        writeln!(f, "lost            {}", self.broken(&[Class::Lost]))?;
        writeln!(f, "stuck           {}", self.broken(&[Class::Stuck]))?;
        writeln!(f, "leak            {}", self.broken(&[Class::Leak]))?;
        write!(f, "at a wrong time {}", self.broken(&times))
    }
}

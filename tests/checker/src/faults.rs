//! What went wrong, and when.

use crate::event::{Event, FaultKind, Lost, Op, Phase};
use std::collections::BTreeMap;

/// One fault with its end.
#[derive(Clone, Debug)]
pub struct Span {
    pub kind: FaultKind,
    pub node: String,
    pub lost: Lost,
    pub jump: i64,
    pub from: u64,
    /// `u64::MAX` while it lasts.
    pub to: u64,
}

impl Span {
    /// Whether it can keep nodes from knowing what others know. A clock alone
    /// does not: nodes do not go by it. Nor does a want of memory.
    fn disturbs(&self) -> bool {
        let quiet = [FaultKind::Clock, FaultKind::Full, FaultKind::Leave];
        !quiet.contains(&self.kind)
    }

    /// Whether it can keep jobs from where they are wanted.
    fn hinders(&self) -> bool {
        self.kind == FaultKind::Full || self.disturbs()
    }

    /// Up to when jobs are added that lack what it took.
    fn takes_until(&self) -> u64 {
        match self.kind {
            FaultKind::Leave | FaultKind::Supersede => self.to,
            _ => self.from,
        }
    }
}

/// All faults of a history, by their beginning.
#[derive(Debug, Default)]
pub struct Faults {
    spans: Vec<Span>,
}

impl Faults {
    /// Those of a history in order.
    pub fn of(events: &[&Event]) -> Faults {
        let mut spans: Vec<Span> = Vec::new();
        let mut open: BTreeMap<u64, usize> = BTreeMap::new();
        for event in events {
            match (event.f, event.phase, &event.fault) {
                (Op::Fault, Phase::Invoke | Phase::Info, Some(fault)) => {
                    let lasts = event.phase == Phase::Invoke;
                    if lasts {
                        open.insert(event.p, spans.len());
                    }
                    spans.push(Span {
                        kind: fault.kind,
                        node: event.node.clone().unwrap_or_default(),
                        lost: fault.lost,
                        jump: fault.jump.unwrap_or(0),
                        from: event.t,
                        to: if lasts { u64::MAX } else { event.t },
                    });
                }
                (Op::Fault, Phase::Ok | Phase::Fail, _) => {
                    if let Some(index) = open.remove(&event.p) {
                        spans[index].to = event.t;
                    }
                }
                (Op::Heal, ..) => {
                    for index in std::mem::take(&mut open).into_values() {
                        spans[index].to = event.t;
                    }
                }
                _ => {}
            }
        }
        Faults { spans }
    }

    /// All of them.
    pub fn all(&self) -> &[Span] {
        &self.spans
    }

    fn disturbing(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|span| span.disturbs())
    }

    /// Whether something is wrong between two times, or was less than `after`
    /// before the first.
    pub fn disturb(&self, from: u64, to: u64, after: u64) -> bool {
        self.disturbing()
            .any(|span| span.from <= to && span.to.saturating_add(after) >= from)
    }

    /// Since when nothing has been wrong up to a time; `None` while something is.
    pub fn calm_since(&self, t: u64) -> Option<u64> {
        let before = self.disturbing().filter(|span| span.from <= t);
        let last = before.map(|span| span.to).max().unwrap_or(0);
        (last <= t).then_some(last)
    }

    /// The stretches of a time in which nothing hinders the nodes.
    pub fn calm(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut calm = Vec::new();
        let mut start = from;
        for span in self.spans.iter().filter(|span| span.hinders()) {
            if span.from > start && start < to {
                calm.push((start, span.from.min(to)));
            }
            start = start.max(span.to);
        }
        if start < to {
            calm.push((start, to));
        }
        calm
    }

    /// When a calm of this length, that began after a time, was complete; not
    /// after `to`.
    pub fn calm_of(&self, length: u64, from: u64, to: u64) -> Option<u64> {
        let long = |(start, end): &(u64, u64)| end - start >= length;
        let found = self.calm(from, to).into_iter().find(long)?;
        Some(found.0 + length)
    }

    /// The faults with which data were lost, at or after a time.
    pub fn losses(&self, from: u64) -> impl Iterator<Item = &Span> {
        let spans = self.spans.iter().filter(|span| span.lost != Lost::Nothing);
        spans.filter(move |span| span.takes_until() >= from)
    }

    /// The nodes that hold no copies at a time, because they leave or have left.
    pub fn leaving(&self, at: u64) -> impl Iterator<Item = &str> {
        let leaves = |span: &&Span| span.kind == FaultKind::Leave && span.lost == Lost::All;
        let spans = self.spans.iter().filter(leaves);
        let spans = spans.filter(move |span| (span.from..span.to).contains(&at));
        spans.map(|span| &*span.node)
    }

    /// How far clocks that were set may put off what a node had written down.
    pub fn clock_error(&self, to: u64) -> u64 {
        self.sum_of_jumps(to, |jump| jump.unsigned_abs())
    }

    /// The same of clocks that were set back: what is due comes later.
    pub fn clock_delay(&self, to: u64) -> u64 {
        self.sum_of_jumps(to, |jump| jump.min(0).unsigned_abs())
    }

    fn sum_of_jumps(&self, to: u64, size: impl Fn(i64) -> u64) -> u64 {
        let before = || self.spans.iter().filter(move |span| span.from <= to);
        // Without a restart no deadline goes through a wall clock.
        let restarts = [FaultKind::Kill, FaultKind::Supersede];
        if !before().any(|span| restarts.contains(&span.kind)) {
            return 0;
        }
        before().map(|span| size(span.jump)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Fault;

    fn fault(t: u64, p: u64, phase: Phase, kind: FaultKind) -> Event {
        let mut event = Event::new(t, p, phase, Op::Fault).at("a");
        event.fault = Some(Fault {
            kind,
            to: None,
            lost: Lost::Nothing,
            jump: None,
        });
        event
    }

    #[test]
    fn a_node_that_leaves_takes_copies_of_jobs_that_are_added_meanwhile() {
        let mut events = [
            fault(10, 1, Phase::Invoke, FaultKind::Leave),
            fault(20, 1, Phase::Ok, FaultKind::Leave),
        ];
        for event in &mut events {
            event.fault.as_mut().expect("a fault").lost = Lost::All;
        }
        let faults = Faults::of(&events.iter().collect::<Vec<_>>());
        assert_eq!(faults.losses(15).count(), 1);
        assert_eq!(faults.losses(21).count(), 0);
        assert!(!faults.disturb(12, 18, 0));
    }

    #[test]
    fn calm_is_what_is_left_between_faults() {
        let events = [
            fault(10, 1, Phase::Invoke, FaultKind::Cut),
            fault(12, 2, Phase::Invoke, FaultKind::Kill),
            fault(13, 3, Phase::Info, FaultKind::Clock),
            fault(15, 2, Phase::Ok, FaultKind::Kill),
            fault(20, 1, Phase::Ok, FaultKind::Cut),
            fault(40, 4, Phase::Invoke, FaultKind::Full),
            Event::new(50, 5, Phase::Info, Op::Heal),
        ];
        let faults = Faults::of(&events.iter().collect::<Vec<_>>());
        assert_eq!(faults.calm(0, 60), [(0, 10), (20, 40), (50, 60)]);
        assert_eq!(faults.calm(11, 19), []);
        assert_eq!(faults.calm_of(5, 11, 60), Some(25));
        assert_eq!(faults.calm_of(30, 11, 60), None);
        assert_eq!(faults.calm_since(14), None);
        assert_eq!(faults.calm_since(30), Some(20));
        assert!(faults.disturb(22, 25, 2));
        assert!(!faults.disturb(23, 25, 2));
    }
}

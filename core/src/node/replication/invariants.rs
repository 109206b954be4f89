//! What must hold of copies and acknowledgements between two calls.

use crate::clock::{Now, NEVER};
use crate::collections::Timed;
use crate::copies::{Duty, NO_COPIES};
use crate::effects::WaiterId;
use crate::invariants::{hold, wakes_in_time};
use crate::job::State;
use crate::node::Node;
use std::collections::BTreeMap;

impl Node {
    /// A job's side of its copies.
    pub(in crate::node) fn check_copies_of(&self, key: u32) -> Result<(), String> {
        let job = &self.jobs[key];
        let id = job.id;
        if job.copies == NO_COPIES {
            hold!(
                !matches!(job.state, State::WaitRepl),
                "{id}: waits for copies, and has none"
            );
            return Ok(());
        }
        let copies = self.copies.get(job.copies);
        hold!(copies.is_some(), "{id}: its copies are gone");
        let copies = &self.copies[job.copies];
        hold!(copies.job == key, "{id}: its copies are another job's");
        hold!(
            copies.holders.is_confirmed(self.own) || job.state == State::WaitRepl,
            "{id}: this node is no holder of it, and it is {:?}",
            job.state
        );
        let waits = copies.adder.is_some();
        hold!(
            !waits || job.state == State::WaitRepl,
            "{id}: its producer waits, and it is {:?}",
            job.state
        );
        hold!(
            copies.asking.is_none() || job.state == State::Active,
            "{id}: asked about, and {:?}",
            job.state
        );
        hold!(
            job.state != State::Queued || copies.responsible == Some(self.own),
            "{id}: queued here, and another node is responsible"
        );
        let duty = match job.state {
            State::Acked => matches!(copies.duty, Duty::Collect | Duty::AwaitCollection),
            _ => matches!(
                copies.duty,
                Duty::None
                    | Duty::Spread
                    | Duty::Repair
                    | Duty::Entrust
                    | Duty::Part
                    | Duty::HandOver
            ),
        };
        hold!(
            duty,
            "{id}: {:?}, and {:?} is to be done",
            job.state,
            copies.duty
        );
        hold!(
            copies.parting.is_some() == (copies.duty == Duty::Part),
            "{id}: {:?} is to be done, with {:?}",
            copies.duty,
            copies.parting
        );
        hold!(
            (copies.duty == Duty::None) == (copies.deadline() == NEVER),
            "{id}: {:?} is to be done at {}",
            copies.duty,
            copies.deadline()
        );
        Ok(())
    }

    /// The tables of copies, of dummy acks and of producers.
    pub(in crate::node) fn check_copies_table(&self, now: Now) -> Result<(), String> {
        let (mut count, mut timed, mut short) = (0, 0, 0);
        let mut waited_for = BTreeMap::new();
        let mut earliest = NEVER;
        let mut from = 0;
        while let Some(key) = self.copies.next_occupied(from) {
            from = key + 1;
            let copies = &self.copies[key];
            hold!(
                self.jobs[copies.job].copies == key,
                "copies {key} of a job that has others"
            );
            count += 1;
            timed += usize::from(copies.deadline() != NEVER);
            short += u64::from(copies.short);
            if let Some(waiter) = copies.adder {
                let wait = self.adders.get(waiter);
                let id = self.jobs[copies.job].id;
                hold!(
                    wait.and_then(|wait| wait.producer.as_ref())
                        .is_some_and(|producer| producer.jobs.contains(&id)),
                    "{id}: {waiter:?} does not wait for it"
                );
                *waited_for.entry(waiter).or_insert(0) += usize::from(!copies.held);
            }
            earliest = earliest.min(copies.deadline());
        }
        hold!(count == self.copies.len(), "{count} copies found");
        hold!(timed == self.copies.timer_count(), "{timed} duties found");
        self.check_producers(&waited_for)?;
        hold!(
            short == self.vigil.under_replicated,
            "{} jobs with too few copies, counted {short}",
            self.vigil.under_replicated
        );
        wakes_in_time(
            "copies",
            self.copies.next_wake(),
            (timed > 0).then_some(earliest),
            now,
        )?;
        self.check_acks()
    }

    /// Producers, with the number of jobs that each still waits for.
    fn check_producers(&self, waited_for: &BTreeMap<WaiterId, usize>) -> Result<(), String> {
        for (id, wait) in self.adders.iter() {
            let waiting = wait.producer.as_ref().map_or(0, |one| one.waiting);
            let found = waited_for.get(&id).copied().unwrap_or(0);
            hold!(
                waiting > 0 && found == waiting,
                "{id:?} waits for {waiting} jobs, {found} found"
            );
        }
        Ok(())
    }

    fn check_acks(&self) -> Result<(), String> {
        let (mut count, mut from) = (0, 0);
        while let Some(key) = self.acks.next_occupied(from) {
            from = key + 1;
            let ack = self.acks.get(key).ok_or("an ack is gone")?;
            let id = ack.id;
            hold!(
                self.acks.find(&id) == Some(key),
                "{id}: its ack is not found"
            );
            hold!(
                ack.links().is_scheduled(),
                "{id}: its ack is never looked at"
            );
            hold!(
                self.jobs.find(&id).is_none(),
                "{id}: a job, and the ack of one that is elsewhere"
            );
            count += 1;
        }
        hold!(count == self.acks.len(), "{count} acks found");
        Ok(())
    }
}

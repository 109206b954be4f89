//! What the commands on job ids do to what is known of the jobs.

use super::checker::Checker;
use super::history::Settling;
use super::track::{End, Place, Stamp};
use super::{demand, Violation};
use disque_core::error::Error;
use disque_core::job_id::JobId;
use std::ops::AddAssign;

/// A count, at least and at most.
#[derive(Default, Debug)]
struct Bounds {
    least: usize,
    most: usize,
}

impl AddAssign<(bool, bool)> for Bounds {
    /// One more that must, or may, be counted.
    fn add_assign(&mut self, (must, may): (bool, bool)) {
        self.least += usize::from(must);
        self.most += usize::from(may);
    }
}

impl Bounds {
    fn check(&self, what: &str, ids: &[JobId], count: usize) -> Result<(), Violation> {
        let Bounds { least, most } = *self;
        demand!(
            (least..=most).contains(&count),
            Miscounted,
            "{what} {ids:?} counted {count}, must be {least} to {most}"
        );
        Ok(())
    }
}

/// What a command did to one job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Took {
    Effect,
    NoEffect,
    Perhaps,
}

impl Took {
    /// What follows for one of the jobs of a command from the whole count.
    fn of((must, may): (bool, bool), bounds: &Bounds, count: usize) -> Took {
        match (must, may) {
            (_, false) => Took::NoEffect,
            (true, _) => Took::Effect,
            _ if count == bounds.least => Took::NoEffect,
            _ if count == bounds.most => Took::Effect,
            _ => Took::Perhaps,
        }
    }
}

impl Checker {
    /// Whether a job is on the node: whether it must be, and may be.
    fn alive(&self, id: &JobId, at: u64) -> (bool, bool) {
        self.jobs.get(id).map_or((false, false), |track| {
            (
                track.must_live(at, self.memory_limited),
                track.may_live(self.caught_up),
            )
        })
    }

    /// Whether it is on its queue.
    fn queued(&self, id: &JobId, at: u64) -> (bool, bool) {
        let (must, may) = self.alive(id, at);
        self.jobs.get(id).map_or((false, false), |track| {
            (
                must && track.must_be_queued(),
                may && self.may_be_queued(track, at),
            )
        })
    }

    pub(super) fn settled(
        &mut self,
        how: Settling,
        ids: &[JobId],
        count: usize,
        stamp: Stamp,
    ) -> Result<(), Violation> {
        let mut bounds = Bounds::default();
        for id in ids {
            bounds += self.alive(id, stamp.at);
            if let Some(track) = self.jobs.get_mut(id) {
                if track.ended().is_none() {
                    track.set_place(Place::Ended(End::Settled), stamp);
                    track.mark(stamp);
                }
            }
        }
        bounds.check(&format!("{how:?}"), ids, count)
    }

    /// Whether NACK or ENQUEUE puts a job back.
    fn returnable(&self, id: &JobId, at: u64) -> (bool, bool) {
        let Some(track) = self.jobs.get(id) else {
            return (false, false);
        };
        let queue = self.queues.get(&track.wanted.queue);
        let paused = queue.is_some_and(|queue| queue.input_paused_since.is_some());
        if paused || !track.may_come_back() {
            return (false, false);
        }
        let (must, may) = self.alive(id, at);
        let must = must && !self.may_be_queued(track, at);
        (must, may && !track.must_be_queued())
    }

    pub(super) fn requeued(
        &mut self,
        nack: bool,
        ids: &[JobId],
        count: usize,
        stamp: Stamp,
    ) -> Result<(), Violation> {
        let mut bounds = Bounds::default();
        let each: Vec<_> = ids.iter().map(|id| self.returnable(id, stamp.at)).collect();
        each.iter().for_each(|&one| bounds += one);
        bounds.check(if nack { "NACK" } else { "ENQUEUE" }, ids, count)?;
        for (id, one) in ids.iter().zip(each) {
            let took = Took::of(one, &bounds, count);
            let Some(track) = self.jobs.get_mut(id).filter(|_| one.1) else {
                continue;
            };
            let before = track.state.place;
            // It is queued in any case: by this command or, unseen, before it.
            track.set_place(Place::Queued, stamp);
            if nack && took != Took::NoEffect {
                track.state.nacks.1 += 1;
                track.state.nacks.0 += u16::from(took == Took::Effect);
            }
            if !nack || took != Took::Effect {
                track.count_additional();
            }
            match took {
                Took::Effect => track.mark(stamp),
                Took::Perhaps => track.mark_perhaps(before, stamp),
                Took::NoEffect => {}
            }
        }
        Ok(())
    }

    pub(super) fn dequeued(
        &mut self,
        ids: &[JobId],
        count: usize,
        stamp: Stamp,
    ) -> Result<(), Violation> {
        let mut bounds = Bounds::default();
        let each: Vec<_> = ids.iter().map(|id| self.queued(id, stamp.at)).collect();
        each.iter().for_each(|&one| bounds += one);
        bounds.check("DEQUEUE", ids, count)?;
        for (id, one) in ids.iter().zip(each) {
            let took = Took::of(one, &bounds, count);
            let Some(track) = self.jobs.get_mut(id).filter(|_| one.1) else {
                continue;
            };
            let before = track.state.place;
            if took != Took::NoEffect && before != Place::Queued {
                track.count_additional();
            }
            match (took, before) {
                (Took::Effect, _) | (Took::Perhaps, Place::Queued) => {
                    track.hold(stamp);
                    track.mark(stamp);
                }
                (Took::Perhaps, Place::Held { to, first, .. }) => {
                    let (_, latest) = track.retry_window(stamp.at);
                    let place = Place::Held {
                        from: stamp.at,
                        to: to.max(latest),
                        first,
                    };
                    track.set_place(place, stamp);
                    track.mark_perhaps(before, stamp);
                }
                (Took::NoEffect, Place::Held { from, to, first }) => {
                    // Not queued yet, so not before now; the deadline itself,
                    // and what is written of it, is as it was.
                    let from = from.max(stamp.at);
                    track.state.place = Place::Held { from, to, first };
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn working(
        &mut self,
        id: &JobId,
        answer: &Result<u64, Error>,
        stamp: Stamp,
    ) -> Result<(), Violation> {
        let (must, may) = self.alive(id, stamp.at);
        let Some(track) = self.jobs.get_mut(id).filter(|_| may) else {
            demand!(
                *answer == Err(Error::NoJob),
                WrongAnswer,
                "WORKING {id}: {answer:?}"
            );
            return Ok(());
        };
        let left = track.state.expire_at.saturating_sub(stamp.at);
        let late = left < track.wanted.ttl_ms / 2;
        let retry = track.wanted.retry_ms;
        let right = match answer {
            Err(Error::NoJob) => !must,
            Err(Error::TooLate) => late,
            Ok(seconds) => !late && *seconds == retry.div_ceil(1000),
            _ => false,
        };
        demand!(right, WrongAnswer, "WORKING {id}: {answer:?}, {track:?}");
        if answer.is_err() || retry == 0 {
            return Ok(());
        }
        let (mut from, mut to) = track.retry_window(stamp.at);
        match track.state.place {
            Place::Held {
                from: delay_from,
                to: delay_to,
                first: true,
            } if delay_from > stamp.at => {
                from = from.max(delay_from);
                to = to.max(delay_to);
            }
            Place::Held { .. } => track.count_additional(),
            _ => {}
        }
        track.set_place(
            Place::Held {
                from,
                to,
                first: false,
            },
            stamp,
        );
        track.mark(stamp);
        Ok(())
    }

    /// Deliveries that never reached their client did not happen, where the job
    /// has not moved on since.
    pub(super) fn returned(&mut self, deliveries: &[(JobId, u32)], stamp: Stamp) {
        for (id, attempt) in deliveries {
            let Some(track) = self.jobs.get_mut(id) else {
                continue;
            };
            track.received = track.received.saturating_sub(1);
            let (least, most) = track.state.attempt;
            let Place::Held { from, .. } = track.state.place else {
                continue;
            };
            if !(least..=most).contains(attempt) {
                continue;
            }
            let before = track.state.place;
            track.set_place(Place::Queued, stamp);
            if track.at_most_once() && self.memory_limited {
                track.perhaps_gone = true;
            }
            if least == most && from > stamp.at {
                track.state.attempt = (attempt - 1, attempt - 1);
                track.mark(stamp);
            } else {
                track.state.attempt = (least.min(attempt - 1), most);
                track.count_additional();
                track.mark_perhaps(before, stamp);
            }
        }
    }
}

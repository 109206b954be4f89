//! Reads a history in order and finds the first promise that was broken.

use super::calls::{Calls, Open};
use super::history::{Call, Delivery, Entry, Queue, Told, Wanted, What};
use super::track::{End, Place, Stamp, Track};
use super::{demand, Kind, Violation};
use disque_core::error::Error;
use disque_core::job_id::JobId;
use std::collections::BTreeMap;

/// What is known of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueTrack {
    pub(super) input_paused_since: Option<u64>,
    pub(super) output_paused: bool,
    /// The pauses that were written, with the number of batches that hold them.
    written: Vec<(u64, bool, bool)>,
}

/// The state of the check.
#[derive(Default)]
pub struct Checker {
    pub(super) jobs: BTreeMap<JobId, Track>,
    /// Jobs in the order of their creation, which is the order of queues.
    pub(super) by_age: Vec<JobId>,
    pub(super) queues: BTreeMap<Queue, QueueTrack>,
    calls: Calls,
    /// The call that was asked by the entry before this one.
    fresh: Option<Call>,
    /// Whether the entry before this one was [`What::CaughtUp`].
    idle: bool,
    /// When the node last had nothing to do.
    pub(super) caught_up: u64,
    pub(super) memory_limited: bool,
    deliver_after_crash: bool,
    crashed: bool,
    leaving: bool,
    forgotten: bool,
}

/// Checks a whole history.
#[cfg(test)]
pub fn check(history: &[Entry]) -> Result<(), Violation> {
    let mut checker = Checker::default();
    history.iter().try_for_each(|entry| checker.observe(entry))
}

impl Checker {
    /// Takes in what happened next.
    pub fn observe(&mut self, entry: &Entry) -> Result<(), Violation> {
        let stamp = Stamp {
            at: entry.at,
            skew: entry.at as i64 - entry.wall as i64,
            log: entry.log,
        };
        let direct = match &entry.what {
            What::Answered { call, .. } => self.fresh == Some(*call),
            _ => false,
        };
        let was_idle = self.idle;
        self.fresh = None;
        self.idle = direct && was_idle;
        match &entry.what {
            What::Started {
                memory_limited,
                deliver_after_crash,
            } => {
                self.memory_limited = *memory_limited;
                self.deliver_after_crash = *deliver_after_crash;
            }
            What::Added { id, wanted } => self.added(*id, wanted, stamp)?,
            What::Refused { wanted, error } => self.refused(wanted, error, stamp)?,
            What::Asked {
                call,
                queues,
                count,
                nohang,
                timeout_ms,
            } => {
                self.fresh = Some(*call);
                self.idle = was_idle;
                let open = Open {
                    queues: queues.clone(),
                    count: *count,
                    nohang: *nohang,
                    deadline: timeout_ms.map(|ms| entry.at + ms),
                    unblocked: false,
                };
                self.calls.ask(*call, open)?;
            }
            What::Answered { call, told } => self.answered(*call, told, direct, was_idle, stamp)?,
            What::Unblocked { call } => self.calls.unblock(*call),
            What::Gone { call } => self.calls.gone(*call),
            What::Returned { deliveries } => self.returned(deliveries, stamp),
            What::Settled { how, ids, count } => self.settled(*how, ids, *count, stamp)?,
            What::Requeued { nack, ids, count } => self.requeued(*nack, ids, *count, stamp)?,
            What::Dequeued { ids, count } => self.dequeued(ids, *count, stamp)?,
            What::Working { id, answer } => self.working(id, answer, stamp)?,
            What::Paused {
                queue,
                input,
                output,
            } => self.pause(*queue, *input, *output, stamp),
            What::Leaving(leaving) => self.leaving = *leaving,
            What::Flushed => self.flushed(stamp),
            What::Reset => {
                self.leaving = false;
                self.forgotten = false;
                self.flushed(stamp);
            }
            What::WasForgotten => self.forgotten = true,
            What::Snapshot => self.snapshot(stamp),
            What::CaughtUp { jobs, lengths } => self.check_idle(*jobs, lengths, stamp)?,
            What::Crashed { kept } => self.crash(*kept, stamp.at),
            What::Restarted { complete } => self.restarted(*complete, stamp),
            What::Drained => self.drained(stamp)?,
        }
        Ok(())
    }

    pub(super) fn queue(&mut self, queue: Queue) -> &mut QueueTrack {
        self.queues.entry(queue).or_default()
    }

    /// Whether a job may be on its queue: a PAUSE holds up what falls due.
    pub(super) fn may_be_queued(&self, track: &Track, at: u64) -> bool {
        let queue = self.queues.get(&track.wanted.queue);
        let paused = queue.and_then(|queue| queue.input_paused_since);
        let until = match track.state.place {
            Place::Held { first: false, .. } => paused.map_or(at, |since| since.min(at)),
            _ => at,
        };
        track.may_be_queued(until)
    }

    /// How many jobs a queue has, at least and at most.
    fn length(&self, queue: Queue, at: u64) -> (u64, u64) {
        let (mut least, mut most) = (0, 0);
        for track in self.jobs.values().filter(|t| t.wanted.queue == queue) {
            let must = track.must_be_queued() && track.must_live(at, self.memory_limited);
            let may = self.may_be_queued(track, at) && track.may_live(self.caught_up);
            least += u64::from(must);
            most += u64::from(may);
        }
        (least, most)
    }

    fn added(&mut self, id: JobId, wanted: &Wanted, stamp: Stamp) -> Result<(), Violation> {
        demand!(
            !self.jobs.contains_key(&id),
            WrongAnswer,
            "{id} was given out twice"
        );
        demand!(
            !self.leaving,
            WrongAnswer,
            "{id} was added on a leaving node"
        );
        let paused = self.queue(wanted.queue).input_paused_since.is_some();
        demand!(
            !paused,
            Paused,
            "{id} was added to a queue that is paused in"
        );
        let (least, _) = self.length(wanted.queue, stamp.at);
        demand!(
            wanted.max_len.is_none_or(|max| least < max),
            Miscounted,
            "{id} was added above MAXLEN {:?}, there were {least}",
            wanted.max_len
        );
        self.jobs.insert(id, Track::new(wanted.clone(), stamp));
        self.by_age.push(id);
        Ok(())
    }

    fn refused(&mut self, wanted: &Wanted, error: &Error, stamp: Stamp) -> Result<(), Violation> {
        let right = match error {
            Error::Leaving => self.leaving,
            Error::Paused => self.queue(wanted.queue).input_paused_since.is_some(),
            Error::NoRepl => wanted.replicate.is_some_and(|copies| copies > 1),
            Error::RetryZeroReplicated => {
                wanted.retry_ms == 0 && wanted.replicate.is_some_and(|copies| copies > 1)
            }
            Error::DelayAboveTtl => wanted.delay_ms >= wanted.ttl_ms,
            Error::OutOfMemory => self.memory_limited,
            Error::MaxLen => {
                let (_, most) = self.length(wanted.queue, stamp.at);
                wanted
                    .max_len
                    .is_some_and(|max| most + wanted.of_batch > max)
            }
            _ => false,
        };
        demand!(
            right,
            WrongAnswer,
            "ADDJOB was refused with {error} for {wanted:?}"
        );
        Ok(())
    }

    fn answered(
        &mut self,
        call: Call,
        told: &Told,
        direct: bool,
        was_idle: bool,
        stamp: Stamp,
    ) -> Result<(), Violation> {
        let open = self.calls.answer(call)?;
        match told {
            Told::Jobs(jobs) => {
                let count = jobs.len() as u64;
                demand!(
                    (1..=open.count).contains(&count),
                    WrongAnswer,
                    "call {call} got {count} jobs of {}",
                    open.count
                );
                for job in jobs {
                    let ahead = self.calls.ahead(call, job.queue);
                    // A direct call may come while those who wait are still to
                    // be served, after a transaction or in the next slice.
                    let fair = ahead.is_none() || (direct && !was_idle);
                    demand!(
                        fair,
                        Overtaken,
                        "call {call} took {}, {ahead:?} came before",
                        job.id
                    );
                    self.delivered(&open, job, stamp)?;
                }
                Ok(())
            }
            Told::Null => {
                let over = open.deadline.is_some_and(|deadline| deadline <= stamp.at);
                let ended = open.unblocked || over;
                if direct {
                    return self.nothing_for(call, &open, stamp);
                }
                demand!(ended, WrongAnswer, "call {call} got null before its time");
                Ok(())
            }
            Told::Error(Error::Leaving) => {
                demand!(self.leaving, WrongAnswer, "call {call} got LEAVING");
                Ok(())
            }
            Told::Error(Error::Forgotten) => {
                demand!(self.forgotten, WrongAnswer, "call {call} got FORGOTTEN");
                Ok(())
            }
            Told::Added(ids) => {
                let text = format!("call {call} was told that it added {ids:?}");
                Err(Kind::WrongAnswer.because(text))
            }
            Told::Error(error) => {
                Err(Kind::WrongAnswer.because(format!("call {call} got {error}")))
            }
        }
    }

    /// There must be no job for a client that is told so, or has to wait.
    fn nothing_for(&self, call: Call, open: &Open, stamp: Stamp) -> Result<(), Violation> {
        for track in self.jobs.values().filter(|track| track.must_be_queued()) {
            let queue = track.wanted.queue;
            let gives = self.queues.get(&queue).is_none_or(|q| !q.output_paused);
            let there = open.queues.contains(&queue)
                && gives
                && track.must_live(stamp.at, self.memory_limited);
            demand!(
                !there,
                Stuck,
                "call {call} gets nothing although there is {track:?}"
            );
        }
        Ok(())
    }

    fn delivered(&mut self, open: &Open, job: &Delivery, stamp: Stamp) -> Result<(), Violation> {
        let id = job.id;
        let Some(track) = self.jobs.get(&id) else {
            return Err(Kind::Phantom.because(format!("{id} was delivered and never added")));
        };
        let (wanted, state) = (&track.wanted, &track.state);
        demand!(
            wanted.body == job.body && wanted.queue == job.queue,
            Phantom,
            "{id} was delivered with another body or from another queue"
        );
        demand!(
            open.queues.contains(&job.queue),
            Phantom,
            "{id} is of a queue not asked for"
        );
        match track.ended() {
            Some(End::LostInCrash) => demand!(false, Phantom, "{id} was lost and is back"),
            Some(End::Expired) => demand!(false, Expired, "{id} was delivered after its TTL"),
            Some(_) => demand!(false, Resurrected, "{id} was delivered after its end"),
            None => {}
        }
        demand!(
            track.may_live(self.caught_up),
            Expired,
            "{id} was delivered after its TTL"
        );
        let paused = self.queues.get(&job.queue).is_some_and(|q| q.output_paused);
        demand!(
            !paused,
            Paused,
            "{id} was delivered from a queue that is paused out"
        );
        let once = track.received == 0 || !track.at_most_once();
        demand!(
            once || (self.crashed && self.deliver_after_crash),
            MoreThanOnce,
            "{id} was delivered twice"
        );
        if !self.may_be_queued(track, stamp.at) {
            demand!(
                !state.withheld,
                MoreThanOnce,
                "{id} was withheld and is delivered"
            );
            let first = matches!(state.place, Place::Held { first: true, .. });
            demand!(
                !first,
                TooEarly,
                "{id} was delivered at {}: {track:?}",
                stamp.at
            );
            demand!(
                false,
                Duplicate,
                "{id} was delivered at {}: {track:?}",
                stamp.at
            );
        }
        let attempts = state.attempt.0 + 1..=state.attempt.1 + 1;
        demand!(
            attempts.contains(&job.attempt),
            Miscounted,
            "{id} was delivered as attempt {} of {attempts:?}",
            job.attempt
        );
        let silently = u16::from(!track.must_be_queued());
        demand!(
            (state.nacks.0..=state.nacks.1).contains(&job.nacks)
                && job.additional <= state.additional + silently,
            Miscounted,
            "{id} has counters {} and {}: {track:?}",
            job.nacks,
            job.additional
        );
        self.is_oldest(&id, stamp.at)?;

        let track = self.jobs.get_mut(&id).expect("it was just found");
        if let Place::Held { first: false, .. } = track.state.place {
            track.count_additional();
        }
        track.received += 1;
        track.state.attempt = (job.attempt, job.attempt);
        track.hold(stamp);
        track.mark(stamp);
        Ok(())
    }

    fn is_oldest(&self, id: &JobId, at: u64) -> Result<(), Violation> {
        let queue = self.jobs[id].wanted.queue;
        for older in self.by_age.iter().take_while(|older| *older != id) {
            let track = &self.jobs[older];
            let there = track.wanted.queue == queue
                && track.must_be_queued()
                && track.must_live(at, self.memory_limited);
            demand!(!there, Order, "{id} was delivered before the older {older}");
        }
        Ok(())
    }

    pub(super) fn pause(&mut self, queue: Queue, input: bool, output: bool, stamp: Stamp) {
        let log = stamp.log;
        self.queue(queue).written.push((log, input, output));
        self.set_pause(queue, input, output, stamp);
    }

    fn set_pause(&mut self, queue: Queue, input: bool, output: bool, stamp: Stamp) {
        let entry = self.queue(queue);
        entry.output_paused = output;
        let since = entry.input_paused_since;
        entry.input_paused_since = match (input, since) {
            (true, None) => Some(stamp.at),
            (true, since) => since,
            (false, _) => None,
        };
        let (Some(since), false) = (since, input) else {
            return;
        };
        // What fell due meanwhile was put off by one RETRY, perhaps just now.
        for track in self.jobs.values_mut().filter(|t| t.wanted.queue == queue) {
            let (_, latest) = track.retry_window(stamp.at);
            if let Place::Held {
                from,
                to,
                first: false,
            } = &mut track.state.place
            {
                if *from > since {
                    *from = (*from).max(stamp.at);
                }
                *to = (*to).max(latest);
            }
        }
    }

    fn flushed(&mut self, stamp: Stamp) {
        for track in self.jobs.values_mut() {
            if track.ended().is_none() {
                track.set_place(Place::Ended(End::Flushed), stamp);
                track.mark(stamp);
            }
        }
        for queue in self.queues.values_mut() {
            queue.written.push((stamp.log, false, false));
            queue.input_paused_since = None;
            queue.output_paused = false;
        }
        // They are told null, as if someone had unblocked them.
        let waiting: Vec<Call> = self.calls.open().map(|(call, _)| call).collect();
        waiting
            .into_iter()
            .for_each(|call| self.calls.unblock(call));
    }

    fn snapshot(&mut self, stamp: Stamp) {
        for track in self.jobs.values_mut() {
            let queue = self.queues.get(&track.wanted.queue);
            let paused = queue.is_some_and(|queue| queue.input_paused_since.is_some());
            let (_, latest) = track.retry_window(stamp.at);
            if let Place::Held {
                to, first: false, ..
            } = &mut track.state.place
            {
                if paused {
                    *to = (*to).max(latest);
                }
            }
            track.mark_snapshot(stamp);
        }
    }

    fn check_idle(&mut self, jobs: u64, lengths: &[u64], stamp: Stamp) -> Result<(), Violation> {
        self.idle = true;
        self.caught_up = stamp.at;
        for track in self.jobs.values_mut() {
            track.expire(stamp);
            let queue = self.queues.get(&track.wanted.queue);
            let paused = queue.is_some_and(|queue| queue.input_paused_since.is_some());
            let first = matches!(track.state.place, Place::Held { first: true, .. });
            if first || !paused {
                track.catch_up(stamp.at);
            }
        }
        for (call, open) in self.calls.open() {
            let over = open.nohang || open.unblocked;
            let over = over || open.deadline.is_some_and(|deadline| deadline <= stamp.at);
            demand!(!over, Stuck, "call {call} was never answered");
            self.nothing_for(call, open, stamp)?;
        }
        let must = |t: &&Track| t.must_live(stamp.at, self.memory_limited);
        let least = self.jobs.values().filter(must).count() as u64;
        let may = |t: &&Track| t.may_live(self.caught_up);
        let most = self.jobs.values().filter(may).count() as u64;
        demand!(
            jobs >= least,
            Lost,
            "{jobs} jobs on the node, there must be {least}: {:?}",
            self.jobs
                .iter()
                .filter(|(_, t)| must(t))
                .collect::<Vec<_>>()
        );
        demand!(
            jobs <= most,
            Miscounted,
            "{jobs} jobs on the node, there can be {most}"
        );
        for (queue, &length) in lengths.iter().enumerate() {
            let (least, most) = self.length(queue, stamp.at);
            demand!(
                (least..=most).contains(&length),
                Miscounted,
                "queue {queue} has {length} jobs, must have {least} to {most}"
            );
        }
        Ok(())
    }

    fn crash(&mut self, kept: u64, at: u64) {
        self.crashed = true;
        self.calls.crash();
        for track in self.jobs.values_mut() {
            track.roll_back(kept, at);
        }
        for queue in self.queues.values_mut() {
            queue.written.retain(|(log, ..)| *log <= kept);
        }
    }

    fn restarted(&mut self, complete: bool, stamp: Stamp) {
        self.leaving = false;
        self.forgotten = false;
        self.caught_up = 0;
        for queue in self.queues.values_mut() {
            let (_, input, output) = queue.written.last().copied().unwrap_or_default();
            queue.input_paused_since = input.then_some(stamp.at);
            queue.output_paused = output;
        }
        let withhold = !complete && !self.deliver_after_crash;
        for track in self.jobs.values_mut() {
            track.reload(stamp);
            let alive = track.ended().is_none();
            if alive && withhold && track.at_most_once() && !track.delivered() {
                track.state.withheld = true;
                track.hold(stamp);
                track.mark(stamp);
            }
        }
    }

    fn drained(&mut self, stamp: Stamp) -> Result<(), Violation> {
        demand!(
            self.calls.open().next().is_none(),
            Stuck,
            "calls are open at the end"
        );
        for (id, track) in &self.jobs {
            let there = track.must_live(stamp.at, self.memory_limited);
            demand!(!there, Lost, "{id} is left: {track:?}");
        }
        Ok(())
    }
}

//! What is known of one job.

use super::history::Wanted;

/// A time that never comes.
pub const NEVER: u64 = u64::MAX;

/// The most that a node adds to a RETRY.
pub fn spread(retry_ms: u64) -> u64 {
    (retry_ms / 4).min(500)
}

/// Why a job is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Settled,
    Flushed,
    Expired,
    /// It was not among the records that survived.
    LostInCrash,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Queued,
    /// Not queued. It will be, not before `from` and not after `to`.
    Held {
        from: u64,
        to: u64,
        /// It waits for the end of its DELAY: PAUSE does not hold it up.
        first: bool,
    },
    Ended(End),
}

/// The changeable part: what a crash can undo.
#[derive(Clone, Debug)]
pub struct State {
    pub place: Place,
    pub expire_at: u64,
    /// Deliveries, at least and at most.
    pub attempt: (u32, u32),
    /// Negative acknowledgements, at least and at most.
    pub nacks: (u16, u16),
    /// Times it was queued again, at most.
    pub additional: u16,
    /// Kept undelivered since a crash.
    pub withheld: bool,
    /// World time minus wall clock when the TTL was written down.
    expire_skew: i64,
    /// The same for the deadline in `place`.
    place_skew: i64,
}

/// One job.
#[derive(Clone, Debug)]
pub struct Track {
    pub wanted: Wanted,
    /// Deliveries that reached a client, ever.
    pub received: u32,
    pub state: State,
    /// It was dropped for want of memory, perhaps, before its delivery was
    /// undone; or its TTL passed, and a crash left that undone, perhaps.
    pub perhaps_gone: bool,
    /// The state after each change that was written, with the number of batches
    /// that hold it.
    written: Vec<(u64, State)>,
}

/// When and with what skew something is written.
#[derive(Clone, Copy)]
pub struct Stamp {
    pub at: u64,
    pub skew: i64,
    pub log: u64,
}

impl Track {
    pub fn new(wanted: Wanted, stamp: Stamp) -> Track {
        let delay = wanted.delay_ms;
        let place = if delay == 0 {
            Place::Queued
        } else {
            let end = stamp.at + delay;
            Place::Held {
                from: end,
                to: end,
                first: true,
            }
        };
        let state = State {
            place,
            expire_at: stamp.at + wanted.ttl_ms,
            attempt: (0, 0),
            nacks: (0, 0),
            additional: 0,
            withheld: false,
            expire_skew: stamp.skew,
            place_skew: stamp.skew,
        };
        Track {
            wanted,
            received: 0,
            perhaps_gone: false,
            written: vec![(stamp.log, state.clone())],
            state,
        }
    }

    pub fn at_most_once(&self) -> bool {
        self.wanted.retry_ms == 0
    }

    pub fn delivered(&self) -> bool {
        self.state.attempt.1 > 0
    }

    /// Whether a NACK or ENQUEUE puts it back, if it is not queued.
    pub fn may_come_back(&self) -> bool {
        !self.at_most_once() || (!self.delivered() && !self.state.withheld)
    }

    pub fn ended(&self) -> Option<End> {
        match self.state.place {
            Place::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Whether it can still be on the node; `caught_up` is when the node last
    /// had nothing to do.
    pub fn may_live(&self, caught_up: u64) -> bool {
        self.ended().is_none() && caught_up < self.state.expire_at
    }

    /// Whether it must be on the node.
    pub fn must_live(&self, at: u64, memory_limited: bool) -> bool {
        let droppable = memory_limited && self.at_most_once() && self.delivered();
        let droppable = droppable || self.perhaps_gone;
        self.ended().is_none() && at < self.state.expire_at && !droppable
    }

    pub fn may_be_queued(&self, at: u64) -> bool {
        match self.state.place {
            Place::Queued => true,
            Place::Held { from, .. } => from <= at,
            Place::Ended(_) => false,
        }
    }

    /// Whether it must be on its queue. What falls due is queued by
    /// [`Track::catch_up`].
    pub fn must_be_queued(&self) -> bool {
        self.state.place == Place::Queued
    }

    /// The node has removed it, if its TTL has passed.
    pub fn expire(&mut self, stamp: Stamp) {
        if self.ended().is_none() && self.state.expire_at <= stamp.at {
            self.set_place(Place::Ended(End::Expired), stamp);
            self.mark(stamp);
        }
    }

    /// The node has queued it, if it was due by now.
    pub fn catch_up(&mut self, at: u64) {
        if let Place::Held { to, first, .. } = self.state.place {
            if to <= at {
                self.state.place = Place::Queued;
                if !first {
                    self.count_additional();
                }
            }
        }
    }

    pub fn count_additional(&mut self) {
        self.state.additional = self.state.additional.saturating_add(1);
    }

    /// Holds it until a RETRY from now.
    pub fn hold(&mut self, stamp: Stamp) {
        let (from, to) = self.retry_window(stamp.at);
        self.set_place(
            Place::Held {
                from,
                to,
                first: false,
            },
            stamp,
        );
    }

    /// When a job that is held now comes back.
    pub fn retry_window(&self, at: u64) -> (u64, u64) {
        match self.wanted.retry_ms {
            0 => (NEVER, NEVER),
            retry => (at + retry, at + retry + spread(retry)),
        }
    }

    pub fn set_place(&mut self, place: Place, stamp: Stamp) {
        self.state.place = place;
        self.state.place_skew = stamp.skew;
    }

    /// The change up to here is written.
    pub fn mark(&mut self, stamp: Stamp) {
        self.written.push((stamp.log, self.state.clone()));
    }

    /// A change was perhaps written: if it was not, the job is held as `before`
    /// says, else it is where it is now. After a crash it may be queued at once.
    pub fn mark_perhaps(&mut self, before: Place, stamp: Stamp) {
        let mut state = self.state.clone();
        state.place_skew = stamp.skew;
        let latest = |place| match place {
            Place::Held { to, .. } => to,
            _ => 0,
        };
        state.place = Place::Held {
            from: 0,
            to: latest(before).max(latest(state.place)),
            first: false,
        };
        self.written.push((stamp.log, state));
    }

    /// The whole state is written, deadlines by the wall clock of now.
    pub fn mark_snapshot(&mut self, stamp: Stamp) {
        self.state.expire_skew = stamp.skew;
        self.state.place_skew = stamp.skew;
        // If it may have been queued by now, it may be written as such.
        let before = self.state.place;
        if before != Place::Queued && self.may_be_queued(stamp.at) {
            self.mark_perhaps(before, stamp);
        } else {
            self.mark(stamp);
        }
    }

    /// Goes back to what the first `kept` batches hold.
    pub fn roll_back(&mut self, kept: u64, at: u64) {
        self.perhaps_gone |= self.state.expire_at <= at;
        self.written.retain(|(log, _)| *log <= kept);
        match self.written.last() {
            Some((_, state)) => self.state = state.clone(),
            None => self.state.place = Place::Ended(End::LostInCrash),
        }
    }

    /// The node is back, and reads deadlines by the wall clock of now.
    pub fn reload(&mut self, stamp: Stamp) {
        let shift = |deadline: u64, skew: i64| match deadline {
            NEVER => NEVER,
            // Perhaps it is queued already: see `mark_perhaps`.
            0 => stamp.at,
            _ => deadline
                .saturating_add_signed(stamp.skew - skew)
                .max(stamp.at),
        };
        let state = &mut self.state;
        state.expire_at = shift(state.expire_at, state.expire_skew);
        state.expire_skew = stamp.skew;
        if let Place::Held { from, to, first } = state.place {
            state.place = Place::Held {
                from: shift(from, state.place_skew),
                to: shift(to, state.place_skew),
                first,
            };
        }
        state.place_skew = stamp.skew;
    }
}

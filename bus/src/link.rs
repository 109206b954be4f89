//! The link to one peer, as a state machine without I/O.
//!
//! A driver brings what happens and carries out what the link wants. There are
//! four kinds of calls:
//!
//! - **from outside**: [`Link::handle_connected`], [`Link::handle_closed`],
//!   [`Link::handle_input`], [`Link::handle_written`], [`Link::handle_timeout`];
//! - **from the owner**: [`Link::send`], [`Link::greet`], [`Link::reconnect`],
//!   [`Link::hurry`], [`Link::set_settings`];
//! - **what must be done**: after any of these poll [`Link::poll_event`] until
//!   there is none, then [`Link::poll_output`], then [`Link::poll_timeout`];
//! - **readings**: [`Link::connection`].
//!
//! ```text
//! Waiting -> Connecting -> Requesting: AUTH, CLIENT SETNAME, handshake -> Up
//!    ^                         ^                                          |
//!    |                         '-- Paused <--------- Draining <-----------'
//!    '----- from anywhere, when the connection ends
//! ```
//!
//! A peer that refuses for a while (it is loading, its disk is full) keeps its
//! connection: what is under way is waited for (Draining), the owner is told
//! that the link is down, and after a pause the handshake is repeated, with a
//! new greeting, since the peer may have become another one meanwhile.

mod event;
mod replies;

pub use event::LinkEvent;

use crate::backoff::Backoff;
use crate::counters::{count, Charge, Counters};
use crate::event::{DownReason, TimedOut};
use crate::message::{Greeting, Message, Serials};
use crate::outbox::{Outbox, COMMAND};
use crate::refusal::Refusal;
use crate::resp::{self, Decoder, ProtocolError};
use crate::settings::Settings;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes a second below which a connection counts as stuck: a frame or an answer
/// that takes longer than the node timeout is waited for as long as it moves at
/// least so fast.
pub const SLOWEST: u32 = 64 << 10;

/// A refusing peer that keeps its connection is asked again after this at the
/// latest: asking is cheap, and it may be ready at any time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// No timer shorter than this is derived from the node timeout.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No connection until then.
    Waiting { until: Instant },
    /// The driver connects.
    Connecting { until: Instant },
    /// Connected; a step of the handshake is under way.
    Requesting(Step),
    /// Messages flow.
    Up,
    /// The peer refused; answers under way are waited for.
    Draining,
    /// The peer refused; the step is taken again then.
    Paused { until: Instant, step: Step },
}

/// The steps of a handshake, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Auth,
    Name,
    /// The driver is asked for a greeting, which is then sent.
    Hello,
}

/// What waits for its reply. Replies come in the order of the requests.
enum Request {
    Step(Step),
    Frame {
        number: u64,
        serials: Option<Serials>,
        sent: Instant,
    },
}

/// See the [module's documentation](self).
pub struct Link {
    settings: Arc<Settings>,
    counters: Arc<Counters>,
    backoff: Backoff,
    phase: Phase,
    decoder: Decoder,
    outbox: Outbox,
    in_flight: VecDeque<Request>,
    /// Since when the first of `in_flight` is waited for.
    waiting_since: Instant,
    /// When the connection came up, or the last frame was answered.
    heard: Instant,
    greeting: Option<Greeting>,
    /// Frames sent on this connection.
    frames: u64,
    /// The refusal told last, if nothing else happened since.
    last_refusal: Option<Refusal>,
    events: VecDeque<LinkEvent>,
}

impl Link {
    /// A link that wants to connect at once. The seed spreads its pauses.
    pub fn new(settings: Arc<Settings>, counters: Arc<Counters>, seed: u64, now: Instant) -> Link {
        Link {
            decoder: Decoder::new(settings.max_answer),
            settings,
            counters,
            backoff: Backoff::new(seed),
            phase: Phase::Waiting { until: now },
            outbox: Outbox::default(),
            in_flight: VecDeque::new(),
            waiting_since: now,
            heard: now,
            greeting: None,
            frames: 0,
            last_refusal: None,
            events: VecDeque::new(),
        }
    }

    /// The connection that is up.
    pub fn connection(&self) -> Option<u64> {
        match (self.phase, &self.greeting) {
            (Phase::Up | Phase::Draining, Some(greeting)) => Some(greeting.connection),
            _ => None,
        }
    }

    /// The last message that may have been written, at least in part.
    pub fn written(&self) -> Option<u64> {
        self.outbox.written()
    }

    /// How many messages are queued or in flight.
    pub fn pending(&self) -> usize {
        self.outbox.len() + self.unanswered()
    }

    /// Bytes held for a reply that is not complete.
    pub fn memory(&self) -> usize {
        self.decoder.memory()
    }

    // From outside.

    /// The driver has connected.
    pub fn handle_connected(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Connecting { .. }) {
            let auth = self.settings.credentials.is_some();
            self.take_step(now, if auth { Step::Auth } else { Step::Name });
        }
    }

    /// The connection is over, or could not be made.
    pub fn handle_closed(&mut self, now: Instant, reason: DownReason) {
        if !matches!(self.phase, Phase::Waiting { .. }) {
            self.fail(now, reason);
        }
    }

    /// Bytes came.
    pub fn handle_input(&mut self, now: Instant, mut input: &[u8]) {
        count(&self.counters.bytes_in, input.len());
        self.credit(now, input.len());
        while self.has_connection() && !input.is_empty() {
            if self.in_flight.is_empty() {
                return self.fail(now, DownReason::Protocol(ProtocolError::Unsolicited));
            }
            match self.decoder.decode(&mut input) {
                Ok(Some(reply)) => self.handle_reply(now, reply),
                Ok(None) => break,
                Err(error) => self.fail(now, DownReason::Protocol(error)),
            }
        }
    }

    /// The driver wrote so many of the bytes that it polled.
    pub fn handle_written(&mut self, now: Instant, bytes: usize) {
        count(&self.counters.bytes_out, bytes);
        self.outbox.advance(bytes);
        // A request behind others moves, but the first of them is waited for.
        if self.in_flight.len() <= 1 {
            self.credit(now, bytes);
        }
    }

    /// The driver does not read, because the owner has not caught up with
    /// what came: that is no fault of the peer.
    pub fn handle_held_back(&mut self, now: Instant) {
        self.waiting_since = now;
    }

    /// The time of [`Link::poll_timeout`] has come; harmless when it has not.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.phase {
            Phase::Waiting { until } if until <= now => {
                let until = now + self.timeout();
                self.phase = Phase::Connecting { until };
                self.events.push_back(LinkEvent::Open);
            }
            Phase::Connecting { until } if until <= now => {
                self.fail(now, DownReason::TimedOut(TimedOut::Connect));
            }
            Phase::Paused { until, step } if until <= now => self.take_step(now, step),
            _ if self.answer_due().is_some_and(|due| due <= now) => {
                let what = match self.phase {
                    Phase::Requesting(_) => TimedOut::Handshake,
                    _ => TimedOut::Answer,
                };
                self.fail(now, DownReason::TimedOut(what));
            }
            Phase::Up if self.ping_due().is_some_and(|due| due <= now) => self.send_frame(now),
            _ => {}
        }
    }

    // From the owner.

    /// Queues a message for a connection. It is dropped if that is not the one
    /// that is up: the owner has been told, or will be, that it is down.
    pub fn send(&mut self, connection: u64, message: Message, charge: Charge) {
        if self.phase == Phase::Up && self.connection() == Some(connection) {
            self.outbox.push(message, charge);
        } else {
            count(&self.counters.dropped, 1);
        }
    }

    /// Answers [`LinkEvent::Greet`].
    pub fn greet(&mut self, now: Instant, greeting: Greeting) {
        if self.phase == Phase::Requesting(Step::Hello) && self.in_flight.is_empty() {
            let hello = resp::command(&[COMMAND, &greeting.hello]);
            self.greeting = Some(greeting);
            self.frames = 0;
            self.request(now, Step::Hello, hello);
        }
    }

    /// Ends the connection, if there is one, and makes a new one at once.
    pub fn reconnect(&mut self, now: Instant) {
        self.handle_closed(now, DownReason::Requested);
        self.hurry(now);
    }

    /// Ends a pause: the peer was heard of, the next attempt may succeed.
    pub fn hurry(&mut self, now: Instant) {
        if let Phase::Waiting { until } | Phase::Paused { until, .. } = &mut self.phase {
            *until = now.min(*until);
            self.backoff.reset();
        }
    }

    /// Changes the settings. Name and credentials count from the next
    /// connection on, and so does the largest answer.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
    }

    // What must be done.

    /// What happened, or what the driver is to do.
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    /// Fills `slices` with bytes to write; how many it filled. Makes the next
    /// frame when the one before is written. Tell what was written by
    /// [`Link::handle_written`] and poll again.
    pub fn poll_output<'a>(&'a mut self, now: Instant, slices: &mut [IoSlice<'a>]) -> usize {
        let room = self.in_flight.len() < self.settings.max_in_flight.max(1);
        let idle = self.phase == Phase::Up && !self.outbox.is_writing();
        if idle && room && self.outbox.has_messages() {
            self.send_frame(now);
        }
        self.outbox.slices(slices)
    }

    /// When to call [`Link::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting { until }
            | Phase::Connecting { until }
            | Phase::Paused { until, .. } => Some(until),
            Phase::Requesting(_) | Phase::Draining => self.answer_due(),
            Phase::Up => self.answer_due().or(self.ping_due()),
        }
    }

    // Inside.

    fn timeout(&self) -> Duration {
        self.settings.node_timeout.max(SHORTEST_TIMEOUT)
    }

    fn answer_due(&self) -> Option<Instant> {
        let waiting = !self.in_flight.is_empty();
        waiting.then(|| self.waiting_since + self.timeout())
    }

    fn ping_due(&self) -> Option<Instant> {
        let idle = self.in_flight.is_empty();
        idle.then(|| self.heard + self.timeout() / 3)
    }

    fn has_connection(&self) -> bool {
        !matches!(self.phase, Phase::Waiting { .. } | Phase::Connecting { .. })
    }

    /// Bytes moved: the first request may take so much longer.
    fn credit(&mut self, now: Instant, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let longer = Duration::from_secs(1) * bytes / SLOWEST;
        self.waiting_since = now.min(self.waiting_since + longer);
    }

    fn expect(&mut self, now: Instant, request: Request) {
        if self.in_flight.is_empty() {
            self.waiting_since = now;
        }
        self.in_flight.push_back(request);
    }

    fn request(&mut self, now: Instant, step: Step, command: Bytes) {
        self.outbox.request(command);
        self.expect(now, Request::Step(step));
    }

    fn take_step(&mut self, now: Instant, step: Step) {
        self.phase = Phase::Requesting(step);
        match (step, &self.settings.credentials) {
            (Step::Auth, Some(credentials)) => {
                let mut words: Vec<&[u8]> = vec![b"AUTH"];
                words.extend(credentials.user.as_deref());
                words.push(&credentials.password);
                let command = resp::command(&words);
                self.request(now, step, command);
            }
            (Step::Auth, None) => self.take_step(now, Step::Name),
            (Step::Name, _) if self.settings.client_name.is_empty() => {
                self.take_step(now, Step::Hello);
            }
            (Step::Name, _) => {
                let words = [b"CLIENT", &b"SETNAME"[..], &self.settings.client_name];
                let command = resp::command(&words);
                self.request(now, step, command);
            }
            (Step::Hello, _) => self.events.push_back(LinkEvent::Greet),
        }
    }

    fn send_frame(&mut self, now: Instant) {
        let prefix = self.greeting.as_ref().map_or(&b""[..], |g| &g.prefix);
        let serials = self.outbox.frame(prefix);
        self.frames += 1;
        count(&self.counters.frames, 1);
        count(&self.counters.messages, serials.map_or(0, |s| s.count));
        let request = Request::Frame {
            number: self.frames,
            serials,
            sent: now,
        };
        self.expect(now, request);
    }

    /// The connection, or the attempt to make one, is over.
    fn fail(&mut self, now: Instant, reason: DownReason) {
        self.tell_down(reason);
        let (min, max) = (self.settings.backoff_min, self.settings.backoff_max);
        let until = now + self.backoff.next(min, max);
        self.phase = Phase::Waiting { until };
        self.in_flight.clear();
        self.last_refusal = None;
        self.decoder = Decoder::new(self.settings.max_answer);
        self.events.push_back(LinkEvent::Close);
    }

    /// Drops what is queued or in flight.
    fn tell_down(&mut self, reason: DownReason) {
        let connection = self.connection();
        let written = self.outbox.written();
        let dropped = self.outbox.clear() + self.unanswered();
        count(&self.counters.dropped, dropped);
        self.greeting = None;
        self.events.push_back(LinkEvent::Down {
            connection,
            reason,
            written,
            dropped,
        });
    }

    fn unanswered(&self) -> usize {
        let messages = |request: &Request| match request {
            Request::Frame { serials, .. } => serials.map_or(0, |s| s.count),
            Request::Step(_) => 0,
        };
        self.in_flight.iter().map(messages).sum()
    }

    /// A refusing peer is asked again on the same connection.
    fn pause(&mut self, now: Instant, step: Step) {
        let (min, max) = (self.settings.backoff_min, self.settings.backoff_max);
        let until = now + self.backoff.next(min, max.min(LONGEST_PAUSE));
        self.phase = Phase::Paused { until, step };
    }
}

#[cfg(test)]
mod tests;

//! What a reply means for a link.

use super::{Link, LinkEvent, Phase, Request, Step};
use crate::counters::count;
use crate::event::DownReason;
use crate::message::Serials;
use crate::refusal::{Refusal, RefusalKind};
use crate::resp::{ProtocolError, Reply};
use bytes::Bytes;
use std::time::Instant;

impl Link {
    pub(super) fn handle_reply(&mut self, now: Instant, reply: Reply) {
        let early = self.in_flight.len() == 1 && self.outbox.is_writing();
        let error = match self.in_flight.front() {
            None => Some(ProtocolError::Unsolicited),
            // A server may break in with an error only.
            Some(_) if early && !matches!(reply, Reply::Error(_)) => {
                Some(ProtocolError::Unsolicited)
            }
            Some(request) if !request.fits(&reply) => Some(ProtocolError::WrongType),
            Some(_) => None,
        };
        if let Some(error) = error {
            return self.fail(now, DownReason::Protocol(error));
        }
        self.waiting_since = now;
        match (self.in_flight.pop_front(), reply) {
            (Some(request), Reply::Error(error)) => {
                self.handle_refusal(now, request, Refusal::classify(&error), early);
            }
            (Some(Request::Step(Step::Auth)), _) => self.take_step(now, Step::Name),
            (Some(Request::Step(Step::Name)), _) => self.take_step(now, Step::Hello),
            (Some(Request::Step(Step::Hello)), Reply::Bulk(hello)) => self.come_up(now, hello),
            (
                Some(Request::Frame {
                    number,
                    serials,
                    sent,
                }),
                Reply::Bulk(bytes),
            ) => {
                self.counters.measured(now - sent);
                self.handle_answer(now, number, serials, bytes);
            }
            // What does not fit is sorted out above.
            _ => {}
        }
    }

    fn come_up(&mut self, now: Instant, hello: Bytes) {
        let connection = self.number();
        count(&self.counters.connections, 1);
        self.phase = Phase::Up;
        self.heard = now;
        self.last_refusal = None;
        self.events.push_back(LinkEvent::Up { connection, hello });
    }

    fn handle_answer(&mut self, now: Instant, frame: u64, serials: Option<Serials>, bytes: Bytes) {
        count(&self.counters.answers, 1);
        self.heard = now;
        self.events.push_back(LinkEvent::Answer {
            connection: self.number(),
            frame,
            serials,
            bytes,
        });
        match self.phase {
            Phase::Draining => self.finish_draining(now),
            // Not at the handshake: a peer that breaks off after it each time
            // is to be left alone for longer and longer.
            _ => self.backoff.reset(),
        }
    }

    fn handle_refusal(&mut self, now: Instant, request: Request, refusal: Refusal, early: bool) {
        count(&self.counters.refused, 1);
        let kind = refusal.kind;
        match request {
            // A name is for people; a user need not have the right to set it.
            Request::Step(Step::Name) if name_may_be_missing(kind) => {
                self.take_step(now, Step::Hello);
            }
            Request::Step(step) if kind.keeps_connection() && !early => {
                self.tell_refused(None, refusal);
                self.pause(now, step);
            }
            Request::Step(_) => self.fail(now, DownReason::Refused(refusal)),
            Request::Frame { serials, .. } => {
                count(&self.counters.dropped, serials.map_or(0, |s| s.count));
                self.tell_refused(serials, refusal.clone());
                if kind.keeps_connection() && !early {
                    self.phase = Phase::Draining;
                    self.finish_draining(now);
                } else {
                    self.fail(now, DownReason::Refused(refusal));
                }
            }
        }
    }

    /// Once nothing is under way the link is down. It must not be earlier: until
    /// then answers may come.
    fn finish_draining(&mut self, now: Instant) {
        if !self.in_flight.is_empty() {
            return;
        }
        let refusal = self.last_refusal.clone();
        let reason = refusal.map_or(DownReason::Requested, DownReason::Refused);
        self.tell_down(reason);
        self.pause(now, Step::Hello);
    }

    fn tell_refused(&mut self, serials: Option<Serials>, refusal: Refusal) {
        let last = self.last_refusal.as_ref().map(|last| last.kind);
        if serials.is_some() || last != Some(refusal.kind) {
            self.events.push_back(LinkEvent::Refused {
                connection: self.connection(),
                serials,
                refusal: refusal.clone(),
            });
        }
        self.last_refusal = Some(refusal);
    }

    /// The number of the connection that is up, or is coming up.
    fn number(&self) -> u64 {
        self.greeting.as_ref().map_or(0, |g| g.connection)
    }
}

impl Request {
    /// Whether a reply is of the type that answers the request.
    fn fits(&self, reply: &Reply) -> bool {
        match self {
            Request::Step(Step::Auth | Step::Name) => {
                matches!(reply, Reply::Status(_) | Reply::Error(_))
            }
            Request::Step(Step::Hello) | Request::Frame { .. } => {
                matches!(reply, Reply::Bulk(_) | Reply::Error(_))
            }
        }
    }
}

fn name_may_be_missing(kind: RefusalKind) -> bool {
    matches!(
        kind,
        RefusalKind::NoPermission | RefusalKind::NotANode | RefusalKind::Other
    )
}

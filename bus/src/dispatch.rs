//! What the thread does about the events of a link: the socket's part is done
//! here, the owner's is handed on.

use crate::event::{DownReason, Event, TimedOut};
use crate::link::LinkEvent;
use crate::mailbox::Command;
use crate::message::{PeerKey, ProbeKey, Target};
use crate::resolver::Resolver;
use crate::slot::Slot;
use crate::thread::Worker;
use mio::Token;
use std::time::Instant;

impl Worker {
    /// Carries out what the link wants, or returns what the owner is to be told.
    pub(crate) fn handle_event(
        &mut self,
        id: usize,
        event: LinkEvent,
        now: Instant,
    ) -> Option<Event> {
        let slot = self.slots.get_mut(&id)?;
        match event {
            LinkEvent::Open => self.connect(id, now),
            LinkEvent::Close => {
                // A lookup under way is for an attempt that is over.
                slot.attempt += 1;
                slot.looks_up = false;
                slot.close(self.poll.registry());
            }
            LinkEvent::Greet => {
                let greeting = self.owner.greet(slot.target);
                slot.link.greet(now, greeting);
            }
            event => {
                let event = explain(event, slot.looks_up);
                return match slot.target {
                    Target::Peer(peer) => of_peer(peer, event),
                    Target::Probe(probe) => of_probe(probe, event),
                };
            }
        }
        None
    }

    /// Looks the address up, which is answered by a command, or connects.
    fn connect(&mut self, id: usize, now: Instant) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.attempt += 1;
        if let Some(address) = Resolver::literal(&slot.address) {
            return slot.connect(self.poll.registry(), Token(id), &[address], now);
        }
        let (attempt, mailbox) = (slot.attempt, self.mailbox.clone());
        let started = self.resolver.start(&slot.address, move |found| {
            mailbox.put(Command::Found {
                slot: id,
                attempt,
                found,
            });
            mailbox.ring();
        });
        slot.looks_up = started.is_ok();
        if let Err(error) = started {
            give_up(slot, now, error);
        }
    }
}

/// For a link, looking a name up is a part of connecting.
fn explain(mut event: LinkEvent, looks_up: bool) -> LinkEvent {
    if let LinkEvent::Down {
        reason: DownReason::TimedOut(what @ TimedOut::Connect),
        ..
    } = &mut event
    {
        if looks_up {
            *what = TimedOut::Lookup;
        }
    }
    event
}

fn give_up(slot: &mut Slot, now: Instant, error: String) {
    let reason = DownReason::Lookup(error.into());
    slot.link.handle_closed(now, reason);
}

fn of_peer(peer: PeerKey, event: LinkEvent) -> Option<Event> {
    Some(match event {
        LinkEvent::Up { connection, hello } => Event::Up {
            peer,
            connection,
            hello,
        },
        LinkEvent::Answer {
            connection,
            frame,
            serials,
            bytes,
        } => Event::Answer {
            peer,
            connection,
            frame,
            serials,
            bytes,
        },
        LinkEvent::Refused {
            connection,
            serials,
            refusal,
        } => Event::Refused {
            peer,
            connection,
            serials,
            refusal,
        },
        LinkEvent::Down {
            connection,
            reason,
            written,
            dropped,
        } => Event::Down {
            peer,
            connection,
            reason,
            written,
            dropped,
        },
        LinkEvent::Open | LinkEvent::Close | LinkEvent::Greet => return None,
    })
}

/// A probe is over with the first thing that happens.
fn of_probe(probe: ProbeKey, event: LinkEvent) -> Option<Event> {
    let result = match event {
        LinkEvent::Up { hello, .. } => Ok(hello),
        LinkEvent::Refused { refusal, .. } => Err(DownReason::Refused(refusal)),
        LinkEvent::Down { reason, .. } => Err(reason),
        _ => return None,
    };
    Some(Event::Probed { probe, result })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_lookup_is_not_laid_upon_the_peer() {
        let down = |what| LinkEvent::Down {
            connection: None,
            reason: DownReason::TimedOut(what),
            written: None,
            dropped: 0,
        };
        let connect = || down(TimedOut::Connect);
        assert_eq!(explain(connect(), true), down(TimedOut::Lookup));
        assert_eq!(explain(connect(), false), connect());
        let text = DownReason::TimedOut(TimedOut::Lookup).to_string();
        assert!(text.contains("lookup"), "{text}");
    }
}

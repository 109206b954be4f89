//! Clients that wait for what the node has to answer.

use super::{Host, Note, HOST};
use crate::commands::addjob::write_ids;
use crate::commands::reply::write_jobs;
use crate::ffi::{self, Blocked, Call, Ctx, Fate, MainThread, Reply};
use disque_core::clock::Now;
use disque_core::effects::{Answer, WaiterId};
use disque_core::error::Error;
use disque_core::node::get::{GetJob, Receipt};
use smallvec::SmallVec;

/// A client that waits for the node's answer.
pub(super) struct Waiting {
    client: u64,
    blocked: Blocked,
    awaits: Awaits,
}

/// What a client waits for: it decides what an end from outside is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// GETJOB.
    Jobs,
    /// ADDJOB.
    Copies,
    /// ADDJOBS.
    Batch,
}

/// What an answered client was given.
pub(super) struct Given {
    client: u64,
    pub(super) receipts: SmallVec<[Receipt; 1]>,
}

impl Host {
    /// Blocks the client of a GETJOB for which there is nothing. Where nothing
    /// may block the answer is null at once.
    pub fn block(&mut self, now: Now, get: &GetJob<'_>, call: &mut Call<'_>) -> Result<(), Error> {
        if get.nohang || !self.can_block(call) {
            call.reply().null_array();
            return Ok(());
        }
        let id = self.node.block(now, get)?;
        if self.wait(now, id, Awaits::Jobs, call).is_err() {
            call.reply().null_array();
        }
        Ok(())
    }

    /// Has the client of a command wait for what the node has to answer.
    pub fn wait(
        &mut self,
        now: Now,
        id: WaiterId,
        awaits: Awaits,
        call: &mut Call<'_>,
    ) -> Result<(), Error> {
        let Ok(blocked) = call.block(id.0) else {
            self.node.forget_waiter(id, now, &mut self.fx);
            return Err(Error::MayNotWait);
        };
        let client = call.ctx().client_id();
        let waiting = Waiting {
            client,
            blocked,
            awaits,
        };
        self.waiting.insert(id, waiting);
        Ok(())
    }

    /// Answers waiting clients as the node wants it.
    pub fn answer(&mut self, main: MainThread) {
        let mut answers = std::mem::take(&mut self.fx.answers);
        for (id, answer) in answers.drain(..) {
            match answer {
                // The keys of the jobs hold until the next call of the node only.
                Answer::Jobs(_) | Answer::Added(_) => self.answer_one(id, &answer, main),
                Answer::Null | Answer::Error(_) => self.pending.push_back((id, answer)),
            }
        }
        // The room is kept for the next call.
        self.fx.answers = answers;
    }

    /// Gives answers without jobs, at most `max` of them: each costs the server
    /// some 50 us when it lets the client go, and a flush may have made thousands.
    pub fn answer_pending(&mut self, main: MainThread, max: usize) {
        for _ in 0..max {
            let Some((id, answer)) = self.pending.pop_front() else {
                return;
            };
            self.answer_one(id, &answer, main);
        }
    }

    /// The round is over in which answers were added to the output of clients. A
    /// client that is gone by now was closed before or while it was sent. Looking a
    /// client up takes longer than all else here: in a round in which nobody left
    /// nobody is looked up.
    pub fn check_given(&mut self, ctx: &Ctx) {
        let left = ffi::clients_left();
        let nobody_left = left.is_some() && left == self.clients_left;
        self.clients_left = left;
        for id in std::mem::take(&mut self.leaving_now) {
            match self.given.get(&id) {
                Some(given) if !nobody_left && !ctx.is_connected(given.client) => {
                    self.note(Note::Lost(id), ctx.main())
                }
                _ => {
                    self.given.remove(&id);
                }
            }
        }
    }

    fn answer_one(&mut self, id: WaiterId, answer: &Answer, main: MainThread) {
        let Some(waiting) = self.waiting.remove(&id) else {
            return;
        };
        let Waiting {
            client,
            blocked,
            awaits,
        } = waiting;
        let (node, fx) = (&self.node, &self.fx);
        let answered = blocked.answer(main, |reply| match answer {
            Answer::Jobs(delivered) => {
                write_jobs(reply, node, fx.jobs(*delivered), delivered.with_counters)
            }
            Answer::Added(ids) => write_ids(reply, ids, awaits),
            Answer::Null => reply.null_array(),
            Answer::Error(error) => reply.error(&error.to_string()),
        });
        if let Answer::Jobs(delivered) = answer {
            let receipts = self.node.receipts(*delivered, &self.fx);
            if answered {
                self.given.insert(id, Given { client, receipts });
            } else {
                // Redis had let the client go before the node knew.
                self.node.undeliver(&receipts, &mut self.fx);
            }
        }
    }
}

/// CLIENT UNBLOCK id: the client gets what a time-out would give it.
pub fn on_timed_out(ctx: &Ctx, id: u64, reply: &mut Reply<'_>) {
    let id = WaiterId(id);
    let awaits = HOST.with(ctx.main(), |host| {
        host.waiting.get(&id).map(|waiting| waiting.awaits)
    });
    match awaits {
        Ok(Some(Awaits::Copies | Awaits::Batch)) => reply.error(&Error::NoRepl.to_string()),
        _ => reply.null_array(),
    }
    leave_note(ctx, Note::Gone(id));
}

/// The client is gone, or Redis answered it by itself.
pub fn on_disconnected(ctx: &Ctx, id: u64) {
    leave_note(ctx, Note::Gone(WaiterId(id)));
}

/// The answer has left, or never will.
pub fn on_freed(ctx: &Ctx, id: u64, fate: Fate) {
    let id = WaiterId(id);
    match fate {
        Fate::Lost => leave_note(ctx, Note::Lost(id)),
        // Nothing is owed to a poisoned host.
        Fate::Delivered => {
            let _ = HOST.with(ctx.main(), |host| {
                if host.given.contains_key(&id) {
                    host.leaving_now.push(id);
                }
            });
        }
        Fate::Unanswered => {}
    }
}

fn leave_note(ctx: &Ctx, note: Note) {
    let main = ctx.main();
    // A poisoned host has no turns any more.
    let _ = HOST.with(main, |host| host.note(note, main));
}

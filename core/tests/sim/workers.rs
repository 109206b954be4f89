//! Producers and consumers of a replicated world: they know queues and nodes,
//! and nothing of where a job lies.

use crate::oracle::history::{Delivery, Told};
use crate::site::{queue_name, read};
use crate::world::{Event, World};
use disque_checker::{body, event::phase_of_refusal, Op, Phase, Want};
use disque_core::effects::WaiterId;
use disque_core::error::Error;
use disque_core::job_id::JobId;
use disque_core::node::add::{AddJob, Added, Sync};
use disque_core::node::get::GetJob;
use disque_core::node::inspect::Shown;
use disque_core::node::requeue::Counter;
use disque_core::span::Span;
use std::ops::Range;

/// The queue whose jobs are settled by FASTACK.
const FAST: usize = 0;
/// How long a client that finds no server waits before it tries another, in ms.
const TRY_AGAIN: u64 = 300;

/// A call that waits for its answer.
#[derive(Clone, Copy)]
pub struct Pending {
    /// The number of the call in the ledger. To the checker each job of an ADDJOBS is a
    /// call of its own: these are the numbers that follow.
    call: u64,
    count: u64,
    /// Who waits; nobody in particular when all is drained.
    client: Option<usize>,
    op: Op,
}

impl Pending {
    /// Whether it is a GETJOB.
    pub fn is_consumer(&self) -> bool {
        self.op == Op::Get
    }

    fn calls(&self) -> Range<u64> {
        self.call..self.call + self.count
    }
}

/// What a consumer does when it is done with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Ack,
    FastAck,
    Nack,
    /// WORKING, and an ACKJOB later.
    Work,
}

impl World {
    /// A client does something, and something else later.
    pub fn act_worker(&mut self, client: usize) -> Result<(), String> {
        if self.leaves_ghost(client) {
            return Ok(());
        }
        let Some(node) = self.turn_of(client) else {
            return Ok(());
        };
        if let Some(waiter) = self.clients[client].waiting {
            return match self.random.chance(100) {
                true => self.hang_up(node, waiter),
                false => Ok(()),
            };
        }
        let hunger = if self.profile.hungry { 700 } else { 500 };
        match self.random.chance(hunger) {
            true => self.ask(client),
            false => self.produce(client),
        }
    }

    fn produce(&mut self, client: usize) -> Result<(), String> {
        let node = self.clients[client].node;
        let last = self.profile.queues - 1;
        let queue = match self.random.chance(400) {
            true => last,
            false => self.random.range(0, last as u64 - 1) as usize,
        };
        let (name, random) = (queue_name(queue), &mut self.random);
        let retry = random.pick(&[0, 0, 200, 1_000, 3_000, 3_000, 20_000]);
        let replicate = match retry {
            0 => 1,
            _ => random.range(1, self.profile.nodes as u64) as u16,
        };
        let some = random.range(0, u64::from(replicate)) as u16;
        let sync = random.pick(&[None, None, None, Some(Sync::Copies(0))]);
        let sync = random.pick(&[
            sync,
            sync,
            Some(Sync::Copies(some)),
            Some(Sync::AllBut(some)),
        ]);
        let delay = random.pick(&[0, 0, 0, 0, 0, 0, 500, 3_000]);
        let ttl = random.pick(&[10_000, 600_000, 86_400_000, 86_400_000]);
        let timeout_ms = random.pick(&[0, 50, 500, 5_000]);
        let count = self.random.weighted(&[(75, 1), (12, 2), (10, 5), (3, 16)]);
        let pending = Pending {
            call: self.next_lines(count),
            count,
            client: Some(client),
            op: Op::Add,
        };
        let copies = match sync {
            None => replicate,
            Some(Sync::Copies(n)) => n,
            Some(Sync::AllBut(n)) => replicate - n,
        };
        let mut bodies = Vec::new();
        for call in pending.calls() {
            let body = body::make(1, client as u64, call, &format!("R{replicate}"));
            let mut line = self.line(node, call, Phase::Invoke, Op::Add);
            line = line.queue(text(&name)).body(&body);
            line.want = Some(Want {
                replicate: replicate.into(),
                sync: copies.into(),
                retry,
                ttl,
                delay,
            });
            self.note(line);
            bodies.push(body);
        }
        let bodies: Vec<&[u8]> = bodies.iter().map(String::as_bytes).collect();
        let add = AddJob {
            queue: &name,
            bodies: &bodies,
            timeout_ms,
            replicate: Some(replicate),
            sync,
            delay: Span::from_ms(delay),
            retry: Some(Span::from_ms(retry)),
            ttl: Span::from_ms(ttl),
            max_len: None,
        };
        let added = self.call(node, |node, now, fx| node.add_job(now, &add, true, fx));
        if let Ok(Added::Done(ids) | Added::Waits { ids, .. }) = &added {
            self.ledger.ids.extend(ids);
        }
        if self.dies_unwritten(node)? {
            self.note_cut_off(node, pending);
            return Ok(());
        }
        match added {
            Ok(Added::Done(ids)) => self.note_added(node, pending, &ids),
            Ok(Added::Waits { waiter, .. }) => {
                self.wait_for(node, waiter, pending);
            }
            Err(error) => self.note_refused(node, pending, &error, false),
        }
        self.over(node)
    }

    fn note_added(&mut self, node: usize, pending: Pending, ids: &[JobId]) {
        assert_eq!(ids.len() as u64, pending.count, "an id for each body");
        for (call, id) in pending.calls().zip(ids) {
            self.ledger.promised.insert(*id);
            let line = self.line(node, call, Phase::Ok, Op::Add);
            self.note(line.job(id.to_string()));
        }
    }

    fn note_refused(&mut self, node: usize, pending: Pending, error: &Error, waited: bool) {
        let error = error.to_string();
        let phase = phase_of_refusal(&error, waited);
        for call in pending.calls() {
            let line = self.line(node, call, phase, Op::Add);
            self.note(line.error(error.clone()));
        }
    }

    fn wait_for(&mut self, node: usize, waiter: WaiterId, pending: Pending) {
        self.site(node).pending.insert(waiter, pending);
        if let Some(client) = pending.client {
            self.clients[client].waiting = Some(waiter);
        }
    }

    /// A command is over: who waits is served, and all is written down.
    fn over(&mut self, node: usize) -> Result<(), String> {
        let slice = self.profile.slice;
        self.call(node, |node, now, fx| node.serve(now, slice, fx));
        self.write(node);
        self.answer(node)
    }

    fn ask(&mut self, client: usize) -> Result<(), String> {
        // Nobody reads the last queue before the end: its jobs live through all.
        let queue = self.random.range(0, self.profile.queues as u64 - 2) as usize;
        let node = self.clients[client].node;
        let name = queue_name(queue);
        let get = GetJob {
            queues: std::iter::once(name.as_slice()).collect(),
            count: self.random.pick(&[1, 1, 1, 3]),
            nohang: self.random.chance(200),
            timeout_ms: self.random.pick(&[None, Some(1_000), Some(30_000)]),
            with_counters: false,
        };
        self.get_or_wait(node, &get, Some(client))
    }

    /// GETJOB from its one queue.
    pub fn get_or_wait(
        &mut self,
        node: usize,
        get: &GetJob<'_>,
        client: Option<usize>,
    ) -> Result<(), String> {
        let call = self.next_line();
        let line = self.line(node, call, Phase::Invoke, Op::Get);
        self.note(line.queue(text(get.queues[0])));
        let jobs = self.call(node, |node, now, fx| {
            let delivered = node.get_jobs(now, get, fx)?;
            Some(read(node, fx, delivered))
        });
        self.write(node);
        self.answer(node)?;
        let pending = Pending {
            call,
            count: 1,
            client,
            op: Op::Get,
        };
        match jobs {
            Some(jobs) => self.received(node, pending, jobs),
            None if get.nohang => self.note_nothing(node, call, "null"),
            None => match self.call(node, |node, now, _| node.block(now, get)) {
                Ok(waiter) => self.wait_for(node, waiter, pending),
                Err(error) => self.note_nothing(node, call, &error.to_string()),
            },
        }
        Ok(())
    }

    fn note_nothing(&mut self, node: usize, call: u64, why: &str) {
        let line = self.line(node, call, Phase::Fail, Op::Get);
        self.note(line.error(why));
    }

    /// What a client that waited is told.
    pub fn answer_worker(&mut self, node: usize, id: WaiterId, told: Told) -> Result<(), String> {
        let Some(pending) = self.site(node).pending.remove(&id) else {
            return Err(format!("{id:?} is answered, and does not wait"));
        };
        if let Some(client) = pending.client {
            self.clients[client].waiting = None;
        }
        match (pending.op, told) {
            (Op::Get, Told::Jobs(jobs)) => self.received(node, pending, jobs),
            (Op::Get, Told::Null) => self.note_nothing(node, pending.call, "null"),
            (Op::Get, Told::Error(error)) => {
                self.note_nothing(node, pending.call, &error.to_string())
            }
            (Op::Add, Told::Added(ids)) => self.note_added(node, pending, &ids),
            (Op::Add, Told::Error(error)) => self.note_refused(node, pending, &error, true),
            (op, told) => return Err(format!("{op:?} was told {told:?}")),
        }
        Ok(())
    }

    /// Jobs have come for a client; or it was gone before they came.
    fn received(&mut self, node: usize, pending: Pending, jobs: Vec<Delivery>) {
        if pending.client.is_some() && self.random.chance(self.profile.vanishing) {
            let line = self.line(node, pending.call, Phase::Info, Op::Get);
            self.note(line.error("the client is gone"));
            self.lose(node, &jobs);
            return;
        }
        for job in jobs {
            let line = self.line(node, pending.call, Phase::Ok, Op::Get);
            let mut line = line.job(job.id.to_string()).body(text(&job.body));
            line.q = Some(text(&queue_name(job.queue)));
            line.attempt = Some(job.attempt);
            self.note(line);
            match pending.client {
                Some(_) => self.take_up(node, &job),
                // All is drained: nobody waits for the work any more.
                None => {
                    self.schedule(node, 0, Event::Deed(job.id, deed_of(job.queue)));
                    self.schedule(node, 0, Event::Thirst(job.queue));
                }
            }
        }
    }

    /// A consumer works on a job.
    fn take_up(&mut self, node: usize, job: &Delivery) {
        let retry = self.retry_of(node, &job.id);
        let settle = deed_of(job.queue);
        let node = match self.random.chance(self.profile.strays) {
            true => self.other_site(node),
            false => node,
        };
        let deed = self.random.weighted(&[
            (85, Some(settle)),
            (5, Some(Deed::Nack)),
            (5, Some(Deed::Work)),
            (5, None),
        ]);
        if let Some(deed) = deed {
            let hold = self.hold(retry);
            self.schedule(node, hold, Event::Deed(job.id, deed));
        }
    }

    /// How long a consumer works on a job with this RETRY.
    fn hold(&mut self, retry: u64) -> u64 {
        let any = self.random.range(0, 3 * retry.max(500));
        if self.random.chance(self.profile.late) {
            // What it says crosses what nodes tell each other.
            return retry + self.random.range(0, 500 + 2 * self.profile.latency);
        }
        // Most work is done within RETRY, or nothing would be settled in time.
        match self.random.chance(600) {
            true => any / 4,
            false => any,
        }
    }

    fn retry_of(&mut self, node: usize, id: &JobId) -> u64 {
        self.call(node, |node, now, _| match node.show(now, id) {
            Some(Shown::Job(view)) => Some(view.job.options.retry.ms()),
            _ => None,
        })
        .unwrap_or(0)
    }

    /// A consumer is done with a job. If the server is down, it goes to another.
    pub fn work_done(&mut self, node: usize, id: JobId, deed: Deed) -> Result<(), String> {
        if !self.is_serving(node) {
            let other = self.other_site(node);
            self.schedule(other, TRY_AGAIN, Event::Deed(id, deed));
            return Ok(());
        }
        let op = match deed {
            Deed::Ack => Op::Ack,
            Deed::FastAck => Op::FastAck,
            Deed::Nack => Op::Nack,
            Deed::Work => Op::Working,
        };
        let call = self.next_line();
        let line = self.line(node, call, Phase::Invoke, op);
        self.note(line.job(id.to_string()));
        if self.random.chance(10) {
            self.note_unanswered(node, call, op, id);
            return Ok(());
        }
        let count = self.call(node, |node, now, fx| match deed {
            Deed::Ack => Ok(node.ack_jobs(now, &[id], fx)),
            Deed::FastAck => Ok(node.fast_ack(now, &[id], fx)),
            Deed::Nack => Ok(node.requeue_jobs(now, &[id], Counter::Nack, fx)),
            Deed::Work => node.working(now, Some(&id), fx).map(|_| 1),
        });
        let dies = self.dies_unwritten(node)?;
        if dies || self.random.chance(10) {
            self.note_unanswered(node, call, op, id);
        } else {
            let alone = self.call(node, |node, _, _| node.cluster().is_alone());
            let phase = phase_of_deed(&count, alone);
            let mut line = self.line(node, call, phase, op).job(id.to_string());
            line.err = count.as_ref().err().map(Error::to_string);
            line.n = count.ok().map(|count| count as u64);
            self.note(line);
        }
        if deed == Deed::FastAck {
            self.ledger.dropped.insert(id);
        }
        if deed == Deed::Work {
            let later = self.random.range(1, 3_000);
            self.schedule(node, later, Event::Deed(id, Deed::Ack));
        }
        match dies {
            true => Ok(()),
            false => self.over(node),
        }
    }

    /// The connection breaks under a command, before or after it took effect.
    fn note_unanswered(&mut self, node: usize, call: u64, op: Op, id: JobId) {
        let line = self.line(node, call, Phase::Info, op).job(id.to_string());
        self.note(line.error("the connection is gone"));
        if op == Op::Ack {
            // Whoever wants to be sure says it again.
            let other = self.other_site(node);
            self.schedule(other, TRY_AGAIN, Event::Deed(id, Deed::Ack));
        }
    }

    /// A client that waits is gone.
    pub fn hang_up(&mut self, node: usize, waiter: WaiterId) -> Result<(), String> {
        let Some(pending) = self.site(node).pending.remove(&waiter) else {
            return Ok(());
        };
        if let Some(client) = pending.client {
            self.clients[client].waiting = None;
        }
        self.call(node, |node, now, fx| node.forget_waiter(waiter, now, fx));
        self.note_cut_off(node, pending);
        self.over(node)
    }

    /// A GETJOB that waited has got nothing; of an ADDJOB nobody knows.
    fn note_cut_off(&mut self, node: usize, pending: Pending) {
        let phase = match pending.op {
            Op::Get => Phase::Fail,
            _ => Phase::Info,
        };
        for call in pending.calls() {
            let line = self.line(node, call, phase, pending.op);
            self.note(line.error("the connection is gone"));
        }
    }

    /// A node stops: the connections of its clients end.
    pub fn cut_off_workers(&mut self, node: usize) {
        for pending in std::mem::take(&mut self.site(node).pending).into_values() {
            self.note_cut_off(node, pending);
        }
    }
}

/// What became of a command on a job. One that counted nothing at a node that knows no
/// other has left nothing: whoever holds the job, it is not told.
fn phase_of_deed(count: &Result<usize, Error>, alone: bool) -> Phase {
    match count {
        Err(_) => Phase::Fail,
        Ok(0) if alone => Phase::Fail,
        Ok(_) => Phase::Ok,
    }
}

fn deed_of(queue: usize) -> Deed {
    match queue {
        FAST => Deed::FastAck,
        _ => Deed::Ack,
    }
}

#[test]
fn only_a_node_that_knows_others_takes_an_ack_of_what_it_does_not_have() {
    let ended = [(Ok(0), true), (Ok(0), false), (Ok(1), true)];
    let phases = ended.map(|(count, alone)| phase_of_deed(&count, alone));
    assert_eq!(phases, [Phase::Fail, Phase::Ok, Phase::Ok]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

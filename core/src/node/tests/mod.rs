//! Tests of the node, one file per concern, and what they share.

mod add;
mod batch;
mod copies;
mod federation;
mod get;
mod large;
mod leaving;
mod load;
mod net;
mod queues;
mod requeue;
mod succession;
mod time;
mod waiting;

use super::add::{AddJob, Added};
use super::get::GetJob;
use super::inspect::{JobView, Shown};
use super::requeue::Counter;
use super::{Identity, Node};
use crate::clock::Now;
use crate::effects::{Answer, Effects, WaiterId};
use crate::error::Error;
use crate::job::State;
use crate::job_id::{IdGenerator, Ids, JobId};
use crate::message::encode_header;
use crate::queue::Pause;
use crate::record::Record;
use crate::settings::Settings;
use crate::span::Span;
use std::collections::BTreeMap;
use std::fmt::Write;

const START: Now = Now {
    mono_ms: 1_000_000,
    wall_ms: 1_700_000_000_000,
};

const IDENTITY: Identity = Identity {
    id: [0xab; 20],
    epoch: 7,
    term: 1,
};

/// A node with its time and its effects. Each call is followed by a check of
/// everything that must hold.
struct Kit {
    node: Node,
    now: Now,
    fx: Effects,
}

/// A job of queue `q` that is queued at once, with a RETRY of 10 s.
fn job() -> AddJob<'static> {
    AddJob {
        queue: b"q",
        bodies: &[b"body"],
        timeout_ms: 0,
        replicate: Some(1),
        sync: None,
        delay: Span::ZERO,
        retry: Some(Span::from_secs(10)),
        ttl: Span::from_secs(1_000),
        max_len: None,
    }
}

fn get_from<'a>(queues: &[&'a str], count: u64) -> GetJob<'a> {
    GetJob {
        queues: queues.iter().map(|name| name.as_bytes()).collect(),
        count,
        nohang: false,
        timeout_ms: None,
        with_counters: false,
    }
}

fn unknown_id() -> JobId {
    IdGenerator::new([1; 4], [1; 32]).next(Span::from_secs(60), true)
}

/// The id of a job that nobody waits for.
#[track_caller]
fn done(added: Result<Added, Error>) -> JobId {
    match added {
        Ok(Added::Done(ids)) => ids[0],
        other => panic!("not added at once: {other:?}"),
    }
}

impl Kit {
    fn new() -> Kit {
        Kit::with(Settings::default())
    }

    fn with(settings: Settings) -> Kit {
        Kit {
            node: Node::new(IDENTITY, settings, [3; 32], START),
            now: START,
            fx: Effects::new(),
        }
    }

    /// Calls the node, forgets earlier effects, checks.
    fn call<R>(&mut self, call: impl FnOnce(&mut Node, Now, &mut Effects) -> R) -> R {
        self.fx.clear();
        let result = call(&mut self.node, self.now, &mut self.fx);
        self.check();
        result
    }

    #[track_caller]
    fn check(&self) {
        if let Err(wrong) = self.node.check_invariants(self.now) {
            panic!("{wrong}");
        }
    }

    #[track_caller]
    fn view(&self, id: JobId) -> JobView<'_> {
        match self.node.show(self.now, &id) {
            Some(Shown::Job(view)) => view,
            _ => panic!("the job is not there"),
        }
    }

    fn try_add(&mut self, add: &AddJob<'_>) -> Result<JobId, Error> {
        self.call(|node, now, fx| {
            let added = node.add_job(now, add, true, fx);
            node.serve(now, 100, fx);
            added.map(|added| match added {
                Added::Done(ids) | Added::Waits { ids, .. } => ids[0],
            })
        })
    }

    #[track_caller]
    fn add(&mut self, add: &AddJob<'_>) -> JobId {
        self.try_add(add).expect("the job is accepted")
    }

    /// The ids of jobs that nobody waits for.
    fn try_to_add_all(&mut self, add: &AddJob<'_>) -> Result<Ids, Error> {
        let added = self.call(|node, now, fx| node.add_job(now, add, true, fx));
        added.map(|added| match added {
            Added::Done(ids) | Added::Waits { ids, .. } => ids,
        })
    }

    fn add_to(&mut self, queue: &str) -> JobId {
        self.add(&AddJob {
            queue: queue.as_bytes(),
            ..job()
        })
    }

    fn get(&mut self, queues: &[&str], count: u64) -> Vec<JobId> {
        let get = get_from(queues, count);
        self.call(|node, now, fx| match node.get_jobs(now, &get, fx) {
            Some(delivered) => ids(node, fx.jobs(delivered)),
            None => Vec::new(),
        })
    }

    /// The one job that is next on queue `q`, if any.
    fn take(&mut self) -> Option<JobId> {
        self.get(&["q"], 1).pop()
    }

    fn block(&mut self, get: &GetJob<'_>) -> Result<WaiterId, Error> {
        self.call(|node, now, _| node.block(now, get))
    }

    fn serve(&mut self) {
        self.call(|node, now, fx| node.serve(now, 100, fx));
    }

    /// The answers of the last call.
    fn answers(&self) -> Vec<(WaiterId, Vec<JobId>)> {
        let jobs = |answer: &Answer| match answer {
            Answer::Jobs(delivered) => ids(&self.node, self.fx.jobs(*delivered)),
            _ => Vec::new(),
        };
        let answers = self.fx.answers.iter();
        answers.map(|(id, answer)| (*id, jobs(answer))).collect()
    }

    fn nack(&mut self, id: JobId) -> usize {
        self.call(|node, now, fx| node.requeue_jobs(now, &[id], Counter::Nack, fx))
    }

    fn enqueue(&mut self, id: JobId) -> usize {
        let counter = Counter::AdditionalDelivery;
        self.call(|node, now, fx| node.requeue_jobs(now, &[id], counter, fx))
    }

    fn dequeue(&mut self, id: JobId) -> usize {
        self.call(|node, now, fx| node.dequeue_jobs(now, &[id], fx))
    }

    fn ack(&mut self, id: JobId) -> usize {
        self.call(|node, now, fx| node.ack_jobs(now, &[id], fx))
    }

    fn working(&mut self, id: JobId) -> Result<u64, Error> {
        self.call(|node, now, fx| node.working(now, Some(&id), fx))
    }

    fn pause(&mut self, word: &str) {
        let pause = Pause {
            input: matches!(word, "in" | "all"),
            output: matches!(word, "out" | "all"),
        };
        let done = self.call(|node, now, fx| node.pause(now, b"q", pause, fx));
        assert_eq!(done, Ok(()));
    }

    /// Lets time pass without the node noticing.
    fn skip(&mut self, ms: u64) {
        self.now.mono_ms += ms;
        self.now.wall_ms += ms;
    }

    /// Does what is due, until nothing is.
    fn run(&mut self) {
        self.fx.clear();
        while self
            .node
            .next_wake()
            .is_some_and(|wake| wake <= self.now.mono_ms)
        {
            self.node.run_due(self.now, 1_000, &mut self.fx);
            self.check();
        }
    }

    /// Lets time pass.
    fn pass(&mut self, ms: u64) {
        self.skip(ms);
        self.run();
    }

    fn state(&self, id: JobId) -> Option<State> {
        let key = self.node.jobs.find(&id)?;
        Some(self.node.job(key).state)
    }

    /// Negative acknowledgements and additional deliveries.
    fn counters(&self, id: JobId) -> (u16, u16) {
        let view = self.view(id);
        (view.job.nacks, view.job.additional_deliveries)
    }

    fn requeue_within(&self, id: JobId) -> Option<u64> {
        let view = self.view(id);
        view.requeue_within_ms
    }
}

fn ids(node: &Node, keys: &[u32]) -> Vec<JobId> {
    keys.iter().map(|&key| node.job(key).id).collect()
}

/// What a restart must know of a node, in one form for equal nodes.
fn dump_data(node: &Node, now: Now) -> String {
    let mut jobs = BTreeMap::new();
    let mut from = 0;
    while let Some(key) = node.jobs.next_occupied(from) {
        from = key + 1;
        let list = node.recorded_holders(key);
        let mut image = node.image(key, now, &list);
        // What is late is due at once, however late.
        image.expire_at = image.expire_at.max(now.wall_ms);
        if image.requeue_at != 0 {
            image.requeue_at = image.requeue_at.max(now.wall_ms);
        }
        jobs.insert(image.id, format!("{image:?}"));
    }
    let mut queues = BTreeMap::new();
    for (_, queue) in node.queues.iter() {
        let order: Vec<u32> = queue.order.iter().collect();
        if !order.is_empty() || !queue.pause.is_none() {
            let line = format!("{:?} {:?}", queue.pause, ids(node, &order));
            queues.insert(queue.name.clone(), line);
        }
    }
    let mut text = format!("{:?}\n", node.identity);
    for line in jobs.values().chain(queues.values()) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Everything that anyone can tell of a node, counters included.
fn dump_all(node: &Node, now: Now) -> String {
    let mut text = dump_data(node, now);
    let mut queues = BTreeMap::new();
    for (_, queue) in node.queues.iter() {
        let line = format!(
            "in {} out {} counts {:?} waiters {:?} created {} used {} ready {}",
            queue.jobs_in,
            queue.jobs_out,
            queue.counts,
            queue.waiters,
            queue.created_at,
            queue.used_at,
            queue.ready
        );
        queues.insert(queue.name.clone(), line);
    }
    let _ = write!(
        text,
        "{queues:?}\n{:?} {:?} {} bytes, {} waiters, wake {:?}",
        node.stats,
        node.job_counts,
        node.jobs.bytes(),
        node.waiters.len(),
        node.next_wake()
    );
    text
}

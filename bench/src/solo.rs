//! One node, used as the module uses it.

use disque_core::clock::Now;
use disque_core::effects::Effects;
use disque_core::job_id::JobId;
use disque_core::node::add::{AddJob, Added};
use disque_core::node::get::GetJob;
use disque_core::node::requeue::Counter;
use disque_core::node::{Identity, Node};
use disque_core::settings::Settings;
use disque_core::span::Span;

/// The body of every job.
pub const BODY: [u8; 100] = [b'x'; 100];

/// The time at which nodes start.
pub const START: Now = Now {
    mono_ms: 1_000_000,
    wall_ms: 1_700_000_000_000,
};

/// A job as ADDJOB without options makes it.
pub fn job() -> AddJob<'static> {
    AddJob {
        queue: b"queue",
        bodies: &[&BODY],
        timeout_ms: 0,
        replicate: Some(1),
        sync: None,
        delay: Span::ZERO,
        retry: None,
        ttl: Span::from_secs(86_400),
        max_len: None,
    }
}

/// A node of this number, always with the same secrets.
pub fn node(number: u8) -> Node {
    let identity = Identity {
        id: [number; 20],
        epoch: u64::from(number),
        term: 0,
    };
    Node::new(identity, Settings::default(), [number; 32], START)
}

/// A node without peers.
pub struct Solo {
    node: Node,
    fx: Effects,
    now: Now,
}

impl Solo {
    /// A node with so many jobs queued.
    pub fn with_jobs(count: usize) -> Solo {
        let mut solo = Solo {
            node: node(1),
            fx: Effects::new(),
            now: START,
        };
        for _ in 0..count {
            solo.add();
        }
        solo
    }

    /// ADDJOB.
    pub fn add(&mut self) -> JobId {
        let added = self.node.add_job(self.now, &job(), true, &mut self.fx);
        self.finish();
        match added {
            Ok(Added::Done(ids)) => ids[0],
            other => panic!("not added: {other:?}"),
        }
    }

    /// ADDJOBS.
    pub fn add_all(&mut self, bodies: &[&[u8]]) -> usize {
        let add = AddJob { bodies, ..job() };
        let added = self.node.add_job(self.now, &add, true, &mut self.fx);
        self.finish();
        match added {
            Ok(Added::Done(ids)) => ids.len(),
            other => panic!("not added: {other:?}"),
        }
    }

    /// GETJOB with COUNT.
    pub fn get(&mut self, count: u64) -> Vec<JobId> {
        let get = GetJob {
            queues: [&b"queue"[..]].into_iter().collect(),
            count,
            nohang: true,
            timeout_ms: None,
            with_counters: false,
        };
        let delivered = self.node.get_jobs(self.now, &get, &mut self.fx);
        let delivered = delivered.expect("there are jobs");
        let keys = self.fx.jobs(delivered);
        let ids = keys.iter().map(|&key| self.node.job(key).id).collect();
        self.finish();
        ids
    }

    /// ACKJOB, with the look at whose jobs these are that precedes it.
    pub fn ack(&mut self, ids: &[JobId]) -> usize {
        std::hint::black_box(self.node.queue_names(ids).count());
        let acked = self.node.ack_jobs(self.now, ids, &mut self.fx);
        self.finish();
        acked
    }

    /// NACK: the jobs are queued again.
    pub fn requeue(&mut self, ids: &[JobId]) -> usize {
        let nacked = self
            .node
            .requeue_jobs(self.now, ids, Counter::Nack, &mut self.fx);
        self.finish();
        nacked
    }

    /// Adds so many jobs with a DELAY, and lets it end: the timers of all are started
    /// and ring, and each job is queued.
    pub fn delay(&mut self, jobs: usize) {
        let delay = Span::from_secs(10);
        let add = AddJob { delay, ..job() };
        for _ in 0..jobs {
            let added = self.node.add_job(self.now, &add, true, &mut self.fx);
            added.expect("added");
            self.finish();
        }
        self.now.mono_ms += delay.ms();
        self.now.wall_ms += delay.ms();
        while self
            .node
            .next_wake()
            .is_some_and(|at| at <= self.now.mono_ms)
        {
            self.node.run_due(self.now, 200, &mut self.fx);
            self.finish();
        }
    }

    /// What the module does at the end of a command.
    fn finish(&mut self) {
        self.node.serve(self.now, 64, &mut self.fx);
        std::hint::black_box(self.fx.records.bytes());
        self.fx.clear();
    }
}

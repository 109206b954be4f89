//! Any sequence of operations on a node: everything that it keeps stays sound,
//! and a second node that only takes its records has the same jobs.

use crate::draw::Draw;
use crate::records::{check, copy_of, fresh_node, START};
use disque_core::body::LARGE;
use disque_core::clock::Now;
use disque_core::effects::{Answer, Effects, WaiterId};
use disque_core::job_id::JobId;
use disque_core::memory::Pressure;
use disque_core::node::add::{AddJob, Added, Sync};
use disque_core::node::get::{GetJob, Receipt};
use disque_core::node::load::Completeness;
use disque_core::node::requeue::Counter;
use disque_core::node::scan::{JobFilter, Limits, QueueFilter};
use disque_core::node::Node;
use disque_core::queue::Pause;
use disque_core::span::Span;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

const QUEUES: [&[u8]; 4] = [b"a", b"b", b"", b"a queue with a long name"];
/// Milliseconds, around the ends of the timing wheel's levels.
const TIMES: [u64; 16] = [
    0,
    1,
    2,
    63,
    64,
    65,
    100,
    1_000,
    4_095,
    4_096,
    30_000,
    262_144,
    300_000,
    3_600_000,
    90_000_000,
    70_000_000_000,
];
/// An input that is longer adds no more than time.
const MAX_OPERATIONS: usize = 400;

/// Decodes the bytes to operations and runs them.
pub fn operations(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let mut run = Run::new();
    for _ in 0..MAX_OPERATIONS {
        if draw.is_empty() {
            break;
        }
        let what = run.operation(&mut draw);
        run.settle(what);
    }
    copy_of(&run.node, run.now, 0);
}

struct Run {
    now: Now,
    node: Node,
    /// Takes the records and has no time of its own, like a replica.
    follower: Node,
    /// Restarts so far.
    starts: u8,
    fx: Effects,
    /// Jobs that were added, gone ones included.
    ids: Vec<JobId>,
    /// Clients that wait, with their COUNT.
    waiting: BTreeMap<WaiterId, u64>,
    /// Deliveries whose replies have not left.
    receipts: Vec<SmallVec<[Receipt; 1]>>,
}

impl Run {
    fn new() -> Run {
        Run {
            now: START,
            node: fresh_node(START, 0),
            follower: fresh_node(START, 0),
            starts: 0,
            fx: Effects::new(),
            ids: Vec::new(),
            waiting: BTreeMap::new(),
            receipts: Vec::new(),
        }
    }

    /// Does one thing and says what it was.
    fn operation(&mut self, draw: &mut Draw<'_>) -> &'static str {
        match draw.byte() % 16 {
            0..=3 => self.add(draw),
            4 | 5 => self.get(draw),
            6 => self.settle_jobs(draw),
            7 | 8 => self.requeue_jobs(draw),
            9 => self.pause(draw),
            10 | 11 => self.pass_time(draw),
            12 => self.lose_a_reply(draw),
            13 => self.lose_a_client(draw),
            14 => self.scan(draw),
            _ => self.rare(draw),
        }
    }

    fn add(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let body = vec![
            b'x';
            match draw.byte() {
                255 => LARGE,
                len => len.into(),
            }
        ];
        let flags = draw.byte();
        // The highest bit makes a batch of it.
        let bodies: &[&[u8]] = match flags & 128 {
            0 => &[&body],
            _ => &[&body, b"", &body],
        };
        let given = |bit: u8| flags & 1 << bit != 0;
        let add = AddJob {
            queue: draw.one_of(&QUEUES),
            bodies,
            timeout_ms: 0,
            replicate: given(0).then(|| draw.one_of(&[1, 2, 65_535])),
            sync: given(1).then(|| draw.one_of(&[Sync::Copies(0), Sync::AllBut(1)])),
            delay: Span::from_ms(if given(2) { draw.one_of(&TIMES) } else { 0 }),
            retry: given(3).then(|| Span::from_ms(draw.one_of(&TIMES))),
            ttl: Span::from_ms(if given(4) {
                draw.one_of(&TIMES).max(1)
            } else {
                86_400_000
            }),
            max_len: given(5).then(|| draw.one_of(&[1, 2, 5])),
        };
        let can_wait = given(6);
        match self.node.add_job(self.now, &add, can_wait, &mut self.fx) {
            Ok(Added::Done(ids)) => self.ids.extend(ids),
            Ok(Added::Waits { .. }) => panic!("a node alone waits for copies"),
            Err(_) => {}
        }
        "ADDJOB"
    }

    fn get(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let flags = draw.byte();
        let queues = (0..QUEUES.len()).filter(|n| flags & 1 << n != 0);
        let get = GetJob {
            queues: queues.map(|n| QUEUES[n]).collect(),
            count: draw.one_of(&[1, 1, 2, 7, 1 << 53]),
            nohang: flags & 16 != 0,
            timeout_ms: (flags & 32 != 0).then(|| draw.one_of(&TIMES).max(1)),
            with_counters: flags & 64 != 0,
        };
        match self.node.get_jobs(self.now, &get, &mut self.fx) {
            Some(delivered) => {
                assert!(self.fx.jobs(delivered).len() as u64 <= get.count);
                self.receipts.push(self.node.receipts(delivered, &self.fx));
            }
            None if get.nohang || get.queues.is_empty() => {}
            None => {
                if let Ok(id) = self.node.block(self.now, &get) {
                    assert_eq!(self.waiting.insert(id, get.count), None);
                }
            }
        }
        "GETJOB"
    }

    /// Up to three jobs, one of them perhaps twice.
    fn some_ids(&self, draw: &mut Draw<'_>) -> SmallVec<[JobId; 3]> {
        let count = if self.ids.is_empty() {
            0
        } else {
            draw.one_of(&[1, 1, 2, 3])
        };
        (0..count).map(|_| draw.one_of(&self.ids)).collect()
    }

    fn settle_jobs(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let ids = self.some_ids(draw);
        let (node, now, fx) = (&mut self.node, self.now, &mut self.fx);
        let before = node.job_count();
        let done = match draw.byte() % 3 {
            0 => node.ack_jobs(now, &ids, fx),
            1 => node.fast_ack(now, &ids, fx),
            _ => node.delete_jobs(now, &ids, fx),
        };
        assert_eq!(node.job_count() + done, before);
        "ACKJOB, FASTACK or DELJOB"
    }

    fn requeue_jobs(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let ids = self.some_ids(draw);
        let (node, now, fx) = (&mut self.node, self.now, &mut self.fx);
        match draw.byte() % 4 {
            0 => node.requeue_jobs(now, &ids, Counter::Nack, fx),
            1 => node.requeue_jobs(now, &ids, Counter::AdditionalDelivery, fx),
            2 => node.dequeue_jobs(now, &ids, fx),
            _ => node.working(now, ids.first(), fx).map_or(0, |_| 1),
        };
        "NACK, ENQUEUE, DEQUEUE or WORKING"
    }

    fn pause(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let queue = draw.one_of(&QUEUES);
        let pause = Pause::from_bits(draw.byte() % 4);
        let done = self.node.pause(self.now, queue, pause, &mut self.fx);
        assert_eq!(done, Ok(()));
        assert_eq!(self.node.pause_state(queue), pause);
        "PAUSE"
    }

    /// The wall clock goes its own way now and then. A small budget leaves work
    /// for the next turn.
    fn pass_time(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let ms = draw.one_of(&TIMES);
        self.now.mono_ms += ms;
        self.now.wall_ms = match draw.byte() {
            255 => self.now.wall_ms.saturating_sub(ms),
            254 => self.now.wall_ms,
            _ => self.now.wall_ms.saturating_add(ms),
        };
        if draw.flag() {
            self.node.run_due(self.now, 1, &mut self.fx);
            return "one step of time";
        }
        self.catch_up();
        "time"
    }

    /// All that is due gets done after some steps. What one of them delivers is carried
    /// out before the next, in which the job may expire.
    fn catch_up(&mut self) {
        const ENOUGH: usize = 100_000;
        for _ in 0..ENOUGH {
            if self.node.next_wake().is_none_or(|at| at > self.now.mono_ms) {
                return;
            }
            self.node.run_due(self.now, 100, &mut self.fx);
            self.carry_out();
        }
        panic!("work that never ends");
    }

    fn lose_a_reply(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let arrived = draw.flag();
        if let Some(receipts) = self.receipts.pop() {
            if !arrived {
                self.node.undeliver(&receipts, &mut self.fx);
            }
        }
        "a reply that is lost or arrives"
    }

    fn lose_a_client(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let ids: Vec<WaiterId> = self.waiting.keys().copied().collect();
        if !ids.is_empty() {
            let id = draw.one_of(&ids);
            self.node.forget_waiter(id, self.now, &mut self.fx);
            self.waiting.remove(&id);
        }
        "a client that goes"
    }

    /// Page by page everything is seen once.
    fn scan(&mut self, draw: &mut Draw<'_>) -> &'static str {
        let (count, visits) = (usize::from(draw.byte()) + 1, usize::from(draw.byte()) + 1);
        let mut seen = BTreeSet::new();
        let mut cursor = 0;
        loop {
            let filter = JobFilter::default();
            let page = self.node.scan_jobs(cursor, limits(count, visits), &filter);
            for key in page.keys {
                assert!(seen.insert(self.node.job(key).id), "seen twice");
            }
            cursor = page.cursor;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), self.node.job_count());
        let filter = QueueFilter::default();
        self.node.scan_queues(
            self.now,
            u64::from(draw.byte()),
            limits(count, visits),
            &filter,
        );
        "a scan"
    }

    fn rare(&mut self, draw: &mut Draw<'_>) -> &'static str {
        match draw.byte() % 8 {
            0 => {
                self.node.flush(self.now, &mut self.fx);
                assert_eq!(self.node.job_count(), 0);
                "DISQUE FLUSHALL"
            }
            1 => {
                let leaving = draw.flag();
                self.node.set_leaving(leaving, self.now, &mut self.fx);
                "DISQUE LEAVING"
            }
            2 => {
                let mut settings = self.node.settings().clone();
                settings.max_memory = draw.one_of(&[0, 1, 2_000, 100_000]);
                settings.queue_idle_ms = draw.one_of(&TIMES);
                settings.max_ids = draw.one_of(&[1, 3, 10_000]);
                settings.max_blocked_clients = draw.one_of(&[0, 2, 100_000]);
                self.node.set_settings(settings);
                "CONFIG SET"
            }
            3 => {
                let full = [
                    Pressure::None,
                    Pressure::High,
                    Pressure::Critical,
                    Pressure::Full,
                ];
                self.node.set_server_pressure(draw.one_of(&full));
                self.node.relieve_memory(self.now, &mut self.fx);
                "memory runs out"
            }
            4 => self.restart(Completeness::Complete),
            5 => self.restart(Completeness::MayLackDeliveries),
            6 => {
                self.node.serve(self.now, 1, &mut self.fx);
                "a client is served"
            }
            _ => {
                self.node.free_discarded(1);
                "memory of a flush is freed"
            }
        }
    }

    /// The server starts again from its snapshot: nobody waits any more.
    fn restart(&mut self, completeness: Completeness) -> &'static str {
        self.carry_out();
        self.starts = self.starts.wrapping_add(1);
        let mut node = copy_of(&self.node, self.now, self.starts);
        node.set_settings(self.node.settings().clone());
        node.finish_load(self.now, completeness, &mut self.fx);
        self.node = node;
        self.waiting.clear();
        self.receipts.clear();
        "a restart"
    }

    /// What the caller of a node does after each call, and what must hold then.
    fn settle(&mut self, what: &str) {
        self.carry_out();
        check(&self.node, self.now, what);
        check(&self.follower, self.now, "the follower");
        assert_eq!(
            self.node.job_count(),
            self.follower.job_count(),
            "{what} is not written down"
        );
    }

    fn carry_out(&mut self) {
        for (id, answer) in &self.fx.answers {
            let count = self.waiting.remove(id).expect("an answer nobody waits for");
            if let Answer::Jobs(delivered) = answer {
                let jobs = self.fx.jobs(*delivered);
                assert!(!jobs.is_empty() && jobs.len() as u64 <= count);
                self.receipts.push(self.node.receipts(*delivered, &self.fx));
            }
        }
        if !self.fx.records.is_empty() {
            let taken = self.follower.apply(self.now, self.fx.records.packet());
            assert_eq!(taken, Ok(()), "records that cannot be read");
        }
        self.fx.clear();
    }
}

fn limits(count: usize, visits: usize) -> Limits {
    Limits {
        count,
        visits,
        bytes: usize::MAX,
    }
}

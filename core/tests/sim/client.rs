//! Producers and consumers.

use crate::oracle::history::{Delivery, Settling, Told, Wanted, What};
use crate::site::{queue_name, read, Waiting};
use crate::world::{Event, World};
use disque_core::effects::WaiterId;
use disque_core::error::Error;
use disque_core::job_id::JobId;
use disque_core::node::add::{AddJob, Added, Sync};
use disque_core::node::get::{GetJob, Receipt};
use disque_core::node::requeue::Counter;
use disque_core::queue::Pause;
use disque_core::span::Span;

/// One client.
#[derive(Default)]
pub struct Client {
    /// The node to which it is connected.
    pub node: usize,
    /// Its GETJOB that is not answered yet.
    pub waiting: Option<WaiterId>,
}

/// What a client does with a job that it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Ack,
    FastAck,
    Delete,
    Nack,
    Enqueue,
    /// WORKING, and an ACKJOB later.
    Work,
}

#[derive(Clone, Copy)]
enum Action {
    Add,
    Get,
    Touch,
    Pause,
    Transaction,
}

impl World {
    /// A client will act again later. The node at which it acts now, if that serves.
    pub fn turn_of(&mut self, client: usize) -> Option<usize> {
        if self.draining {
            return None;
        }
        let again = self.random.range(1, 2 * self.profile.pace);
        let node = self.clients[client].node;
        self.schedule(node, again, Event::Act(client));
        self.is_serving(node).then_some(node)
    }

    /// A client does something, and something else later.
    pub fn act(&mut self, client: usize) -> Result<(), String> {
        let Some(node) = self.turn_of(client) else {
            return Ok(());
        };
        if let Some(waiter) = self.clients[client].waiting {
            return match self.random.range(0, 9) {
                0 => self.unblock(node, waiter),
                1 => self.leave(node, waiter),
                _ => Ok(()),
            };
        }
        let action = self.random.weighted(&[
            (40, Action::Add),
            (if self.profile.hungry { 150 } else { 40 }, Action::Get),
            (14, Action::Touch),
            (3, Action::Pause),
            (8, Action::Transaction),
        ]);
        match action {
            Action::Add => self.add(node, true),
            Action::Get => self.get(client),
            Action::Touch => self.touch(node, true),
            Action::Pause => {
                let queue = self.any_queue();
                let pause = Pause {
                    input: self.random.chance(400),
                    output: self.random.chance(400),
                };
                self.set_pause(node, queue, pause)
            }
            Action::Transaction => {
                for _ in 0..self.random.range(2, 6) {
                    match self.random.range(0, 2) {
                        0 => self.touch(node, false)?,
                        _ => self.add(node, false)?,
                    }
                }
                Ok(())
            }
        }
    }

    fn any_queue(&mut self) -> usize {
        self.random.range(0, self.profile.queues as u64 - 1) as usize
    }

    fn add(&mut self, node: usize, serve: bool) -> Result<(), String> {
        let count = self.random.weighted(&[(80, 1), (15, 3), (5, 10)]);
        let bodies: Vec<Vec<u8>> = (0..count).map(|_| self.body()).collect();
        let slices: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
        let random = &mut self.random;
        let ttl = random.pick(&[300, 2_000, 10_000, 60_000, 600_000, 86_400_000]);
        let delay = random.pick(&[0, 0, 0, 0, 1, 500, 3_000, 30_000]);
        let retry = random.pick(&[None, Some(0), Some(0), Some(50), Some(200), Some(1_000)]);
        let retry = random.pick(&[retry, Some(3_000), Some(20_000)]);
        let alone = self.profile.nodes == 1;
        let random = &mut self.random;
        let replicate =
            random.weighted(&[(9, None), (90, Some(1)), (1, Some(1 + u16::from(alone)))]);
        let max_len = random.pick(&[None, None, None, Some(1), Some(5)]);
        let sync = random.pick(&[None, None, Some(Sync::Copies(0)), Some(Sync::AllBut(1))]);
        let queue = self.any_queue();
        let name = queue_name(queue);
        let add = AddJob {
            queue: &name,
            bodies: &slices,
            timeout_ms: 0,
            replicate,
            sync,
            delay: Span::from_ms(delay),
            retry: retry.map(Span::from_ms),
            ttl: Span::from_ms(ttl),
            max_len,
        };
        let result = self.call(node, |node, now, fx| node.add_job(now, &add, true, fx));
        let wanted = |body: &Vec<u8>| Wanted {
            queue,
            body: body.clone(),
            of_batch: count,
            delay_ms: delay,
            retry_ms: retry.unwrap_or((ttl / 10).clamp(1_000, 300_000)),
            ttl_ms: ttl,
            max_len,
            replicate,
        };
        match result {
            Ok(Added::Waits { ids, .. }) => panic!("{ids:?} are to be copied"),
            Ok(Added::Done(ids)) => {
                assert_eq!(ids.len(), bodies.len(), "an id for each body");
                // Once, before any of it is written: it is one batch of records.
                let serve_first = |place: usize| serve && place == 0;
                for (place, (id, body)) in ids.iter().zip(&bodies).enumerate() {
                    self.site(node).known.push(*id);
                    let (id, wanted) = (*id, wanted(body));
                    self.conclude(node, serve_first(place), What::Added { id, wanted })?;
                }
            }
            Err(error) => {
                let wanted = wanted(&bodies[0]);
                self.conclude(node, serve, What::Refused { wanted, error })?
            }
        }
        self.answer(node)
    }

    /// A body that no other job has.
    fn body(&mut self) -> Vec<u8> {
        let number = self.next_body;
        self.next_body += 1;
        let length = self.random.pick(&[0, 0, 10, 200]) as usize;
        let mut body = number.to_le_bytes().to_vec();
        body.resize(8 + length, number as u8);
        body
    }

    fn get(&mut self, client: usize) -> Result<(), String> {
        let node = self.clients[client].node;
        let mut queues: Vec<usize> = (0..self.profile.queues).collect();
        for place in 0..queues.len() {
            let other = self.random.range(place as u64, queues.len() as u64 - 1);
            queues.swap(place, other as usize);
        }
        queues.truncate(self.random.range(1, queues.len() as u64) as usize);
        let names: Vec<_> = queues.iter().map(|&queue| queue_name(queue)).collect();
        let get = GetJob {
            queues: names.iter().map(Vec::as_slice).collect(),
            count: self.random.pick(&[1, 1, 1, 2, 5]),
            nohang: self.random.chance(300),
            timeout_ms: self
                .random
                .pick(&[None, Some(1), Some(1_000), Some(30_000)]),
            with_counters: self.random.chance(500),
        };
        let jobs = self.get_at_once(node, &get, queues, get.nohang)?;
        match jobs {
            Some(jobs) => self.receive(client, jobs),
            None if !get.nohang => self.wait(client, &get)?,
            None => {}
        }
        Ok(())
    }

    /// The part of GETJOB that does not wait; told as a whole if it got jobs or
    /// is to be told null else.
    pub fn get_at_once(
        &mut self,
        node: usize,
        get: &GetJob<'_>,
        queues: Vec<usize>,
        or_null: bool,
    ) -> Result<Option<Vec<Delivery>>, String> {
        let call = self.next_call;
        self.next_call += 1;
        let jobs = self.call(node, |node, now, fx| {
            let delivered = node.get_jobs(now, get, fx)?;
            Some(read(node, fx, delivered))
        });
        let asked = What::Asked {
            call,
            queues,
            count: get.count,
            nohang: get.nohang,
            timeout_ms: get.timeout_ms,
        };
        self.conclude(node, false, asked)?;
        let told = match &jobs {
            Some(jobs) => Told::Jobs(jobs.clone()),
            None if or_null => Told::Null,
            None => return Ok(None),
        };
        self.tell(node, What::Answered { call, told })?;
        self.answer(node)?;
        Ok(jobs)
    }

    fn wait(&mut self, client: usize, get: &GetJob<'_>) -> Result<(), String> {
        let node = self.clients[client].node;
        let call = self.next_call - 1;
        match self.call(node, |node, now, _| node.block(now, get)) {
            Ok(waiter) => {
                self.clients[client].waiting = Some(waiter);
                let waiting = Waiting { call, client };
                self.site(node).waiting.insert(waiter, waiting);
                Ok(())
            }
            Err(error) => {
                let told = Told::Error(error);
                self.tell(node, What::Answered { call, told })
            }
        }
    }

    /// CLIENT UNBLOCK: the server answers null by itself.
    pub fn unblock(&mut self, node: usize, waiter: WaiterId) -> Result<(), String> {
        let Some(Waiting { call, client }) = self.site(node).waiting.remove(&waiter) else {
            return Ok(());
        };
        self.clients[client].waiting = None;
        self.call(node, |node, now, fx| node.forget_waiter(waiter, now, fx));
        self.tell(node, What::Unblocked { call })?;
        let told = Told::Null;
        self.tell(node, What::Answered { call, told })
    }

    /// The connection of a client that waits is cut; it comes back as another.
    fn leave(&mut self, node: usize, waiter: WaiterId) -> Result<(), String> {
        let Some(Waiting { call, client }) = self.site(node).waiting.remove(&waiter) else {
            return Ok(());
        };
        self.clients[client].waiting = None;
        self.call(node, |node, now, fx| node.forget_waiter(waiter, now, fx));
        self.tell(node, What::Gone { call })
    }

    /// The client was gone before these jobs came: the server notices it, sooner or later.
    pub fn lose(&mut self, node: usize, jobs: &[Delivery]) {
        let receipt = |job: &Delivery| Receipt {
            id: job.id,
            attempt: job.attempt,
        };
        let receipts = jobs.iter().map(receipt).collect();
        let session = self.site(node).session;
        let later = self.random.pick(&[0, 0, 5, 300]);
        self.schedule(node, later, Event::Undeliver(session, receipts));
    }

    /// Jobs have come for a client; or it was gone before they came.
    pub fn receive(&mut self, client: usize, jobs: Vec<Delivery>) {
        let node = self.clients[client].node;
        if !self.draining && self.random.chance(self.profile.vanishing) {
            self.lose(node, &jobs);
            return;
        }
        for job in jobs {
            let patience = self.random.pick(&[10, 500, 3_000, 30_000]);
            let wait = self.random.range(0, patience);
            let step = self.random.weighted(&[
                (70, Some(Step::Ack)),
                (4, Some(Step::FastAck)),
                (2, Some(Step::Delete)),
                (8, Some(Step::Nack)),
                (2, Some(Step::Enqueue)),
                (8, Some(Step::Work)),
                (6, None),
            ]);
            if let Some(step) = step {
                self.schedule(node, wait, Event::Work(client, job.id, step));
            }
        }
    }

    /// A client is done with a job.
    pub fn work(&mut self, client: usize, id: JobId, step: Step) -> Result<(), String> {
        let node = self.clients[client].node;
        if !self.is_serving(node) {
            return Ok(());
        }
        match step {
            Step::Ack => self.settle(node, Settling::Ack, vec![id], true),
            Step::FastAck => self.settle(node, Settling::FastAck, vec![id], true),
            Step::Delete => self.settle(node, Settling::Delete, vec![id], true),
            Step::Nack => self.requeue(node, Counter::Nack, vec![id], true),
            Step::Enqueue => self.requeue(node, Counter::AdditionalDelivery, vec![id], true),
            Step::Work => {
                let later = self.random.range(1, 5_000);
                self.schedule(node, later, Event::Work(client, id, Step::Ack));
                self.working(node, id, true)
            }
        }
    }

    /// A command on any jobs, known or not.
    fn touch(&mut self, node: usize, serve: bool) -> Result<(), String> {
        let mut ids = Vec::new();
        for _ in 0..self.random.pick(&[1, 1, 1, 3]) {
            ids.push(self.any_id(node));
        }
        ids.sort();
        ids.dedup();
        match self.random.range(0, 9) {
            0..=2 => self.dequeue(node, ids, serve),
            3..=4 => self.requeue(node, Counter::AdditionalDelivery, ids, serve),
            5..=6 => self.requeue(node, Counter::Nack, ids, serve),
            7..=8 => self.working(node, ids[0], serve),
            _ => self.settle(node, Settling::Ack, ids, serve),
        }
    }

    fn any_id(&mut self, node: usize) -> JobId {
        let count = self.site(node).known.len() as u64;
        if count == 0 || self.random.chance(50) {
            return self.strangers.next(Span::from_ms(1_000), true);
        }
        // Rather a late one: most early ones are gone.
        let back = self.random.range(1, count.min(12));
        self.site(node).known[(count - back) as usize]
    }

    pub fn settle(
        &mut self,
        node: usize,
        how: Settling,
        ids: Vec<JobId>,
        serve: bool,
    ) -> Result<(), String> {
        let count = self.call(node, |node, now, fx| match how {
            Settling::Ack => node.ack_jobs(now, &ids, fx),
            Settling::FastAck => node.fast_ack(now, &ids, fx),
            Settling::Delete => node.delete_jobs(now, &ids, fx),
        });
        self.conclude(node, serve, What::Settled { how, ids, count })?;
        self.answer(node)
    }

    fn requeue(
        &mut self,
        node: usize,
        counter: Counter,
        ids: Vec<JobId>,
        serve: bool,
    ) -> Result<(), String> {
        let nack = counter == Counter::Nack;
        let count = self.call(node, |node, now, fx| {
            node.requeue_jobs(now, &ids, counter, fx)
        });
        self.conclude(node, serve, What::Requeued { nack, ids, count })?;
        self.answer(node)
    }

    fn dequeue(&mut self, node: usize, ids: Vec<JobId>, serve: bool) -> Result<(), String> {
        let count = self.call(node, |node, now, fx| node.dequeue_jobs(now, &ids, fx));
        self.conclude(node, serve, What::Dequeued { ids, count })?;
        self.answer(node)
    }

    fn working(&mut self, node: usize, id: JobId, serve: bool) -> Result<(), String> {
        let answer: Result<u64, Error> =
            self.call(node, |node, now, fx| node.working(now, Some(&id), fx));
        self.conclude(node, serve, What::Working { id, answer })?;
        self.answer(node)
    }

    pub fn set_pause(&mut self, node: usize, queue: usize, pause: Pause) -> Result<(), String> {
        let name = queue_name(queue);
        let done = self.call(node, |node, now, fx| node.pause(now, &name, pause, fx));
        done.map_err(|error| format!("PAUSE: {error}"))?;
        let what = What::Paused {
            queue,
            input: pause.input,
            output: pause.output,
        };
        self.conclude(node, true, what)?;
        self.answer(node)
    }
}

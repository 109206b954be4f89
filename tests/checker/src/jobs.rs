//! The history told anew, job by job.

use crate::body;
use crate::event::{Event, Left, Op, Phase, Want};
use crate::report::{Class, Report};
use std::collections::BTreeMap;

/// A command on a job, from being sent to being answered.
#[derive(Clone, Debug)]
pub struct Command {
    pub op: Op,
    pub node: String,
    pub from: u64,
    /// `u64::MAX` if it never ended.
    pub to: u64,
    pub phase: Phase,
    /// The DELAY of a NACK.
    pub delay: u64,
    /// What it counted; one if it does not count.
    pub count: u64,
}

/// A job as a client received it.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub t: u64,
    pub node: String,
    /// How often the job had been delivered by then, where the reply told it.
    pub attempt: Option<u32>,
}

/// How an add ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Added,
    Refused,
    /// NOREPL after waiting: a settled job, as far as its node can tell others.
    GivenUp,
    Unknown,
}

/// The life of a job.
#[derive(Debug)]
pub struct Job {
    pub body: String,
    pub id: Option<String>,
    pub queue: String,
    pub node: String,
    pub want: Want,
    /// When it was sent, and when that was answered.
    pub from: u64,
    pub to: u64,
    pub outcome: Outcome,
    pub deliveries: Vec<Delivery>,
    pub commands: Vec<Command>,
}

impl Job {
    /// How it is named in reports.
    pub fn name(&self) -> String {
        let id = self.id.as_deref().unwrap_or("without an id");
        format!("job {id} ({})", self.body)
    }

    pub fn at_most_once(&self) -> bool {
        self.want.retry == 0
    }

    /// When a settling that has certainly taken effect was answered first.
    pub fn settled(&self) -> Option<u64> {
        let given_up = (self.outcome == Outcome::GivenUp).then_some(self.to);
        self.first(Op::Ack).into_iter().chain(given_up).min()
    }

    /// When a command was first answered with ok.
    pub fn first(&self, op: Op) -> Option<u64> {
        let done = |command: &&Command| command.op == op && command.phase == Phase::Ok;
        self.commands
            .iter()
            .filter(done)
            .map(|command| command.to)
            .min()
    }

    /// Whether it may have been settled, by any command, answered or not.
    pub fn may_be_settled(&self) -> bool {
        let settles = |command: &Command| {
            let settling = matches!(command.op, Op::Ack | Op::FastAck | Op::DelJob);
            settling && command.phase != Phase::Fail
        };
        self.outcome == Outcome::GivenUp || self.commands.iter().any(settles)
    }

    /// When it is over for all nodes, at the latest.
    pub fn expires(&self) -> u64 {
        self.to.saturating_add(self.want.ttl)
    }
}

/// A client that waits on a queue.
#[derive(Debug)]
pub struct Wait {
    pub node: String,
    pub from: u64,
    pub to: u64,
    /// Whether it ended with a job.
    pub is_served: bool,
}

/// A history by what it is about.
#[derive(Debug, Default)]
pub struct Record {
    pub jobs: Vec<Job>,
    pub waits: BTreeMap<String, Vec<Wait>>,
    /// Queues on which a client was told nothing that can be relied on, and when.
    pub unseen: BTreeMap<String, Vec<(u64, u64)>>,
    /// The base line of each node, and the last look at it.
    pub left: BTreeMap<String, (Option<Left>, Left, u64)>,
    pub drained: Option<u64>,
    pub end: u64,
}

/// The history as far as it was read.
struct Reader<'a> {
    record: Record,
    report: &'a mut Report,
    by_body: BTreeMap<&'a str, usize>,
    by_id: BTreeMap<&'a str, usize>,
    adds: BTreeMap<u64, usize>,
    gets: BTreeMap<u64, &'a Event>,
    commands: BTreeMap<u64, &'a Event>,
    ended: Vec<(&'a str, Command)>,
}

impl Record {
    pub fn of<'a>(events: &[&'a Event], report: &'a mut Report) -> Record {
        let mut reader = Reader {
            record: Record::default(),
            report,
            by_body: BTreeMap::new(),
            by_id: BTreeMap::new(),
            adds: BTreeMap::new(),
            gets: BTreeMap::new(),
            commands: BTreeMap::new(),
            ended: Vec::new(),
        };
        for event in events {
            reader.record.end = event.t;
            reader.read(event);
        }
        reader.finish()
    }
}

impl<'a> Reader<'a> {
    fn read(&mut self, event: &'a Event) {
        match event.f {
            Op::Add => self.add(event),
            Op::Get => self.get(event),
            Op::Ack | Op::FastAck | Op::Nack | Op::Enqueue | Op::Working | Op::DelJob => {
                self.command(event)
            }
            Op::Drained => self.record.drained = Some(event.t),
            Op::Left => self.left(event),
            Op::Fault | Op::Heal | Op::Note => {}
        }
    }

    fn unreadable(&mut self, event: &Event, why: &str) {
        let text = format!("{why}: {}", event.to_line());
        self.report.violate(Class::Unreadable, event.t, text);
    }

    fn add(&mut self, event: &'a Event) {
        if event.phase == Phase::Invoke {
            return self.add_sent(event);
        }
        let Some(index) = self.adds.remove(&event.p) else {
            return self.unreadable(event, "the end of an add that did not begin");
        };
        let job = &mut self.record.jobs[index];
        job.to = event.t;
        let given_up = event
            .err
            .as_deref()
            .is_some_and(|e| e.starts_with("NOREPL"));
        job.outcome = match event.phase {
            Phase::Ok => Outcome::Added,
            Phase::Fail => Outcome::Refused,
            _ if given_up => Outcome::GivenUp,
            _ => Outcome::Unknown,
        };
        if job.outcome == Outcome::Added && event.id.is_none() {
            self.unreadable(event, "an add that is ok without an id");
        }
        if let Some(id) = &event.id {
            self.name(index, id, event);
        }
    }

    fn add_sent(&mut self, event: &'a Event) {
        let (Some(body), Some(want)) = (&event.v, event.want) else {
            return self.unreadable(event, "an add without body or wishes");
        };
        let index = self.record.jobs.len();
        if self.by_body.insert(body, index).is_some() {
            return self.unreadable(event, "a body that another add has");
        }
        self.adds.insert(event.p, index);
        self.record.jobs.push(Job {
            body: body.clone(),
            id: None,
            queue: event.q.clone().unwrap_or_default(),
            node: event.node.clone().unwrap_or_default(),
            want,
            from: event.t,
            to: u64::MAX,
            outcome: Outcome::Unknown,
            deliveries: Vec::new(),
            commands: Vec::new(),
        });
    }

    /// A job has this id, here and for ever.
    fn name(&mut self, index: usize, id: &'a str, event: &Event) {
        let job = &mut self.record.jobs[index];
        let known = job.id.get_or_insert_with(|| id.into());
        let same_job = *self.by_id.entry(id).or_insert(index) == index;
        if known != id || !same_job {
            let text = format!("{} has the id of another job: {id}", job.name());
            self.report.violate(Class::Phantom, event.t, text);
        }
    }

    fn get(&mut self, event: &'a Event) {
        if event.phase == Phase::Invoke {
            self.gets.insert(event.p, event);
            return;
        }
        if let Some(began) = self.gets.remove(&event.p) {
            self.end_wait(began, event.t, event.phase);
        }
        if event.phase == Phase::Ok {
            self.deliver(event);
        }
    }

    fn end_wait(&mut self, began: &Event, to: u64, phase: Phase) {
        let queue = began.q.clone().unwrap_or_default();
        if phase == Phase::Info {
            let unseen = self.record.unseen.entry(queue).or_default();
            unseen.push((began.t, to));
            return;
        }
        self.record.waits.entry(queue).or_default().push(Wait {
            node: began.node.clone().unwrap_or_default(),
            from: began.t,
            to,
            is_served: phase == Phase::Ok,
        });
    }

    fn deliver(&mut self, event: &'a Event) {
        let (body, id) = (
            event.v.as_deref().unwrap_or(""),
            event.id.as_deref().unwrap_or(""),
        );
        if !body::is_intact(body) {
            let text = format!("job {id} has a damaged body: {body:?}");
            return self.report.violate(Class::Phantom, event.t, text);
        }
        let Some(&index) = self.by_body.get(body) else {
            let text = format!("job {id} was never added: {body}");
            return self.report.violate(Class::Phantom, event.t, text);
        };
        self.name(index, id, event);
        let job = &mut self.record.jobs[index];
        if event.q.as_deref().is_some_and(|queue| queue != job.queue) {
            let text = format!("{} came from {:?}", job.name(), event.q);
            self.report.violate(Class::Phantom, event.t, text);
        }
        job.deliveries.push(Delivery {
            t: event.t,
            node: event.node.clone().unwrap_or_default(),
            attempt: event.attempt,
        });
    }

    fn command(&mut self, event: &'a Event) {
        if event.phase == Phase::Invoke {
            self.commands.insert(event.p, event);
            return;
        }
        let Some(began) = self.commands.remove(&event.p) else {
            return self.unreadable(event, "the end of a command that did not begin");
        };
        self.end_command(began, event.t, event.phase, event.n.unwrap_or(1));
    }

    fn end_command(&mut self, began: &'a Event, to: u64, phase: Phase, count: u64) {
        let Some(id) = &began.id else {
            return self.unreadable(began, "a command on no job");
        };
        let command = Command {
            op: began.f,
            node: began.node.clone().unwrap_or_default(),
            from: began.t,
            to,
            phase,
            delay: began.delay.unwrap_or(0),
            count,
        };
        self.ended.push((id, command));
    }

    fn left(&mut self, event: &Event) {
        let (Some(node), Some(left)) = (&event.node, event.left) else {
            return self.unreadable(event, "a look at nothing");
        };
        let looks = self.record.left.entry(node.clone());
        looks
            .and_modify(|(base, last, t)| {
                base.get_or_insert(*last);
                (*last, *t) = (left, event.t);
            })
            .or_insert((None, left, event.t));
    }

    fn finish(mut self) -> Record {
        let end = self.record.end;
        for began in std::mem::take(&mut self.commands).into_values() {
            self.end_command(began, u64::MAX, Phase::Info, 1);
        }
        for began in std::mem::take(&mut self.gets).into_values() {
            self.end_wait(began, end, Phase::Fail);
        }
        for (id, command) in std::mem::take(&mut self.ended) {
            if let Some(&index) = self.by_id.get(id) {
                self.record.jobs[index].commands.push(command);
            }
        }
        for job in &mut self.record.jobs {
            job.commands.sort_by_key(|command| command.to);
        }
        self.record
    }
}

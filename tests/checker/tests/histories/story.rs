//! A history in the making.

use disque_checker::{
    body, check, Class, Event, Fault, FaultKind, Left, Limits, Lost, Op, Phase, Report, Want,
};

pub const RETRY: u64 = 1_000;
pub const TTL: u64 = 600_000;

/// What identifies a job.
#[derive(Clone)]
pub struct Job {
    pub id: String,
    pub body: String,
    pub queue: String,
}

pub struct Story {
    pub events: Vec<Event>,
    pub limits: Limits,
    /// What the next add asks for.
    pub want: Want,
    at: u64,
    calls: u64,
    jobs: u64,
    last_fault: u64,
}

impl Story {
    pub fn new() -> Story {
        Story {
            events: Vec::new(),
            limits: Limits::default(),
            want: Want {
                replicate: 1,
                sync: 1,
                retry: RETRY,
                ttl: TTL,
                delay: 0,
            },
            at: 0,
            calls: 0,
            jobs: 0,
            last_fault: 0,
        }
    }

    /// What follows happens then.
    pub fn at(&mut self, at: u64) -> &mut Story {
        self.at = at;
        self
    }

    fn event(&self, phase: Phase, op: Op) -> Event {
        Event::new(self.at, self.calls, phase, op)
    }

    fn push(&mut self, event: Event) -> &mut Story {
        self.events.push(event);
        self
    }

    /// A job that nobody added.
    pub fn stranger(&mut self) -> Job {
        self.jobs += 1;
        Job {
            id: format!("D-{}", self.jobs),
            body: body::make(1, 1, self.jobs, "R1"),
            queue: "q".into(),
        }
    }

    /// An add that is answered a millisecond later.
    pub fn add(&mut self, node: &str) -> Job {
        self.add_ending(node, Phase::Ok, "")
    }

    pub fn add_ending(&mut self, node: &str, phase: Phase, error: &str) -> Job {
        let job = self.stranger();
        self.calls += 1;
        let mut sent = self.event(Phase::Invoke, Op::Add).at(node);
        sent = sent.queue(&job.queue).body(&job.body);
        sent.want = Some(self.want);
        self.push(sent);
        let mut answered = self.event(phase, Op::Add).at(node);
        answered.t += 1;
        answered = match phase {
            Phase::Ok => answered.job(&job.id),
            _ => answered.error(error),
        };
        self.push(answered);
        job
    }

    /// A client begins to wait.
    pub fn get(&mut self, node: &str) -> u64 {
        self.calls += 1;
        let event = self.event(Phase::Invoke, Op::Get).at(node).queue("q");
        self.push(event);
        self.calls
    }

    pub fn end_get(&mut self, call: u64, phase: Phase, node: &str) -> &mut Story {
        let mut event = self.event(phase, Op::Get).at(node);
        event.p = call;
        self.push(event)
    }

    /// A client that waits gets a job.
    pub fn receive(&mut self, call: u64, node: &str, job: &Job) -> &mut Story {
        let event = self.event(Phase::Ok, Op::Get).at(node).job(&job.id);
        let mut event = event.body(&job.body).queue(&job.queue);
        event.p = call;
        self.push(event)
    }

    /// A client asks and gets a job at once.
    pub fn deliver(&mut self, node: &str, job: &Job) -> &mut Story {
        let call = self.get(node);
        self.receive(call, node, job)
    }

    pub fn command(&mut self, op: Op, phase: Phase, node: &str, job: &Job) -> &mut Story {
        self.calls += 1;
        let sent = self.event(Phase::Invoke, op).at(node).job(&job.id);
        self.push(sent);
        let answered = self.event(phase, op).at(node).job(&job.id);
        self.push(answered)
    }

    pub fn ok(&mut self, op: Op, node: &str, job: &Job) -> &mut Story {
        self.command(op, Phase::Ok, node, job)
    }

    /// The event that was told last.
    pub fn last(&mut self) -> &mut Event {
        self.events.last_mut().expect("an event")
    }

    pub fn counted(&mut self, op: Op, count: u64, node: &str, job: &Job) -> &mut Story {
        self.ok(op, node, job);
        self.last().n = Some(count);
        self
    }

    pub fn nack(&mut self, node: &str, delay: u64, job: &Job) -> &mut Story {
        self.ok(Op::Nack, node, job);
        let sent = self.events.len() - 2;
        self.events[sent].delay = Some(delay);
        self
    }

    /// The answer to a command that was never sent.
    pub fn end_of_nothing(&mut self, job: &Job) -> &mut Story {
        self.calls += 1;
        let event = self.event(Phase::Ok, Op::Ack).job(&job.id);
        self.push(event)
    }

    fn fault(&mut self, kind: FaultKind, node: &str) -> &mut Fault {
        self.calls += 1;
        self.last_fault = self.calls;
        let mut event = self.event(Phase::Invoke, Op::Fault).at(node);
        event.fault = Some(Fault {
            kind,
            to: None,
            lost: Lost::Nothing,
            jump: None,
        });
        self.events.push(event);
        self.events.last_mut().unwrap().fault.as_mut().unwrap()
    }

    pub fn kill(&mut self, node: &str, lost: Lost) -> &mut Story {
        self.fault(FaultKind::Kill, node).lost = lost;
        self
    }

    /// A replica takes the node's place, which received nothing since that time.
    pub fn supersede(&mut self, node: &str, since: u64) -> &mut Story {
        self.fault(FaultKind::Supersede, node).lost = Lost::Since(since);
        self
    }

    /// The node leaves, and too few stay.
    pub fn leave(&mut self, node: &str) -> &mut Story {
        self.fault(FaultKind::Leave, node).lost = Lost::All;
        self
    }

    pub fn cut(&mut self, node: &str, to: &str) -> &mut Story {
        self.fault(FaultKind::Cut, node).to = Some(to.into());
        self
    }

    pub fn pause(&mut self, node: &str) -> &mut Story {
        self.fault(FaultKind::Pause, node);
        self
    }

    pub fn set_clock(&mut self, node: &str, jump: i64) -> &mut Story {
        self.fault(FaultKind::Clock, node).jump = Some(jump);
        self.events.last_mut().unwrap().phase = Phase::Info;
        self
    }

    /// The last fault is over.
    pub fn end(&mut self) -> &mut Story {
        let mut event = self.event(Phase::Ok, Op::Fault);
        event.p = self.last_fault;
        self.push(event)
    }

    pub fn heal(&mut self) -> &mut Story {
        let event = self.event(Phase::Info, Op::Heal);
        self.push(event)
    }

    pub fn drained(&mut self) -> &mut Story {
        let event = self.event(Phase::Info, Op::Drained);
        self.push(event)
    }

    pub fn left(&mut self, node: &str, left: Left) -> &mut Story {
        let mut event = self.event(Phase::Info, Op::Left).at(node);
        event.left = Some(left);
        self.push(event)
    }

    pub fn report(&self) -> Report {
        check(&self.events, &self.limits)
    }

    /// Nothing is wrong with it.
    #[track_caller]
    pub fn sound(&self) -> Report {
        let report = self.report();
        assert!(report.violations.is_empty(), "{report}");
        report
    }

    /// This promise is broken, and no other; or nothing is wrong.
    #[track_caller]
    pub fn broken_if(&self, is_broken: bool, class: Class) {
        match is_broken {
            true => drop(self.broken(class)),
            false => drop(self.sound()),
        }
    }

    /// This promise is broken, and no other.
    #[track_caller]
    pub fn broken(&self, class: Class) -> Report {
        let report = self.report();
        let classes: Vec<Class> = report.violations.iter().map(|v| v.class).collect();
        assert_eq!(classes, [class], "{report}");
        report
    }
}

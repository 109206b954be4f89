//! What all threads of a run write down, by one clock.

use disque_checker::{Event, Fault, FaultKind, Lost, Op, Phase};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The history of a run.
pub struct History {
    start: Instant,
    calls: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl History {
    pub fn new() -> History {
        History {
            start: Instant::now(),
            calls: AtomicU64::new(1),
            events: Mutex::default(),
        }
    }

    /// Milliseconds since the beginning.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// A number for a call.
    pub fn call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// An event that happens now.
    pub fn event(&self, call: u64, phase: Phase, op: Op, node: usize) -> Event {
        Event::new(self.now(), call, phase, op).at(name(node))
    }

    /// Writes an event down.
    pub fn note(&self, event: Event) {
        self.lock().push(event);
    }

    /// Something goes wrong with a node, from now on.
    pub fn begin_fault(&self, node: usize, kind: FaultKind, lost: Lost) -> u64 {
        self.begin_fault_at(self.now(), node, kind, lost)
    }

    /// Something went wrong with a node, from a time on.
    pub fn begin_fault_at(&self, since: u64, node: usize, kind: FaultKind, lost: Lost) -> u64 {
        let call = self.call();
        let event = Event::new(since, call, Phase::Invoke, Op::Fault).at(name(node));
        self.note_fault(event, kind, lost, None);
        call
    }

    /// By now a node has lost something: it acknowledged up to here.
    pub fn lost(&self, node: usize, kind: FaultKind, lost: Lost) {
        let event = self.event(self.call(), Phase::Info, Op::Fault, node);
        self.note_fault(event, kind, lost, None);
    }

    /// The wall clock of a node was set ahead by so much, or back.
    pub fn clock_set(&self, node: usize, jump_ms: i64) {
        let event = self.event(self.call(), Phase::Info, Op::Fault, node);
        self.note_fault(event, FaultKind::Clock, Lost::Nothing, Some(jump_ms));
    }

    fn note_fault(&self, mut event: Event, kind: FaultKind, lost: Lost, jump: Option<i64>) {
        event.fault = Some(Fault {
            kind,
            to: None,
            lost,
            jump,
        });
        self.note(event);
    }

    /// It is over.
    pub fn end_fault(&self, call: u64) {
        self.note(Event::new(self.now(), call, Phase::Ok, Op::Fault));
    }

    /// All of it, so far.
    pub fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a node is called.
pub fn name(node: usize) -> String {
    format!("n{node}")
}

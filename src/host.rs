//! The node inside this server: the core, the clients that wait, the wake-up.
//!
//! Everything that changes the node's state goes through one of two doors:
//! [`command`], for a client's command, and [`turn`], for the timer. Both end in
//! the same way: waiting clients are answered, what changed is written down as
//! one record, and the alarm is set for what is due next. Callbacks of Redis in
//! which nothing may change leave a [`Note`] for the next turn.
//!
//! [`waiting`] has the clients that wait: how they come to, and how they are answered.

mod waiting;

pub use waiting::{on_disconnected, on_freed, on_timed_out, Awaits};
use waiting::{Given, Waiting};

use crate::bodies::GivenBodies;
use crate::bus::Links;
use crate::ffi::{self, Blocked, Call, Ctx, MainCell, MainThread, StateError, Turn};
use crate::number_map::{number_map, NumberMap};
use crate::persistence::load::LoadState;
use crate::persistence::{identity, load};
use crate::scans::RunningScan;
use crate::senders::Senders;
use crate::settings::ModuleSettings;
use crate::warnings::Warning;
use disque_core::clock::Now;
use disque_core::cluster::{Contact, PeerKey};
use disque_core::effects::{Answer, Effects, WaiterId};
use disque_core::error::Error;
use disque_core::memory::Pressure;
use disque_core::node::{Identity, Node};
use disque_core::nodes_file::NodesFile;
use std::collections::VecDeque;

/// The node of this process. Empty until the module is loaded.
pub static HOST: MainCell<Host> = MainCell::empty();

/// The command that carries records into the append only file and to replicas.
pub const RECORD_COMMAND: &std::ffi::CStr = c"disque.record";

/// Waiting clients that one command serves; the timer serves the rest.
const SERVED_PER_COMMAND: usize = 64;
/// Waiting clients that get an answer without jobs in one command or turn.
const ANSWERED_PER_ROUND: usize = 64;
/// Steps between two looks at the clock in a timer turn.
const STEPS: usize = 200;
/// A timer turn ends after this long and goes on in the next round of the event
/// loop, so that clients are served in between.
const TURN_MS: u64 = 2;
/// When to try again while the server wants no writes (CLIENT PAUSE, FAILOVER).
const PAUSED_RETRY_MS: u64 = 20;

/// The node and what connects it to the server.
pub struct Host {
    /// The state machine.
    pub node: Node,
    /// What the running call wants done.
    pub fx: Effects,
    /// Large bodies that the running command has brought.
    pub bodies: GivenBodies,
    /// Clients that wait for the node's answer.
    waiting: NumberMap<WaiterId, Waiting>,
    /// What answered clients were given, until the answer has left.
    given: NumberMap<WaiterId, Given>,
    /// Of these, the clients to whose output the answer was added in this round.
    leaving_now: Vec<WaiterId>,
    /// How many clients had left when the last round was over.
    clients_left: Option<u64>,
    /// Answers without jobs that are still to be given.
    pending: VecDeque<(WaiterId, Answer)>,
    notes: Vec<Note>,
    /// Settings that only the module acts on.
    pub settings: ModuleSettings,
    /// Settings of the server that void promises.
    pub warnings: Vec<Warning>,
    /// Scans that run in the background.
    pub scans: Vec<RunningScan>,
    own_clients: u64,
    /// The links to other nodes; `None` while the server loads or stops, and on
    /// a replica.
    pub links: Option<Links>,
    /// Who sends frames.
    pub senders: Senders,
    /// Clients whose DISQUE MEET is under way.
    pub meetings: NumberMap<WaiterId, (Contact, Option<Blocked>)>,
    /// The changes of the table that the nodes file holds.
    saved: (Identity, u64),
    /// The load that runs, if one does.
    pub load: LoadState,
    /// While the server wants no writes: when to look again, monotonic ms.
    not_before: u64,
    /// A Redis replica has no timers and delivers nothing: it follows.
    passive: bool,
}

/// What a callback found out, for the next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Note {
    /// This client waits no longer.
    Gone(WaiterId),
    /// This client was gone before its answer left.
    Lost(WaiterId),
}

/// Runs a client's command on the node and replies.
///
/// `run` validates, acts, and writes the reply; an error that it returns is the
/// reply.
pub fn command(
    call: &mut Call<'_>,
    run: impl FnOnce(&mut Host, Now, &mut Call<'_>) -> Result<(), Error>,
) {
    let flags = call.ctx().flags();
    command_always(call, |host, now, call| {
        host.node.check_serving()?;
        if host.node.has_ready() && !flags.multi() && !flags.script() {
            // Clients that wait since a transaction come first.
            host.node.serve(now, SERVED_PER_COMMAND, &mut host.fx);
            host.answer(call.ctx().main());
        }
        run(host, now, call)
    });
}

/// The same for a command that runs also on a node that does not serve, since the
/// cluster has forgotten it or another server is it.
pub fn command_always(
    call: &mut Call<'_>,
    run: impl FnOnce(&mut Host, Now, &mut Call<'_>) -> Result<(), Error>,
) {
    let flags = call.ctx().flags();
    let turn = call.turn();
    let done = HOST.with(turn.main(), |host| {
        let now = now();
        // A replica may be set to take writes: its jobs are its primary's all the
        // same.
        let follows = host.passive && !flags.replicated() && !flags.loading();
        let done = match follows {
            true => Err(Error::ReadOnly),
            false => run(host, now, call),
        };
        if let Err(error) = done {
            call.reply().error(&error.to_string());
        }
        // In a transaction or script clients are served when it is over.
        if !flags.multi() && !flags.script() {
            host.node.serve(now, SERVED_PER_COMMAND, &mut host.fx);
        }
        host.finish(turn);
    });
    if let Err(error) = done {
        call.reply().error(&unavailable(error).to_string());
    }
}

/// Runs a command that changes nothing that is recorded. Such commands run also
/// while the server wants no writes: nobody is served here.
pub fn query(
    call: &mut Call<'_>,
    run: impl FnOnce(&mut Host, Now, &mut Call<'_>) -> Result<(), Error>,
) {
    let main = call.ctx().main();
    let done = HOST.with(main, |host| {
        let now = now();
        let done = host
            .node
            .check_serving()
            .and_then(|()| run(host, now, call));
        if let Err(error) = done {
            call.reply().error(&error.to_string());
        }
    });
    if let Err(error) = done {
        call.reply().error(&unavailable(error).to_string());
    }
}

/// The same for a command that tells about the node itself, also when it does not
/// serve.
pub fn query_always(
    call: &mut Call<'_>,
    run: impl FnOnce(&mut Host, Now, &mut Call<'_>) -> Result<(), Error>,
) {
    let main = call.ctx().main();
    let done = HOST.with(main, |host| {
        if let Err(error) = run(host, now(), call) {
            call.reply().error(&error.to_string());
        }
    });
    if let Err(error) = done {
        call.reply().error(&unavailable(error).to_string());
    }
}

/// Why the node cannot be used. After a caught panic its state may be half
/// changed: it serves no more rather than wrongly.
fn unavailable(error: StateError) -> Error {
    match error {
        StateError::Poisoned => Error::Stopped,
        StateError::Empty | StateError::Busy => Error::Internal,
    }
}

/// The time of both clocks.
pub fn now() -> Now {
    let mono_ms = ffi::mono_ms();
    Now {
        mono_ms,
        wall_ms: ffi::wall_ms(mono_ms),
    }
}

/// The work of a timer turn.
pub fn turn(turn: &Turn) {
    let done = HOST.with(turn.main(), |host| host.run_turn(turn));
    debug_assert_ne!(done, Err(StateError::Busy));
}

/// Sees to it that what is overdue is done: the net under the alarm.
pub fn check_overdue(ctx: &Ctx) {
    // A poisoned node has nothing due.
    let _ = HOST.with(ctx.main(), |host| {
        let now = now();
        let may_run = host.load.source.is_none() && now.mono_ms >= host.not_before;
        if may_run && !host.passive && host.is_due(now) {
            ffi::poke(ctx.main());
        }
    });
}

/// The event loop is about to wait: sets the alarm for what is due next. Once for
/// all that was done in this round, since until now nothing can come late. And the
/// bus sends what was said in it.
pub fn before_sleep(ctx: &Ctx) {
    // A poisoned node has nothing due.
    let _ = HOST.with(ctx.main(), |host| {
        load::without_data(host, ctx);
        // First, since others wait for it.
        if let Some(links) = &mut host.links {
            links.flush();
        }
        host.set_alarm(ctx.main());
    });
}

impl Host {
    /// A host for this node.
    pub fn new(node: Node, passive: bool) -> Host {
        Host {
            links: None,
            senders: Senders::default(),
            meetings: number_map(),
            saved: (*node.identity(), u64::MAX),
            node,
            fx: Effects::new(),
            bodies: GivenBodies::default(),
            waiting: number_map(),
            given: number_map(),
            leaving_now: Vec::new(),
            clients_left: None,
            pending: VecDeque::new(),
            notes: Vec::new(),
            scans: Vec::new(),
            own_clients: 0,
            settings: ModuleSettings::default(),
            warnings: Vec::new(),
            load: LoadState::default(),
            not_before: 0,
            passive,
        }
    }

    /// Whether this server is a Redis replica.
    pub fn is_passive(&self) -> bool {
        self.passive
    }

    /// Stops the clock of the node, or lets it run.
    pub fn set_passive(&mut self, passive: bool) {
        self.passive = passive;
    }

    /// Writes the nodes file.
    pub fn save_nodes(&mut self, ctx: &Ctx) {
        self.saved = (*self.node.identity(), self.node.cluster().changes());
        let file = NodesFile {
            batches: self.load.flushed,
            synced: self.load.is_synced(),
            ..self.node.nodes_file(false)
        };
        identity::save(ctx, &file);
    }

    /// Writes the nodes file with the mark of a clean stop: all was written before
    /// the server told that it stops. Not while it loads, and what a replica has may
    /// lack what its primary did last.
    pub fn save_clean_stop(&mut self, ctx: &Ctx) {
        if self.load.is_over() && !self.passive {
            identity::save(ctx, &self.node.nodes_file(true));
        }
    }

    /// Sends what rests on records of the round that is over: they are written.
    pub fn open_gate(&mut self) {
        self.load.flushed = self.node.batches();
        if let Some(links) = &mut self.links {
            links.open_gate();
        }
    }

    /// This node presents itself anew to the others: it is another one.
    pub fn introduce(&mut self) {
        if let Some(links) = &mut self.links {
            links.introduce(&self.node);
        }
    }

    /// Bytes that wait for another node.
    pub fn queued_bytes(&self, key: PeerKey) -> u64 {
        self.links
            .as_ref()
            .map_or(0, |links| links.queued_bytes(key))
    }

    /// Whether the client of a command may be made to wait.
    pub fn can_block(&self, call: &Call<'_>) -> bool {
        let flags = call.ctx().flags();
        !(flags.multi() || flags.script() || flags.deny_blocking())
    }

    /// A name for a client that waits for something else than jobs, which no
    /// waiter of the node has: theirs count from below.
    pub fn next_own_client(&mut self) -> WaiterId {
        self.own_clients += 1;
        WaiterId(u64::MAX - self.own_clients)
    }

    /// Whether this server may keep links to others.
    pub fn may_have_links(&self) -> bool {
        !self.passive && self.load.source.is_none()
    }

    /// Tells the node how full the server is, and drops what may go while it is
    /// nearly full.
    pub fn watch_memory(&mut self, now: Now, ctx: &Ctx) {
        const MAX_DROPS: usize = 100;
        self.node.set_server_pressure(server_pressure(ctx));
        for _ in 0..MAX_DROPS {
            let nearly_full = self.node.pressure() >= Pressure::Critical;
            if !nearly_full || !self.node.relieve_memory(now, &mut self.fx) {
                return;
            }
            self.node.set_server_pressure(server_pressure(ctx));
        }
    }

    fn run_turn(&mut self, turn: &Turn) {
        if self.passive {
            self.run_passive_turn(turn);
            return;
        }
        if turn.may_replicate().is_err() {
            self.run_paused_turn(turn);
            return;
        }
        self.not_before = 0;
        let started = ffi::mono_ms();
        if self.links.is_none() && !self.node.cluster().is_alone() {
            self.node.connect_all(&mut self.fx);
        }
        self.act_on_notes(now());
        let more_events = self.take_bus_events(turn.main(), now());
        loop {
            let now = now();
            self.node.run_due(now, STEPS, &mut self.fx);
            self.answer(turn.main());
            self.step_scans(turn);
            // Not what `finish` will do: to wait for it here would be to wait in vain.
            let more = !self.scans.is_empty() || self.has_due(now);
            if !more || ffi::mono_ms() - started >= TURN_MS {
                break;
            }
        }
        self.finish(turn);
        if more_events {
            ffi::poke(turn.main());
        }
    }

    /// While the server wants no writes: what records nothing goes on, that is
    /// time-outs of clients and scans.
    fn run_paused_turn(&mut self, turn: &Turn) {
        self.node.end_waits(now(), STEPS, &mut self.fx);
        self.answer(turn.main());
        self.answer_pending(turn.main(), ANSWERED_PER_ROUND);
        self.step_scans(turn);
        self.not_before = ffi::mono_ms() + PAUSED_RETRY_MS;
    }

    /// On a replica only memory is freed, and clients that Redis has sent away
    /// are forgotten. What a lost answer gave away comes back by its RETRY.
    fn run_passive_turn(&mut self, turn: &Turn) {
        for note in std::mem::take(&mut self.notes) {
            if let Note::Gone(id) = note {
                self.forget(id, now());
            }
        }
        // What becomes of their jobs its primary decides.
        self.fx.records.clear();
        self.answer_pending(turn.main(), ANSWERED_PER_ROUND);
        self.node.free_discarded(STEPS);
        self.step_scans(turn);
    }

    fn forget(&mut self, id: WaiterId, now: Now) {
        self.waiting.remove(&id);
        self.meetings.remove(&id);
        self.drop_scan(id);
        self.node.forget_waiter(id, now, &mut self.fx);
    }

    /// Carries out what a call wants done and sets the alarm.
    fn finish(&mut self, turn: &Turn) {
        // Answers leave only after the record is in the append only file: Redis
        // writes it before it sends anything, at the end of this loop turn.
        self.answer(turn.main());
        self.answer_pending(turn.main(), ANSWERED_PER_ROUND);
        let bodies = self.bodies.take_for(&self.fx.records);
        if !self.fx.records.is_empty() {
            let batch = self.fx.records.bytes();
            if let Err(error) = turn.replicate(RECORD_COMMAND, batch, &bodies) {
                let text = format!("a change was not written down: {error:?}");
                turn.log(ffi::Level::Warning, &text);
            }
            self.node.count_batch();
        }
        self.carry_out_bus(turn);
        self.fx.clear();
    }

    /// What concerns other nodes. Nearly always nothing.
    fn carry_out_bus(&mut self, ctx: &Ctx) {
        if !self.fx.news.is_empty() {
            self.tell_news(ctx);
        }
        let current = (*self.node.identity(), self.node.cluster().changes());
        if self.saved != current && self.load.is_over() {
            self.save_nodes(ctx);
        }
        if !self.fx.bus.is_empty() {
            self.carry_out_links(ctx);
        }
    }

    fn set_alarm(&mut self, main: MainThread) {
        if self.load.source.is_some() {
            return;
        }
        let next = match self.node.next_wake() {
            _ if self.has_work() => Some(0),
            _ if self.passive => None,
            next => next,
        };
        match next.map(|at| at.max(self.not_before)) {
            None => ffi::disarm(main),
            // The event loop has decided how long it waits: a timer of Redis' own
            // would not change that any more.
            Some(at) if at <= ffi::mono_ms() => ffi::waker().wake(),
            Some(at) => ffi::arm(main, at),
        }
    }

    /// Whether there is something to do that hangs on no time.
    fn has_work(&self) -> bool {
        let for_all = !self.scans.is_empty() || !self.pending.is_empty() || !self.notes.is_empty();
        let has_work = if self.passive {
            self.node.has_discarded()
        } else {
            !self.fx.records.is_empty()
        };
        for_all || has_work
    }

    fn is_due(&self, now: Now) -> bool {
        self.has_work() || self.has_due(now)
    }

    fn has_due(&self, now: Now) -> bool {
        self.node.next_wake().is_some_and(|at| at <= now.mono_ms)
    }

    fn note(&mut self, note: Note, main: MainThread) {
        self.notes.push(note);
        ffi::poke(main);
    }

    fn act_on_notes(&mut self, now: Now) {
        for note in std::mem::take(&mut self.notes) {
            match note {
                Note::Gone(id) => self.forget(id, now),
                Note::Lost(id) => {
                    if let Some(given) = self.given.remove(&id) {
                        self.node.undeliver(&given.receipts, &mut self.fx);
                    }
                }
            }
        }
    }
}

/// How full the server's memory is by its own measure.
fn server_pressure(ctx: &Ctx) -> Pressure {
    const PARTS: f32 = 1_000_000.0;
    Pressure::of((ctx.used_memory_ratio() * PARTS) as u64, PARTS as u64)
}

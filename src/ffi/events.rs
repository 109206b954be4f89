//! What happens to the server as a whole.
//!
//! Event handlers may not change recorded state (they have no
//! [`super::Turn`]): they note work and ask for a turn.

use super::api::{need, ok};
use super::blocking;
use super::clock;
use super::context::{Ctx, Level};
use super::guard::guard;
use super::verdicts;
use redis_module::raw;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;

/// An event of the server.
#[derive(Clone, Copy)]
pub enum Event {
    /// A load begins: all state is about to be replaced.
    LoadingStarted(Source),
    /// The load is complete.
    LoadingEnded,
    /// The load failed (a full sync that broke off): the data are incomplete.
    LoadingFailed,
    /// The server shuts down; told once, when nothing can stop it.
    Shutdown,
    /// This server is a master from now on.
    BecameMaster,
    /// This server is a replica from now on.
    BecameReplica,
    /// The server's cron, some times a second (`hz`).
    Cron,
    /// Settings, the server's own or a module's, were changed by CONFIG SET.
    ConfigChanged,
    /// The event loop is about to wait. What was unblocked or written to the
    /// AOF in this round has not been sent or flushed yet.
    BeforeSleep,
    /// The event loop has waited; the round before is flushed.
    AfterSleep,
}

/// Where loaded data come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An RDB file.
    Rdb,
    /// The append-only file.
    Aof,
    /// A full sync with the master.
    Replication,
}

/// A group of events that can be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Loading started, ended, failed.
    Loading,
    /// Shutdown.
    Shutdown,
    /// Became master, replica.
    Role,
    /// Cron.
    Cron,
    /// Config changed.
    Config,
    /// Clients that leave: they are counted, and the hook does not hear of them.
    Clients,
    /// Before and after sleep: told in each round of the event loop, so they
    /// cost some 100 ns each.
    Loop,
}

impl Topic {
    fn id(self) -> u64 {
        match self {
            Topic::Loading => raw::REDISMODULE_EVENT_LOADING,
            Topic::Shutdown => raw::REDISMODULE_EVENT_SHUTDOWN,
            Topic::Role => raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            Topic::Cron => raw::REDISMODULE_EVENT_CRON_LOOP,
            Topic::Config => raw::REDISMODULE_EVENT_CONFIG,
            Topic::Clients => raw::REDISMODULE_EVENT_CLIENT_CHANGE,
            Topic::Loop => raw::REDISMODULE_EVENT_EVENTLOOP,
        }
    }
}

/// Clients whose connections have ended.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// Whether the server tells of them.
static LEFT_TOLD: AtomicBool = AtomicBool::new(false);

/// How many clients have left so far: while it does not change, everyone is still
/// there. `None` where the server does not tell.
pub fn clients_left() -> Option<u64> {
    let told = LEFT_TOLD.load(Ordering::Relaxed);
    told.then(|| LEFT.load(Ordering::Relaxed))
}

static HOOK: OnceLock<fn(&Ctx, Event)> = OnceLock::new();

/// Subscribes to topics, and in any case to [`Topic::Loop`], because at the end of a
/// round clients are released (see [`super::Blocked`]), and to [`Topic::Clients`], for
/// [`clients_left`]. A topic that the server
/// does not know is logged and left out.
pub fn subscribe(ctx: &Ctx, topics: &[Topic], hook: fn(&Ctx, Event)) {
    HOOK.get_or_init(|| hook);
    for topic in topics.iter().chain([&Topic::Loop, &Topic::Clients]) {
        let event = raw::RedisModuleEvent {
            id: topic.id(),
            dataver: 1,
        };
        // SAFETY: a valid context during load; the callback stays loaded.
        let status = unsafe {
            need(raw::RedisModule_SubscribeToServerEvent)(ctx.as_ptr(), event, Some(on_event))
        };
        match topic {
            _ if !ok(status) => ctx.log(
                Level::Notice,
                &format!("the server does not tell about {topic:?}"),
            ),
            Topic::Loop => verdicts::rounds_are_told(),
            Topic::Clients => LEFT_TOLD.store(true, Ordering::Relaxed),
            _ => {}
        }
    }
}

unsafe extern "C" fn on_event(
    ctx: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    sub: u64,
    _data: *mut c_void,
) {
    guard(
        ctx,
        || format!("event {}, {sub}", event.id),
        (),
        || {
            if (event.id, sub) == CLIENT_LEFT {
                LEFT.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // SAFETY: Redis' context, valid during the callback.
            let context = unsafe { Ctx::new(ctx) };
            let event = translate(event.id, sub);
            if let (Some(context), Some(event), Some(hook)) = (context, event, HOOK.get()) {
                match event {
                    Event::BeforeSleep => blocking::release_answered(context.main()),
                    Event::AfterSleep => {
                        verdicts::forget();
                        clock::round_begins();
                    }
                    _ => {}
                }
                hook(&context, event);
            }
        },
    );
}

const CLIENT_LEFT: (u64, u64) = (
    raw::REDISMODULE_EVENT_CLIENT_CHANGE,
    raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED,
);

fn translate(id: u64, sub: u64) -> Option<Event> {
    Some(match (id, sub) {
        (raw::REDISMODULE_EVENT_LOADING, raw::REDISMODULE_SUBEVENT_LOADING_RDB_START) => {
            Event::LoadingStarted(Source::Rdb)
        }
        (raw::REDISMODULE_EVENT_LOADING, raw::REDISMODULE_SUBEVENT_LOADING_AOF_START) => {
            Event::LoadingStarted(Source::Aof)
        }
        (raw::REDISMODULE_EVENT_LOADING, raw::REDISMODULE_SUBEVENT_LOADING_REPL_START) => {
            Event::LoadingStarted(Source::Replication)
        }
        (raw::REDISMODULE_EVENT_LOADING, raw::REDISMODULE_SUBEVENT_LOADING_ENDED) => {
            Event::LoadingEnded
        }
        (raw::REDISMODULE_EVENT_LOADING, raw::REDISMODULE_SUBEVENT_LOADING_FAILED) => {
            Event::LoadingFailed
        }
        (raw::REDISMODULE_EVENT_SHUTDOWN, _) => Event::Shutdown,
        (
            raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER,
        ) => Event::BecameMaster,
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, _) => Event::BecameReplica,
        (raw::REDISMODULE_EVENT_CRON_LOOP, _) => Event::Cron,
        (raw::REDISMODULE_EVENT_CONFIG, _) => Event::ConfigChanged,
        (raw::REDISMODULE_EVENT_EVENTLOOP, raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP) => {
            Event::BeforeSleep
        }
        (raw::REDISMODULE_EVENT_EVENTLOOP, _) => Event::AfterSleep,
        _ => return None,
    })
}

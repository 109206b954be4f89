//! What happens to the server as a whole.
//!
//! Event handlers may not change recorded state (they have no
//! [`super::Turn`]): they note work and ask for a turn.

use super::api::{need, ok};
use super::context::{Ctx, Level};
use super::blocking;
use super::guard::guard;
use super::verdicts;
use redis_module::raw;
use std::ffi::{c_char, c_void, CStr};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// An event of the server.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// A load begins: all state is about to be replaced.
    LoadingStarted(Source),
    /// The load is complete.
    LoadingEnded,
    /// The load failed (a full sync that broke off): the data are incomplete.
    LoadingFailed,
    /// Saving starts. For a save by a child this is told in the child only.
    SavingStarted(Saving),
    /// Saving is over, in the process that saved.
    SavingEnded,
    /// Saving failed, in the process that saved.
    SavingFailed,
    /// A child was forked (told in the parent).
    ForkBorn,
    /// The child is gone (told in the parent).
    ForkDied,
    /// The server shuts down; told once, when nothing can stop it.
    Shutdown,
    /// This server is a master from now on.
    BecameMaster,
    /// This server is a replica from now on.
    BecameReplica,
    /// The server's cron, `hz` times a second.
    Cron {
        /// How often it runs.
        hz: i32,
    },
    /// Settings, the server's own or a module's, were changed by CONFIG SET.
    ConfigChanged(ConfigNames<'a>),
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

/// What is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saving {
    /// An RDB, by a child.
    Rdb,
    /// An AOF rewrite, by a child.
    Aof,
    /// An RDB, by the server itself.
    RdbInline,
    /// An AOF, by the server itself.
    AofInline,
}

/// Names of changed settings.
#[derive(Clone, Copy)]
pub struct ConfigNames<'a> {
    first: *const *const c_char,
    len: usize,
    life: PhantomData<&'a CStr>,
}

impl<'a> ConfigNames<'a> {
    /// The names, those of modules with their prefix.
    pub fn iter(&self) -> impl Iterator<Item = &'a CStr> + use<'a> {
        let first = self.first;
        (0..self.len).filter_map(move |index| {
            // SAFETY: the server passes `len` names that end in NUL and live
            // during the event.
            unsafe {
                let name = *first.add(index);
                (!name.is_null()).then(|| CStr::from_ptr(name))
            }
        })
    }
}

/// A group of events that can be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Loading started, ended, failed.
    Loading,
    /// Saving started, ended, failed.
    Saving,
    /// Fork born, died.
    Fork,
    /// Shutdown.
    Shutdown,
    /// Became master, replica.
    Role,
    /// Cron.
    Cron,
    /// Config changed.
    Config,
    /// Before and after sleep: told in each round of the event loop, so they
    /// cost some 100 ns each.
    Loop,
}

impl Topic {
    fn id(self) -> u64 {
        match self {
            Topic::Loading => raw::REDISMODULE_EVENT_LOADING,
            Topic::Saving => raw::REDISMODULE_EVENT_PERSISTENCE,
            Topic::Fork => raw::REDISMODULE_EVENT_FORK_CHILD,
            Topic::Shutdown => raw::REDISMODULE_EVENT_SHUTDOWN,
            Topic::Role => raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            Topic::Cron => raw::REDISMODULE_EVENT_CRON_LOOP,
            Topic::Config => raw::REDISMODULE_EVENT_CONFIG,
            Topic::Loop => raw::REDISMODULE_EVENT_EVENTLOOP,
        }
    }
}

static HOOK: OnceLock<fn(&Ctx, Event<'_>)> = OnceLock::new();

/// Subscribes to topics, and to [`Topic::Loop`] in any case: at the end of a
/// round clients are released (see [`super::Blocked`]). A topic that the server does not know is logged and
/// left out.
pub fn subscribe(ctx: &Ctx, topics: &[Topic], hook: fn(&Ctx, Event<'_>)) -> Result<(), String> {
    HOOK.set(hook)
        .map_err(|_| "events are subscribed to twice")?;
    for topic in topics.iter().chain([&Topic::Loop]) {
        let event = raw::RedisModuleEvent {
            id: topic.id(),
            dataver: 1,
        };
        // SAFETY: a valid context during load; the callback stays loaded.
        let status = unsafe {
            need(raw::RedisModule_SubscribeToServerEvent)(ctx.as_ptr(), event, Some(on_event))
        };
        if ok(status) && *topic == Topic::Loop {
            verdicts::rounds_are_told();
        }
        if !ok(status) {
            ctx.log(
                Level::Notice,
                &format!("the server does not tell about {topic:?}"),
            );
        }
    }
    Ok(())
}

unsafe extern "C" fn on_event(
    ctx: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    sub: u64,
    data: *mut c_void,
) {
    guard(
        ctx,
        || format!("event {}, {sub}", event.id),
        (),
        || {
            // SAFETY: Redis' context and data, valid during the callback; the data
            // belong to the event.
            let (context, event) = unsafe { (Ctx::new(ctx), translate(event.id, sub, data)) };
            if let (Some(context), Some(event), Some(hook)) = (context, event, HOOK.get()) {
                if matches!(event, Event::BeforeSleep) {
                    blocking::release_answered(context.main());
                }
                hook(&context, event);
            }
        },
    );
}

/// # Safety
///
/// `data` is what the server passes along with the event `id`.
unsafe fn translate<'a>(id: u64, sub: u64, data: *mut c_void) -> Option<Event<'a>> {
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
        (raw::REDISMODULE_EVENT_PERSISTENCE, sub) => saving(sub)?,
        (raw::REDISMODULE_EVENT_FORK_CHILD, raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN) => {
            Event::ForkBorn
        }
        (raw::REDISMODULE_EVENT_FORK_CHILD, _) => Event::ForkDied,
        (raw::REDISMODULE_EVENT_SHUTDOWN, _) => Event::Shutdown,
        (
            raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER,
        ) => Event::BecameMaster,
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, _) => Event::BecameReplica,
        (raw::REDISMODULE_EVENT_CRON_LOOP, _) => {
            let data = NonNull::new(data.cast::<raw::RedisModuleCronLoopInfo>())?;
            Event::Cron {
                // SAFETY: the data of this event, by contract.
                hz: unsafe { data.as_ref() }.hz,
            }
        }
        (raw::REDISMODULE_EVENT_CONFIG, _) => {
            let data = NonNull::new(data.cast::<raw::RedisModuleConfigChangeV1>())?;
            // SAFETY: the data of this event, by contract.
            let data = unsafe { data.as_ref() };
            Event::ConfigChanged(ConfigNames {
                first: data.config_names.cast(),
                len: data.num_changes as usize,
                life: PhantomData,
            })
        }
        (raw::REDISMODULE_EVENT_EVENTLOOP, raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP) => {
            Event::BeforeSleep
        }
        (raw::REDISMODULE_EVENT_EVENTLOOP, _) => Event::AfterSleep,
        _ => return None,
    })
}

fn saving<'a>(sub: u64) -> Option<Event<'a>> {
    Some(match sub {
        raw::REDISMODULE_SUBEVENT_PERSISTENCE_RDB_START => Event::SavingStarted(Saving::Rdb),
        raw::REDISMODULE_SUBEVENT_PERSISTENCE_AOF_START => Event::SavingStarted(Saving::Aof),
        raw::REDISMODULE_SUBEVENT_PERSISTENCE_SYNC_RDB_START => {
            Event::SavingStarted(Saving::RdbInline)
        }
        raw::REDISMODULE_SUBEVENT_PERSISTENCE_SYNC_AOF_START => {
            Event::SavingStarted(Saving::AofInline)
        }
        raw::REDISMODULE_SUBEVENT_PERSISTENCE_ENDED => Event::SavingEnded,
        raw::REDISMODULE_SUBEVENT_PERSISTENCE_FAILED => Event::SavingFailed,
        _ => return None,
    })
}

//! Clients that wait for their answer.
//!
//! A client is blocked with [`Call::block`](super::Call::block) and answered
//! through the [`Blocked`] that this returns, from a command or a timer turn.
//! The answer is written at once, into a buffer beside the client. Just before
//! the event loop sleeps the client is released: Redis adds the answer to its
//! output, runs `freed`, then writes the AOF, then sends. Redis' own time-out is
//! never used: it follows the wall clock.
//!
//! What Redis 7.0.15 does, as tried out on a server:
//!
//! | what happens to a client that waits | hooks, in order | the client gets |
//! | --- | --- | --- |
//! | it is answered | `freed(Delivered)` | the answer |
//! | it closes, or CLIENT KILL | `disconnected`, `freed(Unanswered)` | - |
//! | CLIENT UNBLOCK (TIMEOUT) | `timed_out`, `freed(Unanswered)` | what `timed_out` writes |
//! | CLIENT UNBLOCK ERROR | `disconnected`, `freed(Unanswered)` | `-UNBLOCKED`; it lives on |
//! | the server becomes a replica | `disconnected`, the role event, `freed(Unanswered)` | `-UNBLOCKED`, then the end |
//! | the server shuts down | the shutdown event only | the end |
//!
//! Between the answer and the end of the round the client still counts as
//! waiting for Redis, and the answer can be taken back:
//!
//! | what happens | hooks | the client gets |
//! | --- | --- | --- |
//! | it closes, or CLIENT KILL | `freed(Lost)` | - |
//! | CLIENT UNBLOCK ERROR | `freed(Lost)` | `-UNBLOCKED` |
//! | CLIENT UNBLOCK (TIMEOUT) | `timed_out`, `freed(Lost)` | what `timed_out` writes |
//!
//! A client released at once, when it is answered, would get nothing in the last
//! case and hang: Redis 7.0 then drops the answer and does not call `timed_out`.
//!
//! A blocked client costs the server about 35 KB of memory more than one that
//! waits in BLPOP: on 7.0 Redis takes two clients of its own from a pool for
//! each. The part kept here is some 40 bytes.

use super::api::need;
use super::context::{log_raw, Ctx, Level};
use super::guard::guard;
use super::main_cell::{MainCell, MainThread};
use super::reply::{Reply, INTERNAL_ERROR};
use crate::number_map::{number_map, NumberMap};
use redis_module::raw;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// What the module does when Redis tells about a blocked client. None of them
/// may change state that is recorded: they write replies, or note work for the
/// next turn ([`super::poke`]).
#[derive(Clone, Copy)]
pub struct BlockingHooks {
    /// `CLIENT UNBLOCK id TIMEOUT`: writes the reply of a client that waits no
    /// longer. Its handle is spent.
    pub timed_out: fn(&Ctx, u64, &mut Reply<'_>),
    /// The client is gone, or Redis answered it by itself (`CLIENT UNBLOCK id
    /// ERROR`, demotion to a replica). Its handle is spent.
    pub disconnected: fn(&Ctx, u64),
    /// The last that is heard of the client, once for each that was blocked.
    pub freed: fn(&Ctx, u64, Fate),
}

/// What became of a blocked client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was answered, and the answer is in its output buffer.
    Delivered,
    /// It was answered, but went away before Redis took over the answer: what
    /// the answer gave away goes back.
    Lost,
    /// No answer was given: it timed out or disconnected, which was told
    /// before.
    Unanswered,
}

/// The client cannot wait here: in a transaction or a script, or because a
/// reply was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CannotBlock;

static HOOKS: OnceLock<BlockingHooks> = OnceLock::new();

type Clients = NumberMap<usize, Client>;

/// Clients between `block` and `freed`, by the address of Redis' handle. (On
/// Redis 7.0 only the answer can carry data of the module's own, so the id is
/// kept here.) An address is used again only after `freed`, when its entry is
/// gone.
static CLIENTS: MainCell<Clients> = MainCell::new(number_map());

#[derive(Clone, Copy)]
struct Client {
    id: u64,
    state: State,
}

/// Redis must be told exactly once, by UnblockClient, that a client waits no
/// longer. All states but the first four mean that it was. Redis frees the
/// handle some time after it was told, so a client whose answer is being written
/// is never told about before the answer is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// The answer is being written, perhaps over several turns.
    Answering,
    /// The same, and Redis has let the client go meanwhile.
    Abandoned,
    /// The answer is written, and will be sent unless something comes between.
    Answered,
    /// The answer is on its way.
    Released,
    /// Something came between.
    Lost,
    /// Redis let the client go before it was answered.
    Settled,
}

/// Clients whose answers were completed in this round.
static ANSWERED: MainCell<Vec<NonNull<raw::RedisModuleBlockedClient>>> = MainCell::new(Vec::new());

/// The round is over: what was answered in it is sent.
pub(super) fn release_answered(main: MainThread) {
    let Ok(answered) = ANSWERED.with(main, std::mem::take) else {
        return;
    };
    for handle in answered {
        if change_state(main, handle, None, State::Answered, State::Released) {
            // SAFETY: an entry in this state is live, and the change of state
            // makes this the only call.
            unsafe { unblock(handle) };
        }
    }
}

/// Says what to do when Redis tells about a blocked client. Called once, at
/// load.
pub fn install(hooks: BlockingHooks) -> Result<(), String> {
    HOOKS
        .set(hooks)
        .map_err(|_| "the blocking hooks are installed twice".into())
}

/// A client that waits. Answering consumes it; dropping it answers with an
/// internal error. When Redis has settled the client by itself in the
/// meantime (see [`BlockingHooks`]) both do nothing.
pub struct Blocked {
    handle: NonNull<raw::RedisModuleBlockedClient>,
    id: u64,
}

impl Blocked {
    /// Writes the answer and lets the client go. Allowed in commands, timer
    /// turns and server events. Redis sends the answer at the end of the round,
    /// after the AOF was written. False, and `write` is not run, when the
    /// client waits no longer.
    pub fn answer(self, main: MainThread, write: impl FnOnce(&mut Reply<'_>)) -> bool {
        let client = std::mem::ManuallyDrop::new(self);
        client.answer_once(main, write)
    }

    /// The same for an answer that is written over several turns. Nothing is sent
    /// before the [`Answer`] is dropped. `None` when the client waits no longer.
    pub fn begin_answer(self, main: MainThread) -> Option<Answer> {
        let client = std::mem::ManuallyDrop::new(self);
        change_state(
            main,
            client.handle,
            Some(client.id),
            State::Waiting,
            State::Answering,
        )
        .then(|| Answer::new(client.handle))
    }

    fn answer_once(&self, main: MainThread, write: impl FnOnce(&mut Reply<'_>)) -> bool {
        if !change_state(
            main,
            self.handle,
            Some(self.id),
            State::Waiting,
            State::Answering,
        ) {
            return false;
        }
        let mut answer = Answer::new(self.handle);
        write(&mut answer.reply);
        true
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // A handle cannot leave the main thread.
        let answered = self.answer_once(MainThread::token(), |reply| reply.error(INTERNAL_ERROR));
        if answered {
            let text = b"internal error: a blocked client was forgotten";
            log_raw(ptr::null_mut(), Level::Warning, text);
        }
    }
}

/// An answer that is being written. When it is dropped, by a panic too, it is
/// complete and the client is released at the end of the round.
pub struct Answer {
    ctx: *mut raw::RedisModuleCtx,
    handle: NonNull<raw::RedisModuleBlockedClient>,
    reply: Reply<'static>,
}

impl Answer {
    /// Where to write.
    pub fn reply(&mut self) -> &mut Reply<'static> {
        &mut self.reply
    }

    /// The handle must be live and its state just changed to `Answering`.
    fn new(handle: NonNull<raw::RedisModuleBlockedClient>) -> Self {
        // SAFETY: the handle is live, because its entry was found. Replies to
        // such a context gather in a client of Redis' own until the blocked
        // one is released; on the main thread no lock is needed. The context
        // outlives the reply, both end in `drop`.
        unsafe {
            let ctx = need(raw::RedisModule_GetThreadSafeContext)(handle.as_ptr());
            Self {
                ctx,
                handle,
                reply: Reply::new(ctx),
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.reply.finish();
        // SAFETY: the context was made by `new` and is not used again. The
        // change of state to `Answered` makes this the only UnblockClient.
        unsafe {
            need(raw::RedisModule_FreeThreadSafeContext)(self.ctx);
        }
        // A handle cannot leave the main thread.
        let main = MainThread::token();
        if change_state(main, self.handle, None, State::Abandoned, State::Lost) {
            // SAFETY: live until Redis is told, and the change of state makes this
            // the only call.
            unsafe { unblock(self.handle) };
            return;
        }
        let answered = change_state(main, self.handle, None, State::Answering, State::Answered);
        debug_assert!(answered);
        // The cell is open only where it is taken empty.
        let queued = ANSWERED.with(main, |answered| answered.push(self.handle));
        debug_assert!(queued.is_ok());
    }
}

/// Blocks the client of the running command.
pub(super) fn block(ctx: &Ctx, id: u64) -> Result<Blocked, CannotBlock> {
    let flags = ctx.flags();
    if flags.deny_blocking() || flags.multi() || flags.script() {
        return Err(CannotBlock);
    }
    // SAFETY: the context of a running command of a client that may be
    // blocked; the callbacks stay loaded. There is no reply callback: answers
    // are written when they are given.
    let handle = unsafe {
        let handle = need(raw::RedisModule_BlockClient)(
            ctx.as_ptr(),
            None,
            Some(on_timeout),
            Some(on_freed),
            0,
        );
        let handle = NonNull::new(handle).ok_or(CannotBlock)?;
        need(raw::RedisModule_SetDisconnectCallback)(handle.as_ptr(), Some(on_disconnect));
        handle
    };
    let client = Client {
        id,
        state: State::Waiting,
    };
    // The cell is open only in the functions of this file, none of which calls
    // out while it is.
    let noted = CLIENTS.with(ctx.main(), |clients| {
        clients.insert(handle.as_ptr() as usize, client)
    });
    if noted.is_err() {
        // SAFETY: no state is kept, so this is the only UnblockClient.
        unsafe { need(raw::RedisModule_AbortBlock)(handle.as_ptr()) };
        return Err(CannotBlock);
    }
    Ok(Blocked { handle, id })
}

/// Changes a client from one state to another; false if it is not in the first,
/// or is not the one with this id.
fn change_state(
    main: MainThread,
    handle: NonNull<raw::RedisModuleBlockedClient>,
    id: Option<u64>,
    from: State,
    to: State,
) -> bool {
    let changed = CLIENTS.with(main, |clients| {
        match clients.get_mut(&(handle.as_ptr() as usize)) {
            Some(client) if client.state == from && id.is_none_or(|id| id == client.id) => {
                client.state = to;
                true
            }
            _ => false,
        }
    });
    changed.unwrap_or(false)
}

/// Redis lets a client go that was not released: it was not answered yet, or
/// its answer is lost. `None` when it was released before.
fn let_go(
    main: MainThread,
    handle: NonNull<raw::RedisModuleBlockedClient>,
) -> Option<(State, u64)> {
    let to = [
        (State::Waiting, State::Settled),
        (State::Answering, State::Abandoned),
        (State::Answered, State::Lost),
    ]
    .into_iter()
    .find_map(|(from, to)| change_state(main, handle, None, from, to).then_some(to))?;
    let id = id_of(main, handle)?;
    // An abandoned answer still holds the handle: it tells Redis when it ends.
    if to != State::Abandoned {
        // SAFETY: an entry in one of the other states is live, and the change of
        // state makes this the only call.
        unsafe { unblock(handle) };
    }
    Some((to, id))
}

fn id_of(main: MainThread, handle: NonNull<raw::RedisModuleBlockedClient>) -> Option<u64> {
    let key = handle.as_ptr() as usize;
    CLIENTS
        .with(main, |clients| clients.get(&key).map(|client| client.id))
        .ok()
        .flatten()
}

/// Tells Redis that the client waits no longer. The address of the handle goes
/// along as private data: it only serves to find the entry again.
///
/// # Safety
///
/// The handle is live and this is the only call for it.
unsafe fn unblock(handle: NonNull<raw::RedisModuleBlockedClient>) {
    // SAFETY: by contract.
    unsafe {
        need(raw::RedisModule_UnblockClient)(handle.as_ptr(), handle.as_ptr().cast::<c_void>())
    };
}

unsafe extern "C" fn on_timeout(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    guard(
        ctx,
        || "a time-out".into(),
        (),
        || {
            // SAFETY: Redis' context, valid during the callback, of a live client
            // that has no reply yet.
            let (context, handle, mut reply) = unsafe {
                let Some(context) = Ctx::new(ctx) else { return };
                let handle = need(raw::RedisModule_GetBlockedClientHandle)(ctx);
                let Some(handle) = NonNull::new(handle) else {
                    return;
                };
                (context, handle, Reply::new(ctx))
            };
            let main = context.main();
            let Some((_, id)) = let_go(main, handle) else {
                return;
            };
            if let Some(hooks) = HOOKS.get() {
                let name = || "a time-out hook".into();
                guard(ctx, name, (), || {
                    (hooks.timed_out)(&context, id, &mut reply)
                });
            }
            reply.finish();
        },
    );
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_disconnect(
    ctx: *mut raw::RedisModuleCtx,
    handle: *mut raw::RedisModuleBlockedClient,
) {
    guard(
        ctx,
        || "a disconnection".into(),
        (),
        || {
            // SAFETY: Redis' context, valid during the callback.
            let context = unsafe { Ctx::new(ctx) };
            let (Some(context), Some(handle)) = (context, NonNull::new(handle)) else {
                return;
            };
            let main = context.main();
            // An answered client that disconnects now is heard of again in
            // `on_freed`.
            if let Some((State::Settled | State::Abandoned, id)) = let_go(main, handle) {
                if let Some(hooks) = HOOKS.get() {
                    (hooks.disconnected)(&context, id);
                }
            }
        },
    );
}

unsafe extern "C" fn on_freed(ctx: *mut raw::RedisModuleCtx, handle: *mut c_void) {
    guard(
        ctx,
        || "the release of a client".into(),
        (),
        || {
            // SAFETY: Redis' context, valid during the callback.
            let Some(context) = (unsafe { Ctx::new(ctx) }) else {
                return;
            };
            let entry = CLIENTS.with(context.main(), |clients| clients.remove(&(handle as usize)));
            let Ok(Some(client)) = entry else { return };
            let fate = match client.state {
                State::Released if !context.blocked_client_disconnected() => Fate::Delivered,
                State::Answered | State::Released | State::Lost => Fate::Lost,
                State::Settled | State::Waiting | State::Answering | State::Abandoned => {
                    Fate::Unanswered
                }
            };
            if let Some(hooks) = HOOKS.get() {
                (hooks.freed)(&context, client.id, fate);
            }
        },
    );
}

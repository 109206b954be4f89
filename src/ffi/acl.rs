//! Who acts, and which queues they may touch.
//!
//! Queue names are not declared as keys, so Redis does not check them; this
//! does, against the key patterns of the user.

use super::api::{need, ok};
use super::context::Ctx;
use super::string::RString;
use super::verdicts;
use redis_module::raw;
use std::cell::OnceCell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// What is to be done with a queue, in the terms of key patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Looking only: `%R~pattern` or `~pattern`.
    Read,
    /// Changing: `%W~pattern` or `~pattern`.
    Write,
    /// Looking and changing, as taking a job: `~pattern`, or both halves.
    ReadWrite,
}

impl Access {
    fn bits(self) -> c_int {
        const READ: u32 = raw::REDISMODULE_CMD_KEY_ACCESS;
        const WRITE: u32 = raw::REDISMODULE_CMD_KEY_UPDATE;
        let bits = match self {
            Access::Read => READ,
            Access::Write => WRITE,
            Access::ReadWrite => READ | WRITE,
        };
        bits as c_int
    }
}

/// The user on whose behalf a command runs. Looked up at most once per
/// command, when first needed; borrowed from its context, because a user may be
/// gone afterwards.
///
/// The first check of a name costs some 140 ns, more with many patterns, and
/// some 10 ns while a client goes on with the same name, see
/// [`super::remember_verdicts`].
pub struct Subject<'a> {
    rights: OnceCell<Rights>,
    /// The client, if what it may do can be remembered: a connection that runs
    /// a command of its own. (Clients of Redis' own, behind timers and calls
    /// by modules, may have the id of a connection.)
    client: Option<u64>,
    ctx: &'a Ctx,
}

enum Rights {
    /// Nobody to be checked: the AOF, the master, the server itself.
    All,
    /// A user who does not exist any more.
    None,
    User(User),
}

struct User {
    name: RString,
    raw: NonNull<raw::RedisModuleUser>,
    not_send: PhantomData<*const ()>,
}

impl Drop for User {
    fn drop(&mut self) {
        // SAFETY: made by `user`, freed once. It only refers to the server's
        // user, which stays.
        unsafe { need(raw::RedisModule_FreeModuleUser)(self.raw.as_ptr()) }
    }
}

/// The subject of the running command.
///
/// What is loaded or comes from the master is not restricted. Scripts act for
/// the client that called them. A call by another module acts for whomever
/// that module named, and is not restricted if it named nobody.
pub fn subject(ctx: &Ctx) -> Subject<'_> {
    let plain = !ctx.flags().deny_blocking();
    Subject {
        rights: OnceCell::new(),
        client: plain.then(|| ctx.client_id()),
        ctx,
    }
}

/// A user by name, for work that goes on after its command; `None` is the
/// server itself.
pub fn subject_named<'a>(ctx: &'a Ctx, name: Option<&[u8]>) -> Subject<'a> {
    let rights = match name {
        None => Rights::All,
        Some(name) => user_named(RString::new(name)).map_or(Rights::None, Rights::User),
    };
    Subject {
        rights: OnceCell::from(rights),
        client: None,
        ctx,
    }
}

fn rights_of_caller(ctx: &Ctx) -> Rights {
    let flags = ctx.flags();
    let restricted = !flags.loading()
        && !flags.replicated()
        // Where blocking is allowed the client is a connection of its own,
        // and those have a user (the master's was asked about above).
        && (!flags.deny_blocking() || is_connection(ctx) || has_user(ctx));
    if !restricted {
        return Rights::All;
    }
    // SAFETY: the client has a user.
    unsafe { user(ctx) }.map_or(Rights::None, Rights::User)
}

/// Whether the client behind the context is in the server's list of clients.
fn is_connection(ctx: &Ctx) -> bool {
    // SAFETY: a null structure asks whether the client exists, no more.
    let status =
        unsafe { need(raw::RedisModule_GetClientInfoById)(ptr::null_mut(), ctx.client_id()) };
    ok(status)
}

/// Whether a client without a connection (a script's, another module's) has a
/// user. GetCurrentUserName would crash if not, and nothing else tells; but a
/// call that is to run as the user is refused with ENOTSUP before anything
/// else is looked at. The command does not exist, so it never runs and leaves
/// no trace. Costs about a microsecond.
fn has_user(ctx: &Ctx) -> bool {
    // SAFETY: a valid context with a client; "C" takes no argument.
    let reply = unsafe {
        need(raw::RedisModule_Call)(
            ctx.as_ptr(),
            c"disque.no-such-command".as_ptr(),
            c"C".as_ptr(),
        )
    };
    let error = std::io::Error::last_os_error().raw_os_error();
    if let Some(reply) = NonNull::new(reply) {
        // SAFETY: an owned reply.
        unsafe { need(raw::RedisModule_FreeCallReply)(reply.as_ptr()) };
    }
    error != Some(libc::ENOTSUP)
}

/// # Safety
///
/// The client of the context has a user.
unsafe fn user(ctx: &Ctx) -> Option<User> {
    // SAFETY: a valid context, of a client with a user by contract. The name is
    // owned: no automatic memory is used.
    let name =
        unsafe { RString::from_owned(need(raw::RedisModule_GetCurrentUserName)(ctx.as_ptr()))? };
    user_named(name)
}

fn user_named(name: RString) -> Option<User> {
    // SAFETY: a live string; null for a name that no user has.
    let raw = unsafe { need(raw::RedisModule_GetModuleUserFromUserName)(name.as_raw().as_ptr()) };
    Some(User {
        name,
        raw: NonNull::new(raw)?,
        not_send: PhantomData,
    })
}

impl Subject<'_> {
    fn rights(&self) -> &Rights {
        self.rights.get_or_init(|| rights_of_caller(self.ctx))
    }

    /// Whether this subject is not restricted at all, so that no name need be
    /// checked.
    pub fn is_unrestricted(&self) -> bool {
        matches!(self.rights(), Rights::All)
    }

    /// The user's name; `None` for the server itself.
    pub fn name(&self) -> Option<&[u8]> {
        match self.rights() {
            Rights::User(user) => Some(user.name.bytes()),
            Rights::All | Rights::None => None,
        }
    }

    /// Whether the subject may touch a queue.
    #[inline]
    pub fn may(&self, access: Access, queue: &[u8]) -> bool {
        let main = self.ctx.main();
        if let Some(client) = self.client {
            if verdicts::allowed(main, client, access, queue) {
                return true;
            }
        }
        match self.rights() {
            Rights::All => true,
            Rights::None => false,
            Rights::User(user) => {
                let allowed = allows(user, access, queue);
                if let (true, Some(client)) = (allowed, self.client) {
                    verdicts::remember(main, client, access, queue);
                }
                allowed
            }
        }
    }

    /// Writes a refusal to `ACL LOG`.
    pub fn log_refusal(&self, queue: &[u8]) {
        let Rights::User(user) = self.rights() else {
            return;
        };
        let queue = RString::new(queue);
        // SAFETY: a valid context with a client, a live user, a live string
        // that the server copies.
        unsafe {
            need(raw::RedisModule_ACLAddLogEntry)(
                self.ctx.as_ptr(),
                user.raw.as_ptr(),
                queue.as_raw().as_ptr(),
                raw::RedisModuleACLLogEntryReason_REDISMODULE_ACL_LOG_KEY,
            )
        };
    }
}

fn allows(user: &User, access: Access, queue: &[u8]) -> bool {
    let queue = RString::new(queue);
    // SAFETY: a user that lives during the command, and a live string.
    let status = unsafe {
        need(raw::RedisModule_ACLCheckKeyPermissions)(
            user.raw.as_ptr(),
            queue.as_raw().as_ptr(),
            access.bits(),
        )
    };
    ok(status)
}

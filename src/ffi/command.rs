//! Commands: from a table entry to a registered command, and from a call by
//! the server to a handler.

use super::api::{need, ok};
use super::args::Args;
use super::blocking::{self, Blocked, CannotBlock};
use super::context::{command_name, Ctx, Level, Origin, Turn};
use super::guard::guard;
use super::reply::Reply;
use super::verdicts;
use redis_module::raw;
use std::ffi::{c_int, CStr};
use std::mem::size_of;
use std::ptr::{self, NonNull};

/// One command or subcommand, as a line of a table.
pub struct CommandSpec {
    /// Lower case, as clients may write it in any case.
    pub name: &'static CStr,
    /// Flags in Redis' words: `write`, `readonly`, `fast`, `blocking`, ...
    pub flags: &'static CStr,
    /// Number of arguments, the name (and a container's name) included;
    /// negative for "at least". Redis itself refuses other numbers.
    pub arity: i32,
    /// One sentence for `COMMAND DOCS`.
    pub summary: &'static CStr,
    /// Such as `O(1)`.
    pub complexity: &'static CStr,
    /// The version of this module that had it first.
    pub since: &'static CStr,
    /// ACL categories, space separated; used where the server knows categories
    /// for module commands (Redis 7.4, Valkey 8.1). May be empty.
    pub categories: &'static CStr,
    /// What runs.
    pub entry: Entry,
}

/// The way from C to a handler.
#[derive(Clone, Copy)]
pub struct Entry(raw::RedisModuleCmdFunc);

impl Entry {
    /// The entry of a handler, which must be a plain function or a closure that
    /// captures nothing: `Entry::of(addjob)`.
    ///
    /// Redis passes no data to a command function, so each handler needs a C
    /// function of its own. A function's type in Rust has a single value and
    /// no size, so the C function can be generic over that type and recreate
    /// the value.
    pub const fn of<H: Fn(&mut Call<'_>) + Copy + 'static>(_handler: H) -> Self {
        const {
            assert!(size_of::<H>() == 0, "a handler must not capture anything");
        }
        Entry(Some(run::<H>))
    }
}

unsafe extern "C" fn run<H: Fn(&mut Call<'_>) + Copy + 'static>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: `H` has no size, so nothing is read, and any aligned address will
    // do; a value of it was given to `Entry::of`, the only way to here, and it
    // is `Copy`.
    let handler = unsafe { NonNull::<H>::dangling().as_ptr().read() };
    // SAFETY: Redis passes a context and arguments that are valid during the
    // command, on the main thread.
    unsafe { dispatch(ctx, argv, argc, &handler) };
    raw::REDISMODULE_OK as c_int
}

/// Runs a handler and makes sure that the client gets exactly one reply.
///
/// # Safety
///
/// The arguments are those of a running command.
unsafe fn dispatch(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    handler: &dyn Fn(&mut Call<'_>),
) {
    verdicts::command_begins();
    // SAFETY: valid during the command, by contract; the only `Reply` to it.
    let (turn, args, reply) = unsafe {
        let Some(turn) = Turn::new(ctx, Origin::Command) else {
            return;
        };
        (turn, Args::new(argv, argc), Reply::new(ctx))
    };
    let mut call = Call {
        turn: &turn,
        args,
        reply,
        blocked: false,
    };
    let name = || command_name(ctx, argv, argc);
    let returned = guard(ctx, name, false, || {
        handler(&mut call);
        true
    });
    // Also after a panic: a blocked client is answered through its handle,
    // which answers when it is dropped.
    if !call.blocked {
        if returned && !call.reply.is_complete() {
            let text = format!("internal error in {}: the reply was not complete", name());
            turn.log(Level::Warning, &text);
        }
        call.reply.finish();
    }
}

/// One call of a command.
pub struct Call<'a> {
    turn: &'a Turn,
    args: Args<'a>,
    reply: Reply<'a>,
    blocked: bool,
}

impl<'a> Call<'a> {
    /// The arguments, the command's name first.
    #[inline]
    pub fn args(&self) -> Args<'a> {
        self.args
    }

    /// The context.
    #[inline]
    pub fn ctx(&self) -> &'a Ctx {
        self.turn
    }

    /// The right to change state and record it.
    #[inline]
    pub fn turn(&self) -> &'a Turn {
        self.turn
    }

    /// The reply. Must be written before the handler returns, unless the
    /// client was blocked.
    #[inline]
    pub fn reply(&mut self) -> &mut Reply<'a> {
        &mut self.reply
    }

    /// Blocks the client. It is answered through the handle, now or later;
    /// nothing may be written to [`Call::reply`] any more.
    pub fn block(&mut self, id: u64) -> Result<Blocked, CannotBlock> {
        if self.blocked || self.reply.is_started() {
            return Err(CannotBlock);
        }
        let blocked = blocking::block(self.turn, id)?;
        self.blocked = true;
        Ok(blocked)
    }
}

/// Registers commands. The error names the first that was refused.
pub fn register<'a>(
    ctx: &Ctx,
    commands: impl IntoIterator<Item = &'a CommandSpec>,
) -> Result<(), String> {
    for spec in commands {
        create(ctx, spec.name, spec.entry.0, spec.flags)?;
        describe(ctx, spec.name, spec)?;
    }
    Ok(())
}

/// Registers a command that only has subcommands, and these.
pub fn register_container<'a>(
    ctx: &Ctx,
    name: &'static CStr,
    summary: &'static CStr,
    subcommands: impl IntoIterator<Item = &'a CommandSpec>,
) -> Result<(), String> {
    create(ctx, name, None, c"")?;
    let parent = command(ctx, name)?;
    set_info(parent, summary, c"", c"", 0).ok_or_else(|| refused(name))?;
    for spec in subcommands {
        // SAFETY: `parent` is a live command of this module; the strings end in
        // NUL and are copied.
        let status = unsafe {
            need(raw::RedisModule_CreateSubcommand)(
                parent,
                spec.name.as_ptr(),
                spec.entry.0,
                spec.flags.as_ptr(),
                0,
                0,
                0,
            )
        };
        let full = [name.to_bytes(), b"|", spec.name.to_bytes(), b"\0"].concat();
        let full = CStr::from_bytes_until_nul(&full).map_err(|error| error.to_string())?;
        if !ok(status) {
            return Err(refused(full));
        }
        describe(ctx, full, spec)?;
    }
    Ok(())
}

fn create(
    ctx: &Ctx,
    name: &CStr,
    entry: raw::RedisModuleCmdFunc,
    flags: &CStr,
) -> Result<(), String> {
    // SAFETY: a valid context during load; the strings end in NUL and are
    // copied; the function stays loaded, as a module with data types cannot be
    // unloaded.
    let status = unsafe {
        need(raw::RedisModule_CreateCommand)(
            ctx.as_ptr(),
            name.as_ptr(),
            entry,
            flags.as_ptr(),
            0,
            0,
            0,
        )
    };
    ok(status).then_some(()).ok_or_else(|| refused(name))
}

fn describe(ctx: &Ctx, full_name: &CStr, spec: &CommandSpec) -> Result<(), String> {
    let command = command(ctx, full_name)?;
    set_info(
        command,
        spec.summary,
        spec.complexity,
        spec.since,
        spec.arity,
    )
    .ok_or_else(|| refused(full_name))?;
    if spec.categories.is_empty() {
        return Ok(());
    }
    // SAFETY: reading a pointer that is written once, at load.
    let Some(set_categories) = (unsafe { raw::RedisModule_SetCommandACLCategories }) else {
        return Ok(());
    };
    // SAFETY: a live command of this module; the string ends in NUL.
    let status = unsafe { set_categories(command, spec.categories.as_ptr()) };
    ok(status).then_some(()).ok_or_else(|| {
        let name = full_name.to_string_lossy();
        format!("the server refuses the ACL categories of {name}")
    })
}

fn command(ctx: &Ctx, name: &CStr) -> Result<*mut raw::RedisModuleCommand, String> {
    // SAFETY: a valid context; the name ends in NUL.
    let command = unsafe { need(raw::RedisModule_GetCommand)(ctx.as_ptr(), name.as_ptr()) };
    if command.is_null() {
        return Err(refused(name));
    }
    Ok(command)
}

fn set_info(
    command: *mut raw::RedisModuleCommand,
    summary: &CStr,
    complexity: &CStr,
    since: &CStr,
    arity: i32,
) -> Option<()> {
    let text = |text: &CStr| {
        if text.is_empty() {
            ptr::null()
        } else {
            text.as_ptr()
        }
    };
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: text(summary),
        complexity: text(complexity),
        since: text(since),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity,
        key_specs: ptr::null_mut(),
        args: ptr::null_mut(),
    };
    // SAFETY: a live command of this module; the server copies all of `info`,
    // whose pointers are null or end in NUL.
    let status = unsafe { need(raw::RedisModule_SetCommandInfo)(command, &info) };
    ok(status).then_some(())
}

fn refused(name: &CStr) -> String {
    format!("the server refuses the command {}", name.to_string_lossy())
}

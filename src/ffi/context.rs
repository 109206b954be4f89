//! The context of a call from the server, and what can be asked through it.

use super::api::{need, ok};
use super::main_cell::MainThread;
use super::string::{string_bytes, RString};
use redis_module::raw;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::{c_char, c_int, CStr};
use std::ops::Deref;
use std::ptr::NonNull;

/// A context that the server lends for the time of one call. Handlers get it
/// by reference only, so it cannot be kept.
pub struct Ctx {
    raw: NonNull<raw::RedisModuleCtx>,
    flags: Cell<Option<Flags>>,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Worth knowing; the server's default level.
    Notice,
    /// Somebody should look.
    Warning,
}

impl Level {
    pub(super) fn name(self) -> &'static CStr {
        match self {
            Level::Notice => c"notice",
            Level::Warning => c"warning",
        }
    }
}

/// What the server says about the running call and about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
    /// Inside a transaction.
    pub fn multi(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_MULTI)
    }
    /// Inside a script or a function.
    pub fn script(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LUA)
    }
    /// The client must not be blocked: transactions, scripts, calls by other
    /// modules, the AOF loader.
    pub fn deny_blocking(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING)
    }
    /// An RDB or AOF is being loaded, from disk or from a master.
    pub fn loading(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
    }
    /// The command came from the master.
    pub fn replicated(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
    }
    /// This server is a replica.
    pub fn replica(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_SLAVE)
    }
}

impl Ctx {
    /// # Safety
    ///
    /// `raw` is null or a context of the server that stays valid while the
    /// result is used, on the main thread. `None` for null.
    pub(super) unsafe fn new(raw: *mut raw::RedisModuleCtx) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self {
            raw,
            flags: Cell::new(None),
        })
    }

    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.raw.as_ptr()
    }

    /// The proof of being on the main thread: contexts exist nowhere else.
    #[inline]
    pub fn main(&self) -> MainThread {
        MainThread::token()
    }

    /// Writes a line to the server's log.
    pub fn log(&self, level: Level, text: &str) {
        log_raw(self.as_ptr(), level, text.as_bytes());
    }

    /// Flags of the running call and of the server, as they were when this was
    /// first asked during the call. (The first time costs some 20 ns.)
    #[inline]
    pub fn flags(&self) -> Flags {
        if let Some(flags) = self.flags.get() {
            return flags;
        }
        // SAFETY: a valid context, see `new`.
        let bits = unsafe { need(raw::RedisModule_GetContextFlags)(self.as_ptr()) };
        let flags = Flags(bits as u32);
        self.flags.set(Some(flags));
        flags
    }

    /// The id of the client behind the call; never used twice. 0 when there is
    /// none, `u64::MAX` for the AOF loader. Contexts without a connection
    /// (timers, scripts) have ids, too, that no client list shows.
    #[inline]
    pub fn client_id(&self) -> u64 {
        // SAFETY: a valid context, see `new`.
        unsafe { need(raw::RedisModule_GetClientId)(self.as_ptr()) }
    }

    /// Whether a client is still connected.
    pub fn is_connected(&self, client: u64) -> bool {
        // SAFETY: null asks for nothing but whether the client exists.
        ok(unsafe { need(raw::RedisModule_GetClientInfoById)(std::ptr::null_mut(), client) })
    }

    /// The address from which the client behind the call has connected. `None`
    /// for a client without a connection, or on a local socket.
    pub fn client_host(&self) -> Option<String> {
        // SAFETY: all-zero is a value of this plain structure of numbers and bytes.
        let mut info: raw::RedisModuleClientInfoV1 = unsafe { std::mem::zeroed() };
        info.version = 1;
        let place: *mut raw::RedisModuleClientInfoV1 = &mut info;
        // SAFETY: a structure of the version that it names.
        let status =
            unsafe { need(raw::RedisModule_GetClientInfoById)(place.cast(), self.client_id()) };
        let text = info.addr.map(|byte| byte as u8);
        let text = CStr::from_bytes_until_nul(&text).ok()?.to_str().ok()?;
        (ok(status) && !text.is_empty() && !text.starts_with('/')).then(|| text.into())
    }

    /// True while the server wants no writes outside of client commands: during
    /// `CLIENT PAUSE ... WRITE`, a failover, a shutdown that waits for
    /// replicas. [`Turn::replicate`] from a timer would kill the server then.
    pub fn avoid_replica_traffic(&self) -> bool {
        // SAFETY: no precondition on the main thread.
        unsafe { need(raw::RedisModule_AvoidReplicaTraffic)() != 0 }
    }

    /// Used memory as a part of `maxmemory`, without what replication and the
    /// AOF buffer; 0.0 without a limit.
    pub fn used_memory_ratio(&self) -> f32 {
        // SAFETY: no precondition on the main thread.
        unsafe { need(raw::RedisModule_GetUsedMemoryRatio)() }
    }

    /// Fills the array with random bytes of the server's generator, which is
    /// seeded by the operating system.
    pub fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        // SAFETY: pointer and length describe `bytes`. The function is not
        // thread safe; contexts exist on the main thread only.
        unsafe { need(raw::RedisModule_GetRandomBytes)(bytes.as_mut_ptr(), N) };
        bytes
    }

    /// The value of one of the server's own settings, as `CONFIG GET` shows it.
    /// `None` when there is no such setting. Costs some microseconds.
    pub fn config(&self, name: &CStr) -> Option<Vec<u8>> {
        // SAFETY: a valid context; "c" announces one C string, which follows.
        let reply = unsafe {
            let reply = need(raw::RedisModule_Call)(
                self.as_ptr(),
                c"CONFIG".as_ptr(),
                c"cc".as_ptr(),
                c"GET".as_ptr(),
                name.as_ptr(),
            );
            CallReply(NonNull::new(reply)?)
        };
        reply.element_bytes(1)
    }

    /// In the callback that frees a blocked client: the client went away
    /// before the reply reached it.
    pub(super) fn blocked_client_disconnected(&self) -> bool {
        // SAFETY: a valid context, see `new`.
        unsafe { need(raw::RedisModule_BlockedClientDisconnected)(self.as_ptr()) != 0 }
    }
}

/// The reply of a command that the module called.
struct CallReply(NonNull<raw::RedisModuleCallReply>);

impl CallReply {
    /// A copy of the string at `index` of an array reply.
    fn element_bytes(&self, index: usize) -> Option<Vec<u8>> {
        // SAFETY: the reply lives as long as `self`. Asking a reply of another
        // type for an element gives null, asking an element of another type
        // for its string too.
        unsafe {
            let element = need(raw::RedisModule_CallReplyArrayElement)(self.0.as_ptr(), index);
            let element = NonNull::new(element)?;
            let mut len = 0;
            let start = need(raw::RedisModule_CallReplyStringPtr)(element.as_ptr(), &mut len);
            if start.is_null() {
                return None;
            }
            Some(std::slice::from_raw_parts(start.cast::<u8>(), len).to_vec())
        }
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        // SAFETY: owned by this value, freed once.
        unsafe { need(raw::RedisModule_FreeCallReply)(self.0.as_ptr()) }
    }
}

/// Why a record was not handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicateError {
    /// Writes are paused: see [`Ctx::avoid_replica_traffic`].
    Paused,
    /// The server refused (an unknown command).
    Refused,
}

/// A place where state may change and be recorded: a command, or the turn of
/// the 0 ms timer. Dereferences to its [`Ctx`].
pub struct Turn {
    ctx: Ctx,
    origin: Origin,
}

/// Where a turn comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Command,
    Timer,
}

impl Turn {
    /// # Safety
    ///
    /// As [`Ctx::new`]; the context is one of a command or of a timer.
    pub(super) unsafe fn new(raw: *mut raw::RedisModuleCtx, origin: Origin) -> Option<Self> {
        // SAFETY: the same contract.
        unsafe { Ctx::new(raw) }.map(|ctx| Self { ctx, origin })
    }

    /// Hands a command over to the AOF and the replicas. It is written when the
    /// command or turn is over, several of them as one transaction (which costs
    /// more: prefer one record per turn).
    ///
    /// In a timer turn this is refused while writes are paused, because the
    /// server would abort. In a command it is only called from commands with
    /// the flag `write`: those do not run during a pause.
    ///
    /// The payload is copied, the strings behind it are shared.
    pub fn replicate(
        &self,
        command: &CStr,
        payload: &[u8],
        strings: &[RString],
    ) -> Result<(), ReplicateError> {
        self.may_replicate()?;
        let format = if strings.is_empty() { c"b" } else { c"bv" };
        let raw: SmallVec<[_; 4]> = strings.iter().map(|one| one.as_raw().as_ptr()).collect();
        // SAFETY: a valid context of a command or timer, with a client. "b"
        // announces a pointer and a length, "v" an array of live strings and its
        // length; all of them follow, and more than the format names is not looked
        // at. The server copies the bytes, and takes references to the strings.
        let status = unsafe {
            need(raw::RedisModule_Replicate)(
                self.as_ptr(),
                command.as_ptr(),
                format.as_ptr(),
                payload.as_ptr().cast::<c_char>(),
                payload.len(),
                raw.as_ptr(),
                raw.len(),
            )
        };
        ok(status).then_some(()).ok_or(ReplicateError::Refused)
    }

    /// Whether a record could be handed over now. Asked before a change in a
    /// timer turn, so that the change itself is put off with its record.
    pub fn may_replicate(&self) -> Result<(), ReplicateError> {
        if self.origin == Origin::Timer && self.avoid_replica_traffic() {
            return Err(ReplicateError::Paused);
        }
        Ok(())
    }
}

impl Deref for Turn {
    type Target = Ctx;

    fn deref(&self) -> &Ctx {
        &self.ctx
    }
}

/// Writes a line to the server's log, on any thread.
pub fn log_from_any_thread(level: Level, text: &str) {
    log_raw(std::ptr::null_mut(), level, text.as_bytes());
}

/// Keeps signals away from the calling thread: they are the main thread's.
pub fn block_signals() {
    // SAFETY: a set of signals that is filled before it is used; the old one is
    // not asked for.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

/// Logs a line, with or without a context. Bytes that are not plain text are
/// replaced, so that a client cannot forge log lines; long lines are cut.
pub(super) fn log_raw(ctx: *mut raw::RedisModuleCtx, level: Level, text: &[u8]) {
    // SAFETY: reading a pointer that is written once, at load.
    let Some(log) = (unsafe { raw::RedisModule_Log }) else {
        return;
    };
    // The server cuts at 1024 bytes.
    let mut line = [0u8; 1000];
    let len = text.len().min(line.len() - 1);
    for (to, &from) in line[..len].iter_mut().zip(text) {
        *to = if from < b' ' || from == 0x7f {
            b' '
        } else {
            from
        };
    }
    let line: *const c_char = line.as_ptr().cast();
    // SAFETY: level, format and line end in NUL; "%s" takes the line, whatever
    // it contains. A null context is allowed. Logging works on every thread.
    unsafe { log(ctx, level.name().as_ptr(), c"%s".as_ptr(), line) };
}

/// The name of the running command (`disque|hello`), for log lines.
pub(super) fn command_name(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> String {
    // SAFETY: the pointer is read only. The context is that of a running
    // command, whose name, if any, ends in NUL.
    if let Some(current) = unsafe { raw::RedisModule_GetCurrentCommandName } {
        // SAFETY: as above.
        unsafe {
            let name = current(ctx);
            if !name.is_null() {
                return CStr::from_ptr(name).to_string_lossy().into_owned();
            }
        }
    }
    if argv.is_null() || argc < 1 {
        return "a command".into();
    }
    // SAFETY: argv holds at least one live string during the command.
    match NonNull::new(unsafe { *argv }) {
        Some(name) => String::from_utf8_lossy(unsafe { string_bytes(name) }).into_owned(),
        None => "a command".into(),
    }
}

//! Data outside the keyspace, in the RDB: a module data type that has no keys,
//! only auxiliary data.

use super::api::need;
use super::context::{Ctx, Level};
use super::guard::guard;
use disque_core::auxiliary::{ReadError, Reader, Writer};
use redis_module::raw;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// How the data are written and read.
#[derive(Clone, Copy)]
pub struct AuxHooks {
    /// Writes all data. Runs in a forked child for BGSAVE, for an AOF rewrite
    /// and for a full sync, in the server itself for SAVE and at shutdown; takes
    /// no lock. Where the server has `aux_save2` (Redis 7.2) a hook that writes
    /// nothing leaves no trace in the file; elsewhere the file then demands this
    /// module when it is loaded.
    pub save: fn(&mut RdbWriter<'_>),
    /// Reads what `save` of encoding version `version` wrote. An error makes
    /// the load fail, its text is logged. Not called when nothing was written:
    /// state is cleared by the loading event, not here.
    pub load: fn(&mut RdbReader<'_>, version: i32) -> Result<(), String>,
}

static HOOKS: OnceLock<AuxHooks> = OnceLock::new();

/// Registers the data type. `name` has nine characters; `version` is the
/// encoding version that `save` writes, up to 1023.
///
/// Input and output errors are reported to the module from then on, so that a
/// broken file is refused instead of ending the server.
pub fn register_data_type(
    ctx: &Ctx,
    name: &CStr,
    version: i32,
    hooks: AuxHooks,
) -> Result<(), String> {
    HOOKS
        .set(hooks)
        .map_err(|_| "the data type is registered twice")?;
    // SAFETY: a valid context during load.
    let newest = unsafe {
        need(raw::RedisModule_SetModuleOptions)(
            ctx.as_ptr(),
            raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS as c_int,
        );
        need(raw::RedisModule_GetTypeMethodVersion)()
    };
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION).min(newest.max(2) as u64),
        // There are no keys of this type. But RESTORE with a forged value
        // calls these without looking whether they exist.
        rdb_load: Some(refuse_key),
        rdb_save: Some(save_no_key),
        aof_rewrite: Some(rewrite_no_key),
        mem_usage: None,
        digest: None,
        free: Some(free_no_key),
        aux_load: Some(aux_load),
        aux_save: Some(aux_save),
        aux_save_triggers: raw::REDISMODULE_AUX_AFTER_RDB as c_int,
        free_effort: None,
        unlink: None,
        copy: None,
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: Some(aux_save),
    };
    // SAFETY: a valid context during load; the name ends in NUL; the server
    // copies the methods, which stay loaded.
    let data_type = unsafe {
        need(raw::RedisModule_CreateDataType)(ctx.as_ptr(), name.as_ptr(), version, &mut methods)
    };
    if data_type.is_null() {
        return Err("the server refuses the data type".into());
    }
    Ok(())
}

/// Writes values into an RDB. Errors are the server's to handle; after one,
/// writing is pointless but harmless.
pub struct RdbWriter<'a> {
    io: *mut raw::RedisModuleIO,
    life: PhantomData<&'a mut ()>,
}

impl Writer for RdbWriter<'_> {
    /// Small numbers take few bytes.
    fn number(&mut self, value: u64) {
        // SAFETY: a live stream during the hook.
        unsafe { need(raw::RedisModule_SaveUnsigned)(self.io, value) };
    }

    /// Writes the length, too. The server compresses the bytes if `rdbcompression`
    /// is on, so chunks of some 64 KiB are best.
    fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: a live stream; pointer and length describe `bytes`.
        unsafe {
            need(raw::RedisModule_SaveStringBuffer)(
                self.io,
                bytes.as_ptr().cast::<c_char>(),
                bytes.len(),
            )
        };
    }

    /// On a full disk, or when the replica is lost.
    fn failed(&self) -> bool {
        io_error(self.io)
    }
}

/// Reads values back, in the order in which they were written.
pub struct RdbReader<'a> {
    io: *mut raw::RedisModuleIO,
    life: PhantomData<&'a mut ()>,
}

impl Reader for RdbReader<'_> {
    type Bytes = RdbBytes;

    fn number(&mut self) -> Result<u64, ReadError> {
        // SAFETY: a live stream during the hook.
        let value = unsafe { need(raw::RedisModule_LoadUnsigned)(self.io) };
        self.check(value)
    }

    fn bytes(&mut self) -> Result<RdbBytes, ReadError> {
        let mut len = 0;
        // SAFETY: a live stream; a valid place for the length.
        let start = unsafe { need(raw::RedisModule_LoadStringBuffer)(self.io, &mut len) };
        let start = NonNull::new(start).ok_or(ReadError)?;
        // Owned from here on, so that it is freed in any case.
        self.check(RdbBytes {
            start: start.cast(),
            len,
        })
    }
}

impl RdbReader<'_> {
    /// Writes a line about the load to the server's log.
    pub fn log(&self, level: Level, text: &str) {
        super::context::log_raw(ptr::null_mut(), level, text.as_bytes());
    }

    fn check<R>(&self, value: R) -> Result<R, ReadError> {
        if io_error(self.io) {
            return Err(ReadError);
        }
        Ok(value)
    }
}

/// Bytes that were read, in a buffer of the server's.
pub struct RdbBytes {
    start: NonNull<u8>,
    len: usize,
}

impl Deref for RdbBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the server filled `len` bytes, which this value owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for RdbBytes {
    fn drop(&mut self) {
        // SAFETY: allocated by the server for the module, freed once. This is
        // the server's function also when the module's own allocator is the
        // system's.
        unsafe { need(raw::RedisModule_Free)(self.start.as_ptr().cast::<c_void>()) }
    }
}

fn io_error(io: *mut raw::RedisModuleIO) -> bool {
    // SAFETY: a live stream during the hook.
    unsafe { need(raw::RedisModule_IsIOError)(io) != 0 }
}

unsafe extern "C" fn aux_save(io: *mut raw::RedisModuleIO, _when: c_int) {
    guard(
        ptr::null_mut(),
        || "saving".into(),
        (),
        || {
            if let Some(hooks) = HOOKS.get() {
                (hooks.save)(&mut RdbWriter {
                    io,
                    life: PhantomData,
                });
            }
        },
    );
}

unsafe extern "C" fn aux_load(io: *mut raw::RedisModuleIO, version: c_int, _when: c_int) -> c_int {
    let failed = raw::REDISMODULE_ERR as c_int;
    guard(
        ptr::null_mut(),
        || "loading".into(),
        failed,
        || {
            let mut reader = RdbReader {
                io,
                life: PhantomData,
            };
            let loaded = match HOOKS.get() {
                Some(hooks) => (hooks.load)(&mut reader, version),
                None => Err("loading is not prepared".into()),
            };
            match loaded {
                Ok(()) => raw::REDISMODULE_OK as c_int,
                Err(text) => {
                    reader.log(Level::Warning, &format!("cannot load: {text}"));
                    failed
                }
            }
        },
    )
}

unsafe extern "C" fn refuse_key(_io: *mut raw::RedisModuleIO, _version: c_int) -> *mut c_void {
    ptr::null_mut()
}

unsafe extern "C" fn save_no_key(_io: *mut raw::RedisModuleIO, _value: *mut c_void) {}

unsafe extern "C" fn rewrite_no_key(
    _aof: *mut raw::RedisModuleIO,
    _key: *mut raw::RedisModuleString,
    _value: *mut c_void,
) {
}

unsafe extern "C" fn free_no_key(_value: *mut c_void) {}

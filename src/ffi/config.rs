//! Settings: `disque.<name>` in redis.conf, on the command line (after
//! `--loadmodule`), in `MODULE LOADEX`, `CONFIG GET`, `SET` and `REWRITE`.

use super::api::{need, ok};
use super::context::Ctx;
use super::guard::guard;
use super::main_cell::{MainCell, MainThread};
use super::string::{string_bytes, RString};
use redis_module::raw;
use std::ffi::{c_char, c_int, c_longlong, c_uint, c_void, CStr};
use std::ptr::{self, NonNull};

/// One setting, as a line of a table. The value itself lives with the module:
/// `set` stores it (and may refuse, with a text for the operator), `get` shows
/// it. `set` is also called at load, with the default or the configured value.
pub struct Setting {
    /// Without the module's prefix; letters, digits, `-` and `_` only.
    pub name: &'static CStr,
    /// Its type, limits and access.
    pub value: Value,
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// As it is.
    Plain,
    /// Bytes, also written as `1mb`, `64kb`.
    Bytes,
}

/// How a text is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// As any other.
    Open,
    /// Kept out of the server's logs where it can do that (Redis 7.0 takes the
    /// mark but has no effect for settings of modules).
    Secret,
}

/// The type of a setting, with its limits and the functions that reach it.
#[allow(missing_docs)]
pub enum Value {
    /// A whole number.
    Number {
        default: i64,
        min: i64,
        max: i64,
        unit: Unit,
        get: fn(MainThread) -> i64,
        set: fn(MainThread, i64) -> Result<(), String>,
    },
    /// `yes` or `no`.
    Flag {
        default: bool,
        get: fn(MainThread) -> bool,
        set: fn(MainThread, bool) -> Result<(), String>,
    },
    /// Any bytes.
    Text {
        default: &'static CStr,
        secrecy: Secrecy,
        get: fn(MainThread) -> Vec<u8>,
        set: fn(MainThread, &[u8]) -> Result<(), String>,
    },
    /// One of some words; the value is the word's place in the list.
    Choice {
        words: &'static [&'static CStr],
        default: usize,
        get: fn(MainThread) -> usize,
        set: fn(MainThread, usize) -> Result<(), String>,
    },
}

/// The strings last shown, kept alive until the setting is shown again: Redis
/// borrows what a getter returns.
static SHOWN: MainCell<Vec<(*const Setting, RString)>> = MainCell::new(Vec::new());

/// Registers all settings and gives them their values. Called once, at load,
/// when everything that the setters touch is in place.
pub fn register_settings(ctx: &Ctx, settings: &'static [Setting]) -> Result<(), String> {
    for setting in settings {
        if !ok(register(ctx, setting)) {
            let name = setting.name.to_string_lossy();
            return Err(format!("the server refuses the setting {name}"));
        }
    }
    // SAFETY: a valid context during load.
    let status = unsafe { need(raw::RedisModule_LoadConfigs)(ctx.as_ptr()) };
    ok(status)
        .then_some(())
        .ok_or_else(|| "a setting has a value that cannot be used".into())
}

fn register(ctx: &Ctx, setting: &'static Setting) -> c_int {
    let mut flags: c_uint = raw::REDISMODULE_CONFIG_DEFAULT;
    let (ctx, name) = (ctx.as_ptr(), setting.name.as_ptr());
    // The callbacks get their setting back through this pointer.
    let data = ptr::from_ref(setting).cast_mut().cast::<c_void>();
    // For the four calls below: a valid context during load; names, defaults
    // and words end in NUL and are copied; the callbacks and the setting live
    // as long as the library.
    match &setting.value {
        Value::Number {
            default,
            min,
            max,
            unit,
            ..
        } => {
            if *unit == Unit::Bytes {
                flags |= raw::REDISMODULE_CONFIG_MEMORY;
            }
            // SAFETY: see above.
            unsafe {
                need(raw::RedisModule_RegisterNumericConfig)(
                    ctx,
                    name,
                    *default,
                    flags,
                    *min,
                    *max,
                    Some(get_number),
                    Some(set_number),
                    None,
                    data,
                )
            }
        }
        // SAFETY: see above.
        Value::Flag { default, .. } => unsafe {
            need(raw::RedisModule_RegisterBoolConfig)(
                ctx,
                name,
                c_int::from(*default),
                flags,
                Some(get_flag),
                Some(set_flag),
                None,
                data,
            )
        },
        Value::Text {
            default, secrecy, ..
        } => {
            if *secrecy == Secrecy::Secret {
                flags |= raw::REDISMODULE_CONFIG_SENSITIVE;
            }
            // SAFETY: see above.
            unsafe {
                need(raw::RedisModule_RegisterStringConfig)(
                    ctx,
                    name,
                    default.as_ptr(),
                    flags,
                    Some(get_text),
                    Some(set_text),
                    None,
                    data,
                )
            }
        }
        Value::Choice { words, default, .. } => {
            let mut texts: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
            let places: Vec<c_int> = (0..).take(words.len()).collect();
            // SAFETY: see above; both arrays have as many entries as is said.
            unsafe {
                need(raw::RedisModule_RegisterEnumConfig)(
                    ctx,
                    name,
                    *default as c_int,
                    flags,
                    texts.as_mut_ptr(),
                    places.as_ptr(),
                    places.len() as c_int,
                    Some(get_choice),
                    Some(set_choice),
                    None,
                    data,
                )
            }
        }
    }
}

/// # Safety
///
/// `data` is what `register` passed.
unsafe fn setting_of(data: *mut c_void) -> &'static Setting {
    // SAFETY: by contract, a reference to a static made into a pointer.
    unsafe { &*data.cast::<Setting>() }
}

/// Runs a setter; a refusal reaches the operator through `error`.
fn set_with(
    data: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
    set: impl FnOnce(&'static Setting, MainThread) -> Result<(), String>,
) -> c_int {
    let refused = raw::REDISMODULE_ERR as c_int;
    guard(
        ptr::null_mut(),
        || "a setting".into(),
        refused,
        || {
            // Settings are read and written on the main thread only.
            // SAFETY: Redis hands back what `register` passed.
            match set(unsafe { setting_of(data) }, MainThread::token()) {
                Ok(()) => raw::REDISMODULE_OK as c_int,
                Err(text) => {
                    if let Some(error) = NonNull::new(error) {
                        let text = text.replace(char::is_control, " ");
                        // SAFETY: a valid place for a string, which the server
                        // takes over.
                        unsafe { error.write(RString::new(text.as_bytes()).into_raw()) };
                    }
                    refused
                }
            }
        },
    )
}

fn get_with<R>(
    data: *mut c_void,
    fallback: R,
    get: impl FnOnce(&'static Setting, MainThread) -> Option<R>,
) -> R {
    guard(
        ptr::null_mut(),
        || "a setting".into(),
        None,
        || {
            // SAFETY: Redis hands back what `register` passed.
            get(unsafe { setting_of(data) }, MainThread::token())
        },
    )
    .unwrap_or(fallback)
}

fn wrong_kind() -> Result<(), String> {
    Err("the setting is of another kind".into())
}

unsafe extern "C" fn get_number(_name: *const c_char, data: *mut c_void) -> c_longlong {
    get_with(data, 0, |setting, main| match setting.value {
        Value::Number { get, .. } => Some(get(main)),
        _ => None,
    })
}

unsafe extern "C" fn set_number(
    _name: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    set_with(data, error, |setting, main| match setting.value {
        Value::Number { set, .. } => set(main, value),
        _ => wrong_kind(),
    })
}

unsafe extern "C" fn get_flag(_name: *const c_char, data: *mut c_void) -> c_int {
    get_with(data, 0, |setting, main| match setting.value {
        Value::Flag { get, .. } => Some(c_int::from(get(main))),
        _ => None,
    })
}

unsafe extern "C" fn set_flag(
    _name: *const c_char,
    value: c_int,
    data: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    set_with(data, error, |setting, main| match setting.value {
        Value::Flag { set, .. } => set(main, value != 0),
        _ => wrong_kind(),
    })
}

unsafe extern "C" fn get_text(
    _name: *const c_char,
    data: *mut c_void,
) -> *mut raw::RedisModuleString {
    get_with(data, ptr::null_mut(), |setting, main| {
        let Value::Text { get, .. } = setting.value else {
            return None;
        };
        let shown = RString::new(&get(main));
        let raw = shown.as_raw().as_ptr();
        let key = ptr::from_ref(setting);
        SHOWN
            .with(main, |list| {
                list.retain(|(other, _)| *other != key);
                list.push((key, shown));
            })
            .ok()?;
        Some(raw)
    })
}

unsafe extern "C" fn set_text(
    _name: *const c_char,
    value: *mut raw::RedisModuleString,
    data: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    set_with(data, error, |setting, main| {
        let Some(value) = NonNull::new(value) else {
            return Err("no value".into());
        };
        match setting.value {
            // SAFETY: a live string during the callback.
            Value::Text { set, .. } => set(main, unsafe { string_bytes(value) }),
            _ => wrong_kind(),
        }
    })
}

unsafe extern "C" fn get_choice(_name: *const c_char, data: *mut c_void) -> c_int {
    get_with(data, 0, |setting, main| match setting.value {
        Value::Choice { get, .. } => Some(get(main) as c_int),
        _ => None,
    })
}

unsafe extern "C" fn set_choice(
    _name: *const c_char,
    value: c_int,
    data: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    set_with(data, error, |setting, main| match setting.value {
        Value::Choice { set, .. } => set(main, usize::try_from(value).unwrap_or(0)),
        _ => wrong_kind(),
    })
}

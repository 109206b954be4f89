//! The settings: `disque.<name>` in redis.conf and CONFIG SET.
//!
//! One table says everything about them but the explanation, which is in
//! `redis.conf.example`.

use crate::ffi::{self, Ctx, MainThread, Secrecy, Setting, Unit, Value};
use crate::host::HOST;
use disque_core::body;
use disque_core::cluster::is_host;
use disque_core::settings::{Settings, DEFAULTS};
use disque_core::tables::WaiterTable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Settings that only the module acts on.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ModuleSettings {
    /// Whether a bare HELLO answers as DISQUE HELLO.
    pub compat_hello: bool,
    /// Whether a damaged record is left out instead of refusing to load.
    pub skip_damaged: bool,
    /// The port under which others reach this node; 0 for the server's own.
    pub announce_port: u16,
    /// As whom to log in at other nodes; empty for the default user.
    pub bus_user: Vec<u8>,
    /// The password; empty for no AUTH at all.
    pub bus_password: Vec<u8>,
    /// A file that holds the password instead.
    pub bus_password_file: Vec<u8>,
    /// Bytes that may wait for one other node.
    pub bus_queue_bytes: u64,
}

const MIB: i64 = 1 << 20;
const HOUR_SECONDS: i64 = 3600;

/// Words of `disque.at-most-once-after-crash`.
const AFTER_CRASH: &[&std::ffi::CStr] = &[c"withhold", c"deliver"];
/// Words of `disque.damaged-records`.
const DAMAGED: &[&std::ffi::CStr] = &[c"refuse", c"skip"];

/// All settings.
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: c"max-body",
        value: Value::Number {
            default: DEFAULTS.max_body as i64,
            min: 1,
            max: body::MAX_LEN as i64,
            unit: Unit::Bytes,
            get: |main| read(main, |s| s.max_body as i64),
            set: |main, v| write(main, |s| s.max_body = v as u64),
        },
    },
    Setting {
        name: c"max-batch",
        value: Value::Number {
            default: DEFAULTS.max_batch as i64,
            min: 1,
            max: body::MAX_LEN as i64,
            unit: Unit::Bytes,
            get: |main| read(main, |s| s.max_batch as i64),
            set: |main, v| write(main, |s| s.max_batch = v as u64),
        },
    },
    Setting {
        name: c"max-queue-name",
        value: Value::Number {
            default: DEFAULTS.max_queue_name as i64,
            min: 1,
            max: MIB,
            unit: Unit::Bytes,
            get: |main| read(main, |s| s.max_queue_name as i64),
            set: |main, v| write(main, |s| s.max_queue_name = v as u64),
        },
    },
    Setting {
        name: c"max-ids",
        value: Value::Number {
            default: DEFAULTS.max_ids as i64,
            min: 1,
            max: 1_000_000,
            unit: Unit::Plain,
            get: |main| read(main, |s| s.max_ids as i64),
            set: |main, v| write(main, |s| s.max_ids = v as u64),
        },
    },
    Setting {
        name: c"max-blocked-clients",
        value: Value::Number {
            default: DEFAULTS.max_blocked_clients as i64,
            min: 0,
            max: WaiterTable::LIMIT as i64,
            unit: Unit::Plain,
            get: |main| read(main, |s| s.max_blocked_clients as i64),
            set: |main, v| write(main, |s| s.max_blocked_clients = v as u64),
        },
    },
    Setting {
        name: c"max-memory",
        value: Value::Number {
            default: DEFAULTS.max_memory as i64,
            min: 0,
            max: i64::MAX,
            unit: Unit::Bytes,
            get: |main| read(main, |s| s.max_memory as i64),
            set: |main, v| write(main, |s| s.max_memory = v as u64),
        },
    },
    Setting {
        name: c"max-queue-memory",
        value: Value::Number {
            default: DEFAULTS.max_queue_memory as i64,
            min: 0,
            max: i64::MAX,
            unit: Unit::Bytes,
            get: |main| read(main, |s| s.max_queue_memory as i64),
            set: |main, v| write(main, |s| s.max_queue_memory = v as u64),
        },
    },
    Setting {
        name: c"default-replicate",
        value: Value::Number {
            default: DEFAULTS.default_replicate as i64,
            min: 1,
            max: 65_535,
            unit: Unit::Plain,
            get: |main| read(main, |s| s.default_replicate as i64),
            set: |main, v| write(main, |s| s.default_replicate = v as u64),
        },
    },
    Setting {
        name: c"default-replicate-min",
        value: Value::Number {
            default: DEFAULTS.default_replicate_min as i64,
            min: 1,
            max: 65_535,
            unit: Unit::Plain,
            get: |main| read(main, |s| s.default_replicate_min as i64),
            set: |main, v| write(main, |s| s.default_replicate_min = v as u64),
        },
    },
    Setting {
        name: c"settled-memory",
        value: Value::Number {
            default: (DEFAULTS.settled_memory_ms / 1000) as i64,
            min: 1,
            max: 24 * HOUR_SECONDS,
            unit: Unit::Plain,
            get: |main| read(main, |s| (s.settled_memory_ms / 1000) as i64),
            set: |main, v| write(main, |s| s.settled_memory_ms = v as u64 * 1000),
        },
    },
    Setting {
        name: c"settled-memory-max",
        value: Value::Number {
            default: DEFAULTS.settled_memory_max as i64,
            min: 0,
            max: 1_000_000_000,
            unit: Unit::Plain,
            get: |main| read(main, |s| s.settled_memory_max as i64),
            set: |main, v| write(main, |s| s.settled_memory_max = v as u64),
        },
    },
    Setting {
        name: c"queue-idle-seconds",
        value: Value::Number {
            default: (DEFAULTS.queue_idle_ms / 1000) as i64,
            min: 1,
            max: 1_000_000 * HOUR_SECONDS,
            unit: Unit::Plain,
            get: |main| read(main, |s| (s.queue_idle_ms / 1000) as i64),
            set: |main, v| write(main, |s| s.queue_idle_ms = v as u64 * 1000),
        },
    },
    Setting {
        name: c"federation",
        value: Value::Flag {
            default: DEFAULTS.federation,
            get: |main| read(main, |s| s.federation),
            set: |main, v| write(main, |s| s.federation = v),
        },
    },
    Setting {
        name: c"at-most-once-after-crash",
        value: Value::Choice {
            words: AFTER_CRASH,
            default: DEFAULTS.deliver_after_crash as usize,
            get: |main| read(main, |s| usize::from(s.deliver_after_crash)),
            set: |main, v| write(main, |s| s.deliver_after_crash = v == 1),
        },
    },
    Setting {
        name: c"damaged-records",
        value: Value::Choice {
            words: DAMAGED,
            default: 0,
            get: |main| read_own(main, |s| usize::from(s.skip_damaged)),
            set: |main, v| write_own(main, |s| s.skip_damaged = v == 1),
        },
    },
    Setting {
        name: c"node-timeout",
        value: Value::Number {
            default: DEFAULTS.node_timeout_ms as i64,
            min: 100,
            max: 3_600_000,
            unit: Unit::Plain,
            get: |main| read(main, |s| s.node_timeout_ms as i64),
            set: |main, v| write(main, |s| s.node_timeout_ms = v as u64),
        },
    },
    Setting {
        name: c"announce-ip",
        value: Value::Text {
            default: c"",
            secrecy: Secrecy::Open,
            get: |main| read(main, |s| s.announce_host.clone().into_bytes()),
            set: set_announce_host,
        },
    },
    Setting {
        name: c"announce-port",
        value: Value::Number {
            default: 0,
            min: 0,
            max: 65_535,
            unit: Unit::Plain,
            get: |main| read_own(main, |s| s.announce_port.into()),
            set: |main, v| write_own(main, |s| s.announce_port = v as u16),
        },
    },
    Setting {
        name: c"bus-user",
        value: Value::Text {
            default: c"",
            secrecy: Secrecy::Open,
            get: |main| read_own(main, |s| s.bus_user.clone()),
            set: |main, v| write_own(main, |s| s.bus_user = v.to_vec()),
        },
    },
    Setting {
        name: c"bus-password",
        value: Value::Text {
            default: c"",
            secrecy: Secrecy::Secret,
            get: |main| read_own(main, |s| s.bus_password.clone()),
            set: |main, v| write_own(main, |s| s.bus_password = v.to_vec()),
        },
    },
    Setting {
        name: c"bus-password-file",
        value: Value::Text {
            default: c"",
            secrecy: Secrecy::Open,
            get: |main| read_own(main, |s| s.bus_password_file.clone()),
            set: set_password_file,
        },
    },
    Setting {
        name: c"bus-queue-bytes",
        value: Value::Number {
            default: 64 * MIB,
            min: MIB,
            max: 16_384 * MIB,
            unit: Unit::Bytes,
            get: |main| read_own(main, |s| s.bus_queue_bytes as i64),
            set: |main, v| write_own(main, |s| s.bus_queue_bytes = v as u64),
        },
    },
    Setting {
        name: c"compat-hello",
        value: Value::Flag {
            default: false,
            get: |main| read_own(main, |s| s.compat_hello),
            set: |main, v| write_own(main, |s| s.compat_hello = v),
        },
    },
];

/// Hands settings on to where they act outside of the node.
pub fn apply(ctx: &Ctx) {
    ffi::redirect_bare_hello(ctx, read_own(ctx.main(), |settings| settings.compat_hello));
    // A host that has stopped has no links.
    let _ = HOST.with(ctx.main(), |host| host.apply_bus_settings(ctx));
}

fn set_announce_host(main: MainThread, value: &[u8]) -> Result<(), String> {
    if !value.is_empty() && !is_host(value) {
        return Err("not a host name or address".into());
    }
    let host = String::from_utf8_lossy(value).into_owned();
    write(main, |settings| settings.announce_host = host)
}

/// The password is read when the setting is given, so that a missing file is
/// told to whom gave it.
fn set_password_file(main: MainThread, value: &[u8]) -> Result<(), String> {
    if !value.is_empty() {
        read_password(value)?;
    }
    write_own(main, |settings| settings.bus_password_file = value.to_vec())
}

/// The first line of a password file.
pub fn read_password(path: &[u8]) -> Result<Vec<u8>, String> {
    let path = Path::new(OsStr::from_bytes(path));
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let line = text.split(|&c| c == b'\n').next().unwrap_or_default();
    Ok(line.strip_suffix(b"\r").unwrap_or(line).to_vec())
}

/// A setting of a node that has stopped shows as 0: there is nothing to read.
fn read<R: Default>(main: MainThread, field: impl FnOnce(&Settings) -> R) -> R {
    HOST.with(main, |host| field(host.node.settings()))
        .unwrap_or_default()
}

fn write(main: MainThread, change: impl FnOnce(&mut Settings)) -> Result<(), String> {
    HOST.with(main, |host| {
        let mut settings = host.node.settings().clone();
        change(&mut settings);
        host.node.set_settings(settings);
    })
    .map_err(|_| STOPPED.into())
}

fn read_own<R: Default>(main: MainThread, field: impl FnOnce(&ModuleSettings) -> R) -> R {
    HOST.with(main, |host| field(&host.settings))
        .unwrap_or_default()
}

fn write_own(main: MainThread, change: impl FnOnce(&mut ModuleSettings)) -> Result<(), String> {
    HOST.with(main, |host| change(&mut host.settings))
        .map_err(|_| STOPPED.into())
}

const STOPPED: &str = "the job queue has stopped after an internal error: restart the server";

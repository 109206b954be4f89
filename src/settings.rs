//! The settings: `disque.<name>` in redis.conf and CONFIG SET.
//!
//! One table says everything about them but the explanation, which is in
//! `redis.conf.example`.

use crate::ffi::{self, Ctx, MainThread, Setting, Unit, Value};
use crate::host::HOST;
use disque_core::settings::Settings;
use disque_core::tables::WaiterTable;

/// Settings that only the module acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleSettings {
    /// Whether a bare HELLO answers as DISQUE HELLO.
    pub compat_hello: bool,
    /// Whether a damaged record is left out instead of refusing to load.
    pub skip_damaged: bool,
}

/// The values while nothing else is set.
pub const DEFAULTS: ModuleSettings = ModuleSettings {
    compat_hello: false,
    skip_damaged: false,
};

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
            default: 16 * MIB,
            min: 1,
            max: 512 * MIB,
            unit: Unit::Bytes,
            get: |main| read(main, |s| s.max_body as i64),
            set: |main, v| write(main, |s| s.max_body = v as u64),
        },
    },
    Setting {
        name: c"max-queue-name",
        value: Value::Number {
            default: MIB / 16,
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
            default: 10_000,
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
            default: 100_000,
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
            default: 0,
            min: 0,
            max: i64::MAX,
            unit: Unit::Bytes,
            get: |main| read(main, |s| s.max_memory as i64),
            set: |main, v| write(main, |s| s.max_memory = v as u64),
        },
    },
    Setting {
        name: c"default-replicate",
        value: Value::Number {
            default: 3,
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
            default: 1,
            min: 1,
            max: 65_535,
            unit: Unit::Plain,
            get: |main| read(main, |s| s.default_replicate_min as i64),
            set: |main, v| write(main, |s| s.default_replicate_min = v as u64),
        },
    },
    Setting {
        name: c"queue-idle-seconds",
        value: Value::Number {
            default: 300,
            min: 1,
            max: 1_000_000 * HOUR_SECONDS,
            unit: Unit::Plain,
            get: |main| read(main, |s| (s.queue_idle_ms / 1000) as i64),
            set: |main, v| write(main, |s| s.queue_idle_ms = v as u64 * 1000),
        },
    },
    Setting {
        name: c"at-most-once-after-crash",
        value: Value::Choice {
            words: AFTER_CRASH,
            default: 0,
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

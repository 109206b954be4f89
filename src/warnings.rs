//! Settings of the server that void promises of the queue.
//!
//! They are looked at when the module is loaded, when a setting or the role of
//! the server changes. Each is logged once when it appears, and shown by INFO
//! as long as it lasts.

use crate::ffi::{Ctx, Level};
use crate::host::Host;

/// One such setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// A rewrite of the append only file would lose all jobs.
    NoRdbPreamble,
    /// While the file is rewritten, `appendfsync always` does not hold.
    NoFsyncOnRewrite,
    /// Ordinary keys are evicted to make room for jobs.
    Evicts,
    /// Nothing survives a restart.
    NothingPersisted,
}

impl Warning {
    const ALL: [Warning; 4] = [
        Warning::NoRdbPreamble,
        Warning::NoFsyncOnRewrite,
        Warning::Evicts,
        Warning::NothingPersisted,
    ];

    /// The word that INFO shows.
    pub fn name(self) -> &'static str {
        match self {
            Warning::NoRdbPreamble => "aof-use-rdb-preamble",
            Warning::NoFsyncOnRewrite => "no-appendfsync-on-rewrite",
            Warning::Evicts => "maxmemory-policy",
            Warning::NothingPersisted => "save",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Warning::NoRdbPreamble => {
                "'aof-use-rdb-preamble no': a rewrite of the append only file would lose all \
                 jobs, so ADDJOB is refused; set it to yes"
            }
            Warning::NoFsyncOnRewrite => {
                "'no-appendfsync-on-rewrite yes': while the append only file is rewritten, what \
                 was acknowledged can be lost in spite of 'appendfsync always'; set it to no"
            }
            Warning::Evicts => {
                "a maxmemory-policy that evicts: ordinary keys go to make room for jobs; jobs are \
                 never evicted, bound them by disque.max-memory"
            }
            Warning::NothingPersisted => {
                "neither snapshots nor the append only file are on: jobs do not survive a restart"
            }
        }
    }

    fn holds(self, ctx: &Ctx) -> bool {
        let is = |name, value: &[u8]| ctx.config(name).as_deref() == Some(value);
        let aof = is(c"appendonly", b"yes");
        match self {
            Warning::NoRdbPreamble => aof && is(c"aof-use-rdb-preamble", b"no"),
            Warning::NoFsyncOnRewrite => {
                aof && is(c"appendfsync", b"always") && is(c"no-appendfsync-on-rewrite", b"yes")
            }
            Warning::Evicts => !is(c"maxmemory", b"0") && !is(c"maxmemory-policy", b"noeviction"),
            Warning::NothingPersisted => !aof && is(c"save", b""),
        }
    }
}

/// Looks at the settings again.
pub fn review(host: &mut Host, ctx: &Ctx) {
    let now: Vec<Warning> = Warning::ALL
        .into_iter()
        .filter(|warning| warning.holds(ctx))
        .collect();
    for warning in &now {
        if !host.warnings.contains(warning) {
            ctx.log(Level::Warning, warning.text());
        }
    }
    host.warnings = now;
}

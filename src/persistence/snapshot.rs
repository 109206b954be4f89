//! The snapshot: all of the node, as auxiliary data in the RDB (and so in the
//! preamble of the append only file, and in a full sync).

use super::load::{damaged, give_up};
use crate::ffi::{AuxHooks, MainThread, RdbReader, RdbWriter};
use crate::host::{now, HOST};
use disque_core::auxiliary;

/// The name of the data type that owns the auxiliary data; nine characters.
pub const TYPE_NAME: &std::ffi::CStr = c"disque-jq";
/// How Redis saves and loads it.
pub const HOOKS: AuxHooks = AuxHooks { save, load };

fn save(rdb: &mut RdbWriter<'_>) {
    let Some(main) = MainThread::here() else {
        return;
    };
    // After a write error Redis drops the file: what is in it is not read. A
    // stopped node's state is in doubt and must not replace what was saved
    // before: without its end mark the snapshot cannot be loaded.
    let _ = HOST.with(main, |host| auxiliary::save(&host.node, now(), rdb));
}

fn load(rdb: &mut RdbReader<'_>, version: i32) -> Result<(), String> {
    load_batches(rdb, version).inspect_err(|text| {
        if let Some(main) = MainThread::here() {
            // A stopped host cannot say whether the server starts.
            let _ = HOST.with(main, |host| give_up(host, text));
        }
    })
}

fn load_batches(rdb: &mut RdbReader<'_>, version: i32) -> Result<(), String> {
    let main = MainThread::here().ok_or("not on the main thread")?;
    auxiliary::load(rdb, version, |batch, bytes| {
        HOST.with(main, |host| match host.node.apply(now(), bytes) {
            Ok(()) => Ok(()),
            Err(error) => damaged(host, &format!("RDB, batch {batch}, {error}")),
        })
        .map_err(|_| "the job queue has stopped after an internal error")?
    })
}

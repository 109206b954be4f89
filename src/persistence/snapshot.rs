//! The snapshot: all of the node, as auxiliary data in the RDB (and so in the
//! preamble of the append only file, and in a full sync).
//!
//! A row of batches of records, each with a 1 in front, and a 0 at the end.

use super::load::{damaged, give_up};
use crate::ffi::{AuxHooks, MainThread, RdbReader, RdbWriter};
use crate::host::{now, HOST};

/// The name of the data type that owns the auxiliary data; nine characters.
pub const TYPE_NAME: &std::ffi::CStr = c"disque-jq";
/// The version of the framing above. Records have a version of their own.
pub const VERSION: i32 = 1;
/// How Redis saves and loads it.
pub const HOOKS: AuxHooks = AuxHooks { save, load };

struct Stopped;

fn save(rdb: &mut RdbWriter<'_>) {
    let Some(main) = MainThread::here() else {
        return;
    };
    let saved = HOST.with(main, |host| {
        host.node.snapshot(now(), &mut |batch| {
            if rdb.failed() {
                return Err(Stopped);
            }
            rdb.number(1);
            rdb.bytes(batch);
            Ok(())
        })
    });
    // After a write error Redis drops the file: what is in it is not read. A
    // stopped node's state is in doubt and must not replace what was saved
    // before: without its end mark the snapshot cannot be loaded.
    if matches!(saved, Ok(Ok(()))) {
        rdb.number(0);
    }
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
    if version != VERSION {
        return Err(format!(
            "the RDB holds job data of version {version}, this module reads version {VERSION}"
        ));
    }
    let main = MainThread::here().ok_or("not on the main thread")?;
    let mut batch = 0;
    while rdb.number()? == 1 {
        batch += 1;
        let bytes = rdb.bytes()?;
        HOST.with(main, |host| match host.node.apply(now(), &bytes) {
            Ok(()) => Ok(()),
            Err(error) => damaged(host, &format!("RDB, batch {batch}, {error}")),
        })
        .map_err(|_| "the job queue has stopped after an internal error")??;
    }
    Ok(())
}

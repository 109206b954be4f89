//! Loading: from Loading Started, which empties the node, over the records of
//! the snapshot and the append only file, to Loading Ended.

use crate::ffi::{log_from_any_thread, Ctx, Level, Source};
use crate::host::{now, Host};
use disque_core::node::load::Completeness;

/// What is known of the load that runs.
#[derive(Debug, Default)]
pub struct LoadState {
    /// Where the data come from; `None` while nothing is loaded.
    pub source: Option<Source>,
    /// Loads of this process, the running one included.
    pub loads: u64,
    /// Record commands read so far.
    pub commands: u64,
    /// Whether the server had stopped cleanly before. Holds for the first load
    /// of a process only.
    pub after_clean_stop: bool,
    /// The data that are loaded cannot be used: the server is about to exit. Its
    /// own check of the file may still send events.
    pub broken: bool,
    /// Damaged records left out, over all loads.
    pub skipped: u64,
    /// Of these, before the load that runs.
    skipped_before: u64,
}

/// What is loaded cannot be used. A server that starts ends here, as Redis itself
/// ends it for a damaged file: it would go on with its append only file, and for a
/// snapshot it would look for the damage and may never come back from that.
/// Elsewhere (a full sync, DEBUG RELOAD) the caller reports the error.
pub fn give_up(host: &Host, text: &str) {
    let starts = host.load.loads == 1;
    if starts && matches!(host.load.source, Some(Source::Rdb | Source::Aof)) {
        log_from_any_thread(Level::Warning, text);
        std::process::exit(1);
    }
}

/// All state is about to be replaced.
pub fn started(host: &mut Host, source: Source, ctx: &Ctx) {
    host.load.source = Some(source);
    host.load.commands = 0;
    host.load.loads += 1;
    host.node.begin_load(now(), &mut host.fx);
    host.answer(ctx.main());
    host.answer_pending(ctx.main(), usize::MAX);
}

/// The load is over: this node serves, or follows its primary.
pub fn ended(host: &mut Host, ctx: &Ctx) {
    let source = host.load.source.take();
    let after_clean_stop = std::mem::take(&mut host.load.after_clean_stop);
    let skipped_before = std::mem::replace(&mut host.load.skipped_before, host.load.skipped);
    if host.load.broken {
        return;
    }
    host.save_nodes(ctx);
    host.introduce();
    if host.is_passive() {
        return;
    }
    let completeness = match source {
        Some(Source::Aof)
            if host.load.skipped == skipped_before
                && (after_clean_stop || synced_before_replies(ctx)) =>
        {
            Completeness::Complete
        }
        _ => Completeness::MayLackDeliveries,
    };
    finish(host, completeness, ctx);
}

/// A replica serves from now on. What its primary did last may be missing here.
pub fn promoted(host: &mut Host, ctx: &Ctx) {
    finish(host, Completeness::MayLackDeliveries, ctx);
}

fn finish(host: &mut Host, completeness: Completeness, ctx: &Ctx) {
    let before = host.node.totals().stats.withheld;
    host.node.finish_load(now(), completeness, &mut host.fx);
    let withheld = host.node.totals().stats.withheld - before;
    if withheld > 0 {
        let text = format!(
            "{withheld} at-most-once jobs may have been delivered before the restart: they stay \
             undelivered (see disque.at-most-once-after-crash)"
        );
        ctx.log(Level::Warning, &text);
    }
}

/// The load broke off: nothing of it is kept.
pub fn failed(host: &mut Host) {
    host.load.source = None;
    host.node.begin_load(now(), &mut host.fx);
}

/// Whether each change was on disk before anybody saw its reply.
fn synced_before_replies(ctx: &Ctx) -> bool {
    let is = |name, value: &[u8]| ctx.config(name).as_deref() == Some(value);
    is(c"appendfsync", b"always") && is(c"no-appendfsync-on-rewrite", b"no")
}

/// A record cannot be read: the load goes on without it if the operator wants
/// that, else it ends with the text that says which record it was.
pub fn damaged(host: &mut Host, what: &str) -> Result<(), String> {
    if host.settings.skip_damaged {
        host.load.skipped += 1;
        let text = format!("damaged job data are left out: {what}");
        log_from_any_thread(Level::Warning, &text);
        return Ok(());
    }
    // A replica's stream goes on, without a load that could be broken.
    host.load.broken = host.load.source.is_some();
    Err(format!(
        "damaged job data: {what}. Restore a good copy, or set 'disque.damaged-records skip' to \
         load without this record"
    ))
}

//! Loading: from Loading Started, which empties the node, over the records of
//! the snapshot and the append only file, to Loading Ended.

use crate::ffi::{log_from_any_thread, Ctx, Level, Source};
use crate::host::{now, Host};
use disque_core::node::load::Completeness;
use disque_core::node::Identity;
use disque_core::nodes_file::{Age, NodesFile};

/// What is known of the load that runs.
#[derive(Debug, Default)]
pub struct LoadState {
    /// Where the data come from; `None` while nothing is loaded.
    pub source: Option<Source>,
    /// Loads of this process, the running one included.
    pub loads: u64,
    /// Record commands read so far.
    pub commands: u64,
    /// What the nodes file held before the start. For the first load of a process
    /// only: it speaks of the data that the process found.
    before: Option<NodesFile>,
    /// Batches of which Redis has been told and had the time to write them.
    pub flushed: u64,
    /// What is known of the sync of what this process writes.
    sync: Sync,
    /// What the process found is loaded, or there was nothing.
    settled: bool,
    /// The data that are loaded cannot be used: the server is about to exit. Its
    /// own check of the file may still send events.
    pub broken: bool,
    /// Damaged records left out, over all loads.
    pub skipped: u64,
    /// Of these, before the load that runs.
    skipped_before: u64,
}

/// Whether each change is on disk before anybody sees its reply.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Sync {
    /// Not, or not since the start.
    #[default]
    No,
    /// By the settings; what the load has left to write is still to be written.
    Soon,
    /// So far always.
    Yes,
}

impl LoadState {
    /// A process starts.
    pub fn begin(&mut self, before: Option<NodesFile>, ctx: &Ctx) {
        self.before = before;
        if synced_before_replies(ctx) {
            self.sync = Sync::Soon;
        }
    }

    /// Whether the nodes file may say that all was synced before it was answered.
    pub fn is_synced(&self) -> bool {
        self.sync == Sync::Yes
    }

    /// Whether nothing is loaded now or still to be.
    pub fn is_over(&self) -> bool {
        self.settled && self.source.is_none()
    }
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
    let skipped_before = std::mem::replace(&mut host.load.skipped_before, host.load.skipped);
    if host.load.broken {
        return;
    }
    let first = !std::mem::replace(&mut host.load.settled, true);
    let before = host.load.before.take();
    host.load.flushed = host.node.batches();
    if host.is_passive() {
        host.save_nodes(ctx);
        host.introduce();
        return;
    }
    let synced = match &before {
        Some(file) => file.synced,
        None => !first && host.load.is_synced(),
    };
    let age = compare(host, before.as_ref(), source, ctx);
    let all_read = host.load.skipped == skipped_before;
    let completeness = match (source, age) {
        (Some(Source::Aof), Age::AsStopped) if all_read => Completeness::Complete,
        (Some(Source::Aof), Age::NotOlder) if all_read && synced => Completeness::Complete,
        _ => Completeness::MayLackDeliveries,
    };
    finish(host, completeness, ctx);
    host.save_nodes(ctx);
    host.introduce();
}

/// The server is about to serve and has found nothing to load.
pub fn without_data(host: &mut Host, ctx: &Ctx) {
    if host.load.settled || host.load.source.is_some() {
        return;
    }
    host.load.settled = true;
    let before = host.load.before.take();
    if !host.is_passive() {
        compare(host, before.as_ref(), None, ctx);
    }
    host.save_nodes(ctx);
}

/// Compares the data with what the nodes file says was written. Where something is
/// missing they are another line of data from now on.
fn compare(host: &mut Host, before: Option<&NodesFile>, source: Option<Source>, ctx: &Ctx) -> Age {
    let Some(file) = before else {
        return Age::NotOlder;
    };
    let age = file.age(host.node.identity(), host.node.batches());
    // A process that was killed may have had jobs that it wrote nowhere.
    let gone = host.load.loads == 0 && !file.clean_stop;
    // A snapshot lacks what was done after it, copies included.
    let snapshot = source == Some(Source::Rdb) && age != Age::AsStopped;
    if age == Age::Older || gone || snapshot {
        if host.load.loads > 0 {
            let text = "the data are older than what this node has written: what came after \
                        them is lost";
            ctx.log(Level::Warning, text);
        }
        host.node.renew_epoch(&mut host.fx);
    }
    age
}

/// A round of the event loop is over, and what was recorded in it is written.
pub fn written(host: &mut Host, ctx: &Ctx) {
    // What a load has withheld comes first: a crash must not leave the jobs without
    // it and the promise that nothing is missing.
    let is_left = host.load.sync == Sync::Soon && host.load.is_over();
    if is_left && host.fx.records.is_empty() && !host.is_passive() {
        host.load.sync = Sync::Yes;
        host.save_nodes(ctx);
    }
}

/// From now on a change may be answered before it is on disk. It stays so until the
/// next start, which finds all of that on disk, or knows that it may not.
pub fn no_longer_synced(host: &mut Host, ctx: &Ctx) {
    let was = std::mem::take(&mut host.load.sync);
    if was == Sync::Yes && host.load.is_over() {
        host.save_nodes(ctx);
    }
}

/// Settings of the server were changed.
pub fn policy_changed(host: &mut Host, ctx: &Ctx) {
    if !synced_before_replies(ctx) {
        no_longer_synced(host, ctx);
    }
}

/// A replica serves from now on. What its primary did last may be missing here.
pub fn promoted(host: &mut Host, ctx: &Ctx) {
    serve(host, ctx, |host| {
        host.node.promote(now(), &mut host.fx);
    });
    let Identity { term, .. } = host.node.identity();
    let text = format!("this server was a replica and is the node from now on, with term {term}");
    ctx.log(Level::Notice, &text);
}

fn finish(host: &mut Host, completeness: Completeness, ctx: &Ctx) {
    serve(host, ctx, |host| {
        host.node.finish_load(now(), completeness, &mut host.fx);
    });
}

/// The node begins to serve. Says how many jobs it withholds for that.
fn serve(host: &mut Host, ctx: &Ctx, begin: impl FnOnce(&mut Host)) {
    let before = host.node.totals().stats.withheld;
    begin(host);
    let withheld = host.node.totals().stats.withheld - before;
    if withheld > 0 {
        let text = format!(
            "{withheld} at-most-once jobs may have been delivered before: they stay undelivered \
             (see disque.at-most-once-after-crash)"
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
    is(c"appendonly", b"yes")
        && is(c"appendfsync", b"always")
        && is(c"no-appendfsync-on-rewrite", b"no")
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

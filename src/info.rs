//! The section `disque` of INFO, and the same figures for DISQUE INFO.

use crate::ffi::{Info, MainThread, Reason};
use crate::host::{now, Host, HOST};
use disque_core::error::Error;
use std::ffi::{CStr, CString};

/// The version of this module.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A figure.
pub enum Figure {
    /// A count, a size or a time: the name says which.
    Number(u64),
    /// A word or a list of words.
    Text(String),
}

/// All figures, in the order in which they are shown.
pub fn figures(host: &Host) -> Vec<(&'static str, Figure)> {
    use Figure::{Number, Text};
    let totals = host.node.totals();
    let [delayed, active, queued, wait_repl, acked] = totals.jobs;
    let stats = totals.stats;
    let cluster = host.node.cluster();
    // This node reaches itself.
    let reachable = 1 + host.node.reachable_peers(now()).count();
    let identity = host.node.identity();
    let settings = host.node.settings();
    let warnings: Vec<_> = host.warnings.iter().map(|warning| warning.name()).collect();
    vec![
        ("version", Text(VERSION.into())),
        ("node_id", Text(identity.hex())),
        ("role", Text(role(host).into())),
        ("state", Text(state(host).into())),
        ("term", Number(identity.term)),
        ("data_epoch", Number(identity.epoch)),
        ("known_nodes", Number(cluster.size() as u64)),
        ("reachable_nodes", Number(reachable as u64)),
        (
            "bus_messages_dropped_total",
            Number(host.dropped_messages()),
        ),
        ("leaving", Number(host.node.is_leaving().into())),
        (
            "registered_jobs",
            Number(delayed + active + queued + wait_repl + acked),
        ),
        ("queued_jobs", Number(queued)),
        ("active_jobs", Number(active)),
        ("delayed_jobs", Number(delayed)),
        ("wait_repl_jobs", Number(wait_repl)),
        ("acked_jobs", Number(acked)),
        ("dummy_acks", Number(totals.dummy_acks as u64)),
        ("settled_jobs_remembered", Number(totals.settled as u64)),
        ("under_replicated", Number(host.node.under_replicated())),
        ("waiting_producers", Number(totals.waiting_producers as u64)),
        ("registered_queues", Number(totals.queues as u64)),
        ("blocked_clients", Number(totals.blocked_clients as u64)),
        ("job_memory_bytes", Number(totals.job_bytes as u64)),
        ("queue_memory_bytes", Number(totals.queue_bytes as u64)),
        ("max_memory_bytes", Number(settings.max_memory)),
        ("jobs_added_total", Number(stats.added)),
        (
            "jobs_added_below_default_replicate_total",
            Number(stats.added_below_default),
        ),
        ("jobs_delivered_total", Number(stats.delivered)),
        ("jobs_returned_total", Number(stats.returned)),
        ("jobs_requeued_total", Number(stats.requeued)),
        ("jobs_nacked_total", Number(stats.nacked)),
        ("jobs_handed_over_total", Number(stats.handed_over)),
        ("jobs_imported_total", Number(stats.imported)),
        ("handovers_lost_total", Number(stats.handovers_lost)),
        ("jobs_acked_total", Number(stats.acked)),
        ("jobs_fastacked_total", Number(stats.fast_acked)),
        ("jobs_deleted_total", Number(stats.deleted)),
        ("jobs_expired_total", Number(stats.expired)),
        ("jobs_withheld_total", Number(stats.withheld)),
        (
            "jobs_dropped_for_memory_total",
            Number(stats.dropped_for_memory),
        ),
        (
            "adds_refused_for_memory_total",
            Number(stats.refused_for_memory),
        ),
        ("damaged_records_skipped_total", Number(host.load.skipped)),
        ("config_warnings", Text(warnings.join(","))),
    ]
}

fn role(host: &Host) -> &'static str {
    match host.is_passive() {
        true => "replica",
        false => "primary",
    }
}

/// Whether the node serves, and why not.
fn state(host: &Host) -> &'static str {
    match host.node.check_serving() {
        Ok(()) if host.is_passive() => "follows",
        Ok(()) => "serves",
        Err(Error::Forgotten) => "forgotten",
        Err(Error::Doubled) => "doubled",
        Err(_) => "superseded",
    }
}

/// Answers INFO. In a crash report only what can be had without touching a state
/// that may be broken.
pub fn on_info(info: &mut Info<'_>, reason: Reason) {
    if !info.section(c"") {
        return;
    }
    if reason == Reason::Crash {
        info.text(c"version", VERSION);
        return;
    }
    let Some(main) = MainThread::here() else {
        return;
    };
    let shown = HOST.with(main, |host| {
        for (name, figure) in figures(host) {
            show(info, name, figure);
        }
    });
    if shown.is_err() {
        info.text(c"version", VERSION);
        info.text(c"state", "stopped after an internal error");
    }
}

fn show(info: &mut Info<'_>, name: &str, figure: Figure) {
    let Ok(name) = CString::new(name) else {
        return;
    };
    let name: &CStr = &name;
    match figure {
        Figure::Number(number) => info.number(name, number),
        Figure::Text(text) => info.text(name, &text),
    }
}

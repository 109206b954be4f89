//! Replies that several commands share.

use crate::ffi::Reply;
use disque_core::node::inspect::JobView;
use disque_core::node::Node;

/// Jobs as GETJOB and QPEEK show them: `[queue, id, body]`, with the counters
/// seven elements each.
pub fn write_jobs(reply: &mut Reply<'_>, node: &Node, keys: &[u32], with_counters: bool) {
    reply.array(keys.len());
    for &key in keys {
        let job = node.job(key);
        reply.array(if with_counters { 7 } else { 3 });
        reply.bulk(&node.queue_of(job).name);
        reply.bulk(job.id.text());
        reply.bulk(&job.body);
        if with_counters {
            reply.bulk("nacks");
            reply.integer(i64::from(job.nacks));
            reply.bulk("additional-deliveries");
            reply.integer(i64::from(job.additional_deliveries));
        }
    }
}

/// A job as SHOW and JSCAN REPLY all show it: 15 names with their values.
pub fn write_job_details(reply: &mut Reply<'_>, node: &Node, view: &JobView<'_>) {
    let job = view.job;
    let options = &job.options;
    reply.array(30);
    field(reply, "id", |r| r.bulk(job.id.text()));
    field(reply, "queue", |r| r.bulk(view.queue));
    field(reply, "state", |r| r.bulk(job.state.name()));
    field(reply, "repl", |r| r.integer(i64::from(options.replicate)));
    let ttl_left = view.ttl_left_ms.div_ceil(1000);
    field(reply, "ttl", |r| r.integer(clamp(ttl_left)));
    field(reply, "ctime", |r| r.integer(clamp(job.ctime)));
    let seconds = |span: disque_core::span::Span| clamp(span.secs_rounded_up());
    field(reply, "delay", |r| r.integer(seconds(options.delay)));
    field(reply, "retry", |r| r.integer(seconds(options.retry)));
    field(reply, "nacks", |r| r.integer(i64::from(job.nacks)));
    let additional = i64::from(job.additional_deliveries);
    field(reply, "additional-deliveries", |r| r.integer(additional));
    field(reply, "nodes-delivered", |r| {
        list(r, &node.holders(job, false))
    });
    field(reply, "nodes-confirmed", |r| {
        list(r, &node.holders(job, true))
    });
    field(reply, "next-requeue-within", |r| {
        optional(r, view.requeue_within_ms)
    });
    field(reply, "next-awake-within", |r| {
        optional(r, view.awake_within_ms)
    });
    field(reply, "body", |r| match job.is_acked() {
        true => r.null(),
        false => r.bulk(&job.body),
    });
}

/// The acknowledgement of a job that is not here, in the same form.
pub fn write_dummy_ack(
    reply: &mut Reply<'_>,
    id: impl AsRef<[u8]>,
    ttl_left_ms: u64,
    awake_within_ms: Option<u64>,
) {
    let zero = |r: &mut Reply<'_>| r.integer(0);
    reply.array(30);
    field(reply, "id", |r| r.bulk(id));
    field(reply, "queue", |r| r.null());
    field(reply, "state", |r| r.bulk("acked"));
    field(reply, "repl", zero);
    field(reply, "ttl", |r| {
        r.integer(clamp(ttl_left_ms.div_ceil(1000)))
    });
    for name in ["ctime", "delay", "retry", "nacks", "additional-deliveries"] {
        field(reply, name, zero);
    }
    field(reply, "nodes-delivered", |r| r.array(0));
    field(reply, "nodes-confirmed", |r| r.array(0));
    field(reply, "next-requeue-within", |r| r.null());
    field(reply, "next-awake-within", |r| optional(r, awake_within_ms));
    field(reply, "body", |r| r.null());
}

/// Texts.
pub fn list(reply: &mut Reply<'_>, texts: &[String]) {
    reply.array(texts.len());
    texts.iter().for_each(|text| reply.bulk(text));
}

/// A name and its value.
pub fn field(reply: &mut Reply<'_>, name: &str, value: impl FnOnce(&mut Reply<'_>)) {
    reply.bulk(name);
    value(reply);
}

fn optional(reply: &mut Reply<'_>, value: Option<u64>) {
    match value {
        Some(value) => reply.integer(clamp(value)),
        None => reply.null(),
    }
}

/// A counter as the protocol can carry it.
pub fn clamp(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

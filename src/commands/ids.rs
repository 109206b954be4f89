//! The commands that take job ids: ACKJOB, FASTACK, DELJOB, NACK, ENQUEUE,
//! DEQUEUE, WORKING, SHOW.

use super::reply::{clamp, write_dummy_ack, write_job_details};
use super::words_of;
use crate::acl::Subject;
use crate::ffi::{Access, Call};
use crate::host::{command, query, Host};
use disque_core::clock::Now;
use disque_core::effects::Effects;
use disque_core::error::Error;
use disque_core::job_id::JobId;
use disque_core::node::inspect::Shown;
use disque_core::node::requeue::Counter;
use disque_core::node::Node;
use smallvec::SmallVec;

/// The ids of a command.
pub type Ids = SmallVec<[JobId; 4]>;

/// `ACKJOB id [id ...]`
pub fn ackjob(call: &mut Call<'_>) {
    with_ids(call, Node::ack_jobs);
}

/// `FASTACK id [id ...]`
pub fn fastack(call: &mut Call<'_>) {
    with_ids(call, Node::fast_ack);
}

/// `DELJOB id [id ...]`
pub fn deljob(call: &mut Call<'_>) {
    with_ids(call, Node::delete_jobs);
}

/// `NACK id [id ...]`
pub fn nack(call: &mut Call<'_>) {
    with_ids(call, |node, now, ids, fx| {
        node.requeue_jobs(now, ids, Counter::Nack, fx)
    });
}

/// `ENQUEUE id [id ...]`
pub fn enqueue(call: &mut Call<'_>) {
    with_ids(call, |node, now, ids, fx| {
        node.requeue_jobs(now, ids, Counter::AdditionalDelivery, fx)
    });
}

/// `DEQUEUE id [id ...]`
pub fn dequeue(call: &mut Call<'_>) {
    with_ids(call, Node::dequeue_jobs);
}

/// `WORKING id`
pub fn working(call: &mut Call<'_>) {
    command(call, |host, now, call| {
        let ids = read_ids(host, call, Access::Write)?;
        let seconds = host.node.working(now, ids.first(), &mut host.fx)?;
        call.reply().integer(clamp(seconds));
        Ok(())
    });
}

/// `SHOW id`
pub fn show(call: &mut Call<'_>) {
    query(call, |host, now, call| {
        let ids = read_ids(host, call, Access::Read)?;
        match ids.first().and_then(|id| host.node.show(now, id)) {
            Some(Shown::Job(view)) => write_job_details(call.reply(), &host.node, &view),
            Some(Shown::DummyAck {
                ttl_left_ms,
                awake_within_ms,
            }) => write_dummy_ack(call.reply(), ids[0].text(), ttl_left_ms, awake_within_ms),
            None => call.reply().null(),
        }
        Ok(())
    });
}

/// Runs a command that does one thing to each job and answers how many it did
/// it to.
fn with_ids(
    call: &mut Call<'_>,
    act: impl FnOnce(&mut Node, Now, &[JobId], &mut Effects) -> usize,
) {
    command(call, |host, now, call| {
        let ids = read_ids(host, call, Access::Write)?;
        let count = act(&mut host.node, now, &ids, &mut host.fx);
        call.reply().integer(count as i64);
        Ok(())
    });
}

/// Reads and checks all ids before the first one has an effect. Ids that no
/// node can have made are left out: no job has them.
fn read_ids(host: &Host, call: &Call<'_>, access: Access) -> Result<Ids, Error> {
    let words = words_of(call);
    host.node
        .check_count(("the number of job ids", "ids"), words.len())?;
    let ids = parse(&words)?;
    let subject = Subject::of(call.ctx());
    for queue in host.node.queue_names(&ids) {
        subject.require_of_job(access, queue)?;
    }
    Ok(ids)
}

/// All ids, or the error of the first that is none.
pub fn parse(words: &[&[u8]]) -> Result<Ids, Error> {
    let mut ids = Ids::with_capacity(words.len());
    for word in words {
        ids.extend(JobId::parse(word)?);
    }
    Ok(ids)
}

//! ACKJOB, FASTACK, DELJOB.

use super::Node;
use crate::clock::Now;
use crate::effects::Effects;
use crate::job_id::JobId;
use crate::record::Record;

impl Node {
    /// ACKJOB: settles the jobs known here and returns how many there were.
    ///
    /// Where this node is the only holder there is nobody left to tell: the job
    /// and its acknowledgement are gone at once. An id that is unknown on a
    /// node without peers leaves nothing.
    pub fn ack_jobs(&mut self, now: Now, ids: &[JobId], fx: &mut Effects) -> usize {
        let acked = self.remove_all(now, ids, fx);
        self.stats.acked += acked as u64;
        acked
    }

    /// FASTACK: as ACKJOB, without the guarantees that it has on a cluster.
    pub fn fast_ack(&mut self, now: Now, ids: &[JobId], fx: &mut Effects) -> usize {
        let acked = self.remove_all(now, ids, fx);
        self.stats.fast_acked += acked as u64;
        acked
    }

    /// DELJOB: deletes the jobs on this node and returns how many there were.
    pub fn delete_jobs(&mut self, now: Now, ids: &[JobId], fx: &mut Effects) -> usize {
        let deleted = self.remove_all(now, ids, fx);
        self.stats.deleted += deleted as u64;
        deleted
    }

    fn remove_all(&mut self, now: Now, ids: &[JobId], fx: &mut Effects) -> usize {
        let mut removed = 0;
        for id in ids {
            if let Some(key) = self.jobs.find(id) {
                self.remove_recorded(key, now, fx);
                removed += 1;
            }
        }
        removed
    }

    /// Removes a job and writes that down.
    pub(super) fn remove_recorded(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let id = self.jobs[key].id;
        let queue = self.jobs[key].queue;
        self.queues[queue].used_at = now.mono_ms;
        self.remove_job(key, now);
        fx.records.push(&Record::Removed { id });
    }

    /// Drops the oldest at-most-once job that was delivered, if there is one:
    /// nobody will ever get it again, it only waits for its acknowledgement.
    pub fn relieve_memory(&mut self, now: Now, fx: &mut Effects) -> bool {
        let Some(&(_, key)) = self.disposable.first() else {
            return false;
        };
        self.remove_recorded(key, now, fx);
        self.stats.dropped_for_memory += 1;
        true
    }
}

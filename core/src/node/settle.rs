//! ACKJOB, FASTACK, DELJOB.

use super::Node;
use crate::clock::Now;
use crate::effects::Effects;
use crate::error::Error;
use crate::job_id::JobId;
use crate::record::Record;

impl Node {
    /// ACKJOB: settles the jobs known here and returns how many there were.
    ///
    /// Where this node is the only holder there is nobody left to tell: the job
    /// and its acknowledgement are gone at once. Else the acknowledgement stays
    /// until all possible holders have it. An id that is unknown here may be known
    /// elsewhere; on a node without peers it leaves nothing.
    pub fn ack_jobs(&mut self, now: Now, ids: &[JobId], fx: &mut Effects) -> usize {
        let mut acked = 0;
        for id in ids {
            match self.jobs.find(id) {
                Some(key) if self.jobs[key].is_acked() => {}
                Some(key) => {
                    self.settle_job(key, now, fx);
                    acked += 1;
                }
                None => self.ack_unknown(*id, now, fx),
            }
        }
        self.stats.acked += acked as u64;
        acked
    }

    /// FASTACK: as ACKJOB, without the guarantees that it has on a cluster.
    pub fn fast_ack(&mut self, now: Now, ids: &[JobId], fx: &mut Effects) -> usize {
        let mut acked = 0;
        for id in ids {
            let here = self.jobs.find(id);
            if here.is_some_and(|key| self.jobs[key].is_acked()) {
                continue; // It is on its way out, with a guarantee.
            }
            self.tell_fast_ack(*id, now, fx);
            if let Some(key) = here {
                self.end_add(key, now, fx);
                self.remove_recorded(key, now, fx);
                acked += 1;
            }
            self.remember_settled(*id, now);
        }
        self.stats.fast_acked += acked as u64;
        acked
    }

    /// DELJOB: deletes the jobs on this node and returns how many there were.
    pub fn delete_jobs(&mut self, now: Now, ids: &[JobId], fx: &mut Effects) -> usize {
        let mut deleted = 0;
        for id in ids {
            if let Some(key) = self.live(id) {
                self.fail_add(key, Error::NoRepl, now, fx);
                self.hand_on(key, now, fx);
                self.remove_recorded(key, now, fx);
                deleted += 1;
            }
        }
        self.stats.deleted += deleted as u64;
        deleted
    }

    /// Removes a job and writes that down.
    pub(super) fn remove_recorded(&mut self, key: u32, now: Now, fx: &mut Effects) {
        let id = self.jobs[key].id;
        let queue = self.jobs[key].queue;
        self.queues[queue].used_at = now.mono_ms;
        self.remove_job(key, now);
        fx.records.push(&Record::Removed { id });
    }

    /// Drops what may go first when memory is nearly full: the oldest id that is
    /// remembered as settled, and the oldest at-most-once job that was delivered, which
    /// nobody will ever get again. Whether there was either.
    pub fn relieve_memory(&mut self, now: Now, fx: &mut Effects) -> bool {
        let forgotten = self.settled.forget_oldest();
        let Some(&(_, key)) = self.disposable.first() else {
            return forgotten;
        };
        self.remove_recorded(key, now, fx);
        self.stats.dropped_for_memory += 1;
        true
    }
}

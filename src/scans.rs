//! Scans with BUSYLOOP: whole answers, written a few milliseconds at a time.

use crate::acl::Subject;
use crate::commands::scan::Scan;
use crate::ffi::{Answer, Call, Turn};
use crate::host::{now, Host};
use disque_core::effects::WaiterId;
use disque_core::error::Error;

/// Scans at a time.
const MAX_SCANS: usize = 4;
/// A larger answer is refused: the server would hold all of it until it is
/// complete.
const MAX_ANSWER_BYTES: u64 = 512 << 20;

/// A scan in the background.
pub struct RunningScan {
    client: WaiterId,
    /// Whose rights count, looked up anew for each step: a user may be gone.
    user: Option<Vec<u8>>,
    scan: Scan,
    answer: Answer,
}

impl Host {
    /// Starts a scan whose client waits until all is found.
    pub fn start_scan(&mut self, scan: Scan, call: &mut Call<'_>) -> Result<(), Error> {
        if self.scans.len() >= MAX_SCANS || scan.answer_bytes(self) > MAX_ANSWER_BYTES {
            return Err(Error::TooMuchToScan);
        }
        let user = Subject::of(call.ctx()).name().map(<[u8]>::to_vec);
        let main = call.ctx().main();
        let client = self.next_own_client();
        let blocked = call.block(client.0).map_err(|_| Error::Internal)?;
        if let Some(mut answer) = blocked.begin_answer(main) {
            let reply = answer.reply();
            reply.array(2);
            reply.bulk("0");
            reply.begin_array();
            self.scans.push(RunningScan {
                client,
                user,
                scan,
                answer,
            });
        }
        Ok(())
    }

    /// A step of the scan that was started first. An answer that is complete is
    /// sent by dropping it.
    pub fn step_scans(&mut self, turn: &Turn) {
        if self.scans.is_empty() {
            return;
        }
        let mut running = self.scans.remove(0);
        let subject = Subject::named(turn, running.user.as_deref());
        let reply = running.answer.reply();
        if running.scan.step(self, now(), &subject, reply) {
            reply.end_array();
        } else {
            self.scans.push(running);
        }
    }

    /// The client of a scan is gone.
    pub fn drop_scan(&mut self, client: WaiterId) {
        self.scans.retain(|running| running.client != client);
    }
}

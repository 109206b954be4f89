//! Which queues a command may touch.
//!
//! Queue names are not declared to Redis as keys (in cluster mode it would
//! redirect clients), so each command asks here.

use crate::ffi::{self, Access, Ctx};
use disque_core::error::Error;

/// The rights of the user on whose behalf a command runs.
pub struct Subject<'a>(ffi::Subject<'a>);

impl<'a> Subject<'a> {
    /// The subject of the running command.
    pub fn of(ctx: &'a Ctx) -> Subject<'a> {
        Subject(ffi::subject(ctx))
    }

    /// A user by name; `None` is the server itself, which may do everything. A
    /// user who is gone may do nothing.
    pub fn named(ctx: &'a Ctx, name: Option<&[u8]>) -> Subject<'a> {
        Subject(ffi::subject_named(ctx, name))
    }

    /// The user's name; `None` for the server itself.
    pub fn name(&self) -> Option<&[u8]> {
        self.0.name()
    }

    /// Whether no queue need be asked about.
    pub fn is_unrestricted(&self) -> bool {
        self.0.is_unrestricted()
    }

    /// Refuses a queue that the command names and the user's key patterns do not
    /// cover, and notes it in ACL LOG.
    pub fn require(&self, access: Access, queue: &[u8]) -> Result<(), Error> {
        if self.may(access, queue) {
            return Ok(());
        }
        self.0.log_refusal(queue);
        Err(Error::NoPermissionFor(queue.into()))
    }

    /// The same for the queue of a job that the command names by its id: the error
    /// does not tell which queue it is.
    pub fn require_of_job(&self, access: Access, queue: &[u8]) -> Result<(), Error> {
        self.require(access, queue).map_err(|_| Error::NoPermission)
    }

    /// Whether the user's key patterns cover a queue. Nothing is noted: for
    /// lists that leave out what the user may not see.
    pub fn may(&self, access: Access, queue: &[u8]) -> bool {
        self.0.may(access, queue)
    }
}

//! Large bodies on their way from a client, or another node, into the record: they stay
//! the server's own strings, so that nobody copies them for it.

use crate::ffi::{Args, RString};
use disque_core::body::LARGE;
use disque_core::record::RecordBatch;
use smallvec::SmallVec;

/// The large bodies of the running command, each with its number among all bodies.
#[derive(Default)]
pub struct GivenBodies(SmallVec<[(usize, RString); 1]>);

impl GivenBodies {
    /// These arguments of the running command are bodies.
    pub fn note(&mut self, bodies: Args<'_>) {
        for (number, body) in bodies.iter().enumerate() {
            if body.len() >= LARGE {
                self.0
                    .extend(bodies.string(number).map(|string| (number, string)));
            }
        }
    }

    /// The bodies that stand beside a batch, as strings of the server: what the command
    /// brought is shared, another one is copied. The command is over with that.
    pub fn take_for(&mut self, batch: &RecordBatch) -> SmallVec<[RString; 1]> {
        let mut given = std::mem::take(&mut self.0);
        let bodies = batch.bodies().map(|(body, number)| {
            let noted = given.iter().position(|(known, _)| Some(*known) == number);
            match noted.map(|at| given.swap_remove(at).1) {
                Some(string) => string,
                None => RString::new(body),
            }
        });
        bodies.collect()
    }
}

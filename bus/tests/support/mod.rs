//! A scripted peer and an owner, for tests and measurements.
// Each user of it takes a part.
#![allow(dead_code, unused_imports)]

mod fake;
mod node;

pub use fake::{Fake, Mode};
pub use node::{Node, LIMIT};

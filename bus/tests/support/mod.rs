//! A scripted peer and an owner, for tests and measurements.
#![allow(dead_code)]

mod fake;
mod node;

pub use fake::{Fake, Mode};
pub use node::{Node, LIMIT};

//! The state machine of one Disque node: jobs, queues, waiting clients, time.
//!
//! It is deterministic: no I/O, no threads, no clock and no randomness of its
//! own. Time comes in with each call as [`clock::Now`], randomness from a seed,
//! and what has to be done goes out through [`effects::Effects`]. The same code
//! runs inside redis-server and in a simulation with virtual time.
//!
//! Start reading at [`node`].
#![forbid(unsafe_code)]

mod acks;
pub mod auxiliary;
pub mod body;
pub mod clock;
pub mod cluster;
mod collections;
mod copies;
pub mod effects;
mod encoding;
pub mod error;
pub mod holders;
mod invariants;
pub mod job;
pub mod job_id;
pub mod memory;
pub mod message;
pub mod mutants;
pub mod node;
pub mod nodes_file;
pub mod queue;
pub mod record;
pub mod settings;
pub mod span;
mod succession;
pub mod tables;

//! What the end-to-end tests stand on: a [`Server`] guard that starts a real
//! redis-server with the module, a byte-exact RESP [`Client`], and helpers that
//! poll with a deadline instead of sleeping.
//!
//! Two rules keep runs apart. A test talks only to servers that it started: an
//! address is never taken from outside, and port 6379 is never used. And nothing
//! outlives the run: each server dies with its guard, or with the test process.
#![forbid(unsafe_code)]

mod client;
mod cluster;
pub mod corpus;
mod disk;
mod job;
mod lock;
mod options;
mod poll;
mod port;
mod process;
mod proxy;
mod reply;
pub mod resp;
mod server;
mod spawn;

pub use client::Client;
pub use cluster::{hello, node_lines, Cluster, Listed, NodeLine, NODE_TIMEOUT_MS};
pub use disk::Disk;
pub use job::{deliveries, is_job_id, unknown_id, Delivery, Show, SHOW_FIELDS};
pub use lock::{quiet_machine, shared_machine, MachineShare};
pub use options::{Options, Persistence, Place};
pub use poll::{eventually, wait_for};
pub use proxy::Proxy;
pub use reply::Reply;
pub use resp::Value;
pub use server::{module_path, waits_for_processor, Door, Pulse, Server};

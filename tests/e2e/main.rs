//! What one node does, seen from outside: a real redis-server with the module
//! and clients that look at the bytes.
//!
//! Each test has a server of its own. The module is taken from `DISQUE_MODULE`,
//! the server from `REDIS_SERVER`; `ci/test.sh` sets the first.
#![forbid(unsafe_code)]

mod abuse;
mod acl;
mod add;
mod at_most_once;
mod batch;
mod blocking;
mod cases;
mod clock;
mod common;
mod config;
mod disque;
mod get;
mod hostile;
mod idle;
mod inspect;
mod large;
mod limits;
mod memory;
mod pause;
mod persistence;
mod replica;
mod requeue;
mod scan;
mod settle;
mod transactions;

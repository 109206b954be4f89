//! What several nodes do together, seen from outside: real servers on 127.0.0.1
//! that meet, lose and forget each other.
//!
//! Replies of single commands are the business of `tests/e2e`; time, order and
//! faults of every kind that of the simulation in `core/tests/sim`. Here stands
//! what only real connections and real servers show.
#![forbid(unsafe_code)]

mod access;
mod acks;
mod adders;
mod address;
mod batch;
mod common;
mod elsewhere;
mod federation;
mod forget;
mod gossip;
mod hostile;
mod joining;
mod large;
mod latency;
mod links;
mod meet;
mod promote;
mod refusals;
mod replicate;
mod requeue;
mod restart;
mod survive;
mod traffic;

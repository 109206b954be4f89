//! What the benchmarks do with the core by itself, without a server: shared by the
//! micro-benchmarks and by the count of instructions.
#![forbid(unsafe_code)]

pub mod couple;
pub mod solo;

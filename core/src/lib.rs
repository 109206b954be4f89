//! The state machine of one Disque node.
#![forbid(unsafe_code)]

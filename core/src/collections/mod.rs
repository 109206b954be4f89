//! The containers of the state machine.
//!
//! Items live in a [`Slab`] and are named by `u32` keys. The other containers
//! hold keys only; what they need to remember about an item (a chain link, the
//! links of a timer) lies in the item itself, so that membership costs no
//! allocation and an item can leave any of them in constant time.
//!
//! No operation here ever copies, rehashes or walks the whole content: the
//! longest single step is the reallocation of a directory with one small entry
//! per few hundred items.

mod bitset;
pub mod key_table;
pub mod ordered;
pub mod slab;
pub mod wheel;

#[cfg(test)]
mod measure;

pub use key_table::{HashSeed, KeyTable};
pub use ordered::OrderedKeys;
pub use slab::{Full, Slab};
pub use wheel::{Poll, Timed, TimerLinks, Wheel};

/// The key of no item.
pub const NIL: u32 = u32::MAX;

/// Keys are lower than this. The numbers from here to [`NIL`] are free for the
/// containers to mark the ends of their lists.
pub const KEY_LIMIT: u32 = 0xffff_0000;

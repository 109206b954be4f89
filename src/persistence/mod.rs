//! What survives a restart: the snapshot in the RDB, the records in the append
//! only file, the nodes file.

pub mod identity;
pub mod load;
pub mod snapshot;

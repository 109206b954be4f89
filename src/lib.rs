//! A replicated job queue inside redis-server.

// Not everything of the interface is used yet.
#[allow(dead_code, unused_imports)]
mod ffi;

/// Memory of the module counts in the server's `used_memory`.
#[global_allocator]
static ALLOCATOR: ffi::RedisAlloc = ffi::RedisAlloc;

/// Registers what the module has. An error refuses the load.
fn load(_ctx: &ffi::Ctx, _args: ffi::Args<'_>) -> Result<(), String> {
    Ok(())
}

//! The module: a job queue inside redis-server.
//!
//! The queue itself is the crate `disque-core`, which knows nothing of Redis.
//! Here are the ways in and out: [`commands`] for clients, [`host`] for the
//! node's life inside the server, [`persistence`] for what survives it.

mod acl;
mod bodies;
mod bus;
mod commands;
mod events;
mod ffi;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod host;
mod info;
mod number_map;
mod persistence;
mod scans;
mod senders;
mod settings;
mod warnings;

use disque_core::auxiliary;
use disque_core::node::Node;
use disque_core::settings::Settings;
use ffi::{Args, BlockingHooks, Ctx};
use host::{Host, HOST};
use persistence::{identity, snapshot};

#[global_allocator]
static ALLOCATOR: ffi::RedisAlloc = ffi::RedisAlloc;

/// Called once, when the server loads the module.
fn load(ctx: &Ctx, args: Args<'_>) -> Result<(), String> {
    if !args.is_empty() {
        return Err(
            "takes no arguments: settings are lines of their own in redis.conf, such as \
                    'disque.max-body 1mb'"
                .into(),
        );
    }
    let found = identity::restore(ctx);
    let file = found.clone().unwrap_or_else(|| identity::fresh(ctx));
    let mut node = Node::new(
        file.identity,
        Settings::default(),
        ctx.random_bytes(),
        host::now(),
    );
    node.restore_nodes(&file);
    let mut host = Host::new(node, ctx.flags().replica());
    host.load.begin(found, ctx);
    warnings::review(&mut host, ctx);
    HOST.put(ctx.main(), host)
        .map_err(|error| format!("cannot start the node: {error:?}"))?;
    let started = register(ctx).and_then(|()| start(ctx));
    if started.is_err() {
        HOST.take(ctx.main());
    }
    started
}

/// What the server takes back by itself when the load is refused, and with it the
/// library: a wrong setting, a command that another module has.
fn register(ctx: &Ctx) -> Result<(), String> {
    ffi::install_blocking(BlockingHooks {
        timed_out: host::on_timed_out,
        disconnected: host::on_disconnected,
        freed: host::on_freed,
    })?;
    ffi::register_settings(ctx, settings::SETTINGS)?;
    ffi::register_data_type(
        ctx,
        snapshot::TYPE_NAME,
        auxiliary::VERSION,
        snapshot::HOOKS,
    )?;
    ffi::register_info(ctx, info::on_info)?;
    commands::register_all(ctx)
}

/// What the server would go on calling, though the library were gone. After the alarm,
/// which leaves nothing behind when it cannot be had, there is nothing to refuse.
fn start(ctx: &Ctx) -> Result<(), String> {
    ffi::install_timer(ctx, host::turn)?;
    ffi::remember_verdicts(ctx);
    settings::apply(ctx);
    ffi::poke(ctx.main());
    ffi::subscribe(ctx, events::TOPICS, events::on_event);
    Ok(())
}

//! Everything that touches Redis' C interface, and the only `unsafe` code.
//!
//! The rest of the module sees owned or borrowed Rust types and plain function
//! pointers. Three rules hold for all files here:
//!
//! - nothing unwinds into C: each `extern "C"` entry runs its body in
//!   [`guard`], which logs a caught panic and answers with a fallback;
//! - nothing that came from outside (arguments, names, bodies, configuration)
//!   is turned into a C string without having been cleaned of NUL bytes;
//! - where state may be changed and recorded is a matter of types: only
//!   commands and timer turns hand out a [`Turn`], and only a `Turn` can
//!   replicate. Disconnects, server events and file descriptor handlers get a
//!   plain [`Ctx`].
//!
//! `redis_module::raw` gives the declarations; its macros, its allocator and
//! its safe wrappers are not used.

mod acl;
mod alloc;
mod api;
mod args;
mod blocking;
mod clock;
mod command;
mod config;
mod context;
mod events;
mod guard;
mod hello;
mod info;
mod load;
mod main_cell;
mod persistence;
mod reply;
mod string;
mod timer;
mod verdicts;

pub use acl::{subject, subject_named, Access, Subject};
pub use alloc::RedisAlloc;
pub use args::Args;
pub use blocking::{install as install_blocking, Answer, Blocked, BlockingHooks, Fate};
pub use clock::{mono_ms, wall_ms};
pub use command::{register, register_container, Call, CommandSpec, Entry};
pub use config::{register_settings, Secrecy, Setting, Unit, Value};
pub use context::{block_signals, log_from_any_thread, Ctx, Level, Turn};
pub use events::{clients_left, subscribe, Event, Source, Topic};
pub use hello::redirect_bare_hello;
pub use info::{register_info, Info, Reason};
pub use main_cell::{MainCell, MainThread, StateError};
pub use persistence::{register_data_type, AuxHooks, RdbReader, RdbWriter};
pub use reply::Reply;
pub use string::RString;
pub use timer::{arm, disarm, install as install_timer, poke, waker, Waker};
pub use verdicts::remember_verdicts;

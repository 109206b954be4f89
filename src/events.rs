//! What happens to the server as a whole, and what the node makes of it.
//!
//! Nothing recorded may change here: what has to, is left for the next turn.

use crate::ffi::{Ctx, Event, Level, Topic};
use crate::host::{before_sleep, check_overdue, Host, HOST};
use crate::persistence::load;
use crate::settings;
use crate::warnings;

/// The events that matter.
pub const TOPICS: &[Topic] = &[
    Topic::Loading,
    Topic::Shutdown,
    Topic::Role,
    Topic::Cron,
    Topic::Config,
];

/// Takes an event.
pub fn on_event(ctx: &Ctx, event: Event) {
    match event {
        Event::Cron => return check_overdue(ctx),
        Event::AfterSleep => {
            return with_host(ctx, |host| {
                host.open_gate();
                load::written(host, ctx);
                host.check_given(ctx);
            })
        }
        Event::BeforeSleep => {}
        Event::LoadingStarted(source) => with_host(ctx, |host| {
            host.close_links();
            load::started(host, source, ctx);
        }),
        Event::LoadingEnded => with_host(ctx, |host| load::ended(host, ctx)),
        Event::LoadingFailed => with_host(ctx, load::failed),
        Event::Shutdown => with_host(ctx, |host| {
            host.save_clean_stop(ctx);
            host.close_links();
        }),
        Event::BecameMaster => with_host(ctx, |host| {
            host.set_passive(false);
            load::promoted(host, ctx);
        }),
        Event::BecameReplica => with_host(ctx, |host| {
            host.close_links();
            host.set_passive(true);
            load::no_longer_synced(host, ctx);
        }),
        Event::ConfigChanged => {
            with_host(ctx, |host| {
                warnings::review(host, ctx);
                load::policy_changed(host, ctx);
            });
            settings::apply(ctx);
        }
    }
    before_sleep(ctx);
}

fn with_host(ctx: &Ctx, act: impl FnOnce(&mut Host)) {
    if HOST.with(ctx.main(), act).is_err() {
        ctx.log(Level::Warning, "an event found the job queue stopped");
    }
}

//! DISQUE and its subcommands, and the internal command that carries records.

use super::reply::clamp;
use super::words::Keyword;
use super::{parts_of, words_of, TABLE};
use crate::ffi::{Call, Level, RString};
use crate::host::{command, command_always, query_always, RECORD_COMMAND};
use crate::info::{figures, Figure};
use crate::persistence::load::{damaged, give_up};
use disque_core::error::Error;
use disque_core::job::State;

/// The syntax of INFO.
pub const INFO_USAGE: &str = "DISQUE INFO [field]";
/// The syntax of LEAVING.
pub const LEAVING_USAGE: &str = "DISQUE LEAVING [yes|no]";

/// Refuses more words, the subcommand's name included, than there can be.
fn check_count(words: &[&[u8]], max: usize, usage: &'static str) -> Result<(), Error> {
    if words.len() <= max {
        return Ok(());
    }
    Err(Error::Syntax(usage))
}

/// `DISQUE MYID`
pub fn myid(call: &mut Call<'_>) {
    query_always(call, |host, _, call| {
        let id = host.node.identity().hex();
        call.reply().bulk(id);
        Ok(())
    });
}

/// `DISQUE INFO [field]`
pub fn info(call: &mut Call<'_>) {
    query_always(call, |host, _, call| {
        let words = words_of(call);
        check_count(&words, 2, INFO_USAGE)?;
        let all = figures(host);
        let reply = call.reply();
        let Some(wanted) = words.get(1) else {
            reply.array(all.len() * 2);
            for (name, figure) in all {
                reply.bulk(name);
                write_figure(reply, figure);
            }
            return Ok(());
        };
        let found = all.into_iter().find(|(name, _)| is_field(wanted, name));
        match found {
            Some((_, figure)) => write_figure(reply, figure),
            None => reply.null(),
        }
        Ok(())
    });
}

/// Whether a word names a field: in any case, with `-` or `_` between its parts.
fn is_field(word: &[u8], name: &str) -> bool {
    let plain = word.iter().map(|&c| match c {
        b'-' => b'_',
        c => c.to_ascii_lowercase(),
    });
    plain.eq(name.bytes())
}

fn write_figure(reply: &mut crate::ffi::Reply<'_>, figure: Figure) {
    match figure {
        Figure::Number(number) => reply.bulk(number.to_string()),
        Figure::Text(text) => reply.bulk(text),
    }
}

/// `DISQUE FLUSHALL`
pub fn flushall(call: &mut Call<'_>) {
    command_always(call, |host, now, call| {
        host.node.flush(now, &mut host.fx);
        call.reply().simple("OK");
        Ok(())
    });
}

/// `DISQUE LEAVING [yes|no]`
pub fn leaving(call: &mut Call<'_>) {
    command(call, |host, now, call| {
        let words = words_of(call);
        check_count(&words, 2, LEAVING_USAGE)?;
        let Some(word) = words.get(1) else {
            let totals = host.node.totals();
            let acks = host.node.ack_count() as u64;
            let kept: u64 = totals.jobs.iter().sum();
            let jobs = kept - totals.jobs[State::Acked as usize];
            let reply = call.reply();
            reply.array(8);
            reply.bulk("leaving");
            reply.bulk(if host.node.is_leaving() { "yes" } else { "no" });
            reply.bulk("jobs-left");
            reply.integer(clamp(jobs));
            reply.bulk("acks-left");
            reply.integer(clamp(acks));
            reply.bulk("no-target");
            reply.integer(clamp(host.node.no_target()));
            return Ok(());
        };
        let leaving = match Keyword::of(word).as_ref().map(Keyword::as_bytes) {
            Some(b"YES") => true,
            Some(b"NO") => false,
            _ => return Err(Error::Syntax(LEAVING_USAGE)),
        };
        host.node.set_leaving(leaving, now, &mut host.fx);
        call.reply().simple("OK");
        Ok(())
    });
}

/// `DISQUE HELP`
pub fn help(call: &mut Call<'_>) {
    let lines: Vec<String> = TABLE.iter().map(|entry| entry.help()).collect();
    let reply = call.reply();
    reply.array(lines.len());
    for line in lines {
        reply.bulk(line);
    }
}

/// The internal command: a batch of records, from the append only file or from
/// the primary.
pub fn record(call: &mut Call<'_>) {
    let flags = call.ctx().flags();
    let from_primary = flags.replicated();
    if !flags.loading() && !from_primary {
        call.reply().error(&Error::InternalCommand.to_string());
        return;
    }
    command_always(call, |host, now, call| {
        let batch = call.args().from(1);
        let parts = parts_of(batch)?;
        let bytes = parts.bytes;
        host.load.commands += 1;
        if let Err(error) = host.node.apply(now, parts) {
            let source = if from_primary {
                "replication stream"
            } else {
                "append only file"
            };
            let what = format!(
                "{source}, {RECORD_COMMAND:?} {}, {error}",
                host.load.commands
            );
            if let Err(text) = damaged(host, &what) {
                call.ctx().log(Level::Warning, &text);
                give_up(host, &text);
            }
        } else if from_primary {
            // A replica's own append only file gets the same bytes.
            let bodies: Vec<RString> = batch.from(1).strings().collect();
            let recorded = call.turn().replicate(RECORD_COMMAND, bytes, &bodies);
            debug_assert_eq!(recorded, Ok(()));
        }
        call.reply().simple("OK");
        Ok(())
    });
}

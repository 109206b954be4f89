//! The commands about one queue: QLEN, QPEEK, QSTAT, PAUSE.

use super::reply::{clamp, field, list, write_jobs};
use super::words::{Words, MAX_COUNT};
use super::words_of;
use crate::acl::Subject;
use crate::ffi::{Access, Call};
use crate::host::{command, query};
use disque_core::error::Error;
use disque_core::queue::Pause;

/// The syntax of QPEEK.
pub const QPEEK_USAGE: &str = "QPEEK queue count";
/// The syntax of PAUSE.
pub const PAUSE_USAGE: &str = "PAUSE queue in|out|all|none|state|bcast [...]";

/// `QLEN queue`
pub fn qlen(call: &mut Call<'_>) {
    query(call, |host, _, call| {
        let queue = allowed_queue(call, Access::Read)?;
        let len = host.node.queue_len(queue);
        call.reply().integer(len as i64);
        Ok(())
    });
}

/// `QPEEK queue count`
pub fn qpeek(call: &mut Call<'_>) {
    query(call, |host, _, call| {
        let queue = allowed_queue(call, Access::Read)?;
        let words = words_of(call);
        let (newest_first, count) = parse_qpeek(&words[1..])?;
        let keys = host.node.peek(queue, count, newest_first);
        write_jobs(call.reply(), &host.node, &keys, false);
        Ok(())
    });
}

/// Whether QPEEK starts at the newest job, and how many it shows.
pub fn parse_qpeek(words: &[&[u8]]) -> Result<(bool, u64), Error> {
    Words::new(words, QPEEK_USAGE).signed("count", "jobs", "-9007199254740992", MAX_COUNT)
}

/// `QSTAT queue`
pub fn qstat(call: &mut Call<'_>) {
    query(call, |host, now, call| {
        let queue = allowed_queue(call, Access::Read)?;
        let reply = call.reply();
        let Some(stat) = host.node.queue_stat(now, queue) else {
            reply.null_array();
            return Ok(());
        };
        reply.array(20);
        field(reply, "name", |r| r.bulk(stat.name));
        field(reply, "len", |r| r.integer(stat.len as i64));
        field(reply, "age", |r| r.integer(clamp(stat.age_ms / 1000)));
        field(reply, "idle", |r| r.integer(clamp(stat.idle_ms / 1000)));
        field(reply, "blocked", |r| r.integer(stat.blocked as i64));
        field(reply, "import-from", |r| list(r, &stat.import_from));
        field(reply, "import-rate", |r| r.integer(clamp(stat.import_rate)));
        field(reply, "jobs-in", |r| r.integer(clamp(stat.jobs_in)));
        field(reply, "jobs-out", |r| r.integer(clamp(stat.jobs_out)));
        field(reply, "pause", |r| r.bulk(stat.pause));
        Ok(())
    });
}

/// `PAUSE queue option [option ...]`
pub fn pause(call: &mut Call<'_>) {
    command(call, |host, now, call| {
        let queue = allowed_queue(call, Access::Write)?;
        host.node.check_queue_name(queue)?;
        let words = words_of(call);
        let asked = parse_pause(&words[1..])?;
        if let Some(pause) = asked.pause {
            host.node.pause(now, queue, pause, &mut host.fx)?;
        }
        if asked.broadcast {
            host.node.broadcast_pause(queue, &mut host.fx);
        }
        let state = host.node.pause_state(queue).name();
        call.reply().simple(state);
        Ok(())
    });
}

/// What PAUSE is to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AskedPause {
    /// What to set, or `None` when it only asks.
    pause: Option<Pause>,
    /// Whether other nodes are to do the same.
    broadcast: bool,
}

pub fn parse_pause(words: &[&[u8]]) -> Result<AskedPause, Error> {
    let mut words = Words::new(words, PAUSE_USAGE);
    let mut asked = AskedPause::default();
    while let Some(word) = words.option()? {
        let (input, output) = match word.as_bytes() {
            b"IN" => (true, false),
            b"OUT" => (false, true),
            b"ALL" => (true, true),
            b"NONE" => (false, false),
            b"BCAST" => {
                asked.broadcast = true;
                continue;
            }
            b"STATE" => continue,
            _ => return Err(words.unknown()),
        };
        let set = asked.pause.get_or_insert_with(Pause::default);
        set.input |= input;
        set.output |= output;
    }
    Ok(asked)
}

/// The queue that the first word names, if the user may use it.
fn allowed_queue<'a>(call: &Call<'a>, access: Access) -> Result<&'a [u8], Error> {
    let queue = call.args().get(1).ok_or(Error::Internal)?;
    Subject::of(call.ctx()).require(access, queue)?;
    Ok(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<&'static str>, Error> {
        let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
        parse_pause(&words).map(|asked| asked.pause.map(Pause::name))
    }

    #[test]
    fn words_add_up() {
        for (text, state) in [
            ("in", "in"),
            ("OUT", "out"),
            ("in out", "all"),
            ("all", "all"),
            ("none", "none"),
            ("bcast in", "in"),
        ] {
            assert_eq!(parse(text), Ok(Some(state)), "{text}");
        }
    }

    #[test]
    fn asking_changes_nothing() {
        for text in ["state", "STATE bcast", "bcast"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
        assert!(parse("sideways").is_err());
    }
}

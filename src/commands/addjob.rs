//! ADDJOB.

use super::words::{Words, MAX_COUNT};
use super::words_of;
use crate::acl::Subject;
use crate::ffi::{Access, Call};
use crate::host::{command, Awaits};
use crate::warnings::Warning;
use disque_core::error::Error;
use disque_core::node::add::{AddJob, Added, Sync};
use disque_core::span::Span;

/// The syntax, as errors and the manual show it.
pub const USAGE: &str = "ADDJOB queue body ms-timeout [REPLICATE n] [SYNC n|ASYNC] [DELAY s] \
                         [RETRY s] [TTL s] [MAXLEN n]";

const DEFAULT_TTL_SECS: u64 = 86_400;
const MAX_REPLICATE: u64 = 65_535;

/// Runs the command.
pub fn run(call: &mut Call<'_>) {
    command(call, |host, now, call| {
        let words = words_of(call);
        let add = parse(&words)?;
        Subject::of(call.ctx()).require(Access::Write, add.queue)?;
        if host.warnings.contains(&Warning::NoRdbPreamble) {
            return Err(Error::Misconfigured);
        }
        host.watch_memory(now, call.ctx());
        let can_wait = host.can_block(call);
        match host.node.add_job(now, &add, can_wait, &mut host.fx)? {
            Added::Done(id) => {
                call.reply().bulk(id.text());
                Ok(())
            }
            Added::Waits { waiter, .. } => host.wait(now, waiter, Awaits::Copies, call),
        }
    });
}

/// Reads the words after the command's name.
pub fn parse<'a>(words: &[&'a [u8]]) -> Result<AddJob<'a>, Error> {
    let mut words = Words::new(words, USAGE);
    let mut add = AddJob {
        queue: words.word()?,
        body: words.word()?,
        timeout_ms: words.milliseconds("ms-timeout")?,
        replicate: None,
        sync: None,
        delay: Span::ZERO,
        retry: None,
        ttl: Span::from_secs(DEFAULT_TTL_SECS),
        max_len: None,
    };
    let mut is_async = false;
    while let Some(option) = words.option()? {
        match option.as_bytes() {
            b"REPLICATE" => {
                add.replicate = Some(words.count("REPLICATE", "copies", (1, MAX_REPLICATE))? as u16)
            }
            b"SYNC" => add.sync = Some(sync(&mut words)?),
            b"ASYNC" => is_async = true,
            b"DELAY" => add.delay = words.seconds("DELAY", 0)?,
            b"RETRY" => add.retry = Some(words.seconds("RETRY", 0)?),
            b"TTL" => add.ttl = words.seconds("TTL", 1)?,
            b"MAXLEN" => add.max_len = Some(words.count("MAXLEN", "jobs", (1, MAX_COUNT))?),
            _ => return Err(words.unknown()),
        }
    }
    if is_async {
        if add.sync.is_some() {
            return Err(Error::SyncWithAsync);
        }
        add.sync = Some(Sync::Copies(0));
    }
    Ok(add)
}

fn sync(words: &mut Words<'_, '_>) -> Result<Sync, Error> {
    let (all_but, copies) = words.signed("SYNC", "copies", "-65535", MAX_REPLICATE)?;
    let copies = copies as u16;
    Ok(if all_but {
        Sync::AllBut(copies)
    } else {
        Sync::Copies(copies)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<(u64, Option<u16>, Option<Sync>), String> {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        match parse(&words) {
            Ok(add) => Ok((add.ttl.ms(), add.replicate, add.sync)),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn defaults() {
        assert_eq!(parse_text("q x 0"), Ok((86_400_000, None, None)));
    }

    #[test]
    fn options_in_any_order_and_case() {
        let expected = Ok((5_500, Some(2), Some(Sync::AllBut(1))));
        assert_eq!(parse_text("q x 0 ttl 5.5 Replicate 2 SYNC -1"), expected);
        assert_eq!(parse_text("q x 0 SYNC -1 REPLICATE 2 TTL 5.5"), expected);
    }

    #[test]
    fn errors_name_the_option() {
        for (text, error) in [
            (
                "q x y",
                "ERR ms-timeout must be from 0 to 9007199254740992 milliseconds",
            ),
            (
                "q x 0 REPLICATE 0",
                "ERR REPLICATE must be from 1 to 65535 copies",
            ),
            (
                "q x 0 REPLICATE 65536",
                "ERR REPLICATE must be from 1 to 65535 copies",
            ),
            (
                "q x 0 TTL 0",
                "ERR TTL must be from 0.001 to 2147483647 seconds",
            ),
            (
                "q x 0 DELAY -1",
                "ERR DELAY must be from 0 to 2147483647 seconds",
            ),
            (
                "q x 0 SYNC -65536",
                "ERR SYNC must be from -65535 to 65535 copies",
            ),
            (
                "q x 0 MAXLEN 0",
                "ERR MAXLEN must be from 1 to 9007199254740992 jobs",
            ),
            (
                "q x 0 SYNC 1 ASYNC",
                "ERR SYNC and ASYNC cannot be used together",
            ),
        ] {
            assert_eq!(parse_text(text), Err(error.to_string()), "{text}");
        }
        for text in ["q x 0 NOSUCH", "q x 0 TTL", "q x 0 TTL 5 5"] {
            assert!(
                parse_text(text)
                    .unwrap_err()
                    .starts_with("ERR syntax error"),
                "{text}"
            );
        }
    }
}

//! ADDJOB and ADDJOBS.

use super::words::{Words, MAX_COUNT};
use super::words_of;
use crate::acl::Subject;
use crate::ffi::{Access, Call, Reply};
use crate::host::{command, Awaits};
use crate::warnings::Warning;
use disque_core::error::Error;
use disque_core::job_id::JobId;
use disque_core::node::add::{AddJob, Added, Sync};
use disque_core::span::Span;

/// The syntax of ADDJOB, as errors and the manual show it.
pub const USAGE: &str = "ADDJOB queue body ms-timeout [REPLICATE n] [SYNC n|ASYNC] [DELAY s] \
                         [RETRY s] [TTL s] [MAXLEN n]";
/// The syntax of ADDJOBS.
pub const BATCH_USAGE: &str = "ADDJOBS queue ms-timeout [REPLICATE n] [SYNC n|ASYNC] [DELAY s] \
                               [RETRY s] [TTL s] [MAXLEN n] BODIES body [body ...]";

const DEFAULT_TTL_SECS: u64 = 86_400;
const MAX_REPLICATE: u64 = 65_535;

/// The argument of ADDJOB that is the body.
const BODY: usize = 2;
/// The word after which all are bodies.
const BODIES: &[u8] = b"BODIES";

/// ADDJOB.
pub fn addjob(call: &mut Call<'_>) {
    run(call, parse, Awaits::Copies);
}

/// ADDJOBS.
pub fn addjobs(call: &mut Call<'_>) {
    run(call, parse_batch, Awaits::Batch);
}

type Parse = for<'a> fn(&'a [&'a [u8]]) -> Result<AddJob<'a>, Error>;

fn run(call: &mut Call<'_>, parse: Parse, awaits: Awaits) {
    command(call, |host, now, call| {
        let words = words_of(call);
        let add = parse(&words)?;
        Subject::of(call.ctx()).require(Access::Write, add.queue)?;
        if host.warnings.contains(&Warning::NoRdbPreamble) {
            return Err(Error::Misconfigured);
        }
        host.watch_memory(now, call.ctx());
        let args = call.args();
        host.bodies.note(match awaits {
            Awaits::Batch => args.from(args.len() - add.bodies.len()),
            _ => args.from(BODY),
        });
        let can_wait = host.can_block(call);
        match host.node.add_job(now, &add, can_wait, &mut host.fx)? {
            Added::Done(ids) => {
                write_ids(call.reply(), &ids, awaits);
                Ok(())
            }
            Added::Waits { waiter, .. } => host.wait(now, waiter, awaits, call),
        }
    });
}

/// The ids of jobs that were added: one by itself, those of a batch as an array.
pub fn write_ids(reply: &mut Reply<'_>, ids: &[JobId], awaits: Awaits) {
    if awaits == Awaits::Batch {
        reply.array(ids.len());
    }
    for id in ids {
        reply.bulk(id.text());
    }
}

/// Reads the words after ADDJOB.
pub fn parse<'a>(words: &'a [&'a [u8]]) -> Result<AddJob<'a>, Error> {
    let mut words = Words::new(words, USAGE);
    let (queue, bodies) = (words.word()?, words.one()?);
    let mut add = without_options(queue, bodies, words.milliseconds("ms-timeout")?);
    match read_options(&mut words, &mut add)? {
        End::OfWords => Ok(add),
        End::Bodies => Err(words.unknown()),
    }
}

/// Reads the words after ADDJOBS.
pub fn parse_batch<'a>(words: &'a [&'a [u8]]) -> Result<AddJob<'a>, Error> {
    let mut words = Words::new(words, BATCH_USAGE);
    let queue = words.word()?;
    let mut add = without_options(queue, &[], words.milliseconds("ms-timeout")?);
    let end = read_options(&mut words, &mut add)?;
    add.bodies = words.rest();
    match end {
        End::Bodies if !add.bodies.is_empty() => Ok(add),
        _ => Err(words.unknown()),
    }
}

fn without_options<'a>(queue: &'a [u8], bodies: &'a [&'a [u8]], timeout_ms: u64) -> AddJob<'a> {
    AddJob {
        queue,
        bodies,
        timeout_ms,
        replicate: None,
        sync: None,
        delay: Span::ZERO,
        retry: None,
        ttl: Span::from_secs(DEFAULT_TTL_SECS),
        max_len: None,
    }
}

/// Where options end.
enum End {
    OfWords,
    Bodies,
}

/// Reads the options, which both commands have.
fn read_options<'a>(words: &mut Words<'a, 'a>, add: &mut AddJob<'a>) -> Result<End, Error> {
    let (mut is_async, mut end) = (false, End::OfWords);
    while let Some(option) = words.option()? {
        match option.as_bytes() {
            b"REPLICATE" => {
                add.replicate = Some(words.count("REPLICATE", "copies", (1, MAX_REPLICATE))? as u16)
            }
            b"SYNC" => add.sync = Some(sync(words)?),
            b"ASYNC" => is_async = true,
            b"DELAY" => add.delay = words.seconds("DELAY", 0)?,
            b"RETRY" => add.retry = Some(words.seconds("RETRY", 0)?),
            b"TTL" => add.ttl = words.seconds("TTL", 1)?,
            b"MAXLEN" => add.max_len = Some(words.count("MAXLEN", "jobs", (1, MAX_COUNT))?),
            BODIES => {
                end = End::Bodies;
                break;
            }
            _ => return Err(words.unknown()),
        }
    }
    if is_async {
        if add.sync.is_some() {
            return Err(Error::SyncWithAsync);
        }
        add.sync = Some(Sync::Copies(0));
    }
    Ok(end)
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

    fn parse_words(text: &str) -> Result<Vec<String>, String> {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let text = |word: &&[u8]| String::from_utf8_lossy(word).into_owned();
        match parse_batch(&words) {
            Ok(add) => Ok(add.bodies.iter().map(text).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn all_words_after_bodies_are_bodies() {
        for (text, bodies) in [
            ("q 0 BODIES a", vec!["a"]),
            (
                "q 0 TTL 5 bodies TTL 5 BODIES ",
                vec!["TTL", "5", "BODIES", ""],
            ),
            ("BODIES 5 ASYNC Bodies b a b", vec!["b", "a", "b"]),
        ] {
            let bodies = bodies.into_iter().map(String::from).collect();
            assert_eq!(parse_words(text), Ok(bodies), "{text}");
        }
    }

    #[test]
    fn a_batch_has_the_options_and_errors_of_a_job() {
        let words: Vec<&[u8]> =
            "q 70 REPLICATE 2 SYNC -1 DELAY 1 RETRY 2 TTL 5.5 MAXLEN 9 BODIES a"
                .split(' ')
                .map(str::as_bytes)
                .collect();
        let add = parse_batch(&words).expect("good words");
        let expected = AddJob {
            replicate: Some(2),
            sync: Some(Sync::AllBut(1)),
            delay: Span::from_secs(1),
            retry: Some(Span::from_secs(2)),
            ttl: Span::from_ms(5_500),
            max_len: Some(9),
            ..without_options(b"q", &[b"a"], 70)
        };
        assert_eq!(add, expected);
        let both = "ERR SYNC and ASYNC cannot be used together".to_string();
        assert_eq!(parse_words("q 0 SYNC 1 ASYNC BODIES a"), Err(both));
        for text in ["q 0", "q 0 BODIES", "q 0 a", "q 0 TTL 5"] {
            let error = parse_words(text).unwrap_err();
            assert!(
                error.starts_with("ERR syntax error, usage: ADDJOBS "),
                "{text}: {error}"
            );
        }
        // A job has no list of bodies.
        let error = parse_text("q x 0 BODIES a").unwrap_err();
        assert!(error.starts_with("ERR syntax error, usage: ADDJOB "));
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

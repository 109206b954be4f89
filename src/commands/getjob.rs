//! GETJOB.

use super::reply::write_jobs;
use super::words::{Words, MAX_COUNT};
use super::words_of;
use crate::acl::Subject;
use crate::ffi::{Access, Call};
use crate::host::command;
use disque_core::error::Error;
use disque_core::node::get::GetJob;
use smallvec::SmallVec;
use std::collections::HashSet;

/// The syntax, as errors and the manual show it.
pub const USAGE: &str =
    "GETJOB [NOHANG] [TIMEOUT ms] [COUNT n] [WITHCOUNTERS] FROM queue [queue ...]";

/// Runs the command: what is there is answered at once, else the client waits.
pub fn run(call: &mut Call<'_>) {
    command(call, |host, now, call| {
        let words = words_of(call);
        let get = parse(&words)?;
        host.node.check_get(&get)?;
        let subject = Subject::of(call.ctx());
        for queue in &get.queues {
            subject.require(Access::ReadWrite, queue)?;
        }
        match host.node.get_jobs(now, &get, &mut host.fx) {
            Some(jobs) => {
                let keys = host.fx.jobs(jobs);
                write_jobs(call.reply(), &host.node, keys, jobs.with_counters);
                Ok(())
            }
            None => host.block(now, &get, call),
        }
    });
}

/// Reads the words after the command's name. All words after FROM are names of
/// queues, whatever they look like.
pub fn parse<'a>(words: &[&'a [u8]]) -> Result<GetJob<'a>, Error> {
    let mut words = Words::new(words, USAGE);
    let mut get = GetJob {
        queues: SmallVec::new(),
        count: 1,
        nohang: false,
        timeout_ms: None,
        with_counters: false,
    };
    while let Some(option) = words.option()? {
        match option.as_bytes() {
            b"NOHANG" => get.nohang = true,
            b"WITHCOUNTERS" => get.with_counters = true,
            b"COUNT" => get.count = words.count("COUNT", "jobs", (1, MAX_COUNT))?,
            b"TIMEOUT" => get.timeout_ms = Some(words.milliseconds("TIMEOUT")?).filter(|&t| t > 0),
            b"FROM" => {
                get.queues = distinct(words.rest());
                break;
            }
            _ => return Err(words.unknown()),
        }
    }
    if get.queues.is_empty() {
        return Err(Error::NoQueueGiven);
    }
    Ok(get)
}

/// The names in their order, each once.
fn distinct<'a>(names: &[&'a [u8]]) -> SmallVec<[&'a [u8]; 4]> {
    if let [name] = *names {
        return SmallVec::from_slice(&[name]);
    }
    let mut seen = HashSet::with_capacity(names.len());
    names
        .iter()
        .copied()
        .filter(|name| seen.insert(*name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<(Vec<String>, u64, Option<u64>), String> {
        let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        match parse(&words) {
            Ok(get) => {
                let name = |n: &&[u8]| String::from_utf8_lossy(n).into_owned();
                Ok((
                    get.queues.iter().map(name).collect(),
                    get.count,
                    get.timeout_ms,
                ))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn words_after_from_are_names() {
        let names = ["COUNT", "5", "FROM"].map(String::from).to_vec();
        assert_eq!(parse_text("FROM COUNT 5 FROM"), Ok((names, 1, None)));
    }

    #[test]
    fn a_name_given_twice_counts_once() {
        let names = ["a", "b"].map(String::from).to_vec();
        assert_eq!(parse_text("COUNT 3 FROM a b a"), Ok((names, 3, None)));
    }

    #[test]
    fn no_timeout_and_timeout_0_are_for_ever() {
        assert_eq!(parse_text("TIMEOUT 0 FROM q").unwrap().2, None);
        assert_eq!(parse_text("TIMEOUT 7 FROM q").unwrap().2, Some(7));
    }

    #[test]
    fn errors() {
        for (text, start) in [
            ("COUNT 0 FROM q", "ERR COUNT must be from 1"),
            ("COUNT -1 FROM q", "ERR COUNT must be from 1"),
            ("COUNT x FROM q", "ERR COUNT must be from 1"),
            ("TIMEOUT -1 FROM q", "ERR TIMEOUT must be from 0"),
            ("NOHANG", "ERR GETJOB needs FROM"),
            ("FROM", "ERR GETJOB needs FROM"),
            ("q", "ERR syntax error"),
            ("COUNT", "ERR syntax error"),
        ] {
            let error = parse_text(text).unwrap_err();
            assert!(error.starts_with(start), "{text}: {error}");
        }
    }
}

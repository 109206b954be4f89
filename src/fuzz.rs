//! For the fuzzer, and for the test that replays what it found: reading the
//! arguments of commands. Not part of the module.

use crate::commands::{addjob, getjob, ids, queues, scan};
use disque_core::error::Error;
use disque_core::node::add::AddJob;
use disque_core::span::Span;
use std::collections::HashSet;

/// Takes a line with the name of a command and, in lines of their own, its
/// arguments. They are understood or refused with an error of one line, and
/// what was understood is in its range.
pub fn command_arguments(input: &[u8]) {
    let mut lines = input.split(|&byte| byte == b'\n');
    let command = lines.next().unwrap_or_default();
    let words: Vec<&[u8]> = lines.collect();
    if let Err(error) = parse(command, &words) {
        let text = error.to_string();
        let code = text.split(' ').next().unwrap_or_default();
        assert!(!code.is_empty() && code.bytes().all(|c| c.is_ascii_uppercase()));
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}

fn parse(command: &[u8], words: &[&[u8]]) -> Result<(), Error> {
    match command {
        b"addjob" => {
            let add = addjob::parse(words)?;
            assert_eq!((add.queue, add.bodies), (words[0], &words[1..2]));
            check_options(&add);
        }
        b"addjobs" => {
            let add = addjob::parse_batch(words)?;
            assert_eq!(add.queue, words[0]);
            assert!(!add.bodies.is_empty() && words.ends_with(add.bodies));
            let before = words[words.len() - add.bodies.len() - 1];
            assert!(before.eq_ignore_ascii_case(b"BODIES"));
            check_options(&add);
        }
        b"getjob" => {
            let get = getjob::parse(words)?;
            let distinct: HashSet<_> = get.queues.iter().collect();
            assert!(!distinct.is_empty() && distinct.len() == get.queues.len());
            assert!(get.count > 0 && get.timeout_ms != Some(0));
        }
        b"ids" => {
            let ids = ids::parse(words)?;
            let texts: HashSet<_> = ids.iter().map(|id| id.text().to_vec()).collect();
            assert!(texts.iter().all(|text| words.contains(&&text[..])));
        }
        b"pause" => {
            queues::parse_pause(words)?;
        }
        b"qpeek" => {
            queues::parse_qpeek(words)?;
        }
        b"qscan" => {
            scan::parse_qscan(words)?;
        }
        b"jscan" => {
            scan::parse_jscan(words)?;
        }
        _ => {}
    }
    Ok(())
}

fn check_options(add: &AddJob<'_>) {
    assert!(!add.ttl.is_zero());
    for span in [add.ttl, add.delay, add.retry.unwrap_or(Span::ZERO)] {
        assert!(span.secs_rounded_up() <= Span::MAX_SECONDS);
    }
    assert!(add.replicate != Some(0) && add.max_len != Some(0));
}

#[cfg(test)]
mod tests {
    #[test]
    fn command_arguments_replay() {
        disque_testing::corpus::replay("command_arguments", super::command_arguments);
    }
}

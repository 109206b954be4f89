//! Blocks of the kind `session`: a dialogue with a server.
//!
//! - `> COMMAND` sends a command; the lines after it are its reply, as redis-cli
//!   shows it. Without such lines the reply may be anything but an error.
//! - `name> COMMAND` does so on a connection of that name.
//! - `(waits)` after a command: there is no reply yet.
//! - `name:` before lines: the reply that this connection now gets.
//! - `(2 s later)`, `(restart)` (a clean stop and a new start), `(crash)` (the
//!   server is killed and started again) happen in between.
//!
//! Words after `session` are settings of the server, `name=value`; the value
//! ends with the word.

use crate::book::Block;
use crate::matching::Names;
use crate::printed;
use disque_testing::{Client, Options, Reply, Server};
use std::collections::HashMap;
use std::time::Duration;

/// How long a reply may take that a document shows.
const REPLY_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq)]
enum Step<'a> {
    Command {
        client: &'a str,
        command: &'a str,
        shown: Vec<&'a str>,
        waits: bool,
    },
    Answer {
        client: &'a str,
        shown: Vec<&'a str>,
    },
    Later(Duration),
    Restart,
    Crash,
}

/// Runs a block on a server of its own.
#[track_caller]
pub fn run(block: &Block<'_>) {
    let mut options = Options::new();
    for word in &block.words {
        let (name, value) = setting(word, &block.place);
        options = options.set(name, value);
    }
    let mut play = Play::new(Server::start(options), &block.place);
    for step in parse(&block.lines, &block.place) {
        play.perform(&step);
    }
}

fn setting<'a>(word: &'a str, place: &str) -> (&'a str, &'a str) {
    word.split_once('=')
        .unwrap_or_else(|| panic!("{place}: {word} is no setting"))
}

fn parse<'a>(lines: &[&'a str], place: &str) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    for &line in lines {
        if let Some((client, command)) = prompt(line) {
            steps.push(Step::Command {
                client,
                command,
                shown: Vec::new(),
                waits: false,
            });
        } else if let Some(client) = line.strip_suffix(':').filter(|name| is_name(name)) {
            let shown = Vec::new();
            steps.push(Step::Answer { client, shown });
        } else if line == "(restart)" {
            steps.push(Step::Restart);
        } else if line == "(crash)" {
            steps.push(Step::Crash);
        } else if let Some(seconds) = later(line) {
            steps.push(Step::Later(seconds));
        } else {
            match steps.last_mut() {
                Some(Step::Command { waits, .. }) if line == "(waits)" => *waits = true,
                Some(Step::Command { shown, .. } | Step::Answer { shown, .. }) => shown.push(line),
                _ => panic!("{place}: this belongs to no command: {line}"),
            }
        }
    }
    steps
}

/// Splits `name> COMMAND`; the name may be empty.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (name, command) = line.split_once("> ")?;
    (name.is_empty() || is_name(name)).then_some((name, command))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase())
}

fn later(line: &str) -> Option<Duration> {
    let seconds = line.strip_prefix('(')?.strip_suffix(" s later)")?;
    seconds.parse().ok().map(Duration::from_secs_f64)
}

struct Play<'a> {
    server: Server,
    clients: HashMap<String, Client>,
    names: Names,
    waiting: i64,
    place: &'a str,
}

impl<'a> Play<'a> {
    fn new(server: Server, place: &'a str) -> Play<'a> {
        Play {
            names: Names::new(server.port()),
            server,
            clients: HashMap::new(),
            waiting: 0,
            place,
        }
    }

    #[track_caller]
    fn perform(&mut self, step: &Step<'_>) {
        match step {
            Step::Command {
                client,
                command,
                shown,
                waits,
            } => {
                let words = words(&self.names.fill_in(command), self.place);
                self.client(client).send(&words);
                if *waits {
                    self.waiting += 1;
                    self.server.wait_blocked(self.waiting);
                } else {
                    let reply = self.reply_of(client, command);
                    self.check(command, &reply, shown);
                }
            }
            Step::Answer { client, shown } => {
                self.waiting -= 1;
                let reply = self.reply_of(client, "what it waits for");
                self.check("", &reply, shown);
            }
            // Time itself is what such examples show.
            Step::Later(time) => std::thread::sleep(*time),
            Step::Restart => {
                self.clients.clear();
                self.server.restart();
            }
            Step::Crash => {
                self.clients.clear();
                self.server.kill9();
                self.server.start_again();
            }
        }
    }

    fn client(&mut self, name: &str) -> &mut Client {
        let server = &self.server;
        self.clients
            .entry(name.to_string())
            .or_insert_with(|| server.client())
    }

    #[track_caller]
    fn reply_of(&mut self, client: &str, what: &str) -> Reply {
        match self.client(client).try_read(REPLY_LIMIT) {
            Ok(Some(reply)) => reply,
            other => panic!("{}: no reply to {what}: {other:?}", self.place),
        }
    }

    #[track_caller]
    fn check(&mut self, command: &str, reply: &Reply, shown: &[&str]) {
        if shown.is_empty() {
            if let disque_testing::Value::Error(_) = reply.value() {
                panic!("{}: {reply:?}", self.place);
            }
            return;
        }
        let actual = printed::lines(command, reply.value());
        let actual: Vec<&str> = actual.iter().map(String::as_str).collect();
        assert!(
            self.names.match_lines(shown, &actual),
            "{}: {command}\nthe document shows\n{}\nthe server says\n{}",
            self.place,
            shown.join("\n"),
            actual.join("\n")
        );
    }
}

/// The words of a command line: separated by blanks, in double or single quotes
/// where they hold some.
pub fn words(command: &str, place: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = command.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = if matches!(first, '"' | '\'') {
            rest[1..]
                .split_once(first)
                .unwrap_or_else(|| panic!("{place}: a quote is missing: {command}"))
        } else {
            rest.split_once(' ').unwrap_or((rest, ""))
        };
        words.push(word.to_string());
        rest = after.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialogue_is_read() {
        let lines = [
            "> QLEN q",
            "(integer) 0",
            "worker> GETJOB FROM q",
            "(waits)",
            "(0.5 s later)",
            "worker:",
            "(nil)",
            "(crash)",
        ];
        let steps = parse(&lines, "here");
        let command = |client, command, shown: &[&'static str], waits| Step::Command {
            client,
            command,
            shown: shown.to_vec(),
            waits,
        };
        let expected = [
            command("", "QLEN q", &["(integer) 0"], false),
            command("worker", "GETJOB FROM q", &[], true),
            Step::Later(Duration::from_millis(500)),
            Step::Answer {
                client: "worker",
                shown: vec!["(nil)"],
            },
            Step::Crash,
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn words_may_be_quoted() {
        let expected = ["ADDJOB", "mail", "hello, world", "0", "a\"b", ""];
        assert_eq!(
            words(r#"ADDJOB mail "hello, world"  0 'a"b' """#, "here"),
            expected
        );
    }
}

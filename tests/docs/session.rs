//! Blocks of the kind `session`: a dialogue with a server, or with several.
//!
//! - `> COMMAND` sends a command; the lines after it are its reply, as redis-cli
//!   shows it. Without such lines the reply may be anything but an error.
//! - `name> COMMAND` does so on a connection of that name.
//! - `(waits)` after a command: there is no reply yet.
//! - `name:` before lines: the reply that this connection now gets.
//! - `(soon)` after a command: the lines after it are what it answers within a
//!   short time; until then it is sent again and again.
//! - `(2 s later)`, `(restart)` (a clean stop and a new start), `(crash)` (the
//!   server is killed and started again), `(stop)` (the server is stopped and
//!   stays so) happen in between.
//!
//! With `nodes=2` after `session` there are two servers that do not know each
//! other. A digit at the end of a connection's name says to which it leads:
//! `2> COMMAND`, `worker2> COMMAND`; without a digit, to the first. `(crash 2)` is
//! about the second.
//!
//! Other words after `session` are settings of all servers, `name=value`; the
//! value ends with the word.

use crate::book::Block;
use crate::matching::Names;
use crate::printed;
use disque_testing::{Client, Options, Reply, Server};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a reply may take that a document shows.
const REPLY_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, PartialEq)]
enum Step<'a> {
    Command {
        client: &'a str,
        command: &'a str,
        shown: Vec<&'a str>,
        when: When,
    },
    Answer {
        client: &'a str,
        shown: Vec<&'a str>,
    },
    Later(Duration),
    Restart(usize),
    Crash(usize),
    Stop(usize),
}

/// When the reply to a command comes.
#[derive(Debug, PartialEq)]
enum When {
    Now,
    /// Within a short time, if it is sent again.
    Soon,
    /// Not yet.
    Waits,
}

/// Runs a block on servers of its own.
#[track_caller]
pub fn run(block: &Block<'_>) {
    let mut options = Options::new();
    let mut nodes = 1;
    for word in &block.words {
        match setting(word, &block.place) {
            ("nodes", count) => nodes = count.parse().expect(&block.place),
            (name, value) => options = options.set(name, value),
        }
    }
    let servers = (0..nodes).map(|_| Server::start(options.clone())).collect();
    let mut play = Play::new(servers, &block.place);
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
                when: When::Now,
            });
        } else if let Some(client) = line.strip_suffix(':').filter(|name| is_name(name)) {
            let shown = Vec::new();
            steps.push(Step::Answer { client, shown });
        } else if let Some(node) = about(line, "restart") {
            steps.push(Step::Restart(node));
        } else if let Some(node) = about(line, "crash") {
            steps.push(Step::Crash(node));
        } else if let Some(node) = about(line, "stop") {
            steps.push(Step::Stop(node));
        } else if let Some(seconds) = later(line) {
            steps.push(Step::Later(seconds));
        } else {
            match steps.last_mut() {
                Some(Step::Command { when, .. }) if line == "(waits)" => *when = When::Waits,
                Some(Step::Command { when, .. }) if line == "(soon)" => *when = When::Soon,
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

/// Letters, then perhaps the number of a node.
fn is_name(text: &str) -> bool {
    let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
    !text.is_empty()
        && text.len() - letters.len() <= 1
        && letters.bytes().all(|b| b.is_ascii_lowercase())
}

/// Which server a connection of this name leads to, from 0.
fn node_of(name: &str) -> usize {
    let digit = name.chars().last().and_then(|c| c.to_digit(10));
    digit.map_or(0, |number| number as usize - 1)
}

/// Which server an event `(what)` or `(what 2)` is about.
fn about(line: &str, what: &str) -> Option<usize> {
    let inner = line.strip_prefix('(')?.strip_suffix(')')?;
    let number = inner.strip_prefix(what)?;
    match number.strip_prefix(' ') {
        None => number.is_empty().then_some(0),
        Some(number) => number.parse::<usize>().ok()?.checked_sub(1),
    }
}

fn later(line: &str) -> Option<Duration> {
    let seconds = line.strip_prefix('(')?.strip_suffix(" s later)")?;
    seconds.parse().ok().map(Duration::from_secs_f64)
}

struct Play<'a> {
    servers: Vec<Server>,
    clients: HashMap<String, Client>,
    names: Names,
    /// Clients that wait, for each server.
    waiting: Vec<i64>,
    place: &'a str,
}

impl<'a> Play<'a> {
    fn new(servers: Vec<Server>, place: &'a str) -> Play<'a> {
        Play {
            names: Names::new(servers.iter().map(Server::port)),
            waiting: vec![0; servers.len()],
            servers,
            clients: HashMap::new(),
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
                when,
            } => {
                let words = words(&self.names.fill_in(command), self.place);
                if *when == When::Soon {
                    self.expect_soon(client, command, &words, shown);
                    return;
                }
                self.client(client).send(&words);
                if *when == When::Waits {
                    let node = node_of(client);
                    self.waiting[node] += 1;
                    self.servers[node].wait_blocked(self.waiting[node]);
                } else {
                    let reply = self.reply_of(client, command);
                    self.check(command, &reply, shown);
                }
            }
            Step::Answer { client, shown } => {
                self.waiting[node_of(client)] -= 1;
                let reply = self.reply_of(client, "what it waits for");
                self.check("", &reply, shown);
            }
            // Time itself is what such examples show.
            Step::Later(time) => std::thread::sleep(*time),
            Step::Restart(node) => {
                self.hang_up(*node);
                self.servers[*node].restart();
            }
            Step::Crash(node) => {
                self.hang_up(*node);
                self.servers[*node].kill9();
                self.servers[*node].start_again();
            }
            Step::Stop(node) => {
                self.hang_up(*node);
                self.servers[*node].stop_clean();
            }
        }
    }

    fn hang_up(&mut self, node: usize) {
        self.clients.retain(|name, _| node_of(name) != node);
        self.waiting[node] = 0;
    }

    #[track_caller]
    fn expect_soon(&mut self, client: &str, command: &str, words: &[String], shown: &[&str]) {
        let start = Instant::now();
        loop {
            self.client(client).send(words);
            let reply = self.reply_of(client, command);
            if self.is_shown(command, &reply, shown) {
                return;
            }
            if start.elapsed() > REPLY_LIMIT {
                self.check(command, &reply, shown);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn client(&mut self, name: &str) -> &mut Client {
        let server = &self.servers[node_of(name)];
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

    /// Whether a reply is the one that the document shows. What a name in it
    /// stands for is kept only if all of it is.
    fn is_shown(&mut self, command: &str, reply: &Reply, shown: &[&str]) -> bool {
        let actual = printed::lines(command, reply.value());
        let actual: Vec<&str> = actual.iter().map(String::as_str).collect();
        let mut names = self.names.clone();
        let matches = names.match_lines(shown, &actual);
        if matches {
            self.names = names;
        }
        matches
    }

    #[track_caller]
    fn check(&mut self, command: &str, reply: &Reply, shown: &[&str]) {
        if shown.is_empty() {
            if let disque_testing::Value::Error(_) = reply.value() {
                panic!("{}: {reply:?}", self.place);
            }
            return;
        }
        assert!(
            self.is_shown(command, reply, shown),
            "{}: {command}\nthe document shows\n{}\nthe server says\n{}",
            self.place,
            shown.join("\n"),
            printed::lines(command, reply.value()).join("\n")
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
            "worker2> QLEN q",
            "(soon)",
            "(integer) 1",
            "(stop 2)",
        ];
        let steps = parse(&lines, "here");
        let command = |client, command, shown: &[&'static str], when| Step::Command {
            client,
            command,
            shown: shown.to_vec(),
            when,
        };
        let expected = [
            command("", "QLEN q", &["(integer) 0"], When::Now),
            command("worker", "GETJOB FROM q", &[], When::Waits),
            Step::Later(Duration::from_millis(500)),
            Step::Answer {
                client: "worker",
                shown: vec!["(nil)"],
            },
            Step::Crash(0),
            command("worker2", "QLEN q", &["(integer) 1"], When::Soon),
            Step::Stop(1),
        ];
        assert_eq!(steps, expected);
        assert_eq!(node_of("worker2"), 1);
        assert_eq!(node_of("worker"), 0);
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

//! The history: one event after the other, one JSON object a line.
//!
//! Clients write an `invoke` when they send a command and one of `ok`, `fail`
//! and `info` when it ends, both with the same `p`, a number that no two calls
//! under way share. `info` is an end that leaves open whether the command took
//! effect: the time is up, the connection is gone, NOREPL after waiting. `fail`
//! says that it did not. A GETJOB is `ok` once for each job that it brings, and
//! `fail` when it ends without any.
//!
//! A fault is an `invoke` when it begins and an `ok` when its direct effect is
//! over; a `heal` ends all faults that have not ended.

use serde::{Deserialize, Serialize};
use std::io::{self, BufRead};

/// One line of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, in ms, by one clock for the whole history.
    pub t: u64,
    /// The call, or the fault.
    pub p: u64,
    /// Where the call stands.
    #[serde(rename = "type")]
    pub phase: Phase,
    /// What is done.
    pub f: Op,
    /// The queue: of an add, a get, a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// The body: of an add, a delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v: Option<String>,
    /// The job's id: of an add that is ok, of a delivery, of commands on a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The node that was asked; of a fault the node that suffers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The number of a delivery, where the reply tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// An error as it was answered, or what became of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub err: Option<String>,
    /// The number that was answered, of commands that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// The DELAY of a NACK, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<u64>,
    /// What an add asks for; at its invoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub want: Option<Want>,
    /// What goes wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// What a node holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It begins.
    Invoke,
    /// It took effect.
    Ok,
    /// It had no effect.
    Fail,
    /// It is over, and may have had an effect.
    #[default]
    Info,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// ADDJOB.
    Add,
    /// GETJOB.
    Get,
    /// ACKJOB.
    Ack,
    /// FASTACK.
    FastAck,
    /// NACK.
    Nack,
    /// ENQUEUE.
    Enqueue,
    /// WORKING.
    Working,
    /// DELJOB.
    DelJob,
    /// Something goes wrong; see `fault`.
    Fault,
    /// Nothing is wrong any more.
    Heal,
    /// Everything was consumed: nothing is queued, delayed or unsettled.
    Drained,
    /// What a node holds; the first is the base line, the last is judged.
    Left,
    /// A remark, of no meaning to the checker.
    #[default]
    Note,
}

/// What a producer asks for: the promise that an `ok` makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// REPLICATE.
    pub replicate: u32,
    /// SYNC: the copies that there are when the add is ok.
    pub sync: u32,
    /// RETRY in ms, defaults filled in; 0 is at most once.
    pub retry: u64,
    /// TTL in ms.
    pub ttl: u64,
    /// DELAY in ms.
    #[serde(default)]
    pub delay: u64,
}

/// Something that goes wrong with a node, or between two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What it is.
    pub kind: FaultKind,
    /// Of a link: the node that is not reached from `node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What the node has lost.
    #[serde(default)]
    pub lost: Lost,
    /// How far a clock jumped, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<i64>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The process ends, whatever ends it; over when it serves again.
    Kill,
    /// A replica takes the node's place while that lives, and may serve on: over when
    /// it serves no more. What the replica has lost is what it did not receive, up to
    /// that time.
    Supersede,
    /// The process stands still.
    Pause,
    /// Nothing passes from the node to another one.
    Cut,
    /// A link is slow, drops, closes or delivers twice.
    Rough,
    /// The node answers others with errors.
    Refuse,
    /// The wall clock is set.
    Clock,
    /// The node leaves, is forgotten, reset or flushed: its jobs are gone.
    Remove,
    /// The node gives its jobs away, and too few stay for as many copies as were asked
    /// for.
    Leave,
    /// A queue is paused at the node.
    PauseQueue,
    /// The node refuses for want of memory or disk.
    Full,
}

/// What a node has lost of its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lost {
    /// Nothing.
    #[default]
    Nothing,
    /// What was written since this time.
    Since(u64),
    /// All of it.
    All,
}

/// What a node holds at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Left {
    /// Jobs, whatever their state.
    pub jobs: u64,
    /// Acknowledged jobs and acknowledgements of jobs that it does not hold.
    pub acks: u64,
    /// Clients that wait in the node.
    pub waiters: u64,
    /// Clients that Redis counts as blocked.
    pub blocked: u64,
    /// Memory in bytes.
    pub memory: u64,
}

/// How a refused ADDJOB ended: NOREPL after `waited` leaves copies behind, which
/// may be delivered; so does a node that ceases to serve while its producer waits, and
/// nobody can tell that from one that served no more before. Any other refusal has no
/// effect.
pub fn phase_of_refusal(error: &str, waited: bool) -> Phase {
    match error.split(' ').next() {
        Some("NOREPL") if waited => Phase::Info,
        Some("FORGOTTEN" | "SUPERSEDED") => Phase::Info,
        _ => Phase::Fail,
    }
}

impl Event {
    /// An event about nothing in particular yet.
    pub fn new(t: u64, p: u64, phase: Phase, f: Op) -> Event {
        Event {
            t,
            p,
            phase,
            f,
            ..Event::default()
        }
    }

    /// The same at a node.
    pub fn at(mut self, node: impl Into<String>) -> Event {
        self.node = Some(node.into());
        self
    }

    /// The same about a queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Event {
        self.q = Some(queue.into());
        self
    }

    /// The same about a job.
    pub fn job(mut self, id: impl Into<String>) -> Event {
        self.id = Some(id.into());
        self
    }

    /// The same with a body.
    pub fn body(mut self, body: impl Into<String>) -> Event {
        self.v = Some(body.into());
        self
    }

    /// The same with an error.
    pub fn error(mut self, error: impl Into<String>) -> Event {
        self.err = Some(error.into());
        self
    }

    /// As a line of a file, without its end.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("there are only strings and numbers in it")
    }
}

/// Reads a history, one event a line; empty lines are skipped.
pub fn read(lines: impl BufRead) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    for (number, line) in lines.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let event = serde_json::from_str(&line).map_err(|error| {
            let text = format!("line {}: {error}", number + 1);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        events.push(event);
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_as_what_was_written() {
        let mut add = Event::new(5, 7, Phase::Invoke, Op::Add)
            .at("n1")
            .queue("q")
            .body("1:2:3");
        add.want = Some(Want {
            replicate: 3,
            sync: 1,
            retry: 1_000,
            ttl: 60_000,
            delay: 0,
        });
        let mut kill = Event::new(9, 8, Phase::Invoke, Op::Fault).at("n1");
        kill.fault = Some(Fault {
            kind: FaultKind::Kill,
            to: None,
            lost: Lost::Since(4),
            jump: None,
        });
        let mut left = Event::new(10, 9, Phase::Info, Op::Left).at("n1");
        left.left = Some(Left::default());
        let events = vec![add, kill, left];
        let text: String = events
            .iter()
            .map(|event| event.to_line() + "\n\n")
            .collect();
        assert_eq!(read(text.as_bytes()).unwrap(), events);
    }

    #[test]
    fn a_line_has_the_names_that_are_documented() {
        let event = Event::new(5, 7, Phase::Ok, Op::FastAck).job("D-1").at("a");
        let line = r#"{"t":5,"p":7,"type":"ok","f":"fastack","id":"D-1","node":"a"}"#;
        assert_eq!(event.to_line(), line);
    }

    #[test]
    fn what_is_no_event_is_named_by_its_line() {
        let error = read("\n{\"t\":1}\n".as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("line 2: "), "{error}");
    }

    #[test]
    fn only_the_end_of_a_wait_for_copies_leaves_it_open() {
        assert_eq!(phase_of_refusal("NOREPL Not enough", true), Phase::Info);
        assert_eq!(phase_of_refusal("NOREPL Not enough", false), Phase::Fail);
        assert_eq!(phase_of_refusal("OOM", true), Phase::Fail);
        assert_eq!(phase_of_refusal("FORGOTTEN It is", false), Phase::Info);
    }
}

//! What is known of the calls of GETJOB: who waits, and who was told what.

use super::history::{Call, Queue};
use super::{demand, Kind, Violation};
use std::collections::BTreeMap;

/// A call that was not answered yet.
#[derive(Clone, Debug)]
pub struct Open {
    pub queues: Vec<Queue>,
    pub count: u64,
    pub nohang: bool,
    pub deadline: Option<u64>,
    pub unblocked: bool,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    Gone,
    Crashed,
}

/// All calls. Numbers grow with time: a lower one came before.
#[derive(Default)]
pub struct Calls {
    open: BTreeMap<Call, Open>,
    ended: BTreeMap<Call, Fate>,
}

impl Calls {
    pub fn ask(&mut self, call: Call, open: Open) -> Result<(), Violation> {
        let last = self.open.keys().next_back();
        demand!(
            last.is_none_or(|&l| l < call),
            WrongAnswer,
            "call {call} is not new"
        );
        self.open.insert(call, open);
        Ok(())
    }

    pub fn open(&self) -> impl Iterator<Item = (Call, &Open)> {
        self.open.iter().map(|(&call, open)| (call, open))
    }

    /// Ends a call that is answered now.
    pub fn answer(&mut self, call: Call) -> Result<Open, Violation> {
        let open = self.open.remove(&call);
        let fate = self.ended.insert(call, Fate::Answered);
        match (open, fate) {
            (Some(open), None) => Ok(open),
            (_, Some(Fate::Gone | Fate::Crashed)) => Err(Kind::TakenByGone.because(format!(
                "call {call} was answered after its client had gone"
            ))),
            _ => {
                Err(Kind::WrongAnswer
                    .because(format!("call {call} was answered twice or never asked")))
            }
        }
    }

    pub fn unblock(&mut self, call: Call) {
        if let Some(open) = self.open.get_mut(&call) {
            open.unblocked = true;
        }
    }

    pub fn gone(&mut self, call: Call) {
        if self.open.remove(&call).is_some() {
            self.ended.insert(call, Fate::Gone);
        }
    }

    /// All connections are cut.
    pub fn crash(&mut self) {
        for (call, _) in std::mem::take(&mut self.open) {
            self.ended.insert(call, Fate::Crashed);
        }
    }

    /// The client that waits on a queue and came before this call, if any.
    pub fn ahead(&self, call: Call, queue: Queue) -> Option<Call> {
        let mut before = self.open.range(..call);
        let found = before.find(|(_, open)| open.queues.contains(&queue));
        found.map(|(&earlier, _)| earlier)
    }
}

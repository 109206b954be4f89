//! Nodes that go for good, and new ones in their place.

use super::Injector;
use crate::modes::MOST_COPIES;
use crate::nodes::SETTLED;
use disque_checker::{FaultKind, Lost};
use disque_testing::{node_lines, wait_for, Value};
use std::collections::BTreeMap;
use std::thread;

impl Injector<'_> {
    /// A node is gone for good, is forgotten, and another one stands in its place.
    pub(super) fn replace(&mut self, node: usize, other: usize) -> Result<(), String> {
        let fault = self.begin(node, FaultKind::Remove);
        self.kill_and_lose(node, Lost::All);
        self.follow(node, other, fault)
    }

    /// A node that is down is forgotten, and a new one takes its place.
    fn follow(&mut self, node: usize, other: usize, fault: u64) -> Result<(), String> {
        let lines = node_lines(&mut self.nodes.servers[other].client());
        let contact = self.nodes.contact(node).to_string();
        let old = lines.into_iter().find(|line| line.address == contact);
        let old = old.ok_or(format!("nobody is known at {contact}"))?.id;
        self.forget(&old, other)?;
        self.nodes.servers[node].wipe();
        self.nodes.servers[node].start_again();
        self.join(node, other);
        self.history.end_fault(fault);
        match self.nodes.id(node) == old {
            true => Err(format!("{old} is still there")),
            false => Ok(()),
        }
    }

    fn forget(&mut self, id: &str, at: usize) -> Result<(), String> {
        let mut client = self.nodes.servers[at].client();
        client.run(&format!("DISQUE FORGET {id}")).expect_ok();
        match node_lines(&mut client).iter().any(|line| line.id == id) {
            true => Err(format!("{id} is known though it was forgotten")),
            false => Ok(()),
        }
    }

    fn join(&mut self, node: usize, other: usize) {
        self.nodes.introduce(node);
        self.nodes.meet(other, node);
    }

    /// A node is forgotten that lives: it serves nobody until it is a new one.
    pub(super) fn forget_alive(&mut self, node: usize, other: usize) -> Result<(), String> {
        let old = self.nodes.id(node);
        let fault = self.begin(node, FaultKind::Remove);
        self.forget(&old, other)?;
        let mut client = self.nodes.servers[node].client();
        wait_for(SETTLED, "a node hears that it is forgotten", || {
            let asked = client.run("GETJOB NOHANG FROM nothing");
            asked.raw().starts_with(b"-FORGOTTEN").then_some(())
        });
        self.history.lost(node, FaultKind::Remove, Lost::All);
        thread::sleep(self.some_time());
        client.run("DISQUE RESET").expect_ok();
        self.join(node, other);
        self.history.end_fault(fault);
        match self.nodes.id(node) == old {
            true => Err(format!("{old} is itself after RESET")),
            false => Ok(()),
        }
    }

    /// A node gives all to the others, goes, and another one stands in its place.
    pub(super) fn leave(&mut self, node: usize, other: usize) -> Result<(), String> {
        self.nodes.wait_connected()?;
        let fault = self.begin_leaving(node);
        wait_for(SETTLED, "a node has given all away", || {
            let progress = self.progress(node);
            let left = ["jobs-left", "acks-left", "no-target"];
            left.iter().all(|name| progress[*name] == "0").then_some(())
        });
        // What it is told from here on goes with it.
        let lost = Lost::Since(self.history.now());
        let gone = self.begin(node, FaultKind::Kill);
        self.kill_and_lose(node, lost);
        self.end_leaving(fault);
        self.follow(node, other, gone)
    }

    /// A node is to leave, and then is not.
    pub(super) fn leave_and_stay(&mut self, node: usize) -> Result<(), String> {
        let fault = self.begin_leaving(node);
        let leaves = self.progress(node)["leaving"].clone();
        thread::sleep(self.some_time());
        let mut client = self.nodes.servers[node].client();
        client.run("DISQUE LEAVING no").expect_ok();
        self.end_leaving(fault);
        match (&*leaves, &*self.progress(node)["leaving"]) {
            ("yes", "no") => Ok(()),
            other => Err(format!(
                "whether node {node} leaves, before and after: {other:?}"
            )),
        }
    }

    /// A fault only if too few stay for as many copies as are asked for.
    fn begin_leaving(&mut self, node: usize) -> Option<u64> {
        let too_few = self.nodes.len() - 1 < MOST_COPIES;
        let begin = || self.history.begin_fault(node, FaultKind::Leave, Lost::All);
        let fault = too_few.then(begin);
        let mut client = self.nodes.servers[node].client();
        client.run("DISQUE LEAVING yes").expect_ok();
        fault
    }

    fn end_leaving(&self, fault: Option<u64>) {
        if let Some(fault) = fault {
            self.history.end_fault(fault);
        }
    }

    /// What DISQUE LEAVING says.
    fn progress(&self, node: usize) -> BTreeMap<String, String> {
        let reply = self.nodes.servers[node].client().run("DISQUE LEAVING");
        let text = |value: &Value| match value {
            Value::Int(number) => number.to_string(),
            other => other.text().to_string(),
        };
        let fields = reply.expect_array().chunks(2);
        fields
            .map(|pair| (text(&pair[0]), text(&pair[1])))
            .collect()
    }
}

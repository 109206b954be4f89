//! Whence the frames of other nodes come, and whose are refused.

use crate::ffi::{Ctx, Level};
use std::collections::BTreeMap;
use std::rc::Rc;

/// More are forgotten, and found out anew.
const MAX_KNOWN: usize = 256;

/// The clients that have sent frames, and the hosts whose frames were refused.
#[derive(Default)]
pub struct Senders {
    /// Hosts by the ids of clients, which are never used twice.
    hosts: BTreeMap<u64, Rc<str>>,
    /// Hosts, with the error that was logged.
    refused: BTreeMap<Rc<str>, String>,
}

impl Senders {
    /// From where the client of a frame has connected; from here where it has no
    /// address. Asked for once for each client, since the server looks it up in several
    /// steps, one of them a system call.
    pub fn host(&mut self, ctx: &Ctx) -> Rc<str> {
        if self.hosts.len() >= MAX_KNOWN {
            self.hosts.clear();
        }
        let ask = || ctx.client_host().unwrap_or("127.0.0.1".into()).into();
        let host = self.hosts.entry(ctx.client_id()).or_insert_with(ask);
        host.clone()
    }

    /// Frames from a host are refused: says so, and why, once.
    pub fn log_refused(&mut self, ctx: &Ctx, host: &Rc<str>, error: &str) {
        if self.refused.get(host).is_some_and(|last| last == error) {
            return;
        }
        if self.refused.len() >= MAX_KNOWN {
            self.refused.clear();
        }
        self.refused.insert(host.clone(), error.into());
        let line = format!("frames from {host} are refused: {error}");
        ctx.log(Level::Notice, &line);
    }

    /// A frame from a host was taken: the next refusal is news again.
    pub fn taken(&mut self, host: &str) {
        if !self.refused.is_empty() {
            self.refused.remove(host);
        }
    }
}

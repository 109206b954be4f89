//! Looking up names. It may take long and cannot be stopped, so that each
//! lookup has a thread of its own, which ends with it.

use crate::settings::Address;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::thread;

/// Lookups at the same time. Beyond that, attempts fail and come again later.
const MOST: usize = 32;

/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 16;

/// What a lookup found, or why it found nothing.
pub(crate) type Found = Result<Vec<SocketAddr>, String>;

/// Starts lookups, and keeps count of them.
#[derive(Default)]
pub(crate) struct Resolver {
    running: Arc<AtomicUsize>,
}

impl Resolver {
    /// What needs no lookup.
    pub(crate) fn literal(address: &Address) -> Option<SocketAddr> {
        let ip = address.host.parse::<IpAddr>().ok()?;
        Some(SocketAddr::new(ip, address.port))
    }

    /// Looks a name up and calls `done` from another thread.
    pub(crate) fn start(
        &self,
        address: &Address,
        done: impl FnOnce(Found) + Send + 'static,
    ) -> Result<(), String> {
        if self.running.fetch_add(1, Relaxed) >= MOST {
            self.running.fetch_sub(1, Relaxed);
            return Err("too many lookups at the same time".into());
        }
        let running = Running(self.running.clone());
        let Address { host, port } = address.clone();
        thread::Builder::new()
            .name("disque-lookup".into())
            .spawn(move || {
                let _running = running;
                done(look_up(&host, port));
            })
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

fn look_up(host: &str, port: u16) -> Found {
    let addresses: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|error| error.to_string())?
        .take(MOST_ADDRESSES)
        .collect();
    if addresses.is_empty() {
        return Err("it has no address".into());
    }
    Ok(addresses)
}

/// Counts itself out, also when the thread panics or was never started.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    #[test]
    fn addresses_need_no_lookup() {
        let literal = |host| Resolver::literal(&Address::new(host, 7)).map(|a| a.to_string());
        assert_eq!(literal("127.0.0.1").as_deref(), Some("127.0.0.1:7"));
        assert_eq!(literal("::1").as_deref(), Some("[::1]:7"));
        assert_eq!(literal("localhost"), None);
        assert_eq!(literal(""), None);
    }

    #[test]
    fn names_are_looked_up() {
        let resolver = Resolver::default();
        for (host, found) in [("localhost", true), ("name.invalid", false), ("", false)] {
            let (sender, receiver) = bounded(1);
            let done = move |found: Found| sender.send(found).unwrap();
            resolver.start(&Address::new(host, 7), done).unwrap();
            assert_eq!(receiver.recv().unwrap().is_ok(), found, "{host}");
        }
    }

    #[test]
    fn lookups_are_bounded() {
        let resolver = Resolver::default();
        let (hold, held) = bounded::<()>(0);
        let start = || {
            let held = held.clone();
            let done = move |_| assert!(held.recv().is_err());
            resolver.start(&Address::new("127.0.0.1", 7), done)
        };
        for _ in 0..MOST {
            start().unwrap();
        }
        assert!(start().is_err());
        drop(hold);
        while resolver.running.load(Relaxed) > 0 {
            thread::yield_now();
        }
        assert!(start().is_ok());
    }
}

//! How a server is to be started.

use std::net::Ipv4Addr;

/// What the server writes to disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Persistence {
    None,
    /// Saved at a clean stop and by SAVE and BGSAVE.
    Rdb,
    /// Synced every second.
    Aof,
    /// Synced before each reply.
    AofAlways,
    /// RDB and AOF, synced every second.
    Both,
}

impl Persistence {
    pub(crate) fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Persistence::None => &[("save", "\"\""), ("appendonly", "no")],
            Persistence::Rdb => &[("save", "3600 1"), ("appendonly", "no")],
            Persistence::Aof => &[
                ("save", "\"\""),
                ("appendonly", "yes"),
                ("appendfsync", "everysec"),
            ],
            Persistence::AofAlways => &[
                ("save", "\"\""),
                ("appendonly", "yes"),
                ("appendfsync", "always"),
            ],
            Persistence::Both => &[
                ("save", "3600 1"),
                ("appendonly", "yes"),
                ("appendfsync", "everysec"),
            ],
        }
    }
}

/// A network namespace in which a server runs, at its own address, which the test
/// reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub namespace: String,
    pub address: Ipv4Addr,
}

/// How to start a server. Everything not said is Redis' and the module's default,
/// without persistence.
#[derive(Clone)]
pub struct Options {
    pub(crate) persistence: Persistence,
    pub(crate) module: bool,
    pub(crate) fake_clock: bool,
    pub(crate) alone: bool,
    pub(crate) sentinel: bool,
    pub(crate) place: Option<Place>,
    pub(crate) disk: Option<u64>,
    pub(crate) password: Option<String>,
    pub(crate) settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            persistence: Persistence::None,
            module: true,
            fake_clock: false,
            alone: false,
            sentinel: false,
            place: None,
            disk: None,
            password: None,
            settings: Vec::new(),
        }
    }
}

impl Options {
    pub fn new() -> Options {
        Options::default()
    }

    pub fn persistence(mut self, persistence: Persistence) -> Options {
        self.persistence = persistence;
        self
    }

    /// A line of redis.conf; the value is quoted by the caller where needed.
    pub fn set(mut self, name: &str, value: &str) -> Options {
        self.settings.push((name.to_string(), value.to_string()));
        self
    }

    /// The password of the default user; the test's own clients give it.
    pub fn password(mut self, password: &str) -> Options {
        self.password = Some(password.into());
        self
    }

    /// Plain Redis, without the module.
    pub fn without_module(mut self) -> Options {
        self.module = false;
        self
    }

    /// Redis Sentinel instead of a server.
    pub fn sentinel(mut self) -> Options {
        self.sentinel = true;
        self.without_module()
    }

    /// A wall clock that [`crate::Server::step_clock`] moves. The monotonic clock stays true.
    pub fn fake_clock(mut self) -> Options {
        self.fake_clock = true;
        self
    }

    /// In a network namespace. Needs the right to enter it.
    pub fn place(mut self, place: Place) -> Options {
        self.place = Some(place);
        self
    }

    /// With a disk of its own, of so many bytes, for what it writes. Needs the right
    /// to mount, and is gone with the server, whatever came of the test.
    pub fn disk(mut self, bytes: u64) -> Options {
        self.disk = Some(bytes);
        self
    }

    /// For a test that holds [`crate::quiet_machine`].
    pub fn alone(mut self) -> Options {
        self.alone = true;
        self
    }
}

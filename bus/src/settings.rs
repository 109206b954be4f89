//! What the owner can set.

use bytes::Bytes;
use std::fmt;
use std::time::Duration;

/// Where a peer listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// An IP address or a name. A name is looked up anew for each connection.
    pub host: String,
    /// The server's ordinary port.
    pub port: u16,
}

impl Address {
    /// The address of a host and its port.
    pub fn new(host: impl Into<String>, port: u16) -> Address {
        Address {
            host: host.into(),
            port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// As whom to log in at peers. `Debug` shows the user only.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The ACL user; `None` for the default user.
    pub user: Option<Bytes>,
    /// Its password.
    pub password: Bytes,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Settings of all links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A peer that answers nothing for so long is not reachable. A third of it
    /// passes between two PINGs on an idle connection. At least 10 ms.
    pub node_timeout: Duration,
    /// `None`: no AUTH is sent. Used from the next connection on.
    pub credentials: Option<Credentials>,
    /// What CLIENT LIST shows at the peers; no blanks. Empty: not set.
    pub client_name: Bytes,
    /// Bytes that may wait for one peer; over it new messages are refused. An
    /// empty queue takes one message of any size.
    pub queue_limit: usize,
    /// Bytes of answers of one peer that the owner has not taken yet; over it
    /// nothing is read from that peer until the owner has caught up.
    pub unread_limit: usize,
    /// The largest answer to one frame, in bytes; a larger one ends the
    /// connection. Must leave room for the largest body.
    pub max_answer: usize,
    /// Frames that may be under way to one peer. Beyond that, messages wait and
    /// share the next frame: the slower the peer, the larger the frames.
    pub max_in_flight: usize,
    /// The pause after the first failure. It doubles with each further one.
    pub backoff_min: Duration,
    /// The longest such pause.
    pub backoff_max: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node_timeout: Duration::from_secs(5),
            credentials: None,
            client_name: Bytes::new(),
            queue_limit: 64 << 20,
            unread_limit: 32 << 20,
            max_answer: 32 << 20,
            max_in_flight: 4,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let settings = Settings {
            credentials: Some(Credentials {
                user: Some("bus".into()),
                password: "secret".into(),
            }),
            ..Settings::default()
        };
        let shown = format!("{settings:?}");
        assert!(
            shown.contains("bus") && !shown.contains("secret"),
            "{shown}"
        );
    }

    #[test]
    fn addresses_are_shown_as_they_are_written() {
        assert_eq!(Address::new("a.example", 1).to_string(), "a.example:1");
        assert_eq!(Address::new("::1", 2).to_string(), "[::1]:2");
    }
}

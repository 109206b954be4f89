//! Error replies of a peer, and what they mean for its connection.

use std::fmt;

/// What a peer that answered with an error is, or lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// It loads its data.
    Loading,
    /// It is held up by a script or a module.
    Busy,
    /// It is a replica.
    ReadOnly,
    /// It cannot write to its disk.
    Misconfigured,
    /// It has too few replicas.
    NoReplicas,
    /// It is a replica that has lost its primary.
    MasterDown,
    /// Its memory is full.
    OutOfMemory,
    /// It wants a password, and none is set here.
    Unauthenticated,
    /// It does not take the user or the password.
    WrongPassword,
    /// The user lacks a permission.
    NoPermission,
    /// Its protected mode keeps other machines out.
    Protected,
    /// It has as many clients as it may have.
    MaxClients,
    /// It does not have the command: a server without the module.
    NotANode,
    /// It knows a newer term of this node's id.
    Superseded,
    /// This node was taken out of its cluster.
    Forgotten,
    /// Anything else.
    Other,
}

/// Error codes, the first word of an error reply.
const CODES: &[(&[u8], RefusalKind)] = &[
    (b"LOADING", RefusalKind::Loading),
    (b"BUSY", RefusalKind::Busy),
    (b"READONLY", RefusalKind::ReadOnly),
    (b"MISCONF", RefusalKind::Misconfigured),
    (b"NOREPLICAS", RefusalKind::NoReplicas),
    (b"MASTERDOWN", RefusalKind::MasterDown),
    (b"OOM", RefusalKind::OutOfMemory),
    (b"NOAUTH", RefusalKind::Unauthenticated),
    (b"WRONGPASS", RefusalKind::WrongPassword),
    (b"NOPERM", RefusalKind::NoPermission),
    (b"DENIED", RefusalKind::Protected),
    (b"SUPERSEDED", RefusalKind::Superseded),
    (b"FORGOTTEN", RefusalKind::Forgotten),
];

/// Errors without a code of their own, by how they begin.
const TEXTS: &[(&[u8], RefusalKind)] = &[
    (b"ERR max number of clients", RefusalKind::MaxClients),
    (b"ERR unknown command", RefusalKind::NotANode),
    // "ERR AUTH <password> called without any password configured ..."
    (b"ERR AUTH", RefusalKind::WrongPassword),
];

/// An error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What it means.
    pub kind: RefusalKind,
    /// What the peer said, fit for a log: printable and of bounded length.
    pub text: Box<str>,
}

impl Refusal {
    /// The meaning of an error reply without its leading `-`.
    pub fn classify(error: &[u8]) -> Refusal {
        let code = error.split(|&b| b == b' ').next().unwrap_or_default();
        let by_code = CODES.iter().find(|(known, _)| *known == code);
        let by_text = || TEXTS.iter().find(|(start, _)| error.starts_with(start));
        Refusal {
            kind: by_code.or_else(by_text).map_or(RefusalKind::Other, |e| e.1),
            text: printable(error),
        }
    }
}

impl RefusalKind {
    /// Whether the peer is likely to take frames again on the same connection,
    /// so that it is kept and asked from time to time. Else the connection is
    /// closed, and the next one waits for its turn.
    pub fn keeps_connection(self) -> bool {
        matches!(
            self,
            RefusalKind::Loading
                | RefusalKind::Busy
                | RefusalKind::ReadOnly
                | RefusalKind::Misconfigured
                | RefusalKind::NoReplicas
                | RefusalKind::MasterDown
                | RefusalKind::OutOfMemory
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn printable(error: &[u8]) -> Box<str> {
    const LONGEST: usize = 200;
    error
        .iter()
        .take(LONGEST)
        .map(|&b| match b {
            b' '..=b'~' => char::from(b),
            _ => '?',
        })
        .collect::<String>()
        .into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_meaning() {
        use RefusalKind::*;
        for (error, kind, kept) in [
            (
                "LOADING Redis is loading the dataset in memory",
                Loading,
                true,
            ),
            ("BUSY Redis is busy running a script.", Busy, true),
            (
                "READONLY You can't write against a read only replica.",
                ReadOnly,
                true,
            ),
            (
                "MISCONF Errors writing to the AOF file: No space",
                Misconfigured,
                true,
            ),
            (
                "NOREPLICAS Not enough good replicas to write.",
                NoReplicas,
                true,
            ),
            ("MASTERDOWN Link with MASTER is down", MasterDown, true),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                OutOfMemory,
                true,
            ),
            ("NOAUTH Authentication required.", Unauthenticated, false),
            (
                "WRONGPASS invalid username-password pair",
                WrongPassword,
                false,
            ),
            (
                "ERR AUTH <password> called without any password",
                WrongPassword,
                false,
            ),
            ("NOPERM this user has no permissions", NoPermission, false),
            (
                "DENIED Redis is running in protected mode",
                Protected,
                false,
            ),
            ("ERR max number of clients reached", MaxClients, false),
            (
                "ERR max number of clients + cluster connections reached",
                MaxClients,
                false,
            ),
            (
                "ERR unknown command 'DISQUE.BUS', with args",
                NotANode,
                false,
            ),
            ("SUPERSEDED", Superseded, false),
            ("FORGOTTEN by this cluster", Forgotten, false),
            ("ERR wrong number of arguments", Other, false),
            ("BUSYKEY Target key name already exists.", Other, false),
            ("LOADINGX", Other, false),
            ("", Other, false),
        ] {
            let refusal = Refusal::classify(error.as_bytes());
            assert_eq!(refusal.kind, kind, "{error}");
            assert_eq!(refusal.kind.keeps_connection(), kept, "{error}");
            assert_eq!(&*refusal.text, error);
        }
    }

    #[test]
    fn what_is_logged_is_printable_and_short() {
        let refusal =
            Refusal::classify(&[b"LOADING \x1b[0m\xff\0".to_vec(), vec![b'x'; 5000]].concat());
        assert_eq!(refusal.kind, RefusalKind::Loading);
        assert!(refusal.text.starts_with("LOADING ?[0m??xx"));
        assert_eq!(refusal.text.len(), 200);
    }
}

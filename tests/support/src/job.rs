//! Jobs as the commands show them.

use crate::reply::Reply;
use crate::resp::Value;

/// The names in a SHOW reply, in their order.
pub const SHOW_FIELDS: [&str; 15] = [
    "id",
    "queue",
    "state",
    "repl",
    "ttl",
    "ctime",
    "delay",
    "retry",
    "nacks",
    "additional-deliveries",
    "nodes-delivered",
    "nodes-confirmed",
    "next-requeue-within",
    "next-awake-within",
    "body",
];

/// Whether `text` has the whole form of a job id, character sets included.
pub fn is_job_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    bytes.len() == 40
        && bytes.starts_with(b"D-")
        && bytes[2..10].iter().all(hex)
        && bytes[10] == b'-'
        && bytes[11..35].iter().all(base64)
        && bytes[35] == b'-'
        && bytes[36..].iter().all(hex)
}

/// A well-formed id that no server made. Its last group is `ttl`, odd for a job
/// that is retried.
pub fn unknown_id(number: u64, ttl: u16) -> String {
    format!("D-deadbeef-{number:024}-{ttl:04x}")
}

/// One job out of a GETJOB or QPEEK reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    pub queue: String,
    pub id: String,
    pub body: Vec<u8>,
    /// With WITHCOUNTERS.
    pub nacks: Option<i64>,
    pub additional_deliveries: Option<i64>,
}

impl Delivery {
    #[track_caller]
    fn read(value: &Value) -> Delivery {
        let items = value.items();
        let plain = |nacks, additional_deliveries| Delivery {
            queue: items[0].text().to_string(),
            id: items[1].text().to_string(),
            body: items[2].bulk().to_vec(),
            nacks,
            additional_deliveries,
        };
        match items.len() {
            3 => plain(None, None),
            7 => {
                assert_eq!(items[3].text(), "nacks");
                assert_eq!(items[5].text(), "additional-deliveries");
                plain(Some(items[4].int()), Some(items[6].int()))
            }
            n => panic!("a job of {n} elements: {value:?}"),
        }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is no text")
    }
}

/// The jobs of a GETJOB or QPEEK reply; a null counts as none.
#[track_caller]
pub fn deliveries(reply: &Reply) -> Vec<Delivery> {
    if reply.is_null() {
        return Vec::new();
    }
    let jobs = reply.expect_array();
    jobs.iter().map(Delivery::read).collect()
}

/// A SHOW reply. Reading one checks the count, the names and the types.
#[derive(Clone, Debug, PartialEq)]
pub struct Show {
    pub id: String,
    /// `None` for a dummy ack.
    pub queue: Option<Vec<u8>>,
    pub state: String,
    pub repl: i64,
    pub ttl: i64,
    pub ctime: i64,
    pub delay: i64,
    pub retry: i64,
    pub nacks: i64,
    pub additional_deliveries: i64,
    pub nodes_delivered: Vec<String>,
    pub nodes_confirmed: Vec<String>,
    pub next_requeue_within: Option<i64>,
    pub next_awake_within: Option<i64>,
    /// `None` once acked.
    pub body: Option<Vec<u8>>,
}

impl Show {
    /// `None` when the job is unknown.
    #[track_caller]
    pub fn read(reply: &Reply) -> Option<Show> {
        if reply.is_null() {
            return None;
        }
        Some(Show::from_value(reply.value()))
    }

    /// From a SHOW reply or an element of JSCAN REPLY all.
    #[track_caller]
    pub fn from_value(value: &Value) -> Show {
        let items = value.items();
        assert_eq!(items.len(), 30, "a SHOW of another length: {value:?}");
        for (pair, name) in items.chunks(2).zip(SHOW_FIELDS) {
            assert_eq!(pair[0].text(), name, "in {value:?}");
        }
        let field = |n: usize| &items[2 * n + 1];
        let optional = |n: usize| (!field(n).is_null()).then(|| field(n));
        let nodes = |n: usize| {
            let ids = field(n).items();
            ids.iter().map(|id| id.text().to_string()).collect()
        };
        Show {
            id: field(0).text().to_string(),
            queue: optional(1).map(|v| v.bulk().to_vec()),
            state: field(2).text().to_string(),
            repl: field(3).int(),
            ttl: field(4).int(),
            ctime: field(5).int(),
            delay: field(6).int(),
            retry: field(7).int(),
            nacks: field(8).int(),
            additional_deliveries: field(9).int(),
            nodes_delivered: nodes(10),
            nodes_confirmed: nodes(11),
            next_requeue_within: optional(12).map(Value::int),
            next_awake_within: optional(13).map(Value::int),
            body: optional(14).map(|v| v.bulk().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked_to_the_character() {
        let good = "D-0123abcd-abcdefghijklmnopqrstuv+/-05a1";
        assert!(is_job_id(good));
        assert!(is_job_id(&unknown_id(7, 0x05a1)));
        for (at, wrong) in [
            (0, "d"),
            (1, "_"),
            (2, "A"),
            (10, "_"),
            (11, "-"),
            (35, "_"),
            (39, "G"),
        ] {
            let mut bad = good.to_string();
            bad.replace_range(at..at + 1, wrong);
            assert!(!is_job_id(&bad), "{bad}");
        }
        assert!(!is_job_id(&good[..39]));
        assert!(!is_job_id(&format!("{good}0")));
    }
}

//! Replies, as far as the load has to understand them.

use disque_testing::resp::{parse, Value};

/// Where the reply that begins at `start` ends, if all of it is there.
pub fn end_of_reply(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut owed) = (start, 1_u64);
    while owed > 0 {
        let line_end = at + bytes.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
        let number = || {
            let text = std::str::from_utf8(&bytes[at + 1..line_end]).ok()?;
            text.parse::<i64>().ok()
        };
        let next = line_end + 2;
        (at, owed) = match (bytes[at], number()) {
            (b'$', Some(len)) if len >= 0 => (next + len as usize + 2, owed - 1),
            (b'*', Some(len)) if len >= 0 => (next, owed - 1 + len as u64),
            _ => (next, owed - 1),
        };
        if at > bytes.len() {
            return None;
        }
    }
    Some(at)
}

/// Reads a whole reply.
pub fn value(reply: &[u8]) -> Value {
    match parse(reply) {
        Ok(Some((value, _))) => value,
        other => panic!("no reply: {other:?}"),
    }
}

/// The ids of the jobs in a reply of GETJOB.
pub fn job_ids(reply: &[u8]) -> Vec<Vec<u8>> {
    match value(reply) {
        Value::Array(jobs) => jobs.iter().map(|job| text(job, 1)).collect(),
        _ => Vec::new(),
    }
}

/// The id and the body of the one job in a reply of GETJOB.
pub fn only_job(reply: &[u8]) -> (String, String) {
    let reply = value(reply);
    let [job] = reply.items() else {
        panic!("not one job: {reply:?}");
    };
    let words = job.items();
    (words[1].text().into(), words[2].text().into())
}

/// The ids of the entries in a reply of XREADGROUP.
pub fn entry_ids(reply: &[u8]) -> Vec<Vec<u8>> {
    let Value::Array(streams) = value(reply) else {
        return Vec::new();
    };
    let entries = streams[0].items()[1].items();
    entries.iter().map(|entry| text(entry, 0)).collect()
}

fn text(value: &Value, index: usize) -> Vec<u8> {
    match value {
        Value::Array(items) => match &items[index] {
            Value::Bulk(bytes) => bytes.clone(),
            other => panic!("no text: {other:?}"),
        },
        other => panic!("no array: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_end_where_they_end() {
        for reply in [
            "+OK\r\n",
            ":12\r\n",
            "$3\r\na\r\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
        ] {
            let nested = format!("*2\r\n*1\r\n{reply}{reply}");
            for whole in [reply, &nested] {
                let two = format!("{whole}+X\r\n");
                assert_eq!(end_of_reply(two.as_bytes(), 0), Some(whole.len()), "{two}");
                for cut in 0..whole.len() {
                    assert_eq!(end_of_reply(&whole.as_bytes()[..cut], 0), None, "{whole}");
                }
            }
        }
    }

    #[test]
    fn ids_are_found() {
        let jobs = b"*1\r\n*3\r\n$1\r\nq\r\n$2\r\nid\r\n$1\r\nb\r\n";
        assert_eq!(job_ids(jobs), [b"id"]);
        assert_eq!(only_job(jobs), ("id".into(), "b".into()));
        let entries = b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*0\r\n";
        assert_eq!(entry_ids(entries), [b"1-1"]);
        assert!(job_ids(b"*-1\r\n").is_empty());
    }
}

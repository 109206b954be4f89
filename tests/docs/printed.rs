//! Replies as redis-cli shows them on a terminal.

use disque_testing::Value;

/// The lines that redis-cli prints for a reply.
pub fn lines(command: &str, value: &Value) -> Vec<String> {
    let mut words = command.split_ascii_whitespace();
    let first = words.next().unwrap_or("").to_ascii_uppercase();
    let second = words.next().unwrap_or("").to_ascii_uppercase();
    // redis-cli shows INFO as it is; DISQUE NODES it shows so with --raw.
    let is_text = matches!(
        (first.as_str(), second.as_str()),
        ("INFO", _) | ("DISQUE", "NODES")
    );
    match value {
        Value::Bulk(bytes) if is_text => text(bytes).lines().map(String::from).collect(),
        value => print(value),
    }
}

fn print(value: &Value) -> Vec<String> {
    let one = |line: String| vec![line];
    match value {
        Value::Simple(bytes) => one(text(bytes)),
        Value::Error(bytes) => one(format!("(error) {}", text(bytes))),
        Value::Int(number) => one(format!("(integer) {number}")),
        Value::Bulk(bytes) => one(quoted(bytes)),
        Value::NullBulk | Value::NullArray | Value::Null => one("(nil)".into()),
        Value::Array(items) if items.is_empty() => one("(empty array)".into()),
        Value::Array(items) => print_items(items),
        other => panic!("documents cannot show {other:?}"),
    }
}

fn print_items(items: &[Value]) -> Vec<String> {
    let width = items.len().to_string().len();
    let mut printed = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let mut lines = print(item).into_iter();
        let first = lines.next().unwrap_or_default();
        printed.push(format!("{:>width$}) {first}", index + 1));
        printed.extend(lines.map(|line| format!("{:width$}  {line}", "")));
    }
    printed
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from('"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend(['\\', char::from(byte)]),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b' '..=b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.into())
    }

    #[test]
    fn nested_arrays_are_indented() {
        let job = Value::Array(vec![bulk("q"), Value::Int(1)]);
        let value = Value::Array(vec![job, Value::Array(vec![]), Value::NullBulk]);
        let expected = [
            "1) 1) \"q\"",
            "   2) (integer) 1",
            "2) (empty array)",
            "3) (nil)",
        ];
        assert_eq!(lines("GETJOB", &value), expected);
        let long = Value::Array(vec![bulk("a"); 10]);
        assert_eq!(lines("X", &long)[0], " 1) \"a\"");
        assert_eq!(lines("X", &long)[9], "10) \"a\"");
    }

    #[test]
    fn single_values() {
        for (value, shown) in [
            (Value::Simple(b"OK".to_vec()), "OK"),
            (Value::Error(b"ERR x".to_vec()), "(error) ERR x"),
            (bulk("a \"b\"\n"), r#""a \"b\"\n""#),
            (Value::Bulk(vec![0, 255]), r#""\x00\xff""#),
        ] {
            assert_eq!(lines("X", &value), [shown]);
        }
    }
}

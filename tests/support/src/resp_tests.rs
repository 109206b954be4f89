use super::*;

fn whole(bytes: &[u8]) -> Value {
    let (value, used) = parse(bytes).expect("malformed").expect("incomplete");
    assert_eq!(used, bytes.len(), "bytes left over");
    value
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// One of each kind, with its bytes.
fn samples() -> Vec<(&'static [u8], Value)> {
    vec![
        (b"+OK\r\n", Value::Simple(b"OK".to_vec())),
        (b"+\r\n", Value::Simple(vec![])),
        (b"-ERR no\r\n", Value::Error(b"ERR no".to_vec())),
        (b"!6\r\nERR\r\nx\r\n", Value::Error(b"ERR\r\nx".to_vec())),
        (b":0\r\n", Value::Int(0)),
        (b":-7\r\n", Value::Int(-7)),
        (b":9223372036854775807\r\n", Value::Int(i64::MAX)),
        (b"$3\r\nabc\r\n", bulk("abc")),
        (b"$0\r\n\r\n", bulk("")),
        (b"$4\r\na\r\nb\r\n", bulk("a\r\nb")),
        (b"$-1\r\n", Value::NullBulk),
        (b"*-1\r\n", Value::NullArray),
        (b"_\r\n", Value::Null),
        (b"*0\r\n", Value::Array(vec![])),
        (
            b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n",
            Value::Array(vec![Value::Int(1), Value::Array(vec![bulk("a")])]),
        ),
        (
            b"%1\r\n$1\r\nk\r\n:1\r\n",
            Value::Map(vec![(bulk("k"), Value::Int(1))]),
        ),
        (b"~1\r\n#t\r\n", Value::Set(vec![Value::Bool(true)])),
        (b">1\r\n#f\r\n", Value::Push(vec![Value::Bool(false)])),
        (b",3.25\r\n", Value::Double(b"3.25".to_vec())),
        (b",inf\r\n", Value::Double(b"inf".to_vec())),
        (
            b"(123456789012345678901\r\n",
            Value::BigNumber(b"123456789012345678901".to_vec()),
        ),
        (
            b"=7\r\ntxt:abc\r\n",
            Value::Verbatim(*b"txt", b"abc".to_vec()),
        ),
    ]
}

#[test]
fn every_kind_is_told_apart() {
    for (bytes, value) in samples() {
        assert_eq!(whole(bytes), value);
    }
}

#[test]
fn a_reply_cut_anywhere_is_incomplete_and_never_wrong() {
    for (bytes, _) in samples() {
        for cut in 0..bytes.len() {
            assert_eq!(
                parse(&bytes[..cut]),
                Ok(None),
                "{} cut at {cut}",
                printable(bytes)
            );
        }
    }
}

#[test]
fn what_follows_a_reply_is_left_alone() {
    for (bytes, value) in samples() {
        let mut stream = bytes.to_vec();
        stream.extend_from_slice(b"+next\r\n");
        assert_eq!(parse(&stream), Ok(Some((value, bytes.len()))));
    }
}

#[test]
fn hostile_bytes_are_refused() {
    let deep = b"*1\r\n".repeat(100_000);
    let cases: Vec<&[u8]> = vec![
        b"?",
        b"\r\n",
        b"+a\nb\r\n",
        b"+a\rb\r\n",
        b":\r\n",
        b":+1\r\n",
        b": 1\r\n",
        b":1x\r\n",
        b":9223372036854775808\r\n",
        b"$-2\r\n",
        b"$99999999999\r\n",
        b"$1\r\nab\r\n",
        b"$2\r\na\r\n\r\n",
        b"*-2\r\n",
        b"%-1\r\n",
        b"~-1\r\n",
        b">-1\r\n",
        b"!-1\r\n",
        b"#x\r\n",
        b"_x\r\n",
        b"=2\r\nab\r\n",
        &deep,
    ];
    for bytes in cases {
        assert!(parse(bytes).is_err(), "accepted: {}", printable(bytes));
    }
}

#[test]
fn a_claimed_count_allocates_nothing() {
    assert_eq!(parse(b"*536870912\r\n"), Ok(None));
    assert_eq!(parse(b"%536870912\r\n"), Ok(None));
    assert_eq!(parse(b"$536870912\r\nabc"), Ok(None));
}

#[test]
fn commands_are_arrays_of_bulks_whatever_the_bytes() {
    assert_eq!(encode(&["PING"]), b"*1\r\n$4\r\nPING\r\n");
    assert_eq!(
        encode(&[&b"a\r\n\0"[..], &b""[..]]),
        b"*2\r\n$4\r\na\r\n\0\r\n$0\r\n\r\n"
    );
}

#[test]
fn the_reader_survives_its_corpus() {
    crate::corpus::replay("resp_reader", |bytes| {
        let _ = parse(bytes);
    });
}

use super::*;
use proptest::prelude::*;

const LIMIT: usize = 1000;

/// All replies in `pieces`, then the error that ended them.
fn decode(pieces: &[&[u8]]) -> (Vec<Reply>, Option<ProtocolError>) {
    let mut decoder = Decoder::new(LIMIT);
    let mut replies = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        loop {
            match decoder.decode(&mut input) {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => break,
                Err(error) => return (replies, Some(error)),
            }
        }
        assert!(input.is_empty());
    }
    (replies, None)
}

fn error(bytes: &[u8]) -> Option<ProtocolError> {
    decode(&[bytes]).1
}

#[test]
fn commands_are_arrays_of_bulk_strings() {
    assert_eq!(
        command(&[b"AUTH", b"", b"p\r\n\0"]),
        &b"*3\r\n$4\r\nAUTH\r\n$0\r\n\r\n$4\r\np\r\n\0\r\n"[..]
    );
    let mut out = Vec::new();
    for number in [0, 9, 10, 65_535, usize::MAX] {
        out.clear();
        bulk_head(&mut out, number);
        assert_eq!(out, format!("${number}\r\n").into_bytes());
    }
}

#[test]
fn replies_may_be_split_anywhere() {
    let all = b"+OK\r\n-ERR no\r\n$0\r\n\r\n$5\r\na\r\nb\n\r\n+\r\n$3\r\n123\r\n";
    let expected = vec![
        Reply::Status("OK".into()),
        Reply::Error("ERR no".into()),
        Reply::Bulk("".into()),
        Reply::Bulk("a\r\nb\n".into()),
        Reply::Status("".into()),
        Reply::Bulk("123".into()),
    ];
    for first in 0..=all.len() {
        for second in first..=all.len() {
            let pieces = [&all[..first], &all[first..second], &all[second..]];
            assert_eq!(decode(&pieces), (expected.clone(), None));
        }
    }
    let single: Vec<&[u8]> = all.chunks(1).collect();
    assert_eq!(decode(&single), (expected, None));
}

#[test]
fn what_is_no_reply_for_a_link_is_refused() {
    use ProtocolError::*;
    for (bytes, expected) in [
        (&b":1\r\n"[..], UnknownType(b':')),
        (b"*1\r\n", UnknownType(b'*')),
        (b"*1000000000\r\n", UnknownType(b'*')),
        (b"_\r\n", UnknownType(b'_')),
        (b">2\r\n", UnknownType(b'>')),
        (b"HTTP/1.1 400\r\n", UnknownType(b'H')),
        (b"\r\n", UnknownType(b'\r')),
        (b"\0", UnknownType(0)),
        (b"+OK\n", BadLine),
        (b"+O\rK\r\n", BadLine),
        (b"+\r\r\n", BadLine),
        (b"$-1\r\n", BadLength),
        (b"$\r\n", BadLength),
        (b"$+1\r\n", BadLength),
        (b"$ 1\r\n", BadLength),
        (b"$1x\r\n", BadLength),
        (b"$1001\r\n", TooLong),
        (b"$99999999999999999999999999\r\n", TooLong),
        (b"$2\r\nabc\r\n", BadEnd),
        (b"$2\r\nab\n\n", BadEnd),
    ] {
        assert_eq!(error(bytes), Some(expected), "{}", bytes.escape_ascii());
    }
}

#[test]
fn limits_are_exact() {
    let bulk = |len: usize| [format!("${len}\r\n").as_bytes(), &vec![b'x'; len], b"\r\n"].concat();
    assert_eq!(error(&bulk(LIMIT)), None);
    assert_eq!(error(&bulk(LIMIT + 1)), Some(ProtocolError::TooLong));
    let line = |len: usize| [b"-", &vec![b'x'; len - 3][..], b"\r\n"].concat();
    assert_eq!(error(&line(MAX_LINE)), None);
    assert_eq!(error(&line(MAX_LINE + 1)), Some(ProtocolError::BadLine));
}

#[test]
fn an_endless_line_takes_no_memory() {
    let mut decoder = Decoder::new(LIMIT);
    let mut input = &b"+"[..];
    let mut result = decoder.decode(&mut input);
    let mut most = 0;
    while result == Ok(None) {
        result = decoder.decode(&mut &[b'x'; 100][..]);
        most = most.max(decoder.memory());
    }
    assert_eq!(result, Err(ProtocolError::BadLine));
    assert!(most <= 2 * MAX_LINE, "{most}");
    assert_eq!(decoder.memory(), 0);
    assert_eq!(
        decoder.decode(&mut &b"+OK\r\n"[..]),
        Err(ProtocolError::BadLine)
    );
}

#[test]
fn an_announced_length_takes_no_memory() {
    let mut decoder = Decoder::new(1 << 30);
    let mut input = &b"$1000000000\r\nx"[..];
    assert_eq!(decoder.decode(&mut input), Ok(None));
    assert!(decoder.memory() <= FIRST_ROOM);
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        bytes in proptest::collection::vec(
            prop_oneof![Just(b'$'), Just(b'+'), Just(b'-'), Just(b'\r'), Just(b'\n'),
                        b'0'..=b'9', any::<u8>()], 0..200),
        cut in 1..20usize,
    ) {
        let pieces: Vec<&[u8]> = bytes.chunks(cut).collect();
        let (whole, split) = (decode(&[&bytes]), decode(&pieces));
        prop_assert_eq!(whole, split);
    }

    #[test]
    fn arbitrary_bytes_neither_panic_nor_grow(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..50),
        start in prop_oneof![Just(&b""[..]), Just(&b"+"[..]), Just(&b"$"[..]), Just(&b"$900\r\n"[..])],
    ) {
        let mut decoder = Decoder::new(LIMIT);
        for piece in std::iter::once(start).chain(pieces.iter().map(|p| &p[..])) {
            let mut input = piece;
            while let Ok(Some(_)) = decoder.decode(&mut input) {}
            prop_assert!(decoder.memory() <= 4 * MAX_LINE);
        }
    }
}

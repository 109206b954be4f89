//! RESP2 and RESP3, read byte for byte.
//!
//! Ordinary clients fold `*-1`, `$-1` and `_` into one nil and a status into a
//! string. Tests of reply shapes need the differences.

use std::fmt;

/// One reply as it stood on the wire.
#[derive(Clone, PartialEq)]
pub enum Value {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Int(i64),
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// RESP3 `_`
    Null,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    Bool(bool),
    /// The text of a RESP3 double, unparsed.
    Double(Vec<u8>),
    BigNumber(Vec<u8>),
    /// The three letters of the format, then the text.
    Verbatim([u8; 3], Vec<u8>),
}

/// Bytes that are no reply. Where, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    pub at: usize,
    pub why: &'static str,
}

/// Deeper nesting than any reply has is refused, so that hostile input cannot
/// exhaust the stack.
const MAX_DEPTH: usize = 32;
/// The largest bulk or element count that is believed.
const MAX_LEN: i64 = 512 * 1024 * 1024;

/// Reads the first reply of `bytes`: it and its length, or `None` while bytes
/// are missing.
pub fn parse(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    let mut cursor = Cursor { bytes, at: 0 };
    match cursor.value(0) {
        Ok(value) => Ok(Some((value, cursor.at))),
        Err(Stop::Short) => Ok(None),
        Err(Stop::Bad(malformed)) => Err(malformed),
    }
}

enum Stop {
    Short,
    Bad(Malformed),
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        if depth > MAX_DEPTH {
            return self.bad("nested too deeply");
        }
        let Some(&kind) = self.bytes.get(self.at) else {
            return Err(Stop::Short);
        };
        let start = self.at;
        self.at += 1;
        match kind {
            b'+' => Ok(Value::Simple(self.line()?.to_vec())),
            b'-' => Ok(Value::Error(self.line()?.to_vec())),
            b':' => Ok(Value::Int(self.number()?)),
            b',' => Ok(Value::Double(self.line()?.to_vec())),
            b'(' => Ok(Value::BigNumber(self.line()?.to_vec())),
            b'_' => match self.line()? {
                b"" => Ok(Value::Null),
                _ => self.bad("null with text"),
            },
            b'#' => match self.line()? {
                b"t" => Ok(Value::Bool(true)),
                b"f" => Ok(Value::Bool(false)),
                _ => self.bad("neither #t nor #f"),
            },
            b'$' => match self.length()? {
                None => Ok(Value::NullBulk),
                Some(length) => Ok(Value::Bulk(self.body(length)?.to_vec())),
            },
            b'!' => match self.length()? {
                None => self.bad("negative length"),
                Some(length) => Ok(Value::Error(self.body(length)?.to_vec())),
            },
            b'=' => match self.length()? {
                None => self.bad("negative length"),
                Some(length) => self.verbatim(length),
            },
            b'*' => match self.length()? {
                None => Ok(Value::NullArray),
                Some(count) => Ok(Value::Array(self.items(count, depth)?)),
            },
            b'~' => match self.length()? {
                None => self.bad("negative length"),
                Some(count) => Ok(Value::Set(self.items(count, depth)?)),
            },
            b'>' => match self.length()? {
                None => self.bad("negative length"),
                Some(count) => Ok(Value::Push(self.items(count, depth)?)),
            },
            b'%' => match self.length()? {
                None => self.bad("negative length"),
                Some(count) => self.pairs(count, depth),
            },
            _ => {
                self.at = start;
                self.bad("unknown type byte")
            }
        }
    }

    fn bad<T>(&self, why: &'static str) -> Result<T, Stop> {
        Err(Stop::Bad(Malformed { at: self.at, why }))
    }

    /// Up to CR LF. A lone CR or LF has no place in a line.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|b| matches!(b, b'\r' | b'\n')) else {
            return Err(Stop::Short);
        };
        if rest[end] == b'\n' {
            return self.bad("line feed without carriage return");
        }
        match rest.get(end + 1) {
            None => Err(Stop::Short),
            Some(b'\n') => {
                self.at += end + 2;
                Ok(&rest[..end])
            }
            Some(_) => self.bad("carriage return without line feed"),
        }
    }

    fn number(&mut self) -> Result<i64, Stop> {
        let line = self.line()?;
        let digits = line.strip_prefix(b"-").unwrap_or(line);
        let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        match std::str::from_utf8(line).ok().and_then(|s| s.parse().ok()) {
            Some(number) if plain => Ok(number),
            _ => self.bad("not a number"),
        }
    }

    /// A length, `None` for -1.
    fn length(&mut self) -> Result<Option<usize>, Stop> {
        match self.number()? {
            -1 => Ok(None),
            n if (0..=MAX_LEN).contains(&n) => Ok(Some(n as usize)),
            _ => self.bad("length out of range"),
        }
    }

    fn body(&mut self, length: usize) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        if rest.len() < length + 2 {
            return Err(Stop::Short);
        }
        if &rest[length..length + 2] != b"\r\n" {
            return self.bad("bulk does not end where its length says");
        }
        self.at += length + 2;
        Ok(&rest[..length])
    }

    fn verbatim(&mut self, length: usize) -> Result<Value, Stop> {
        match self.body(length)? {
            [a, b, c, b':', text @ ..] => Ok(Value::Verbatim([*a, *b, *c], text.to_vec())),
            _ => self.bad("verbatim string without format"),
        }
    }

    fn items(&mut self, count: usize, depth: usize) -> Result<Vec<Value>, Stop> {
        // Not `with_capacity(count)`: the count is only a claim.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.value(depth + 1)?);
        }
        Ok(items)
    }

    fn pairs(&mut self, count: usize, depth: usize) -> Result<Value, Stop> {
        let mut pairs = Vec::new();
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            pairs.push((key, self.value(depth + 1)?));
        }
        Ok(Value::Map(pairs))
    }
}

/// A command as Redis expects it: an array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Bytes for a message: text as it is, the rest escaped, long ones cut.
pub fn printable(bytes: &[u8]) -> String {
    const SHOWN: usize = 400;
    let mut text = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string();
    if bytes.len() > SHOWN {
        text.push_str(&format!("... ({} bytes)", bytes.len()));
    }
    text
}

impl fmt::Debug for Value {
    /// One line in the notation of the protocol, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Simple(text) => write!(f, "+{}", printable(text)),
            Value::Error(text) => write!(f, "-{}", printable(text)),
            Value::Int(number) => write!(f, ":{number}"),
            Value::Bulk(bytes) => write!(f, "\"{}\"", printable(bytes)),
            Value::NullBulk => write!(f, "$-1"),
            Value::NullArray => write!(f, "*-1"),
            Value::Null => write!(f, "_"),
            Value::Array(items) => f.debug_list().entries(items).finish(),
            Value::Map(pairs) => f
                .debug_map()
                .entries(pairs.iter().map(|(k, v)| (k, v)))
                .finish(),
            Value::Set(items) => f.debug_set().entries(items).finish(),
            Value::Push(items) => write!(f, ">{items:?}"),
            Value::Bool(value) => write!(f, "#{value}"),
            Value::Double(text) => write!(f, ",{}", printable(text)),
            Value::BigNumber(text) => write!(f, "({}", printable(text)),
            Value::Verbatim(format, text) => {
                write!(f, "={}:{}", printable(format), printable(text))
            }
        }
    }
}

#[cfg(test)]
#[path = "resp_tests.rs"]
mod tests;

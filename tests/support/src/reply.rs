//! A reply with the command that it answers, and assertions that print both.

use std::fmt;
use std::ops::Deref;

use crate::resp::{printable, Value};

/// Dereferences to its [`Value`].
#[derive(Clone)]
pub struct Reply {
    command: String,
    value: Value,
    raw: Vec<u8>,
}

impl Deref for Reply {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered {:?}", self.command, self.value)
    }
}

impl Reply {
    pub(crate) fn new(command: String, value: Value, raw: Vec<u8>) -> Reply {
        Reply {
            command,
            value,
            raw,
        }
    }

    /// The bytes as they came.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    #[track_caller]
    fn differs(&self, expected: &str) -> ! {
        panic!("{self:?}, not {expected}");
    }

    /// Exactly these bytes.
    #[track_caller]
    pub fn expect_raw(&self, expected: &[u8]) {
        if self.raw != expected {
            panic!(
                "{} answered\n  {}\nnot\n  {}",
                self.command,
                printable(&self.raw),
                printable(expected)
            );
        }
    }

    /// An error whose first word is `code`; returns its text.
    #[track_caller]
    pub fn expect_error(&self, code: &str) -> String {
        let Value::Error(text) = &self.value else {
            self.differs(&format!("the error {code}"));
        };
        let text = String::from_utf8_lossy(text).into_owned();
        if text.split(' ').next() != Some(code) {
            self.differs(&format!("the error {code}"));
        }
        assert!(
            !text.contains(['\r', '\n']),
            "a line end inside the error text: {text:?}"
        );
        text
    }

    /// An error of any code.
    #[track_caller]
    pub fn expect_any_error(&self) -> String {
        match &self.value {
            Value::Error(text) => String::from_utf8_lossy(text).into_owned(),
            _ => self.differs("an error"),
        }
    }

    /// An ERR that names the option and the range, as a number out of range gets.
    #[track_caller]
    pub fn expect_range_error(&self, option: &str) {
        let text = self.expect_error("ERR");
        let named = text
            .to_ascii_lowercase()
            .contains(&option.to_ascii_lowercase());
        if !named {
            self.differs(&format!("an ERR that names {option}"));
        }
    }

    #[track_caller]
    pub fn expect_wrong_arity(&self) {
        let text = self.expect_error("ERR");
        if !text.starts_with("ERR wrong number of arguments for") {
            self.differs("Redis' own arity error");
        }
    }

    #[track_caller]
    pub fn expect_ok(&self) {
        self.expect_raw(b"+OK\r\n");
    }

    #[track_caller]
    pub fn expect_status(&self, expected: &str) {
        self.expect_raw(format!("+{expected}\r\n").as_bytes());
    }

    #[track_caller]
    pub fn expect_int(&self) -> i64 {
        match self.value {
            Value::Int(number) => number,
            _ => self.differs("an integer"),
        }
    }

    /// This integer.
    #[track_caller]
    pub fn expect_number(&self, expected: i64) {
        self.expect_raw(format!(":{expected}\r\n").as_bytes());
    }

    #[track_caller]
    pub fn expect_bulk(&self) -> Vec<u8> {
        match &self.value {
            Value::Bulk(bytes) => bytes.clone(),
            _ => self.differs("a bulk string"),
        }
    }

    #[track_caller]
    pub fn expect_text(&self) -> String {
        match &self.value {
            Value::Bulk(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.to_string(),
                Err(_) => self.differs("text"),
            },
            // INFO in RESP3.
            Value::Verbatim(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => self.differs("a bulk string"),
        }
    }

    /// The id of a job: a bulk string of the right form.
    #[track_caller]
    pub fn expect_job_id(&self) -> String {
        let id = self.expect_text();
        if !crate::is_job_id(&id) {
            self.differs("a job id");
        }
        id
    }

    #[track_caller]
    pub fn expect_array(&self) -> &[Value] {
        match &self.value {
            Value::Array(items) => items,
            _ => self.differs("an array"),
        }
    }

    #[track_caller]
    pub fn expect_empty_array(&self) {
        self.expect_raw(b"*0\r\n");
    }

    #[track_caller]
    pub fn expect_null_array(&self) {
        self.expect_raw(b"*-1\r\n");
    }

    #[track_caller]
    pub fn expect_null_bulk(&self) {
        self.expect_raw(b"$-1\r\n");
    }

    /// RESP3's null.
    #[track_caller]
    pub fn expect_null(&self) {
        self.expect_raw(b"_\r\n");
    }
}

impl Value {
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Value::Int(number) => *number,
            other => panic!("{other:?} is no integer"),
        }
    }

    #[track_caller]
    pub fn bulk(&self) -> &[u8] {
        match self {
            Value::Bulk(bytes) => bytes,
            other => panic!("{other:?} is no bulk string"),
        }
    }

    /// A bulk string that is text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.bulk()).unwrap_or_else(|_| panic!("{self:?} is no text"))
    }

    #[track_caller]
    pub fn items(&self) -> &[Value] {
        match self {
            Value::Array(items) => items,
            other => panic!("{other:?} is no array"),
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null | Value::NullBulk | Value::NullArray)
    }
}

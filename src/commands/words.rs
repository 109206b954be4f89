//! A command's arguments, read word by word.

use disque_core::error::{Error, Range};
use disque_core::span::Span;

/// The longest time that a command may name in milliseconds (285,000 years).
const MAX_MS: u64 = 1 << 53;
/// The largest count that a command may name.
pub const MAX_COUNT: u64 = 1 << 53;

/// The words after a command's name, and where reading stands.
pub struct Words<'a, 'w> {
    words: &'w [&'a [u8]],
    usage: &'static str,
}

impl<'a, 'w> Words<'a, 'w> {
    /// Starts at the first of `words`. `usage` is shown when they make no sense.
    pub fn new(words: &'w [&'a [u8]], usage: &'static str) -> Self {
        Words { words, usage }
    }

    /// The next word; a syntax error when there is none.
    pub fn word(&mut self) -> Result<&'a [u8], Error> {
        Ok(self.one()?[0])
    }

    /// The next word, as a list of one.
    pub fn one(&mut self) -> Result<&'w [&'a [u8]], Error> {
        let (first, rest) = self
            .words
            .split_at_checked(1)
            .ok_or(Error::Syntax(self.usage))?;
        self.words = rest;
        Ok(first)
    }

    /// The next word in capitals, to match options against; `None` at the end.
    /// A word that is longer than any option is a syntax error.
    pub fn option(&mut self) -> Result<Option<Keyword>, Error> {
        match self.words.split_first() {
            None => Ok(None),
            Some((first, rest)) => {
                self.words = rest;
                Keyword::of(first).map(Some).ok_or_else(|| self.unknown())
            }
        }
    }

    /// All words that are left.
    pub fn rest(&mut self) -> &'w [&'a [u8]] {
        std::mem::take(&mut self.words)
    }

    /// The error for a word that is no option of this command.
    pub fn unknown(&self) -> Error {
        Error::Syntax(self.usage)
    }

    /// A whole number of `unit`.
    pub fn count(
        &mut self,
        what: &'static str,
        unit: &'static str,
        (min, max): (u64, u64),
    ) -> Result<u64, Error> {
        let word = self.word()?;
        decimal(word)
            .filter(|n| (min..=max).contains(n))
            .ok_or(Error::OutOfRange(Range {
                what,
                unit,
                min: min_text(min),
                max,
            }))
    }

    /// A time in whole milliseconds.
    pub fn milliseconds(&mut self, what: &'static str) -> Result<u64, Error> {
        self.count(what, "milliseconds", (0, MAX_MS))
    }

    /// A time in seconds with up to three decimals, at least `min_ms`, which is
    /// 0 or 1.
    pub fn seconds(&mut self, what: &'static str, min_ms: u64) -> Result<Span, Error> {
        let word = self.word()?;
        thousandths(word)
            .filter(|ms| (min_ms..=Span::MAX_SECONDS * 1000).contains(ms))
            .map(Span::from_ms)
            .ok_or(Error::OutOfRange(Range {
                what,
                unit: "seconds",
                min: if min_ms == 0 { "0" } else { "0.001" },
                max: Span::MAX_SECONDS,
            }))
    }

    /// A whole number that may be negative, as sign and size.
    pub fn signed(
        &mut self,
        what: &'static str,
        unit: &'static str,
        min: &'static str,
        max: u64,
    ) -> Result<(bool, u64), Error> {
        let word = self.word()?;
        let (negative, digits) = match word.split_first() {
            Some((b'-', digits)) => (true, digits),
            _ => (false, word),
        };
        let size = decimal(digits)
            .filter(|&n| n <= max)
            .ok_or(Error::OutOfRange(Range {
                what,
                unit,
                min,
                max,
            }))?;
        Ok((negative, size))
    }
}

/// A short word in capitals.
#[derive(Clone, Copy)]
pub struct Keyword {
    bytes: [u8; Keyword::MAX],
    len: usize,
}

impl Keyword {
    /// Longer words are no option of any command.
    const MAX: usize = 16;

    /// The word in capitals, if it is short enough to be an option.
    pub fn of(word: &[u8]) -> Option<Keyword> {
        let mut bytes = [0; Keyword::MAX];
        let len = word.len();
        bytes.get_mut(..len)?.copy_from_slice(word);
        bytes.make_ascii_uppercase();
        Some(Keyword { bytes, len })
    }

    /// The capitals.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn min_text(min: u64) -> &'static str {
    if min == 0 {
        "0"
    } else {
        "1"
    }
}

/// A number of digits alone: no sign, no blank, no overflow.
pub fn decimal(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |number, c| {
        let digit = c
            .is_ascii_digit()
            .then_some(u64::from(c.wrapping_sub(b'0')))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// A decimal number with up to three places, in thousandths.
fn thousandths(word: &[u8]) -> Option<u64> {
    let Some(dot) = word.iter().position(|&c| c == b'.') else {
        return decimal(word)?.checked_mul(1000);
    };
    let (whole, places) = (&word[..dot], &word[dot + 1..]);
    let scale = 10u64.checked_pow(3u32.checked_sub(places.len() as u32)?)?;
    decimal(whole)?
        .checked_mul(1000)?
        .checked_add(decimal(places)? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_alone() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for bad in [
            "",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1x",
            "18446744073709551616",
            "0x1",
        ] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn seconds_have_up_to_three_places() {
        for (text, ms) in [
            ("1", 1000),
            ("0.5", 500),
            ("0.001", 1),
            ("1.25", 1250),
            ("3.0", 3000),
        ] {
            assert_eq!(thousandths(text.as_bytes()), Some(ms), "{text}");
        }
        for bad in [
            "",
            ".",
            ".5",
            "5.",
            "0.0001",
            "1.2.3",
            "1e3",
            "-1",
            "nan",
            "18446744073709551615",
        ] {
            assert_eq!(thousandths(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn ranges_are_checked_at_their_ends() {
        let read = |word: &str| {
            let words = [word.as_bytes()];
            Words::new(&words, "usage")
                .count("COUNT", "jobs", (1, 10))
                .ok()
        };
        assert_eq!(
            [read("0"), read("1"), read("10"), read("11")],
            [None, Some(1), Some(10), None]
        );
    }

    #[test]
    fn range_errors_name_the_option_and_the_range() {
        let words: [&[u8]; 1] = [b"x"];
        let error = Words::new(&words, "usage").seconds("TTL", 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ERR TTL must be from 0.001 to 2147483647 seconds"
        );
    }

    #[test]
    fn options_match_in_any_case() {
        let words: [&[u8]; 2] = [b"noHang", b"a-word-that-is-too-long"];
        let mut words = Words::new(&words, "usage");
        let option = words.option().unwrap().unwrap();
        assert_eq!(option.as_bytes(), b"NOHANG");
        assert!(words.option().is_err());
    }
}

//! Comparing what a document shows with what a server said.
//!
//! In the documents stands
//! - a job id or node id: the first time it stands for any, and from then on
//!   for the same one, also in commands;
//! - `7711`: the port of the server, `7712`, `7713`: those of further ones;
//! - `~N`: any number from N/2 to 2N;
//! - `<any>`: any word;
//! - `<name>`: any word, and from then on the same one, also in commands;
//! - a line `...`: any lines.

use std::collections::HashMap;

/// The port of the first server, as documents show it.
const FIRST_PORT: u16 = 7711;

/// What ids and ports of a document stand for.
#[derive(Clone)]
pub struct Names {
    /// As the document shows them, and as they are.
    ports: Vec<(String, String)>,
    actual: HashMap<String, String>,
}

impl Names {
    pub fn new(ports: impl IntoIterator<Item = u16>) -> Names {
        let pair = |(shown, actual): (u16, u16)| (shown.to_string(), actual.to_string());
        Names {
            ports: (FIRST_PORT..).zip(ports).map(pair).collect(),
            actual: HashMap::new(),
        }
    }

    /// A command of a document as it must be sent. Ids that were not seen stay
    /// as they are: nobody knows them.
    pub fn fill_in(&self, command: &str) -> String {
        let mut filled = self.fill_in_ports(command);
        for (shown, actual) in &self.actual {
            filled = filled.replace(shown, actual);
        }
        filled
    }

    /// In one pass: the port of one server may look like that of another one.
    fn fill_in_ports(&self, mut text: &str) -> String {
        let mut filled = String::new();
        while let Some(c) = text.chars().next() {
            let len = if let Some((shown, actual)) = self.port(text) {
                filled.push_str(actual);
                shown.len()
            } else {
                filled.push(c);
                c.len_utf8()
            };
            text = &text[len..];
        }
        filled
    }

    /// The port at the start of a text, as it is shown and as it is.
    fn port(&self, text: &str) -> Option<&(String, String)> {
        self.ports.iter().find(|(shown, _)| text.starts_with(shown))
    }

    /// Whether the lines are those that the document shows.
    pub fn match_lines(&mut self, shown: &[&str], actual: &[&str]) -> bool {
        match shown.split_first() {
            None => actual.is_empty(),
            Some((&"...", rest)) => {
                (0..=actual.len()).any(|skipped| self.match_lines(rest, &actual[skipped..]))
            }
            Some((line, rest)) => {
                let Some((first, others)) = actual.split_first() else {
                    return false;
                };
                self.match_text(line, first) && self.match_lines(rest, others)
            }
        }
    }

    /// Whether a text is the one that the document shows.
    pub fn match_text(&mut self, mut shown: &str, mut actual: &str) -> bool {
        while let Some(c) = shown.chars().next() {
            let (shown_len, actual_len) = if let Some(id) = id(shown) {
                let Some(found) = self.match_id(id, actual) else {
                    return false;
                };
                (id.len(), found)
            } else if let Some(len) = self.match_port(shown, actual) {
                len
            } else if let Some(number) = shown.strip_prefix('~').map(digits) {
                let found = digits(actual);
                if !is_about(number, found) {
                    return false;
                }
                (1 + number.len(), found.len())
            } else if let Some(len) = placeholder(shown) {
                let found = word(actual);
                if found.is_empty() || !self.is_named(&shown[..len], found) {
                    return false;
                }
                (len, found.len())
            } else if actual.starts_with(c) {
                (c.len_utf8(), c.len_utf8())
            } else {
                return false;
            };
            shown = &shown[shown_len..];
            actual = &actual[actual_len..];
        }
        actual.is_empty()
    }

    fn match_port(&self, shown: &str, actual: &str) -> Option<(usize, usize)> {
        let (port, stands_for) = self.port(shown)?;
        let same = actual.starts_with(stands_for.as_str());
        same.then_some((port.len(), stands_for.len()))
    }

    fn is_named(&mut self, placeholder: &str, found: &str) -> bool {
        if placeholder == "<any>" {
            return true;
        }
        let names = self.actual.entry(placeholder.into());
        names.or_insert(found.into()) == found
    }

    fn match_id(&mut self, shown: &str, actual: &str) -> Option<usize> {
        let found = id(actual)?;
        if found.len() != shown.len() || found.starts_with("D-") != shown.starts_with("D-") {
            return None;
        }
        let known = self.actual.entry(shown.into()).or_insert(found.into());
        (known == found).then_some(found.len())
    }
}

/// The job id or node id at the start of a text.
fn id(text: &str) -> Option<&str> {
    let start = text.get(..40)?;
    let node = start
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    (node || disque_testing::is_job_id(start)).then_some(start)
}

fn digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

fn is_about(shown: &str, actual: &str) -> bool {
    match (shown.parse::<u64>(), actual.parse::<u64>()) {
        (Ok(shown), Ok(actual)) => actual >= shown / 2 && actual / 2 <= shown,
        _ => false,
    }
}

/// The length of `<name>`.
fn placeholder(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('<')?;
    let end = inner.find('>')?;
    let name = !inner[..end].is_empty() && inner[..end].bytes().all(|b| b.is_ascii_lowercase());
    name.then_some(end + 2)
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\'));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "D-dcb833cf-8YL1NT17e9+wsA/09NqxscQI-05a1";
    const B: &str = "D-6323cf24-Gu8GfDopmc2GFJa2i3Cng/ez-05a1";

    #[test]
    fn an_id_stands_for_one_and_the_same() {
        let mut names = Names::new([20_000]);
        assert!(names.match_text(&format!("\"{A}\""), &format!("\"{B}\"")));
        assert!(!names.match_text(A, A));
        assert_eq!(names.fill_in(&format!("SHOW {A}")), format!("SHOW {B}"));
        assert_eq!(names.fill_in(&format!("SHOW {B}")), format!("SHOW {B}"));
        assert!(!names.match_text(A, "text"));
    }

    #[test]
    fn placeholders() {
        let mut names = Names::new([20_000]);
        for (shown, actual, matches) in [
            ("(integer) ~300", "(integer) 299", true),
            ("(integer) ~300", "(integer) 149", false),
            ("(integer) ~300", "(integer) x", false),
            ("~0", "0", true),
            ("a <any> b", "a 12.x b", true),
            ("a <any> b", "a  b", false),
            ("<any> <any>", "1 2", true),
            ("<one> <one>", "1 1", true),
            ("<two> <two>", "1 2", false),
            ("\"7711\"", "\"20000\"", true),
            ("\"7711\"", "\"20001\"", false),
            ("abc", "ab", false),
            ("ab", "abc", false),
        ] {
            assert_eq!(names.match_text(shown, actual), matches, "{shown} {actual}");
        }
    }

    #[test]
    fn ports_of_several_servers() {
        let mut names = Names::new([27_712, 20_000]);
        assert_eq!(names.fill_in("A 7711 7712 7713"), "A 27712 20000 7713");
        assert!(names.match_text("a:7711 b:7712", "a:27712 b:20000"));
        assert!(!names.match_text("a:7712", "a:27712"));
    }

    #[test]
    fn lines_left_out() {
        let mut names = Names::new([20_000]);
        let actual = ["a", "b", "c"];
        for (shown, matches) in [
            (&["a", "..."][..], true),
            (&["...", "c"], true),
            (&["a", "...", "c"], true),
            (&["..."], true),
            (&["...", "b"], false),
            (&["a", "b"], false),
        ] {
            assert_eq!(names.match_lines(shown, &actual), matches, "{shown:?}");
        }
    }
}

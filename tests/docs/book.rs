//! The documents as files: blocks, tables, headings, links.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file of the repository.
#[track_caller]
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every page, as paths from the root of the repository.
pub fn paths() -> Vec<String> {
    let mut paths = vec!["README.md".to_string()];
    for directory in ["docs", "docs/manual"] {
        let entries = fs::read_dir(root().join(directory)).expect(directory);
        for entry in entries {
            let name = entry.expect(directory).file_name().into_string().unwrap();
            if name.ends_with(".md") {
                paths.push(format!("{directory}/{name}"));
            }
        }
    }
    paths.sort();
    paths
}

/// A page of the documents.
pub struct Page {
    path: String,
    text: String,
}

/// A fenced block.
pub struct Block<'a> {
    /// The first word after the fence.
    pub kind: &'a str,
    /// The other words.
    pub words: Vec<&'a str>,
    pub lines: Vec<&'a str>,
    /// Where it stands, for messages.
    pub place: String,
}

impl Page {
    #[track_caller]
    pub fn read(path: &str) -> Page {
        Page {
            path: path.to_string(),
            text: read(path),
        }
    }

    pub fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.strip_prefix("```") else {
                continue;
            };
            let mut words = info.split_ascii_whitespace();
            blocks.push(Block {
                kind: words.next().unwrap_or(""),
                words: words.collect(),
                lines: lines
                    .by_ref()
                    .map(|(_, line)| line)
                    .take_while(|line| *line != "```")
                    .collect(),
                place: format!("{}, line {}", self.path, number + 1),
            });
        }
        blocks
    }

    /// The cells of every row of every table, escapes undone.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let rows = self.text.lines().filter(|line| line.starts_with('|'));
        rows.map(cells).collect()
    }

    /// The page without what stands in fenced blocks.
    fn prose(&self) -> String {
        let mut inside = false;
        let mut prose = String::new();
        for line in self.text.lines() {
            if line.starts_with("```") {
                inside = !inside;
            } else if !inside {
                prose.push_str(line);
                prose.push('\n');
            }
        }
        prose
    }

    fn anchors(&self) -> BTreeSet<String> {
        let prose = self.prose();
        let headings = prose.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|line| anchor(line.trim_start_matches('#')))
            .collect()
    }

    /// Fails for a link to a file or heading that does not exist.
    #[track_caller]
    pub fn check_links(&self) {
        let prose = self.prose();
        for rest in prose.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or("");
            if target.starts_with("http") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                self.path.clone()
            } else {
                let here = Path::new(&self.path).parent().unwrap();
                let path = normal(&here.join(file));
                assert!(
                    root().join(&path).exists(),
                    "{}: no file {target}",
                    self.path
                );
                path
            };
            if !heading.is_empty() {
                let anchors = Page::read(&path).anchors();
                assert!(
                    anchors.contains(heading),
                    "{}: no heading {target}",
                    self.path
                );
            }
        }
    }
}

fn cells(line: &str) -> Vec<String> {
    const BAR: &str = "\u{1}";
    let line = line.replace("\\|", BAR);
    let inner = line.trim().trim_matches('|');
    inner
        .split('|')
        .map(|cell| cell.trim().replace(BAR, "|"))
        .collect()
}

/// The name that a heading gets in a rendered page.
fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// A relative path without `..`.
fn normal(path: &Path) -> String {
    let mut parts = Vec::new();
    for part in path.to_str().unwrap().split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

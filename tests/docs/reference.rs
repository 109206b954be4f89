//! What the documents list is what the server has: commands, INFO fields.

use crate::book::{self, Page};
use disque_testing::{Server, Value};
use std::collections::BTreeSet;

/// The lines of DISQUE HELP, without the summaries.
fn usages(server: &Server) -> Vec<String> {
    let reply = server.client().run("DISQUE HELP");
    let lines = reply.expect_array().iter().map(Value::text);
    let usage = |line: &str| line.split(" -- ").next().unwrap_or(line).to_string();
    lines.map(usage).collect()
}

/// `ADDJOB` or `DISQUE HELLO` of a syntax line.
fn name(usage: &str) -> String {
    let capitals = |word: &&str| word.bytes().all(|b| b.is_ascii_uppercase());
    let words = usage.split(' ').take_while(capitals).take(2);
    words.collect::<Vec<_>>().join(" ")
}

/// Every line in blocks of the kind `syntax`, with the page that it is on.
fn syntax_lines() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in book::paths() {
        let page = Page::read(&path);
        for block in page.blocks().iter().filter(|b| b.kind == "syntax") {
            found.extend(block.lines.iter().map(|l| (path.clone(), l.to_string())));
        }
    }
    found
}

#[test]
fn every_command_has_its_syntax_in_the_manual_once() {
    let server = Server::new();
    let usages: BTreeSet<String> = usages(&server).into_iter().collect();
    let lines = syntax_lines();
    let shown: BTreeSet<String> = lines.iter().map(|(_, line)| line.clone()).collect();
    assert_eq!(shown, usages);
    assert_eq!(lines.len(), usages.len(), "a command stands twice");
}

#[test]
fn help_knows_every_command() {
    let server = Server::new();
    let reply = server.client().run("COMMAND LIST FILTERBY MODULE disque");
    let listed: BTreeSet<String> = reply
        .expect_array()
        .iter()
        .map(|name| name.text().replace('|', " ").to_uppercase())
        // The container, and what is not for clients.
        .filter(|name| !matches!(name.as_str(), "DISQUE" | "DISQUE.RECORD" | "DISQUE.BUS"))
        .collect();
    let help = usages(&server).iter().map(|u| name(u)).collect();
    assert_eq!(listed, help);
}

#[test]
fn every_command_has_a_row_in_the_readme_that_links_to_its_page() {
    let server = Server::new();
    let lines = syntax_lines();
    let rows = Page::read("README.md").rows();
    for usage in usages(&server) {
        let shown = format!("`{usage}`");
        let row = rows.iter().find(|row| row.contains(&shown));
        let Some(row) = row else {
            panic!("README.md has no row with {shown}");
        };
        let page = lines.iter().find(|(_, line)| *line == usage);
        let (page, _) = page.expect("tested elsewhere");
        let link = format!("({page}#{})", name(&usage).to_lowercase().replace(' ', "-"));
        assert!(row[0].ends_with(&link), "{row:?} does not link to {link}");
    }
}

#[test]
fn every_field_of_info_is_explained_and_nothing_else() {
    let server = Server::new();
    let fields: BTreeSet<String> = server.info("disque").into_keys().collect();
    let rows = Page::read("docs/manual/operations.md").rows();
    let explained: BTreeSet<String> = rows
        .iter()
        .filter_map(|row| row[0].strip_prefix("`disque_")?.strip_suffix('`'))
        .map(|field| format!("disque_{field}"))
        .collect();
    assert_eq!(explained, fields);
}

#[test]
fn the_python_example_uses_commands_that_exist() {
    let server = Server::new();
    let known: BTreeSet<String> = usages(&server).iter().map(|u| name(u)).collect();
    let page = Page::read("README.md");
    let mut found = 0;
    for block in page.blocks().iter().filter(|b| b.kind == "python") {
        for rest in block.lines.join("\n").split("execute_command(\"").skip(1) {
            let command = rest.split('"').next().unwrap_or("");
            assert!(known.contains(command), "{command}");
            found += 1;
        }
    }
    assert!(found > 0, "there is no example");
}

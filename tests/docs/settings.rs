//! The settings: `redis.conf.example` and the table in the README.

use crate::book::{self, Page};
use disque_testing::{module_path, Options, Server};
use std::collections::BTreeMap;

const EXAMPLE: &str = "redis.conf.example";

/// All settings of the module with their values.
fn settings(server: &Server) -> BTreeMap<String, String> {
    let reply = server.client().run("CONFIG GET disque.*");
    let items = reply.expect_array();
    items
        .chunks(2)
        .map(|pair| (pair[0].text().to_string(), pair[1].text().to_string()))
        .collect()
}

/// The lines of the example that are not comments, as name and value.
fn example_lines() -> Vec<(String, String)> {
    let text = book::read(EXAMPLE);
    let lines = text
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            (name.to_string(), value.trim().to_string())
        })
        .collect()
}

/// A server started from the example, but on a port and in a directory of its
/// own, and with the module under test.
fn server_of_the_example() -> Server {
    let mut options = Options::new().without_module();
    for (name, value) in example_lines() {
        match name.as_str() {
            "bind" | "port" | "dir" | "logfile" => {}
            "loadmodule" => {
                let module = module_path().canonicalize().expect("the module");
                options = options.set("loadmodule", module.to_str().expect("a path"));
            }
            _ => options = options.set(&name, &value),
        }
    }
    Server::start(options)
}

#[test]
fn the_example_holds_every_setting_with_its_default() {
    let defaults = settings(&Server::new());
    let lines = example_lines();
    let named: Vec<&String> = lines
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("disque."))
        .collect();
    for name in defaults.keys() {
        let count = named.iter().filter(|n| **n == name).count();
        assert_eq!(count, 1, "{name} in {EXAMPLE}");
    }
    assert_eq!(named.len(), defaults.len(), "{EXAMPLE} names others too");
    // Written as an operator would: sizes with their units.
    assert_eq!(settings(&server_of_the_example()), defaults);
}

#[test]
fn the_example_loads_and_gives_no_warning() {
    let server = server_of_the_example();
    let mut c = server.client();
    c.run("ADDJOB q x 0").expect_job_id();
    assert_eq!(c.run("DISQUE INFO config_warnings").expect_text(), "");
    for (name, value) in [("appendonly", "yes"), ("maxmemory-policy", "noeviction")] {
        let reply = c.run(&format!("CONFIG GET {name}"));
        assert_eq!(reply.expect_array()[1].text(), value);
    }
}

#[test]
fn the_readme_has_a_row_for_every_setting_with_its_default() {
    let defaults = settings(&Server::new());
    let rows = Page::read("README.md").rows();
    let listed: BTreeMap<String, String> = rows
        .iter()
        .filter(|row| row.len() > 1 && row[0].starts_with("`disque."))
        .map(|row| (row[0].replace('`', ""), row[1].replace(['`', '"'], "")))
        .collect();
    assert_eq!(listed, defaults);
}

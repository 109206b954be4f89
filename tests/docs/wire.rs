//! Blocks of the kind `bytes`: replies byte for byte.
//!
//! A line `> COMMAND` is followed by `RESP2:` or `RESP3:` or both, each with the
//! bytes of the reply, which may go on in indented lines: for each the command
//! is sent once, on a connection that speaks this version. `both:` stands for
//! two times the same bytes. A command without such lines is sent once, on the
//! RESP2 connection.

use crate::book::Block;
use crate::matching::Names;
use crate::session::words;
use disque_testing::{Client, Server, Value};

/// Runs a block on a server of its own.
#[track_caller]
pub fn run(block: &Block<'_>) {
    let server = Server::new();
    let mut clients = [server.client(), server.client3()];
    let mut names = Names::new([server.port()]);
    let mut lines = block.lines.iter().peekable();
    while let Some(line) = lines.next() {
        let command = line
            .strip_prefix("> ")
            .unwrap_or_else(|| panic!("{}: no command: {line}", block.place));
        let mut tested = false;
        while let Some((versions, start)) = lines.peek().and_then(|line| versions(line)) {
            let mut shown = start.to_string();
            lines.next();
            while let Some(more) = lines.next_if(|line| line.starts_with(' ')) {
                shown.push_str(more.trim());
            }
            for &version in versions {
                compare(&mut clients[version], &mut names, command, &shown, block);
            }
            tested = true;
        }
        if !tested {
            let reply = clients[0].call(&words(&names.fill_in(command), &block.place));
            if let Value::Error(_) = reply.value() {
                panic!("{}: {reply:?}", block.place);
            }
        }
    }
}

/// Which connections a line is about, and the bytes that it shows.
fn versions(line: &str) -> Option<(&'static [usize], &str)> {
    let (label, bytes) = line.split_once(": ")?;
    let versions: &[usize] = match label {
        "RESP2" => &[0],
        "RESP3" => &[1],
        "both" => &[0, 1],
        _ => return None,
    };
    Some((versions, bytes))
}

#[track_caller]
fn compare(client: &mut Client, names: &mut Names, command: &str, shown: &str, block: &Block<'_>) {
    let reply = client.call(&words(&names.fill_in(command), &block.place));
    let actual = reply.raw().escape_ascii().to_string();
    assert!(
        names.match_text(shown, &actual),
        "{}: {command}\nthe document shows\n{shown}\nthe server says\n{actual}",
        block.place
    );
}

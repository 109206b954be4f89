//! What is kept of a run that failed.

use crate::history::History;
use crate::nodes::Nodes;
use std::io;
use std::path::{Path, PathBuf};

/// Stops the servers, and copies the history, their logs and all that they have
/// written to a new folder, which is returned.
pub fn keep(seed: u64, history: &History, nodes: &mut Nodes) -> io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("disque-faults-{seed}"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    write_history(&folder, history)?;
    for (node, server) in nodes.servers.iter_mut().enumerate() {
        server.kill9();
        server.copy_to(&folder.join(crate::history::name(node)))?;
    }
    Ok(folder)
}

fn write_history(folder: &Path, history: &History) -> io::Result<()> {
    let lines = history.events();
    let text: String = lines.iter().map(|line| line.to_line() + "\n").collect();
    std::fs::write(folder.join("history.jsonl"), text)
}

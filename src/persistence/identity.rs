//! The node's identity across starts, in `disque-nodes-<port>.conf` in the
//! server's `dir`.
//!
//! What stands in the loaded data goes before it. The file serves a node
//! without data, and carries the mark of a clean stop.

use crate::ffi::{Ctx, Level};
use disque_core::node::Identity;
use disque_core::nodes_file::{NodesFile, MAX_LEN};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Reads the file; `None` where there is none that can be used. The mark of a clean
/// stop holds until the file is saved again.
pub fn restore(ctx: &Ctx) -> Option<NodesFile> {
    match read(&path(ctx)) {
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let text = format!("the nodes file is not used: {error}");
            ctx.log(Level::Warning, &text);
            None
        }
    }
}

/// Writes the file anew. A failure is logged and otherwise without effect: the
/// next start finds what the data say.
pub fn save(ctx: &Ctx, file: &NodesFile) {
    let path = path(ctx);
    if let Err(error) = replace(&path, file.to_text().as_bytes()) {
        let text = format!("cannot write {}: {error}", path.display());
        ctx.log(Level::Warning, &text);
    }
}

/// A new identity, for a node that has none.
pub fn fresh(ctx: &Ctx) -> NodesFile {
    NodesFile {
        identity: Identity {
            id: ctx.random_bytes(),
            epoch: u64::from_le_bytes(ctx.random_bytes()),
            term: 0,
        },
        // Others remember the last one: where the file is lost and the data are
        // not, it must still grow.
        incarnation: crate::host::now().wall_ms,
        clean_stop: false,
        batches: 0,
        synced: false,
        nodes: Vec::new(),
        forgotten: Vec::new(),
    }
}

fn path(ctx: &Ctx) -> PathBuf {
    let dir = ctx.config(c"dir").unwrap_or_default();
    Path::new(OsStr::from_bytes(&dir)).join(format!("disque-nodes-{}.conf", port(ctx)))
}

/// The port at which clients reach this server.
pub fn port(ctx: &Ctx) -> u16 {
    let number = |name| {
        let text = ctx.config(name)?;
        std::str::from_utf8(&text).ok()?.parse().ok()
    };
    let plain = number(c"port").filter(|&port| port != 0);
    plain.or_else(|| number(c"tls-port")).unwrap_or(0)
}

fn read(path: &Path) -> io::Result<NodesFile> {
    let mut text = Vec::new();
    let mut file = File::open(path)?.take(MAX_LEN as u64 + 1);
    file.read_to_end(&mut text)?;
    NodesFile::parse(&text).map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))
}

/// Replaces a file so that a crash leaves the old or the new one, whole.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

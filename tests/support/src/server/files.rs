//! What a server has written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Server;
use crate::disk::Disk;

impl Server {
    /// Redis' `dir`.
    pub fn directory(&self) -> &Path {
        self.disk.as_ref().map_or(&self.directory, Disk::path)
    }

    /// The disk of its own, with [`crate::Options::disk`].
    #[track_caller]
    pub fn disk(&self) -> &Disk {
        self.disk.as_ref().expect("started without a disk")
    }

    /// Removes all that a stopped server has written, but its log. Its clock stays
    /// as it was set.
    pub fn wipe(&mut self) {
        assert!(self.child.is_none(), "the server runs");
        let kept = [self.log_path(), self.clock_path()];
        for path in paths(self.directory()).filter(|path| !kept.contains(path)) {
            remove(&path);
        }
    }

    /// Removes the append only file of a stopped server.
    pub fn remove_log_of_commands(&mut self) {
        assert!(self.child.is_none(), "the server runs");
        remove(&self.directory().join("appendonlydir"));
    }

    /// The file that an append only file grows by.
    pub fn growing_file(&self) -> Option<PathBuf> {
        self.log_file(".incr.")
    }

    /// The file to which the append only file was last rewritten.
    pub fn rewritten_file(&self) -> Option<PathBuf> {
        self.log_file(".base.")
    }

    /// The newest of such files: for a moment after a rewrite the old ones are there.
    fn log_file(&self, part: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.directory().join("appendonlydir")).ok()?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let wanted = paths.filter(|path| path.to_string_lossy().contains(part));
        wanted.max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok())
    }

    /// Copies the log and all that it has written to a new directory.
    pub fn copy_to(&self, to: &Path) -> io::Result<()> {
        copy(&self.directory, to)
    }
}

fn paths(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).expect("a server's directory");
    entries.map(|entry| entry.expect("an entry").path())
}

fn remove(path: &Path) {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    removed.unwrap_or_else(|e| panic!("cannot remove {}: {e}", path.display()));
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = to.join(path.file_name().expect("an entry has a name"));
        match path.is_dir() {
            true => copy(&path, &to)?,
            false => drop(fs::copy(&path, &to)?),
        }
    }
    Ok(())
}

//! A disk of its own for what a server writes, small enough to be filled.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted file system in memory; unmounted when it is dropped.
pub struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Mounts a disk of so many bytes at a new directory. Needs the right to mount.
    pub fn mount(path: &Path, bytes: u64) -> io::Result<Disk> {
        fs::create_dir(path)?;
        let disk = Disk { path: path.into() };
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "disque-test"])
            .arg(path)
            .output()?;
        match mounted.status.success() {
            true => Ok(disk),
            false => Err(io::Error::other(
                String::from_utf8_lossy(&mounted.stderr).trim().to_string(),
            )),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves no room on it; how many bytes that took.
    pub fn fill(&self) -> io::Result<u64> {
        let mut file = File::create(self.filling())?;
        let mut written = 0;
        for size in [64 << 10, 1] {
            let piece = vec![0; size];
            while let Ok(length @ 1..) = file.write(&piece) {
                written += length as u64;
            }
        }
        Ok(written)
    }

    /// Gives back the room that [`Disk::fill`] took.
    pub fn free(&self) -> io::Result<()> {
        fs::remove_file(self.filling())
    }

    fn filling(&self) -> PathBuf {
        self.path.join("filling")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What is not mounted any more, or still in use, is no reason to fail.
        let _ = Command::new("umount").arg("-l").arg(&self.path).output();
    }
}

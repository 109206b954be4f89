//! What servers have written.

use super::{Injector, HELD_BACK_MS};
use disque_checker::{FaultKind, Lost};
use rand::Rng;
use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::thread;
use std::time::Duration;

impl Injector<'_> {
    /// The end of the append only file is gone, as after a power cut.
    pub(super) fn lose_tail(&mut self, node: usize) -> Result<(), String> {
        const LOAD: Duration = Duration::from_millis(600);
        let path = self.nodes.servers[node].growing_file();
        let path = path.ok_or("there is no append only file")?;
        let length = || {
            let data = fs::metadata(&path);
            data.map(|data| data.len())
                .map_err(|error| error.to_string())
        };
        let since = self.history.now().saturating_sub(HELD_BACK_MS);
        let before = length()?;
        thread::sleep(LOAD);
        let fault = self.begin(node, FaultKind::Kill);
        self.kill_and_lose(node, Lost::Since(since));
        let kept = self.random.random_range(before..=length()?.max(before));
        let file = OpenOptions::new().write(true).open(&path);
        let cut = file.and_then(|file| file.set_len(kept));
        cut.map_err(|error| error.to_string())?;
        let left = length()?;
        thread::sleep(self.some_time());
        self.start_again(node, fault);
        match left == kept {
            true => Ok(()),
            false => Err(format!("{left} bytes are left, not {kept}")),
        }
    }

    /// A bit of a record has changed: the node refuses to start, until it is told to
    /// skip what it cannot read.
    pub(super) fn flip_bit(&mut self, node: usize) -> Result<(), String> {
        const SETTING: &str = "disque.damaged-records";
        let path = self.nodes.servers[node].growing_file();
        let path = path.ok_or("there is no append only file")?;
        let fault = self.begin(node, FaultKind::Kill);
        // Whatever it wrote at any time.
        self.kill_and_lose(node, Lost::Since(0));
        let flipped = self.flip_in(&path).map_err(|error| error.to_string())?;
        if !flipped {
            self.start_again(node, fault);
            return Ok(());
        }
        let refused = self.nodes.servers[node].try_start_again();
        self.nodes.servers[node].configure(SETTING, "skip");
        if refused.is_ok() {
            return Err(format!("node {node} starts from damaged data"));
        }
        self.start_again(node, fault);
        // Until then the next start would be refused again.
        self.nodes.servers[node].rewrite_log();
        let set = format!("CONFIG SET {SETTING} refuse");
        self.nodes.servers[node].client().run(&set).expect_ok();
        self.nodes.servers[node].configure(SETTING, "refuse");
        Ok(())
    }

    /// Flips a bit in some record; false if nothing was written since a rewrite.
    fn flip_in(&mut self, path: &Path) -> io::Result<bool> {
        let mut bytes = fs::read(path)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let records = records(&bytes);
        if records.is_empty() {
            return Err(io::Error::other(
                "there is no record in the append only file",
            ));
        }
        let record = records[self.random.random_range(0..records.len())].clone();
        let byte = self.random.random_range(record);
        bytes[byte] ^= 1 << self.random.random_range(0..8);
        fs::write(path, bytes)?;
        Ok(true)
    }

    /// The append only file is gone.
    pub(super) fn lose_file(&mut self, node: usize) -> Result<(), String> {
        let fault = self.begin(node, FaultKind::Kill);
        self.kill_and_lose(node, Lost::All);
        self.nodes.servers[node].remove_log_of_commands();
        let gone = self.nodes.servers[node].growing_file().is_none();
        thread::sleep(self.some_time());
        self.start_again(node, fault);
        match gone {
            true => Ok(()),
            false => Err(format!("node {node} has its append only file still")),
        }
    }
}

/// Where the payloads of the module's records are in an append only file.
fn records(file: &[u8]) -> Vec<Range<usize>> {
    const COMMAND: &[u8] = b"disque.record\r\n$";
    let starts = file.windows(COMMAND.len()).enumerate();
    let starts = starts.filter(|(_, window)| *window == COMMAND);
    let read = |(start, _): (usize, &[u8])| {
        let rest = &file[start + COMMAND.len()..];
        let digits = rest.iter().position(|byte| *byte == b'\r')?;
        let length = std::str::from_utf8(&rest[..digits]).ok()?;
        let payload = start + COMMAND.len() + digits + 2;
        let end = payload + length.parse::<usize>().ok()?;
        (end <= file.len()).then_some(payload..end)
    };
    starts.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_where_they_are_whole() {
        let file =
            b"*2\r\n$13\r\ndisque.record\r\n$3\r\nabc\r\n*2\r\n$13\r\ndisque.record\r\n$9\r\nab";
        let found = records(file);
        assert_eq!(found.len(), 1);
        assert_eq!(&file[found[0].clone()], b"abc");
    }
}

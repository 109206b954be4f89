//! Replays a fuzz target's corpus as an ordinary test, so that what fuzzing once
//! found stays found, on machines without a fuzzer too.

use std::fs;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// Where the inputs of `target` lie.
pub fn directory(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

/// Runs `target` on each file of `fuzz/corpus/<name>`, in the order of their
/// names. A panic names the file. A missing or empty directory fails: a test
/// that replays nothing shows nothing.
pub fn replay(name: &str, mut target: impl FnMut(&[u8])) {
    let directory = directory(name);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .unwrap_or_else(|e| panic!("no corpus {}: {e}", directory.display()))
        .map(|entry| entry.expect("unreadable corpus").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "empty corpus: {}", directory.display());
    for file in files {
        let bytes = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&bytes))) {
            eprintln!("failed on the corpus file {}", file.display());
            resume_unwind(panic);
        }
    }
}

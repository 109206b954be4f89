//! The documents are tested: what they show is run on a real server, what they
//! list is compared with what the server says, and their links lead somewhere.
//!
//! `docs/manual/README.md` explains how examples are written.
#![forbid(unsafe_code)]

mod book;
mod matching;
mod printed;
mod reference;
mod session;
mod settings;
mod wire;

use book::Page;

/// Runs every example of one page, each on a server of its own.
#[track_caller]
fn run_examples(path: &str) {
    let page = Page::read(path);
    for block in page.blocks() {
        match block.kind {
            "session" => session::run(&block),
            "bytes" => wire::run(&block),
            _ => {}
        }
    }
}

/// A test for each page, so that they run side by side.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[test]
            fn $name() {
                run_examples($path);
            }
        )*

        const PAGES: &[&str] = &[$($path),*];
    };
}

pages! {
    readme: "README.md",
    manual: "docs/manual/README.md",
    addjob: "docs/manual/addjob.md",
    getjob: "docs/manual/getjob.md",
    settling: "docs/manual/settling.md",
    requeueing: "docs/manual/requeueing.md",
    show: "docs/manual/show.md",
    queues: "docs/manual/queues.md",
    scanning: "docs/manual/scanning.md",
    disque: "docs/manual/disque.md",
    concepts: "docs/manual/concepts.md",
    persistence: "docs/manual/persistence.md",
    operations: "docs/manual/operations.md",
    errors: "docs/manual/errors.md",
    architecture: "docs/architecture.md",
    decisions: "docs/decisions.md",
    performance: "docs/performance.md",
    proof: "docs/proof.md",
    faults: "docs/faults.md",
}

#[test]
fn no_page_is_left_out() {
    for path in book::paths() {
        assert!(
            PAGES.contains(&path.as_str()),
            "{path} has no line in tests/docs/main.rs"
        );
    }
}

#[test]
fn every_link_leads_somewhere() {
    for path in book::paths() {
        Page::read(&path).check_links();
    }
}

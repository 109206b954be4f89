//! The wall clock of one server.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::Server;

impl Server {
    pub(super) fn fake_the_clock(&self, command: &mut Command) {
        let file = self.clock_path();
        if !file.exists() {
            fs::write(&file, "0").expect("cannot write the clock file");
        }
        command
            .env("LD_PRELOAD", self.clock_library())
            .env("STEPPED_CLOCK", file);
    }

    /// Built for each server, by the compiler that links everything else.
    fn clock_library(&self) -> PathBuf {
        let source = self.directory.join("clock.c");
        let library = self.directory.join("clock.so");
        if !library.exists() {
            fs::write(&source, include_str!("../clock.c")).expect("cannot write clock.c");
            let built = Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-o"])
                .args([&library, &source])
                .status();
            assert!(
                built.is_ok_and(|status| status.success()),
                "cannot build the clock"
            );
        }
        library
    }

    /// Moves the wall clock by `seconds` against the true time, at once. Needs
    /// [`crate::Options::fake_clock`].
    #[track_caller]
    pub fn step_clock(&self, seconds: i64) {
        assert!(self.options.fake_clock, "started without a fake clock");
        // Replaced in one step: the server reads it at any moment.
        let new = self.directory.join("clock.new");
        fs::write(&new, seconds.to_string()).expect("cannot write the clock file");
        fs::rename(new, self.clock_path()).expect("cannot replace the clock file");
    }

    /// Seconds of wall clock that the server shows.
    #[track_caller]
    pub fn wall_clock(&self) -> i64 {
        let reply = self.client().run("TIME");
        let seconds = reply.expect_array()[0].text();
        seconds.parse().expect("TIME is no number")
    }

    pub(super) fn clock_path(&self) -> PathBuf {
        self.directory.join("clock")
    }
}

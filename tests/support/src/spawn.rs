//! Children that die with the test process.
//!
//! The kernel's parent-death signal is tied to the *thread* that created the
//! child. Tests run on short-lived threads, so one thread that lives as long as
//! the process creates all of them.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Mutex, OnceLock};

type Request = (Command, Sender<io::Result<Child>>);

/// Prepends what sets the parent-death signal before the program runs.
pub(crate) fn dying_with_parent<'a>(words: impl Iterator<Item = &'a str>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).args(words);
    command
}

pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = channel::<Request>();
        std::thread::Builder::new()
            .name("spawner".into())
            .spawn(move || {
                for (mut command, answer) in requests {
                    // A receiver that is gone means a test that is gone.
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("cannot start the spawner thread");
        Mutex::new(sender)
    });
    let (answer, result) = channel();
    let sender = spawner
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .clone();
    sender
        .send((command, answer))
        .expect("the spawner thread is gone");
    result.recv().expect("the spawner thread is gone")
}

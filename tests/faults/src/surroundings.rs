//! What can be done to servers on this machine. Networks and disks are made in
//! namespaces of the run's own, so that nothing of them is left, and nobody else sees
//! them.

use crate::net::namespaces;
use disque_testing::{Disk, Place};
use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set for a program that is in namespaces of its own.
const APART: &str = "DISQUE_FAULTS_APART";
/// What is its own there.
const OWN: [&str; 2] = ["--net", "--mount"];
/// The most nodes of a run.
pub const MOST_NODES: usize = 5;
/// How much a server can write.
pub const DISK_BYTES: u64 = 64 << 20;

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Namespaces for nodes: [`MOST_NODES`] or none.
    pub places: Vec<Place>,
    /// Whether servers can have disks of their own.
    pub disks: bool,
    /// Whether servers can have clocks of their own.
    pub clocks: bool,
}

impl Surroundings {
    /// Looks, and says what has to be skipped. May start this program anew.
    pub fn explore() -> Surroundings {
        let mut found = Surroundings::default();
        match go_apart() {
            Ok(()) => {
                let places = namespaces::set_up(MOST_NODES);
                found.places = places.unwrap_or_else(|why| skip(NETWORKS, &why));
                found.disks = try_disk().map_or_else(|why| skip("full disks", &why), |()| true);
            }
            Err(why) => {
                skip::<()>(NETWORKS, &why);
                skip::<()>("full disks", &why);
            }
        }
        let clock = run("cc", &["--version"]);
        found.clocks = clock.map_or_else(|why| skip("clocks that are set", &why), |_| true);
        found
    }
}

const NETWORKS: &str = "network namespaces (links are cut by proxies only)";

fn skip<T: Default>(what: &str, why: &str) -> T {
    println!("skipped: {what}: {why}");
    T::default()
}

/// Starts this program anew in namespaces of its own, unless it is there.
fn go_apart() -> Result<(), String> {
    if env::var_os(APART).is_some() {
        // The names of network namespaces are kept in there.
        run("mount", &["-t", "tmpfs", "disque-test", "/run"])?;
        return run("ip", &["link", "set", "lo", "up"]);
    }
    run("unshare", &[&OWN[..], &["true"]].concat())?;
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("unshare");
    let error = command.args(OWN).arg(program).env(APART, "1").exec();
    Err(error.to_string())
}

fn try_disk() -> Result<(), String> {
    let path = env::temp_dir().join(format!("disque-faults-disk-{}", std::process::id()));
    let disk = Disk::mount(&path, 1 << 20).and_then(|disk| disk.fill());
    let _ = std::fs::remove_dir(&path);
    disk.map(drop).map_err(|error| error.to_string())
}

/// Runs a program of the system; what it complained about.
pub fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let ended = Command::new(program).args(arguments).output();
    let ended = ended.map_err(|error| format!("{program}: {error}"))?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&ended.stderr).trim()
        )),
    }
}

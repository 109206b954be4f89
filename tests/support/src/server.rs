//! One redis-server with the module, owned by one test.

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

use crate::disk::Disk;
use crate::lock::{shared_machine, MachineShare};
use crate::poll::patient;
use crate::port::{self, Port};
use crate::{spawn, Client, Options, Persistence, Value};

mod clock;
mod files;
mod pulse;

pub use pulse::{waits_for_processor, Pulse};

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(30);
const REWRITE_LIMIT: Duration = Duration::from_secs(30);

/// Kills its server and removes its directory when dropped; keeps the directory
/// and prints the log's tail when the test failed. A server that died or
/// reported a panic on its own fails the test that owns it.
pub struct Server {
    options: Options,
    port: Port,
    directory: PathBuf,
    child: Option<Child>,
    pulse: Pulse,
    /// It may panic or exit without failing the test.
    failure_expected: bool,
    disk: Option<Disk>,
    _share: Option<MachineShare>,
}

/// The way to a server that a test has started.
#[derive(Clone, Copy, Debug)]
pub struct Door(SocketAddr);

impl Door {
    /// The way through a proxy at a port of this machine, to a server of the test's own.
    pub fn through(port: u16) -> Door {
        Door((Ipv4Addr::LOCALHOST, port).into())
    }

    /// A new connection, if the server takes one.
    pub fn open(self) -> std::io::Result<Client> {
        Client::connect(self.0)
    }
}

/// The module under test: `DISQUE_MODULE`, else the library beside the running test.
pub fn module_path() -> PathBuf {
    const NAME: &str = "libdisque.so";
    if let Some(path) = std::env::var_os("DISQUE_MODULE") {
        return PathBuf::from(path);
    }
    // Tests lie in <target>/<profile>/deps, whatever CARGO_TARGET_DIR says.
    let test = std::env::current_exe().expect("the path of the running test");
    let beside = test.parent().and_then(Path::parent).map(|p| p.join(NAME));
    match beside {
        Some(path) if path.exists() => path,
        _ => Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../target/release")
            .join(NAME),
    }
}

impl Server {
    /// A server with the module and default settings.
    #[track_caller]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Server {
        Server::start(Options::new())
    }

    #[track_caller]
    pub fn start(options: Options) -> Server {
        match Server::try_start(options) {
            Ok(server) => server,
            Err(log) => panic!("the server does not start:\n{log}"),
        }
    }

    /// Starts a server, or returns the log of one that did not come up.
    pub fn try_start(options: Options) -> Result<Server, String> {
        let share = (!options.alone).then(shared_machine);
        let mut server = Server {
            directory: new_directory(),
            port: port::reserve(),
            child: None,
            pulse: Pulse::default(),
            failure_expected: false,
            disk: None,
            options,
            _share: share,
        };
        server.mount_disk();
        loop {
            let result = server.launch();
            match result {
                Ok(()) => return Ok(server),
                Err(log) if log.contains("Address already in use") => {
                    fs::remove_file(server.log_path()).expect("cannot remove the log");
                    server.port = port::reserve();
                }
                Err(log) => {
                    server.failure_expected = true;
                    return Err(log);
                }
            }
        }
    }

    fn mount_disk(&mut self) {
        if let Some(bytes) = self.options.disk {
            let disk = Disk::mount(&self.directory.join("data"), bytes);
            self.disk = Some(disk.expect("cannot mount a disk"));
        }
    }

    fn launch(&mut self) -> Result<(), String> {
        self.begin();
        self.wait_until_it_answers()
    }

    /// Starts the process, and does not wait until it has loaded its data.
    pub fn begin(&mut self) {
        assert!(self.child.is_none(), "already running");
        self.write_configuration();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("cannot open the log");
        let server = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        let inside = self.options.place.iter().flat_map(|place| {
            let namespace = place.namespace.as_str();
            ["ip", "netns", "exec", namespace]
        });
        let words = inside.chain(server.split_ascii_whitespace());
        let mut command = spawn::dying_with_parent(words);
        command
            .arg(self.directory.join("redis.conf"))
            .current_dir(self.directory())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("cannot share the log"))
            .stderr(log);
        if self.options.sentinel {
            command.arg("--sentinel");
        }
        if self.options.fake_clock {
            self.fake_the_clock(&mut command);
        }
        let child = spawn::spawn(command).expect("cannot start redis-server");
        self.pulse.set(child.id());
        self.child = Some(child);
    }

    fn write_configuration(&self) {
        let mut text = format!(
            "bind {}\nport {}\ndir {}\nenable-debug-command yes\n",
            self.address().ip(),
            self.port.number,
            self.directory().display()
        );
        if self.options.place.is_some() {
            // Whoever reaches it belongs to the test.
            text.push_str("protected-mode no\n");
        }
        if self.options.module {
            let module = module_path();
            let module = module
                .canonicalize()
                .unwrap_or_else(|e| panic!("no module at {}: {e}", module.display()));
            text.push_str(&format!("loadmodule {}\n", module.display()));
        }
        for (name, value) in self.options.persistence.settings() {
            text.push_str(&format!("{name} {value}\n"));
        }
        if let Some(password) = &self.options.password {
            text.push_str(&format!("requirepass {password}\n"));
        }
        for (name, value) in &self.options.settings {
            text.push_str(&format!("{name} {value}\n"));
        }
        fs::write(self.directory.join("redis.conf"), text).expect("cannot write redis.conf");
    }

    fn wait_until_it_answers(&mut self) -> Result<(), String> {
        let limit = patient(START_LIMIT);
        let deadline = Instant::now() + limit;
        loop {
            if let Ok(Some(status)) = self.process().try_wait() {
                self.gone();
                return Err(format!("{}\n({status})", self.log()));
            }
            if self.is_ready() {
                return Ok(());
            }
            if Instant::now() > deadline {
                self.kill9();
                return Err(format!("{}\n(no PONG within {limit:?})", self.log()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A server that refuses its data may end while it is asked.
    fn is_ready(&self) -> bool {
        let asked = |client: &mut Client, command: &[&str]| {
            client.try_send(command).ok()?;
            client.try_read(patient(Duration::from_millis(500))).ok()?
        };
        let Ok(mut client) = Client::connect(self.address()) else {
            return false;
        };
        if let Some(password) = &self.options.password {
            if asked(&mut client, &["AUTH", password]).is_none() {
                return false;
            }
        }
        asked(&mut client, &["PING"]).is_some_and(|reply| reply.raw() == b"+PONG\r\n")
    }

    fn process(&mut self) -> &mut Child {
        self.child.as_mut().expect("the server is not running")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server is not running").id()
    }

    /// A new connection, logged in.
    #[track_caller]
    pub fn client(&self) -> Client {
        let mut client = Client::connect(self.address())
            .unwrap_or_else(|e| panic!("cannot connect: {e}\n{}", self.log_tail()));
        if let Some(password) = &self.options.password {
            client.call(&["AUTH", password]).expect_ok();
        }
        client
    }

    /// A new connection that speaks RESP3.
    #[track_caller]
    pub fn client3(&self) -> Client {
        let mut client = self.client();
        client.hello3();
        client
    }

    /// The way to this server for another thread, also while it is down.
    pub fn door(&self) -> Door {
        Door(self.address())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        let place = self.options.place.as_ref();
        let ip = place.map_or(Ipv4Addr::LOCALHOST, |place| place.address);
        (ip, self.port.number).into()
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Replaces or adds a line of redis.conf for the next start.
    pub fn configure(&mut self, name: &str, value: &str) {
        self.options.settings.retain(|(known, _)| known != name);
        self.options.settings.push((name.into(), value.into()));
    }

    pub fn configure_persistence(&mut self, persistence: Persistence) {
        self.options.persistence = persistence;
    }

    /// Stops cleanly and starts again with the same directory and port.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop_clean();
        self.start_again();
    }

    /// Starts what [`Server::stop_clean`] or [`Server::kill9`] stopped.
    #[track_caller]
    pub fn start_again(&mut self) {
        if let Err(log) = self.try_start_again() {
            panic!("the server does not start again:\n{log}");
        }
    }

    /// [`Server::start_again`], or the log of a server that did not come up.
    pub fn try_start_again(&mut self) -> Result<(), String> {
        let result = self.launch();
        self.failure_expected |= result.is_err();
        result
    }

    /// SHUTDOWN, and the process is gone when it returns.
    #[track_caller]
    pub fn stop_clean(&mut self) {
        let mut client = self.client();
        client.send(&["SHUTDOWN"]);
        if let Ok(Some(reply)) = client.try_read(patient(STOP_LIMIT)) {
            panic!("{reply:?}");
        }
        let status = self.wait_for_exit(STOP_LIMIT);
        assert!(status.success(), "SHUTDOWN ended with {status}");
    }

    #[track_caller]
    fn wait_for_exit(&mut self, limit: Duration) -> ExitStatus {
        let status = crate::wait_for(limit, "the server ends", || {
            self.process().try_wait().expect("cannot wait")
        });
        self.gone();
        status
    }

    /// The server is to end by itself.
    pub fn await_exit(&mut self) -> ExitStatus {
        self.wait_for_exit(STOP_LIMIT)
    }

    fn gone(&mut self) {
        self.pulse.set(0);
        self.child = None;
    }

    /// Kills without warning.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Ends a stopped process too.
            let _ = child.kill();
            let _ = child.wait();
            self.gone();
        }
    }

    pub fn sigstop(&self) {
        self.signal(Signal::STOP);
    }

    pub fn sigcont(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the server is not running");
        kill_process(Pid::from_child(child), signal).expect("cannot send a signal");
    }

    /// INFO of one section, its fields by name.
    #[track_caller]
    pub fn info(&self, section: &str) -> HashMap<String, String> {
        let text = self.client().run(&format!("INFO {section}")).expect_text();
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }

    /// A field of INFO that is a number.
    #[track_caller]
    pub fn info_number(&self, section: &str, field: &str) -> i64 {
        let info = self.info(section);
        let Some(value) = info.get(field) else {
            panic!("INFO {section} has no {field}: {info:?}");
        };
        value
            .parse()
            .unwrap_or_else(|_| panic!("{field} is no number: {value}"))
    }

    /// Bytes that Redis counts as allocated.
    #[track_caller]
    pub fn used_memory(&self) -> i64 {
        self.info_number("memory", "used_memory")
    }

    /// Has the append only file written anew, and waits until it is.
    #[track_caller]
    pub fn rewrite_log(&self) {
        let started = self.client().run("BGREWRITEAOF");
        assert!(matches!(started.value(), Value::Simple(_)), "{started:?}");
        crate::eventually(REWRITE_LIMIT, "the append only file is rewritten", || {
            let info = self.info("persistence");
            info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
        });
        assert_eq!(self.info("persistence")["aof_last_bgrewrite_status"], "ok");
    }

    /// Waits until exactly `count` clients are blocked.
    #[track_caller]
    pub fn wait_blocked(&self, count: i64) {
        let mut seen = -1;
        let start = Instant::now();
        while seen != count {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{seen} clients are blocked, not {count}"
            );
            seen = self.info_number("clients", "blocked_clients");
        }
    }

    pub fn log_contains(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    pub fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_tail(&self) -> String {
        const LINES: usize = 40;
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("redis.log")
    }

    /// What the server did that no test wants, if anything. It does not fail the test
    /// any more.
    pub fn take_misbehaviour(&mut self) -> Option<String> {
        let what = self.misbehaviour()?;
        self.failure_expected = true;
        Some(what)
    }

    /// What the server did that no test wants, if anything.
    fn misbehaviour(&mut self) -> Option<String> {
        if let Some(child) = &mut self.child {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(format!("the server ended by itself ({status})"));
            }
        }
        let log = self.log();
        ["BUG REPORT START", "panicked at", "ASSERTION FAILED"]
            .iter()
            .find(|sign| log.contains(*sign))
            .map(|sign| format!("the server's log says: {sign}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let failing = std::thread::panicking();
        let misbehaviour = if failing || self.failure_expected {
            None
        } else {
            self.misbehaviour()
        };
        self.kill9();
        if failing || misbehaviour.is_some() {
            eprintln!(
                "--- the end of {}:\n{}\n---",
                self.log_path().display(),
                self.log_tail()
            );
        } else {
            self.disk = None;
            // A file that cannot be removed fails no test.
            let _ = fs::remove_dir_all(&self.directory);
        }
        if let Some(what) = misbehaviour {
            panic!("{what}");
        }
    }
}

/// A new directory that says which test it belongs to.
fn new_directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test").replace("::", "-");
    let name = format!(
        "disque-test-{}-{}-{test}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let directory = std::env::temp_dir().join(name);
    fs::create_dir(&directory)
        .unwrap_or_else(|e| panic!("cannot create {}: {e}", directory.display()));
    directory
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;

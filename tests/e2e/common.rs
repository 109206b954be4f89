//! The words that the tests here are written in.

pub use std::time::{Duration, Instant};

pub use disque_testing::{
    deliveries, eventually, is_job_id, module_path, quiet_machine, unknown_id, Client, Delivery,
    Options, Persistence, Reply, Server, Show, Value,
};

/// What a requeue deadline may be late by: its random spread, and a busy machine.
pub const LATE: Duration = Duration::from_millis(1500);

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// An id of the right form that no server knows, of a job that is retried.
pub fn stranger() -> String {
    unknown_id(1, 0x05a1)
}

/// Every command that takes job ids and nothing else.
pub const ID_COMMANDS: [&str; 6] = ["ACKJOB", "FASTACK", "NACK", "ENQUEUE", "DEQUEUE", "DELJOB"];

pub trait Jobs {
    /// ADDJOB of a job that is kept here, `options` after the ms-timeout.
    fn add(&mut self, queue: &str, body: &str, options: &str) -> String;
    /// GETJOB NOHANG with `rest` after it.
    fn get_now(&mut self, rest: &str) -> Vec<Delivery>;
    /// The job that GETJOB NOHANG FROM `queue` gives, which must exist.
    fn take(&mut self, queue: &str) -> Delivery;
    /// Waits in GETJOB for one job of `queue`, at most `limit`.
    fn wait_job(&mut self, queue: &str, limit: Duration) -> Option<Delivery>;
    fn show(&mut self, id: &str) -> Option<Show>;
    fn state(&mut self, id: &str) -> String;
    fn len(&mut self, queue: &str) -> i64;
    /// JSCAN's ids, however many turns it takes.
    fn all_ids(&mut self) -> Vec<String>;
    fn my_id(&mut self) -> String;
}

impl Jobs for Client {
    #[track_caller]
    fn add(&mut self, queue: &str, body: &str, options: &str) -> String {
        let mut args = vec!["ADDJOB", queue, body, "0"];
        args.extend(options.split_ascii_whitespace());
        self.call(&args).expect_job_id()
    }

    #[track_caller]
    fn get_now(&mut self, rest: &str) -> Vec<Delivery> {
        deliveries(&self.run(&format!("GETJOB NOHANG {rest}")))
    }

    #[track_caller]
    fn take(&mut self, queue: &str) -> Delivery {
        let mut jobs = self.get_now(&format!("WITHCOUNTERS FROM {queue}"));
        assert_eq!(jobs.len(), 1, "one job from {queue}: {jobs:?}");
        jobs.remove(0)
    }

    #[track_caller]
    fn wait_job(&mut self, queue: &str, limit: Duration) -> Option<Delivery> {
        self.start(&format!(
            "GETJOB TIMEOUT {} WITHCOUNTERS FROM {queue}",
            limit.as_millis()
        ));
        let reply = self
            .read(limit + secs(10))
            .expect("GETJOB never came back, though it had a TIMEOUT");
        deliveries(&reply).into_iter().next()
    }

    #[track_caller]
    fn show(&mut self, id: &str) -> Option<Show> {
        Show::read(&self.run(&format!("SHOW {id}")))
    }

    #[track_caller]
    fn state(&mut self, id: &str) -> String {
        match self.show(id) {
            Some(job) => job.state,
            None => panic!("{id} is unknown"),
        }
    }

    #[track_caller]
    fn len(&mut self, queue: &str) -> i64 {
        self.run(&format!("QLEN {queue}")).expect_int()
    }

    #[track_caller]
    fn all_ids(&mut self) -> Vec<String> {
        scan_all(self, "JSCAN")
            .iter()
            .map(|id| id.text().to_string())
            .collect()
    }

    #[track_caller]
    fn my_id(&mut self) -> String {
        self.run("DISQUE MYID").expect_text()
    }
}

/// Every element that `command` returns until its cursor is 0 again.
#[track_caller]
pub fn scan_all(client: &mut Client, command: &str) -> Vec<Value> {
    let (name, options) = command.split_once(' ').unwrap_or((command, ""));
    let mut cursor = "0".to_string();
    let mut found = Vec::new();
    for _ in 0..1_000_000 {
        let reply = client.run(&format!("{name} {cursor} {options}"));
        let parts = reply.expect_array();
        assert_eq!(parts.len(), 2, "{reply:?}");
        cursor = parts[0].text().to_string();
        found.extend_from_slice(parts[1].items());
        if cursor == "0" {
            return found;
        }
    }
    panic!("{command} never ends");
}

/// Nothing at all is left on the node.
#[track_caller]
pub fn expect_no_jobs(client: &mut Client) {
    let ids = client.all_ids();
    assert!(ids.is_empty(), "jobs are left: {ids:?}");
}

/// The file of the append-only log that grows.
pub fn append_log(server: &Server) -> std::path::PathBuf {
    let folder = server.directory().join("appendonlydir");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .collect();
    files.sort();
    files.pop().expect("no append-only log")
}

/// The bytes of a GETJOB reply with these jobs, each queue, id and body.
pub fn getjob_bytes(jobs: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", jobs.len());
    for (queue, id, body) in jobs {
        out.push_str("*3\r\n");
        for part in [queue, id, body] {
            out.push_str(&format!("${}\r\n{part}\r\n", part.len()));
        }
    }
    out.into_bytes()
}

/// Checks that `elapsed` lies between `from` and `from + late`.
#[track_caller]
pub fn expect_between(elapsed: Duration, from: Duration, late: Duration) {
    // The two processes read their clocks at slightly different moments.
    let early = from.saturating_sub(ms(20));
    assert!(
        elapsed >= early && elapsed <= from + late,
        "after {elapsed:?}, not between {from:?} and {:?}",
        from + late
    );
}

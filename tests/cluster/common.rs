//! The words that the tests here are written in.

pub use std::time::{Duration, Instant};

pub use disque_testing::{
    deliveries, eventually, hello, node_lines, quiet_machine, unknown_id, Client, Cluster,
    Delivery, Options, Persistence, Server, Show, Value, NODE_TIMEOUT_MS,
};

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Options of a node that is not part of a [`Cluster`] from the start.
pub fn node() -> Options {
    Options::new().set("disque.node-timeout", &NODE_TIMEOUT_MS.to_string())
}

/// DISQUE MEET of a server on this machine.
pub fn meet(host: &str, server: &Server) -> String {
    format!("DISQUE MEET {host} {}", server.port())
}

/// The id of a job that is added.
#[track_caller]
pub fn add(client: &mut Client, queue: &str, body: &str) -> String {
    client.call(&["ADDJOB", queue, body, "0"]).expect_job_id()
}

/// How many lines of a server's log hold `text`.
pub fn logged(server: &Server, text: &str) -> usize {
    let log = server.log();
    log.lines().filter(|line| line.contains(text)).count()
}

/// A job is added, with `options` after its body: the time to wait and what follows.
#[track_caller]
pub fn add_with(client: &mut Client, queue: &str, body: &str, options: &str) -> String {
    start_add(client, queue, body, options);
    client.reply().expect_job_id()
}

/// The same, without waiting for the reply.
#[track_caller]
pub fn start_add(client: &mut Client, queue: &str, body: &str, options: &str) {
    let mut args = vec!["ADDJOB", queue, body];
    args.extend(options.split_ascii_whitespace());
    client.send(&args);
}

/// A cluster whose third node hangs, which nobody notices for a long while, and a
/// producer at the first that waits for its copies, after `start` has sent the command
/// that adds so many jobs.
pub fn with_waiting_producer(jobs: usize, start: impl FnOnce(&mut Client)) -> (Cluster, Client) {
    let patient = Options::new().set("disque.node-timeout", "30000");
    let cluster = Cluster::strangers(3, patient);
    for at in 0..3 {
        let mut c = cluster[at].client();
        c.run("CONFIG SET disque.node-timeout 30000").expect_ok();
    }
    cluster.join();
    cluster[2].sigstop();
    let mut producer = cluster[0].client();
    start(&mut producer);
    wait_figure(&cluster[0], "waiting_producers", 1, secs(5));
    wait_figure(&cluster[1], "registered_jobs", jobs as i64, secs(5));
    producer.expect_silence(ms(20));
    (cluster, producer)
}

/// What a node tells of a job, if it has it.
#[track_caller]
pub fn show(server: &Server, id: &str) -> Option<Show> {
    Show::read(&server.client().run(&format!("SHOW {id}")))
}

/// A job's state at a node, `none` where it is not.
#[track_caller]
pub fn state(server: &Server, id: &str) -> String {
    show(server, id).map_or("none".into(), |job| job.state)
}

/// The states at all nodes.
#[track_caller]
pub fn states(cluster: &Cluster, id: &str) -> Vec<String> {
    let all = 0..cluster.len();
    all.map(|at| state(&cluster[at], id)).collect()
}

/// The nodes that have a job, in the order of the servers.
#[track_caller]
pub fn holders(cluster: &Cluster, id: &str) -> Vec<usize> {
    let all = 0..cluster.len();
    all.filter(|at| show(&cluster[*at], id).is_some()).collect()
}

/// What GETJOB gives at once.
#[track_caller]
pub fn take_now(client: &mut Client, queue: &str) -> Option<Delivery> {
    let reply = client.run(&format!("GETJOB NOHANG WITHCOUNTERS FROM {queue}"));
    deliveries(&reply).into_iter().next()
}

/// What GETJOB gives within `limit`.
#[track_caller]
pub fn wait_job(client: &mut Client, queue: &str, limit: Duration) -> Option<Delivery> {
    let limit_ms = limit.as_millis();
    client.start(&format!(
        "GETJOB TIMEOUT {limit_ms} WITHCOUNTERS FROM {queue}"
    ));
    let reply = client.read(limit + secs(10)).expect("GETJOB does not end");
    deliveries(&reply).into_iter().next()
}

/// What DISQUE LEAVING tells: jobs, acknowledgements, and those without a target.
#[track_caller]
pub fn left(server: &Server) -> [i64; 3] {
    let reply = server.client().run("DISQUE LEAVING");
    let figures = reply.expect_array();
    [3, 5, 7].map(|at| figures[at].int())
}

/// A figure of a node.
#[track_caller]
pub fn figure(server: &Server, field: &str) -> i64 {
    server.info_number("disque", &format!("disque_{field}"))
}

/// Waits until a figure of a node is this.
#[track_caller]
pub fn wait_figure(server: &Server, field: &str, wanted: i64, limit: Duration) {
    let what = format!("{field} is {wanted}");
    eventually(limit, &what, || figure(server, field) == wanted);
}

/// Waits until no node holds a job or an acknowledgement, and none counts anything.
#[track_caller]
pub fn wait_empty(cluster: &Cluster, limit: Duration) {
    for at in 0..cluster.len() {
        for field in ["registered_jobs", "dummy_acks", "under_replicated"] {
            let what = format!("{field} of node {at} is 0");
            eventually(limit, &what, || figure(&cluster[at], field) == 0);
        }
    }
}

/// Watches the queues of these nodes for a time in which no job may come.
#[track_caller]
pub fn expect_no_delivery(cluster: &Cluster, nodes: &[usize], queue: &str, time: Duration) {
    let mut clients: Vec<Client> = nodes.iter().map(|at| cluster[*at].client()).collect();
    let command = format!("GETJOB TIMEOUT {} FROM {queue}", time.as_millis());
    clients.iter_mut().for_each(|c| c.start(&command));
    for (at, client) in nodes.iter().zip(&mut clients) {
        let reply = client.read(time + secs(10)).expect("GETJOB ends");
        assert!(reply.is_null(), "node {at} delivers {reply:?}");
    }
}

/// The node, as the others see it, answers no more.
#[track_caller]
pub fn wait_unreachable(cluster: &Cluster, seen_by: &[usize], id: &str) {
    for at in seen_by {
        cluster.wait_priority(*at, id, &[5, 10, 100]);
    }
}

/// Which of these waiting workers gets a job first, and its id.
#[track_caller]
pub fn first_of(clients: &mut [Client]) -> (usize, String) {
    for _ in 0..500 {
        for (at, client) in clients.iter_mut().enumerate() {
            if let Some(reply) = client.read(ms(10)) {
                return (at, deliveries(&reply)[0].id.clone());
            }
        }
    }
    panic!("nobody delivers it");
}

/// Where a server keeps its nodes file.
pub fn nodes_file(server: &Server) -> std::path::PathBuf {
    let name = format!("disque-nodes-{}.conf", server.port());
    server.directory().join(name)
}

/// Copies a directory of files.
pub fn copy_directory(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

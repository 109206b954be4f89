//! What is looked at: figures of the cluster, each the sum of its nodes. How jobs lie on
//! the nodes is chance; how many copies there are is not.

use disque_testing::{Cluster, Server};

/// Figures in DISQUE INFO that must not grow.
const OWN: [&str; 14] = [
    "registered_jobs",
    "queued_jobs",
    "active_jobs",
    "delayed_jobs",
    "wait_repl_jobs",
    "acked_jobs",
    "dummy_acks",
    "settled_jobs_remembered",
    "under_replicated",
    "waiting_producers",
    "registered_queues",
    "blocked_clients",
    "job_memory_bytes",
    "queue_memory_bytes",
];

/// What must have happened during a run, or it shows nothing.
const DONE: [&str; 8] = [
    "jobs_added_total",
    "jobs_delivered_total",
    "jobs_requeued_total",
    "jobs_nacked_total",
    "jobs_acked_total",
    "jobs_fastacked_total",
    "jobs_handed_over_total",
    "jobs_imported_total",
];

/// The figures of one moment, by name.
pub type Figures = Vec<(&'static str, u64)>;

/// Takes a sample, and rewrites the append only files on the way.
pub fn take(cluster: &Cluster) -> Figures {
    let sum = |figure: fn(&Server) -> u64| servers(cluster).map(figure).sum();
    let mut figures = vec![
        ("open_files", sum(Server::open_files)),
        ("threads", sum(Server::threads)),
        ("resident_bytes", sum(Server::resident_bytes)),
        (
            "used_memory",
            sum(|server| info(server, "memory", "used_memory")),
        ),
        (
            "connections",
            sum(|server| info(server, "clients", "connected_clients")),
        ),
    ];
    figures.extend(own(cluster, &OWN));
    rewrite_logs(cluster);
    figures.push(("rewritten_log", sum(rewritten_bytes)));
    figures
}

/// What was done so far.
pub fn done(cluster: &Cluster) -> Figures {
    let connections =
        servers(cluster).map(|server| info(server, "stats", "total_connections_received"));
    let connections = connections.sum();
    let mut figures = own(cluster, &DONE);
    figures.push(("connections_opened", connections));
    figures
}

pub fn rewrite_logs(cluster: &Cluster) {
    servers(cluster).for_each(Server::rewrite_log);
}

/// The size of what a rewrite has written, without what was added since it began.
fn rewritten_bytes(server: &Server) -> u64 {
    let file = server.rewritten_file().expect("an append only file");
    std::fs::metadata(file).expect("its size").len()
}

fn servers(cluster: &Cluster) -> impl Iterator<Item = &Server> {
    (0..cluster.len()).map(|node| &cluster[node])
}

fn own(cluster: &Cluster, names: &[&'static str]) -> Figures {
    let all: Vec<_> = servers(cluster)
        .map(|server| server.info("disque"))
        .collect();
    let sum = |name: &str| {
        let field = format!("disque_{name}");
        all.iter().map(|info| number(&info[&field])).sum()
    };
    names.iter().map(|name| (*name, sum(name))).collect()
}

fn info(server: &Server, section: &str, field: &str) -> u64 {
    number(&server.info(section)[field])
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

//! The servers of a run, with the proxies between them.

use crate::gate::{Between, Gate};
use disque_checker::Left;
use disque_testing::{hello, node_lines, wait_for, Client, Door, Options, Persistence, Server};
use std::sync::Arc;
use std::time::Duration;

/// A second after this a node is held for gone.
pub const NODE_TIMEOUT_MS: u64 = 1_000;
/// How long a node remembers what is settled, in seconds.
const SETTLED_MEMORY_S: u64 = 10;
/// Far more than anything takes that must come to be.
const SETTLED: Duration = Duration::from_secs(60);

/// The servers of a run.
pub struct Nodes {
    pub servers: Vec<Server>,
    gates: Vec<Gate>,
    pub between: Arc<Between>,
    pub persistence: Persistence,
}

impl Nodes {
    /// So many nodes, each connected to all others through their proxies.
    pub fn start(count: usize, persistence: Persistence) -> Nodes {
        let options = Options::new()
            .persistence(persistence)
            .set("disque.node-timeout", &NODE_TIMEOUT_MS.to_string())
            .set("disque.settled-memory", &SETTLED_MEMORY_S.to_string());
        let servers = (0..count).map(|_| Server::start(options.clone()));
        let mut nodes = Nodes {
            servers: servers.collect(),
            gates: Vec::new(),
            between: Arc::default(),
            persistence,
        };
        for node in 0..count {
            let gate = Gate::new(node, nodes.servers[node].port(), &nodes.between);
            let port = gate.port.to_string();
            nodes.servers[node].configure("disque.announce-port", &port);
            let set = format!("CONFIG SET disque.announce-port {port}");
            nodes.servers[node].client().run(&set).expect_ok();
            nodes.gates.push(gate);
            nodes.introduce(node);
        }
        nodes.meet_all();
        nodes.wait_connected();
        nodes
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    pub fn doors(&self) -> Vec<Door> {
        self.servers.iter().map(Server::door).collect()
    }

    pub fn id(&self, node: usize) -> String {
        self.servers[node].client().run("DISQUE MYID").expect_text()
    }

    /// The proxies learn the id of a node.
    pub fn introduce(&self, node: usize) {
        self.between.introduce(&self.id(node), node);
    }

    pub fn meet_all(&self) {
        let mut client = self.servers[0].client();
        for gate in &self.gates[1..] {
            let meet = format!("DISQUE MEET 127.0.0.1 {}", gate.port);
            client.run(&meet).expect_ok();
        }
    }

    /// A node meets another one.
    pub fn meet(&self, node: usize, other: usize) {
        let meet = format!("DISQUE MEET 127.0.0.1 {}", self.gates[other].port);
        self.servers[node].client().run(&meet).expect_ok();
    }

    /// Waits until each node is connected to every other one, and reaches it.
    pub fn wait_connected(&self) {
        for server in &self.servers {
            let mut client = server.client();
            wait_for(SETTLED, "a node reaches all others", || {
                let lines = node_lines(&mut client);
                let all = lines.len() == self.len() && lines.iter().all(|line| line.connected);
                let fine = all && hello(&mut client).iter().all(|node| node.priority == 1);
                let reached = client.run("DISQUE INFO reachable_nodes").expect_text();
                (fine && reached == self.len().to_string()).then_some(())
            });
        }
    }

    /// Whether a server answers PING within a time.
    pub fn answers(&self, node: usize, limit: Duration) -> bool {
        let asked = |mut client: Client| {
            client.try_send(&["PING"]).ok()?;
            client.try_read(limit).ok()?
        };
        let door = self.servers[node].door();
        door.open().ok().and_then(asked).is_some()
    }

    /// What a node holds.
    pub fn left(&self, node: usize) -> Left {
        let figures = self.servers[node].info("disque");
        let figure = |name: &str| -> u64 {
            let value = figures.get(&format!("disque_{name}"));
            let value = value.unwrap_or_else(|| panic!("INFO has no {name}"));
            value.parse().expect("a number")
        };
        let blocked = self.servers[node].info_number("clients", "blocked_clients");
        Left {
            jobs: figure("registered_jobs"),
            acks: figure("acked_jobs") + figure("dummy_acks"),
            waiters: figure("blocked_clients") + figure("waiting_producers"),
            blocked: blocked.unsigned_abs(),
            memory: figure("job_memory_bytes"),
        }
    }
}

//! The servers of a run, with what lies between them.

use crate::net::gate::Gates;
use crate::net::namespaces::Routes;
use crate::net::Net;
use crate::surroundings::{Surroundings, DISK_BYTES};
use disque_checker::Left;
use disque_testing::{eventually, hello, node_lines, Client, Door, Options, Persistence, Server};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

/// A second after this a node is held for gone.
pub const NODE_TIMEOUT_MS: u64 = 1_000;
/// How long a node remembers what is settled, in seconds.
const SETTLED_MEMORY_S: u64 = 10;
/// Far more than anything takes that must come to be.
pub const SETTLED: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// The nodes that a run is to have.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub count: usize,
    pub persistence: Persistence,
    /// In namespaces of the network; else behind proxies.
    pub apart: bool,
    /// With clocks that can be set.
    pub clocks: bool,
    /// With disks that can be filled.
    pub disks: bool,
}

impl Plan {
    /// What lies between the nodes.
    pub fn between(&self) -> &'static str {
        match self.apart {
            true => "namespaces",
            false => "proxies",
        }
    }
}

/// The servers of a run.
pub struct Nodes {
    pub servers: Vec<Server>,
    pub net: Net,
    pub plan: Plan,
    /// How far each clock is ahead, in seconds.
    pub ahead: Vec<i64>,
}

impl Nodes {
    /// So many nodes, each connected to all others.
    pub fn start(plan: Plan, surroundings: &Surroundings) -> Nodes {
        let mut options = Options::new()
            .persistence(plan.persistence)
            .set("disque.node-timeout", &NODE_TIMEOUT_MS.to_string())
            .set("disque.settled-memory", &SETTLED_MEMORY_S.to_string());
        if plan.clocks {
            options = options.fake_clock();
        }
        if plan.disks {
            options = options.disk(DISK_BYTES);
        }
        let places = surroundings.places.iter().filter(|_| plan.apart);
        let mut places = places.cloned();
        let servers = (0..plan.count).map(|_| match places.next() {
            Some(place) => Server::start(options.clone().place(place)),
            None => Server::start(options.clone()),
        });
        let servers: Vec<Server> = servers.collect();
        let addresses = servers.iter().map(Server::address);
        let net = match plan.apart {
            true => Net::Routes(Routes::new(
                surroundings.places.clone(),
                addresses.collect(),
            )),
            false => Net::Gates(Gates::new(&addresses.collect::<Vec<_>>())),
        };
        let mut nodes = Nodes {
            servers,
            net,
            plan,
            ahead: vec![0; plan.count],
        };
        nodes.meet_all();
        nodes.wait_connected().expect("new nodes meet");
        nodes
    }

    fn meet_all(&mut self) {
        for node in 0..self.len() {
            if matches!(self.net, Net::Gates(_)) {
                self.announce(node);
            }
            self.introduce(node);
        }
        for node in 1..self.len() {
            self.meet(0, node);
        }
    }

    /// Others are to come to a node by its proxy.
    fn announce(&mut self, node: usize) {
        let port = self.contact(node).port().to_string();
        self.servers[node].configure("disque.announce-port", &port);
        let set = format!("CONFIG SET disque.announce-port {port}");
        self.servers[node].client().run(&set).expect_ok();
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// How clients come to the nodes.
    pub fn doors(&self) -> Vec<Door> {
        let servers = self.servers.iter().enumerate();
        servers
            .map(|(node, server)| self.net.door(node, server))
            .collect()
    }

    pub fn id(&self, node: usize) -> String {
        self.servers[node].client().run("DISQUE MYID").expect_text()
    }

    /// The network learns the id of a node.
    pub fn introduce(&self, node: usize) {
        self.net.introduce(node, &self.id(node));
    }

    /// Where others meet a node.
    pub fn contact(&self, node: usize) -> SocketAddr {
        self.net.contact(node, &self.servers[node])
    }

    /// A node meets another one. Where it does not answer in time it is tried again.
    pub fn meet(&self, node: usize, other: usize) {
        let contact = self.contact(other);
        let meet = format!("DISQUE MEET {} {}", contact.ip(), contact.port());
        let mut client = self.servers[node].client();
        eventually(SETTLED, "a node meets another one", || {
            client.run(&meet).raw() == b"+OK\r\n"
        });
    }

    /// Waits until each node is connected to every other one, and reaches it.
    pub fn wait_connected(&self) -> Result<(), String> {
        let start = Instant::now();
        for (node, server) in self.servers.iter().enumerate() {
            let mut client = server.client();
            while let Err(why) = self.sees_all(&mut client) {
                if start.elapsed() > SETTLED {
                    return Err(format!(
                        "node {node} does not reach all within {SETTLED:?}: {why}"
                    ));
                }
                thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Whether a node is connected to all others, and reaches them.
    fn sees_all(&self, client: &mut Client) -> Result<(), String> {
        let lines = node_lines(client);
        let connected = lines.len() == self.len() && lines.iter().all(|line| line.connected);
        let listed = hello(client);
        let reached = client.run("DISQUE INFO reachable_nodes").expect_text();
        let fine = connected && listed.iter().all(|node| node.priority == 1);
        match fine && reached == self.len().to_string() {
            true => Ok(()),
            false => Err(format!("it reaches {reached}, {lines:?}, {listed:?}")),
        }
    }

    /// What servers did that nobody did to them.
    pub fn misbehaviour(&mut self) -> Option<String> {
        let servers = self.servers.iter_mut().enumerate();
        let mut said = servers.filter_map(|(node, server)| {
            let what = server.take_misbehaviour()?;
            Some(format!("node {node}: {what}"))
        });
        said.next()
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

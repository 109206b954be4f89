//! Several servers that know each other, and what each says of the others.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use crate::{wait_for, Client, Options, Server};

/// Far more than a join or a lost link takes at the node-timeout of the tests.
const SETTLED: Duration = Duration::from_secs(20);

/// Short, so that a test sees a node called gone while it runs; long enough
/// that a busy machine calls none gone that is not.
pub const NODE_TIMEOUT_MS: u64 = 1000;

/// A line of DISQUE NODES.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeLine {
    pub id: String,
    pub address: String,
    pub flags: Vec<String>,
    pub epoch: u64,
    /// Milliseconds since it was last heard of; -1 for never.
    pub silent_ms: i64,
    pub connected: bool,
    pub queued_bytes: u64,
    /// The error with which it refuses frames.
    pub refusal: Option<String>,
}

impl NodeLine {
    #[track_caller]
    fn read(line: &str) -> NodeLine {
        let (plain, refusal) = match line.split_once(" (") {
            Some((plain, rest)) => (plain, Some(rest.strip_suffix(')').expect(line).into())),
            None => (line, None),
        };
        let words: Vec<&str> = plain.split(' ').collect();
        assert_eq!(words.len(), 7, "a line of DISQUE NODES: {line}");
        let connected = match words[5] {
            "connected" => true,
            "disconnected" => false,
            other => panic!("neither connected nor disconnected: {other}"),
        };
        let flags = words[2].split(',').filter(|flag| *flag != "-");
        NodeLine {
            id: words[0].into(),
            address: words[1].into(),
            flags: flags.map(String::from).collect(),
            epoch: words[3].parse().expect(line),
            silent_ms: words[4].parse().expect(line),
            connected,
            queued_bytes: words[6].parse().expect(line),
            refusal,
        }
    }

    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }
}

/// The lines of DISQUE NODES, the own one first.
#[track_caller]
pub fn node_lines(client: &mut Client) -> Vec<NodeLine> {
    let text = client.run("DISQUE NODES").expect_text();
    text.lines().map(NodeLine::read).collect()
}

/// A node in the reply of DISQUE HELLO.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub id: String,
    pub host: String,
    pub port: u16,
    pub priority: u8,
}

/// The nodes that DISQUE HELLO lists, the own one first.
#[track_caller]
pub fn hello(client: &mut Client) -> Vec<Listed> {
    let reply = client.run("DISQUE HELLO");
    let items = reply.expect_array();
    assert_eq!(items[0].int(), 1, "{reply:?}");
    let read = |item: &crate::Value| {
        let words: Vec<&str> = item.items().iter().map(crate::Value::text).collect();
        assert_eq!(words.len(), 4, "{reply:?}");
        assert!(!words[1].is_empty(), "no host: {reply:?}");
        Listed {
            id: words[0].into(),
            host: words[1].into(),
            port: words[2].parse().expect("a port"),
            priority: words[3].parse().expect("a priority"),
        }
    };
    let nodes: Vec<Listed> = items[2..].iter().map(read).collect();
    assert_eq!(nodes[0].id, items[1].text(), "{reply:?}");
    nodes
}

/// Servers of one test on 127.0.0.1.
pub struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    /// So many nodes, each connected to all others.
    #[track_caller]
    pub fn new(count: usize) -> Cluster {
        Cluster::start(count, Options::new())
    }

    /// [`Cluster::new`] with these options for each.
    #[track_caller]
    pub fn start(count: usize, options: Options) -> Cluster {
        let cluster = Cluster::strangers(count, options);
        cluster.join();
        cluster
    }

    /// Nodes that do not know each other.
    #[track_caller]
    pub fn strangers(count: usize, options: Options) -> Cluster {
        let timeout = NODE_TIMEOUT_MS.to_string();
        let options = options.set("disque.node-timeout", &timeout);
        let servers = (0..count).map(|_| Server::start(options.clone()));
        Cluster {
            servers: servers.collect(),
        }
    }

    /// Has the first node meet each other one, and waits until all are connected
    /// to all.
    #[track_caller]
    pub fn join(&self) {
        for n in 1..self.servers.len() {
            self.meet(0, n);
        }
        self.wait_connected();
    }

    /// One node meets another.
    #[track_caller]
    pub fn meet(&self, node: usize, other: usize) {
        let port = self.servers[other].port();
        let mut client = self.servers[node].client();
        client
            .run(&format!("DISQUE MEET 127.0.0.1 {port}"))
            .expect_ok();
    }

    /// Waits until each node is connected to every other one, and both ways, and
    /// takes it for reachable.
    #[track_caller]
    pub fn wait_connected(&self) {
        for at in 0..self.servers.len() {
            self.wait_node(at, "it is connected to all", |lines| {
                lines.len() == self.servers.len() && lines.iter().all(|line| line.connected)
            });
        }
        for at in 0..self.servers.len() {
            let mut client = self.servers[at].client();
            wait_for(SETTLED, "all are at priority 1", || {
                let nodes = hello(&mut client);
                nodes.iter().all(|node| node.priority == 1).then_some(())
            });
            wait_for(SETTLED, "all are reachable", || {
                let reply = client.run("DISQUE INFO reachable_nodes");
                let count: usize = reply.expect_text().parse().expect("a number");
                (count == self.servers.len()).then_some(())
            });
        }
    }

    /// Waits until what a node says of all satisfies `ready`.
    #[track_caller]
    pub fn wait_node(&self, at: usize, what: &str, mut ready: impl FnMut(&[NodeLine]) -> bool) {
        let mut client = self.servers[at].client();
        let mut last = Vec::new();
        for _ in 0..SETTLED.as_millis() / 10 {
            last = node_lines(&mut client);
            if ready(&last) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("not within {SETTLED:?} at node {at}: {what}: {last:#?}");
    }

    /// Waits until what a node says of one other satisfies `ready`.
    #[track_caller]
    pub fn wait_line(&self, at: usize, id: &str, what: &str, ready: impl Fn(&NodeLine) -> bool) {
        self.wait_node(at, what, |lines| {
            lines.iter().any(|line| line.id == id && ready(line))
        });
    }

    /// Waits until HELLO at a node gives another one this priority.
    #[track_caller]
    pub fn wait_priority(&self, at: usize, id: &str, wanted: &[u8]) {
        let mut client = self.servers[at].client();
        let what = format!("priority {wanted:?} of {id} at node {at}");
        wait_for(SETTLED, &what, || {
            let nodes = hello(&mut client);
            let node = nodes.iter().find(|node| node.id == id)?;
            wanted.contains(&node.priority).then_some(())
        });
    }

    /// The ids, in the order of the servers.
    #[track_caller]
    pub fn ids(&self) -> Vec<String> {
        (0..self.servers.len()).map(|at| self.id(at)).collect()
    }

    /// A node's id.
    #[track_caller]
    pub fn id(&self, at: usize) -> String {
        self.servers[at].client().run("DISQUE MYID").expect_text()
    }

    /// What a node says of another one.
    #[track_caller]
    pub fn line(&self, at: usize, id: &str) -> Option<NodeLine> {
        let lines = node_lines(&mut self.servers[at].client());
        lines.into_iter().find(|line| line.id == id)
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// All servers, to be taken apart: two that are changed at a time.
    pub fn servers(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// Takes a server out of the test, which stops it.
    pub fn remove(&mut self, at: usize) -> Server {
        self.servers.remove(at)
    }
}

impl Index<usize> for Cluster {
    type Output = Server;

    fn index(&self, at: usize) -> &Server {
        &self.servers[at]
    }
}

impl IndexMut<usize> for Cluster {
    fn index_mut(&mut self, at: usize) -> &mut Server {
        &mut self.servers[at]
    }
}

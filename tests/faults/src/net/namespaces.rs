//! A network namespace for each node, all on one bridge, and routes that lead nowhere.

use super::{Pair, Party};
use crate::surroundings::run;
use disque_testing::Place;
use std::net::{Ipv4Addr, SocketAddr};

const BRIDGE: &str = "disque";
/// Where clients are.
const HOME: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 254);

/// Makes so many namespaces. The program must be in a namespace of its own.
pub fn set_up(count: usize) -> Result<Vec<Place>, String> {
    let ip = |words: &str| run("ip", &words.split(' ').collect::<Vec<_>>());
    ip(&format!("link add {BRIDGE} type bridge"))?;
    ip(&format!("addr add {HOME}/24 dev {BRIDGE}"))?;
    ip(&format!("link set {BRIDGE} up"))?;
    let mut places = Vec::new();
    for number in 1..=count {
        let namespace = format!("disque{number}");
        let address = Ipv4Addr::new(10, 99, 0, number as u8);
        ip(&format!("netns add {namespace}"))?;
        let ends = format!("{BRIDGE}{number} type veth peer name eth0 netns {namespace}");
        ip(&format!("link add {ends}"))?;
        ip(&format!("link set {BRIDGE}{number} master {BRIDGE} up"))?;
        ip(&format!("-n {namespace} addr add {address}/24 dev eth0"))?;
        ip(&format!("-n {namespace} link set eth0 up"))?;
        ip(&format!("-n {namespace} link set lo up"))?;
        places.push(Place { namespace, address });
    }
    Ok(places)
}

/// The routes between the nodes of a run.
pub struct Routes {
    places: Vec<Place>,
    addresses: Vec<SocketAddr>,
    /// Pairs with a route that leads nowhere.
    cut: Vec<Pair>,
}

impl Routes {
    /// Between nodes that listen there, each in its place.
    pub fn new(places: Vec<Place>, addresses: Vec<SocketAddr>) -> Routes {
        Routes {
            places,
            addresses,
            cut: Vec::new(),
        }
    }

    /// Routes of these pairs lead nowhere.
    pub fn cut(&mut self, pairs: &[Pair]) -> Result<(), String> {
        for pair in pairs {
            self.route("add", *pair)?;
            self.cut.push(*pair);
        }
        Ok(())
    }

    /// All routes are as they were.
    pub fn heal(&mut self) -> Result<(), String> {
        for pair in std::mem::take(&mut self.cut) {
            self.route("del", pair)?;
        }
        Ok(())
    }

    /// Whoever asks over a route that was cut gets no answer.
    pub fn are_cut(&self) -> Result<(), String> {
        // There is no server among the clients.
        let asked = self.cut.iter().filter(|(_, to)| *to != Party::Clients);
        let mut answered = asked.filter(|pair| self.answers(**pair));
        match answered.next() {
            Some(pair) => Err(format!("there is an answer between {pair:?}")),
            None => Ok(()),
        }
    }

    fn route(&self, what: &str, (from, to): Pair) -> Result<(), String> {
        let to = match to {
            Party::Node(node) => self.places[node].address,
            Party::Clients => HOME,
        };
        let route = format!("route {what} blackhole {to}/32");
        let mut words: Vec<&str> = Vec::new();
        if let Party::Node(node) = from {
            words.extend(["-n", &self.places[node].namespace]);
        }
        words.extend(route.split(' '));
        run("ip", &words)
    }

    /// Whether the second answers a PING of the first.
    fn answers(&self, (from, to): Pair) -> bool {
        let Party::Node(to) = to else {
            return false;
        };
        let address = self.addresses[to];
        let ping = format!("1 redis-cli -h {} -p {} PING", address.ip(), address.port());
        let mut words = Vec::new();
        if let Party::Node(node) = from {
            words.extend(["ip", "netns", "exec", &self.places[node].namespace]);
        }
        words.push("timeout");
        words.extend(ping.split(' '));
        run(words[0], &words[1..]).is_ok()
    }
}

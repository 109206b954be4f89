//! What lies between nodes, and between nodes and clients: proxies or routes.

pub mod gate;
pub mod namespaces;

pub use gate::Rule;

use disque_testing::{Door, Server};
use gate::Gates;
use namespaces::Routes;
use std::net::{Ipv4Addr, SocketAddr};

/// Who speaks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Node(usize),
    Clients,
}

/// Bytes from the first to the second.
pub type Pair = (Party, Party);

/// The network of a run.
pub enum Net {
    Gates(Gates),
    Routes(Routes),
}

impl Net {
    /// Where others meet a node.
    pub fn contact(&self, node: usize, server: &Server) -> SocketAddr {
        match self {
            Net::Gates(gates) => (Ipv4Addr::LOCALHOST, gates.port(node)).into(),
            Net::Routes(_) => server.address(),
        }
    }

    /// How clients come to a node.
    pub fn door(&self, node: usize, server: &Server) -> Door {
        match self {
            Net::Gates(gates) => gates.door(node),
            Net::Routes(_) => server.door(),
        }
    }

    /// A node has this id.
    pub fn introduce(&self, node: usize, id: &str) {
        if let Net::Gates(gates) = self {
            gates.between.introduce(id, node);
        }
    }

    /// Nothing passes between the pairs until [`Net::heal`].
    pub fn cut(&mut self, pairs: &[Pair]) -> Result<(), String> {
        match self {
            Net::Gates(gates) => gates.treat(pairs, Rule::Hold),
            Net::Routes(routes) => routes.cut(pairs)?,
        }
        Ok(())
    }

    /// Whether something was kept from passing since it was cut.
    pub fn is_cut(&self) -> Result<(), String> {
        match self {
            Net::Gates(gates) => gates.has_treated(),
            Net::Routes(routes) => routes.are_cut(),
        }
    }

    /// All passes.
    pub fn heal(&mut self) -> Result<(), String> {
        match self {
            Net::Gates(gates) => gates.between.clear(),
            Net::Routes(routes) => routes.heal()?,
        }
        Ok(())
    }
}

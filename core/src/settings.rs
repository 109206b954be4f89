//! What an operator can set, as far as the core acts on it.

/// Settings of the core. Names and ranges stand with the registration of the settings
/// in the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Longest body, in bytes.
    pub max_body: u64,
    /// Most bytes of all bodies of one command.
    pub max_batch: u64,
    /// Longest queue name, in bytes.
    pub max_queue_name: u64,
    /// Most ids or queue names in one command.
    pub max_ids: u64,
    /// Most clients blocked at a time.
    pub max_blocked_clients: u64,
    /// Bytes that jobs may take; 0 for no limit but maxmemory.
    pub max_memory: u64,
    /// Bytes that queues may take, their jobs left out.
    pub max_queue_memory: u64,
    /// REPLICATE where a job does not say.
    pub default_replicate: u64,
    /// The least REPLICATE that is taken when fewer nodes are reachable.
    pub default_replicate_min: u64,
    /// A node that answers nothing for this long, in ms, is unreachable.
    pub node_timeout_ms: u64,
    /// The name or address under which others reach this node; empty for what
    /// they see.
    pub announce_host: String,
    /// The port at which others reach this node.
    pub announce_port: u16,
    /// Whether jobs go to other nodes where consumers wait, and are asked for there.
    pub federation: bool,
    /// How long a settled job is remembered, in ms.
    pub settled_memory_ms: u64,
    /// Most settled jobs that are remembered.
    pub settled_memory_max: u64,
    /// How long a walk over all jobs with copies takes that compares them with those
    /// of other nodes, in ms.
    pub sweep_ms: u64,
    /// Milliseconds after which a queue that nothing uses is dropped.
    pub queue_idle_ms: u64,
    /// Whether at-most-once jobs that may have been delivered before a crash
    /// are delivered after it.
    pub deliver_after_crash: bool,
    /// The rule that this node does not keep.
    #[cfg(mutants)]
    pub mutant: Option<crate::mutants::Mutant>,
}

/// What holds where an operator has set nothing.
pub static DEFAULTS: Settings = Settings {
    max_body: 16 << 20,
    max_batch: 16 << 20,
    max_queue_name: 64 << 10,
    max_ids: 10_000,
    max_blocked_clients: 100_000,
    max_memory: 0,
    max_queue_memory: 1 << 30,
    default_replicate: 3,
    default_replicate_min: 1,
    node_timeout_ms: 5_000,
    announce_host: String::new(),
    announce_port: 0,
    federation: true,
    settled_memory_ms: 60_000,
    settled_memory_max: 1_000_000,
    sweep_ms: 600_000,
    queue_idle_ms: 300_000,
    deliver_after_crash: false,
    #[cfg(mutants)]
    mutant: None,
};

impl Default for Settings {
    fn default() -> Self {
        DEFAULTS.clone()
    }
}

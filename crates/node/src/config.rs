//! How to run a node, every value checked. `config/file.rs` reads it from a cluster's configuration file.

mod attended;
mod check;
mod file;

use std::net::IpAddr;
use std::path::PathBuf;

use model::NodeName;
use wire::control::NodeRole;
use wire::data::hello::Key;

use crate::local::backing::Kind;

pub use attended::of_allocation;
pub use check::check;
pub use file::load;

/// How to run a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its folder; must exist.
    pub folder: PathBuf,
    /// Its name.
    pub name: NodeName,
    /// What it does.
    pub roles: Vec<NodeRole>,
    /// The cluster that it belongs to; `None`: control on this machine started it and knows all about it.
    pub cluster: Option<Cluster>,
}

/// What a node of a cluster knows besides.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Where control is: `host:port`, or the path of a socket; `None`: whoever started the node tells control.
    pub control: Option<String>,
    /// Where the others reach this node; `None`: only on this machine.
    pub listen: Option<IpAddr>,
    /// The TCP port of its API; `None`: the one of the first start, which was any. So for the next.
    pub api_port: Option<u16>,
    /// The TCP port of its data path.
    pub data_port: Option<u16>,
    /// The pool of its flash; `None`: the default pool.
    pub pool: Option<String>,
    /// Bytes of flash that it may give to instances.
    pub capacity_bytes: u64,
    /// Bytes a second that its stages may move on the PFS; `None`: no limit.
    pub stage_bandwidth: Option<u64>,
    /// Folders below which stages may reach the PFS; none: all of it.
    pub pfs_roots: Vec<PathBuf>,
    /// Whether it copies with root's rights for root's stages that other nodes coordinate.
    pub movers_as_root: bool,
    /// Where it mounts namespaces.
    pub mount_root: PathBuf,
    /// Private volumes on its flash; `None`: there are none.
    pub local: Option<Local>,
    /// The user that control runs as.
    pub control_uid: u32,
    /// munged's socket; `None`: the usual one.
    pub munge_socket: Option<PathBuf>,
    /// What control and nodes know each other by instead of MUNGE.
    pub key: Option<Key>,
    /// Where everybody may read its metrics.
    pub metrics: Option<String>,
}

/// Private volumes on a node's own flash.
#[derive(Clone, Debug)]
pub struct Local {
    /// Where users find them.
    pub root: PathBuf,
    /// What they are made of.
    pub kind: Kind,
    /// Bytes of a volume where nobody said how many.
    pub capacity_bytes: u64,
    /// Bytes of the flash that are never handed out.
    pub reserve_bytes: u64,
    /// The weight of the drainers' cgroup; `None`: they have none of their own.
    pub drain_weight: Option<u32>,
}

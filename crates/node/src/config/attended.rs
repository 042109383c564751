//! A node of an allocation: what the command that starts it says, for one user and one job.

use std::io;
use std::path::PathBuf;

use daemon::error::chain;
use model::NodeName;
use wire::control::{Allocation, NodeRole};

use super::{Cluster, Config};

/// The node `name` with the folder `folder`, which exists. It gives what its file system has.
///
/// # Errors
/// It is none of the allocation's, or the file system cannot be asked.
pub fn of_allocation(allocation: &Allocation, name: NodeName, folder: PathBuf) -> io::Result<Config> {
    let host = allocation.hosts.iter().find(|host| host.name == name);
    let host = host.ok_or_else(|| io::Error::other(format!("{name} is not a host of the allocation")))?;
    let space = rustix::fs::statvfs(&folder).map_err(|errno| {
        io::Error::other(format!("ask {} for its space: {}", folder.display(), chain(&errno)))
    })?;
    let cluster = Cluster {
        control: None,
        listen: Some(host.address),
        api_port: None,
        data_port: None,
        pool: None,
        capacity_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        stage_bandwidth: None,
        pfs_roots: Vec::new(),
        movers_as_root: true,
        mount_root: allocation.folder.clone(),
        local: None,
        control_uid: rustix::process::geteuid().as_raw(),
        munge_socket: None,
        key: Some(allocation.key.clone()),
        metrics: None,
    };
    let roles = vec![NodeRole::Storage, NodeRole::Compute];
    Ok(Config { folder, name, roles, cluster: Some(cluster) })
}

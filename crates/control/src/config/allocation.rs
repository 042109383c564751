//! Control of the nodes of an allocation, for one user and one job: what the command that starts it says.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use model::phase::Redundancy;
use wire::control::Allocation;

use super::Config;
use crate::rights::Policy;
use crate::site::{ClusterSetting, PoolKind, PoolSetting};

/// How long a node may be silent: the command waits for it.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);

/// Small, so that every node has a part also of a small buffer.
const GRANULARITY_BYTES: u64 = 1 << 20;

/// With the state folder `folder`, which exists.
pub fn of_allocation(allocation: &Allocation, folder: PathBuf) -> Config {
    let pool = PoolSetting {
        name: "allocation".to_owned(),
        granularity_bytes: GRANULARITY_BYTES,
        kind: PoolKind::Storage,
        persistent_redundancy: Redundancy::None,
        uids: Vec::new(),
        root_squash: false,
        encrypt: false,
    };
    Config {
        socket: folder.join("control.sock"),
        folder,
        listen: None,
        policy: Policy::Own,
        setting: ClusterSetting {
            nodes: BTreeSet::new(),
            pools: vec![pool],
            mount_root: allocation.folder.clone(),
            local_root: allocation.folder.clone(),
            fence_grace_s: 5,
            grace_s: 30,
            persistent_shared: false,
        },
        node_timeout: NODE_TIMEOUT,
        munge_socket: None,
        key: Some(allocation.key.clone()),
        metrics: None,
        audit_log: None,
    }
}

//! The configuration file of a cluster's control. `packaging/control.toml` is the same with an explanation of every
//! key.

mod allocation;
mod check;
mod uids;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use daemon::config::ConfigError;
use model::phase::Redundancy;
use model::{NodeName, hostlist, size};
use serde::Deserialize;
use wire::data::hello::Key;

use crate::rights::Policy;
use crate::site::{ClusterSetting, PoolKind, PoolSetting};

pub use allocation::of_allocation;
pub use check::check;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct File {
    /// The database.
    pub state_dir: PathBuf,
    /// The unix socket; empty: `control.sock` in the state folder.
    pub socket: String,
    /// `host:port` for nodes and for tools on other hosts; empty: this machine only.
    pub listen: String,
    /// Users that may act for any owner.
    pub wlm_users: Vec<String>,
    /// Users that may do everything, besides root.
    pub admin_users: Vec<String>,
    /// Where nodes mount.
    pub mount_root: PathBuf,
    /// Where users find the private volumes on their nodes' own flash: a folder for each user.
    pub local_root: PathBuf,
    /// How long a node may be silent before a function gives it up, seconds.
    pub node_timeout_s: u64,
    /// How long files may stay open after a job's end before its mounts are ended by force, seconds.
    pub fence_grace_s: u64,
    /// How long storage nodes and mounts that do not see each other wait for each other, seconds.
    pub grace_s: u64,
    /// Whether every user's jobs may use a persistent buffer where its maker does not say.
    pub persistent_shared: bool,
    /// munged's socket; empty: the usual one.
    pub munge_socket: String,
    /// `host:port` where everybody may read `/metrics`; empty: nowhere.
    pub metrics: String,
    /// Where it is written down who did what; empty: nowhere.
    pub audit_log: String,
    /// The names that nodes may have, as `n[1-4]`; empty: any.
    pub nodes: Vec<String>,
    /// Pools of flash, the default first.
    pub pools: Vec<Pool>,
}

/// A pool in the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Bytes in a grain, as `16GiB`.
    pub granularity: String,
    /// What its buffers are.
    #[serde(default)]
    pub kind: PoolKind,
    /// On how many nodes persistent buffers have their bytes where nobody says.
    #[serde(default = "mirror")]
    pub persistent_redundancy: Redundancy,
    /// Numbers of users whose buffers may be there, as `1000-59999` or `0`; empty: everybody's.
    #[serde(default)]
    pub uids: Vec<String>,
    /// Whether root has the rights of nobody in what is mounted of its buffers.
    #[serde(default)]
    pub root_squash: bool,
    /// Whether what is said of its buffers over the network is encrypted.
    #[serde(default)]
    pub encrypt: bool,
}

fn mirror() -> Redundancy {
    Redundancy::Mirror
}

impl Default for File {
    fn default() -> File {
        File {
            state_dir: "/var/lib/forebay/control".into(),
            socket: String::new(),
            listen: String::new(),
            wlm_users: vec!["slurm".to_owned()],
            admin_users: Vec::new(),
            mount_root: "/var/lib/forebay/mnt".into(),
            local_root: "/mnt/bb".into(),
            node_timeout_s: 30,
            fence_grace_s: 30,
            grace_s: 120,
            persistent_shared: true,
            munge_socket: String::new(),
            metrics: String::new(),
            audit_log: String::new(),
            nodes: Vec::new(),
            pools: vec![Pool {
                name: "wlm_pool".to_owned(),
                granularity: "16GiB".to_owned(),
                kind: PoolKind::Storage,
                persistent_redundancy: mirror(),
                uids: Vec::new(),
                root_squash: false,
                encrypt: false,
            }],
        }
    }
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The state folder, which exists.
    pub folder: PathBuf,
    /// The unix socket.
    pub socket: PathBuf,
    /// The TCP address.
    pub listen: Option<String>,
    /// Who may do what.
    pub policy: Policy,
    /// The cluster.
    pub setting: ClusterSetting,
    /// How long a node may be silent.
    pub node_timeout: Duration,
    /// munged's socket, where it is not the usual one.
    pub munge_socket: Option<PathBuf>,
    /// What control and nodes know each other by instead of MUNGE.
    pub key: Option<Key>,
    /// Where everybody may read the metrics.
    pub metrics: Option<String>,
    /// Where it is written down who did what.
    pub audit_log: Option<PathBuf>,
}

/// Reads the file `path` and makes the state folder.
///
/// # Errors
/// See [`ConfigError`].
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let file: File = daemon::config::load(path)?;
    let wrong = |key, reason: String| ConfigError::Value { path: path.into(), key, reason };
    let pools = pools(&file.pools).map_err(|reason| wrong("pools", reason))?;
    let nodes = nodes(&file.nodes).map_err(|reason| wrong("nodes", reason))?;
    let admins = daemon::config::uids_of(&file.admin_users).map_err(|reason| wrong("admin_users", reason))?;
    let folder = disk::state::folder(Some(file.state_dir.clone()))?;
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Ok(Config {
        socket: some(&file.socket).map_or_else(|| folder.join("control.sock"), PathBuf::from),
        folder,
        listen: some(&file.listen),
        policy: Policy::cluster(wlm_uids(&file.wlm_users), admins),
        setting: ClusterSetting {
            pools,
            nodes,
            mount_root: file.mount_root.clone(),
            local_root: file.local_root.clone(),
            fence_grace_s: file.fence_grace_s,
            grace_s: file.grace_s,
            persistent_shared: file.persistent_shared,
        },
        node_timeout: Duration::from_secs(file.node_timeout_s),
        munge_socket: some(&file.munge_socket).map(PathBuf::from),
        key: None,
        metrics: some(&file.metrics),
        audit_log: some(&file.audit_log).map(PathBuf::from),
    })
}

/// A machine without the workload manager's user is no mistake: the manager may be installed later.
fn wlm_uids(users: &[String]) -> Vec<u32> {
    let uid = |user: &String| {
        daemon::config::uid_of(user)
            .inspect_err(|reason| tracing::warn!(reason, "a workload manager's user cannot act for others"))
            .ok()
    };
    users.iter().filter_map(uid).collect()
}

fn nodes(lists: &[String]) -> Result<BTreeSet<NodeName>, String> {
    let names = lists.iter().map(|list| hostlist::names(list)).collect::<Result<Vec<_>, _>>();
    Ok(names.map_err(|error| error.to_string())?.into_iter().flatten().collect())
}

fn pools(pools: &[Pool]) -> Result<Vec<PoolSetting>, String> {
    if pools.is_empty() {
        return Err("at least one is needed".to_owned());
    }
    let mut settings: Vec<PoolSetting> = Vec::new();
    for pool in pools {
        let granularity_bytes = size::parse(&pool.granularity).map_err(|e| format!("{}: {e}", pool.name))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if pool.name.is_empty() || !pool.name.chars().all(plain) {
            return Err(format!("invalid name {:?}: use letters, digits, '_', '-' and '.'", pool.name));
        }
        if granularity_bytes == 0 {
            return Err(format!("{}: the granularity is 0", pool.name));
        }
        if settings.iter().any(|known| known.name == pool.name) {
            return Err(format!("{} is there twice", pool.name));
        }
        if !pool.kind.is_configured() {
            return Err(format!("{}: unknown kind, use storage or node-local", pool.name));
        }
        let is_local = |known: &PoolSetting| known.kind == PoolKind::NodeLocal;
        if pool.kind == PoolKind::NodeLocal && settings.iter().any(is_local) {
            return Err(format!(
                "{}: there is another of kind node-local, and nodes belong to one",
                pool.name
            ));
        }
        settings.push(PoolSetting {
            name: pool.name.clone(),
            granularity_bytes,
            kind: pool.kind,
            persistent_redundancy: pool.persistent_redundancy,
            uids: uids::ranges(pool)?,
            root_squash: root_squash(pool)?,
            encrypt: pool.encrypt,
        });
    }
    Ok(settings)
}

/// A private volume on a node's own flash is a local file system, in which root is root.
fn root_squash(pool: &Pool) -> Result<bool, String> {
    match pool.kind {
        PoolKind::NodeLocal if pool.root_squash => {
            Err(format!("{}: root_squash is for pools of kind storage", pool.name))
        }
        _ => Ok(pool.root_squash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packaged_file_is_the_default() {
        let packaged = include_str!("../../../packaging/control.toml");
        assert_eq!(daemon::config::parse::<File>(packaged), Ok(File::default()));
    }

    #[test]
    fn pools_have_names_and_grains() {
        let of = |name: &str, granularity: &str, kind| Pool {
            name: name.into(),
            granularity: granularity.into(),
            kind,
            persistent_redundancy: mirror(),
            uids: vec!["0".into(), "1000 - 1999".into()],
            root_squash: kind == PoolKind::Storage,
            encrypt: true,
        };
        let pool = |name, granularity| of(name, granularity, PoolKind::Storage);
        let local = |name| of(name, "1GiB", PoolKind::NodeLocal);
        assert_eq!(pools(&[pool("a", "16MiB")]).unwrap()[0].granularity_bytes, 16 << 20);
        assert!(pools(&[pool("a", "16MiB")]).unwrap()[0].encrypt);
        assert_eq!(pools(&[pool("a", "1GiB"), local("b")]).unwrap()[1].kind, PoolKind::NodeLocal);
        assert_eq!(pools(&[pool("a", "16MiB")]).unwrap()[0].uids, [0..=0, 1000..=1999]);
        for wrong in ["", "-", "a", "5-4", "1-2-3", "-1", "4294967296"] {
            let pool = Pool { uids: vec![wrong.into()], ..pool("a", "1GiB") };
            assert!(pools(&[pool]).unwrap_err().contains("is not a range"), "{wrong}");
        }
        assert!(pools(&[pool("a", "16MiB")]).unwrap()[0].root_squash);
        let squashed = Pool { root_squash: true, ..local("b") };
        assert!(pools(&[pool("a", "1GiB"), squashed]).unwrap_err().contains("root_squash"));
        for kind in [PoolKind::Disk, PoolKind::NodeLocalStriped] {
            assert!(pools(&[of("a", "1GiB", kind)]).is_err(), "{kind:?} is no kind of a cluster's pools");
        }
        let twice = [vec![pool("a", "1GiB"); 2], vec![local("a"), local("b")]];
        for wrong in [vec![], vec![pool("a b", "1GiB")], vec![pool("a", "0")]].iter().chain(&twice) {
            assert!(pools(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_mistyped_key_is_refused() {
        let error = daemon::config::parse::<File>("wlm_user = [\"slurm\"]").unwrap_err();
        assert!(error.contains("wlm_user"), "{error}");
    }
}

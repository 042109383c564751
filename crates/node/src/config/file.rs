//! The configuration file of a node of a cluster. `packaging/node.toml` is the same with an explanation of every key.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use daemon::config::ConfigError;
use model::NodeName;
use model::size;
use serde::Deserialize;
use wire::control::NodeRole;

use super::{Cluster, Config, Local};
use crate::local::backing::Kind;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    /// The node's name, as the workload manager has it; empty: the host's name.
    pub name: String,
    /// What it keeps for its restarts, and the fragments.
    pub state_dir: PathBuf,
    /// What it does.
    pub roles: Vec<NodeRole>,
    /// Control: `host:port`, or the path of its socket on this machine.
    pub control: String,
    /// The address that control and clients reach it at; empty: this machine only.
    pub listen: String,
    /// The TCP port of its API.
    pub api_port: u16,
    /// The TCP port of its data path.
    pub data_port: u16,
    /// The pool that its flash belongs to; empty: the default pool.
    pub pool: String,
    /// How much flash it may give to instances, as `1.5TiB`; needed for the storage role.
    pub capacity: String,
    /// How many bytes a second its stages may read from the parallel file system and write to it, as `2GiB`; empty: as
    /// many as they can.
    pub stage_bandwidth: String,
    /// The folders of the parallel file system below which stages may copy; none: wherever their users may.
    pub pfs_roots: Vec<PathBuf>,
    /// Whether it copies with root's rights for root's stages that another node coordinates.
    pub movers_as_root: bool,
    /// Where it mounts namespaces: a folder for each token.
    pub mount_root: PathBuf,
    /// Where users find the private volumes of their jobs: a folder for each user.
    pub local_root: PathBuf,
    /// How much a private volume holds where nobody said how much, as `1.4TB`; empty: there are none.
    pub local_capacity: String,
    /// How much of the flash is never handed out to private volumes.
    pub local_reserve: String,
    /// What private volumes are made of.
    pub local_kind: LocalKind,
    /// The volume group, for logical volumes.
    pub local_volume_group: String,
    /// The folder, for project quota.
    pub local_folder: PathBuf,
    /// The weight of the drainers' cgroup, 1 to 10000, 100 being any other's; 0: they have none of their own.
    pub drain_weight: u32,
    /// The user that control runs as: who else asks is refused. Root may always ask.
    pub control_user: String,
    /// munged's socket; empty: the usual one.
    pub munge_socket: String,
    /// `host:port` where everybody may read `/metrics`; empty: nowhere.
    pub metrics: String,
}

/// What private volumes are made of: [`Kind`] without what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LocalKind {
    /// Images in the state folder.
    Image,
    /// Logical volumes of `local_volume_group`.
    LogicalVolume,
    /// Folders with a project quota in `local_folder`.
    ProjectQuota,
}

impl Default for File {
    fn default() -> File {
        File {
            name: String::new(),
            state_dir: "/var/lib/forebay/node".into(),
            roles: vec![NodeRole::Storage, NodeRole::Compute],
            control: "/var/lib/forebay/control/control.sock".to_owned(),
            listen: String::new(),
            api_port: 7071,
            data_port: 7072,
            pool: String::new(),
            capacity: String::new(),
            stage_bandwidth: String::new(),
            pfs_roots: Vec::new(),
            movers_as_root: false,
            mount_root: "/var/lib/forebay/mnt".into(),
            local_root: "/mnt/bb".into(),
            local_capacity: String::new(),
            local_reserve: "100GB".to_owned(),
            local_kind: LocalKind::Image,
            local_volume_group: String::new(),
            local_folder: PathBuf::new(),
            drain_weight: 1,
            control_user: "root".to_owned(),
            munge_socket: String::new(),
            metrics: String::new(),
        }
    }
}

pub(super) fn pfs_roots(file: &File) -> Result<Vec<PathBuf>, String> {
    match file.pfs_roots.iter().find(|root| !root.is_absolute()) {
        Some(root) => Err(format!("`{}` is not a whole path", root.display())),
        None => Ok(file.pfs_roots.clone()),
    }
}

/// Reads the file `path` and makes the state folder.
///
/// # Errors
/// See [`ConfigError`].
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let file: File = daemon::config::load(path)?;
    let wrong = |key, reason: String| ConfigError::Value { path: path.into(), key, reason };
    let folder = disk::state::folder(Some(file.state_dir.clone()))?;
    disk::state::close(&folder)?;
    let capacity_bytes = capacity(&file).map_err(|reason| wrong("capacity", reason))?;
    let name = if file.name.is_empty() { host_name() } else { file.name.clone() };
    let cluster = Cluster {
        control: Some(file.control.clone()),
        listen: address(&file.listen).map_err(|reason| wrong("listen", reason))?,
        api_port: Some(file.api_port),
        data_port: Some(file.data_port),
        pool: some(&file.pool),
        capacity_bytes,
        stage_bandwidth: stage_bandwidth(&file).map_err(|reason| wrong("stage_bandwidth", reason))?,
        pfs_roots: pfs_roots(&file).map_err(|reason| wrong("pfs_roots", reason))?,
        movers_as_root: file.movers_as_root,
        mount_root: file.mount_root.clone(),
        local: local(&file).map_err(|(key, reason)| wrong(key, reason))?,
        control_uid: daemon::config::uid_of(&file.control_user)
            .map_err(|reason| wrong("control_user", reason))?,
        munge_socket: some(&file.munge_socket).map(PathBuf::from),
        key: None,
        metrics: some(&file.metrics),
    };
    // Control checks it when it registers.
    let name = NodeName::unchecked(name);
    Ok(Config { folder, name, roles: file.roles, cluster: Some(cluster) })
}

pub(super) fn capacity(file: &File) -> Result<u64, String> {
    if !file.roles.contains(&NodeRole::Storage) {
        return Ok(0);
    }
    if file.capacity.is_empty() {
        return Err("the storage role needs it, as capacity = \"1.5TiB\"".to_owned());
    }
    size::parse(&file.capacity).map_err(|error| error.to_string())
}

pub(super) fn stage_bandwidth(file: &File) -> Result<Option<u64>, String> {
    some(&file.stage_bandwidth).map(|text| size::parse(&text).map_err(|error| error.to_string())).transpose()
}

pub(super) fn local(file: &File) -> Result<Option<Local>, (&'static str, String)> {
    let Some(capacity) = some(&file.local_capacity) else { return Ok(None) };
    let parse = |key, text: &str| size::parse(text).map_err(|error| (key, error.to_string()));
    Ok(Some(Local {
        root: file.local_root.clone(),
        kind: kind(file)?,
        drain_weight: drain_weight(file.drain_weight)?,
        capacity_bytes: parse("local_capacity", &capacity)?,
        reserve_bytes: parse("local_reserve", &file.local_reserve)?,
    }))
}

fn drain_weight(weight: u32) -> Result<Option<u32>, (&'static str, String)> {
    match weight {
        0 => Ok(None),
        1..=10_000 => Ok(Some(weight)),
        _ => Err(("drain_weight", "weights are 1 to 10000".to_owned())),
    }
}

fn kind(file: &File) -> Result<Kind, (&'static str, String)> {
    match file.local_kind {
        LocalKind::Image => Ok(Kind::Image),
        LocalKind::LogicalVolume => match some(&file.local_volume_group) {
            Some(volume_group) => Ok(Kind::LogicalVolume { volume_group }),
            None => Err(("local_volume_group", "local_kind = \"logical-volume\" needs it".to_owned())),
        },
        LocalKind::ProjectQuota if file.local_folder.is_absolute() => {
            Ok(Kind::ProjectQuota { folder: file.local_folder.clone() })
        }
        LocalKind::ProjectQuota => {
            Err(("local_folder", "local_kind = \"project-quota\" needs it, an absolute path".to_owned()))
        }
    }
}

pub(super) fn address(text: &str) -> Result<Option<IpAddr>, String> {
    some(text).map(|text| text.parse().map_err(|_| format!("invalid IP address {text}"))).transpose()
}

pub(super) fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The first part of the host's name: what Slurm calls a node unless told otherwise.
pub(super) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packaged_file_is_the_default() {
        let packaged = include_str!("../../../../packaging/node.toml");
        assert_eq!(daemon::config::parse::<File>(packaged), Ok(File::default()));
    }

    #[test]
    fn each_kind_of_private_volumes_needs_what_belongs_to_it() {
        let parse = |text: &str| local(&toml_of(text)).map(|local| local.map(|local| local.kind));
        let volumes = "local_capacity = \"1GiB\"\n";
        assert_eq!(parse("").unwrap(), None);
        assert_eq!(parse(volumes).unwrap(), Some(Kind::Image));
        let logical = format!("{volumes}local_kind = \"logical-volume\"\n");
        assert_eq!(parse(&logical).unwrap_err().0, "local_volume_group");
        let group = Kind::LogicalVolume { volume_group: "flash".to_owned() };
        assert_eq!(parse(&format!("{logical}local_volume_group = \"flash\"\n")).unwrap(), Some(group));
        let quota = format!("{volumes}local_kind = \"project-quota\"\nlocal_folder = \"flash\"\n");
        assert_eq!(parse(&quota).unwrap_err().0, "local_folder");
        assert_eq!(parse(&format!("{volumes}drain_weight = 10001\n")).unwrap_err().0, "drain_weight");
    }

    fn toml_of(text: &str) -> File {
        daemon::config::parse(text).unwrap()
    }

    #[test]
    fn a_storage_node_must_say_how_much_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.toml");
        let text = format!("name = \"n1\"\nstate_dir = \"{}\"\n", dir.path().display());
        std::fs::write(&path, &text).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("capacity"));
        std::fs::write(&path, format!("{text}capacity = \"10GiB\"\n")).unwrap();
        assert_eq!(load(&path).unwrap().cluster.unwrap().capacity_bytes, 10 << 30);
        std::fs::write(&path, format!("{text}capcity = \"10GiB\"\n")).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("capcity"));
    }
}

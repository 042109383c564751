//! `forebay-node --check`: what a start with a configuration would refuse.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use api::control::Control;
use api::endpoint::Endpoint;
use api::munge::Munge;
use daemon::check::Findings;
use daemon::error::chain;
use model::NodeName;
use wire::control::{NodeRole, PoolStatus};

use super::file::{File, address, capacity, host_name, local, pfs_roots, some, stage_bandwidth};
use crate::folder::NodeFolder;

/// How long control may take to take a connection.
const PROBED: Duration = Duration::from_secs(2);

/// Looks at the configuration `path`, and at what it names on this machine.
pub fn check(path: &Path) -> Findings {
    let mut found = Findings::default();
    let Some(file) = found.file::<File>(path) else { return found };
    found.value("capacity", capacity(&file));
    found.value("stage_bandwidth", stage_bandwidth(&file));
    found.value("pfs_roots", pfs_roots(&file));
    if let Err((key, reason)) = local(&file) {
        found.refuse(format_args!("{key}: {reason}"));
    }
    found.value("control_user", daemon::config::uid_of(&file.control_user));
    found.own_folder("state_dir", &file.state_dir);
    let runs = UnixStream::connect(NodeFolder(file.state_dir.clone()).node_socket()).is_ok();
    if runs {
        found.remark(format_args!("a node runs already in {}", file.state_dir.display()));
    }
    ports(&file, runs, &mut found);
    for root in
        file.pfs_roots.iter().filter(|root| root.is_absolute() && !disk::is_folder(root).unwrap_or(false))
    {
        found.remark(format_args!(
            "pfs_roots: {} is not there now: nothing is staged below it",
            root.display()
        ));
    }
    if file.roles.contains(&NodeRole::Compute) && !disk::exists(Path::new("/dev/fuse")).unwrap_or(false) {
        found.remark("roles: there is no /dev/fuse: nothing can be mounted here; run `modprobe fuse`");
    }
    registered(&file, &mut found);
    found
}

/// What keeps control from knowing the node.
fn registered(file: &File, found: &mut Findings) {
    let name = if file.name.is_empty() { host_name() } else { file.name.clone() };
    if let Err(why) = name.parse::<NodeName>() {
        found.remark(format_args!(
            "name: `{name}` is no name of a node, as {why}: the node starts, and control does not take it"
        ));
    }
    if let Err(why) = reach(&file.control) {
        let control = &file.control;
        return found.remark(format_args!("control: {control}: {why}: the node starts, and waits for it"));
    }
    if file.pool.is_empty() {
        return;
    }
    let user = match daemon::config::uid_of(&file.control_user) {
        Ok(uid) if !file.control.starts_with('/') => format!(" {uid}"),
        _ => String::new(),
    };
    let control = Control::at(Endpoint::parse(&format!("{}{user}", file.control)), PROBED);
    match control.get::<Vec<PoolStatus>>("/v1/pools") {
        Ok(pools) if pools.iter().all(|pool| pool.name != file.pool) => found.remark(format_args!(
            "pool: control has no pool {}: the node starts, and control does not take it",
            file.pool
        )),
        Ok(_) => {}
        Err(error) => found.remark(format_args!("pool: what control has is not known: {error}")),
    }
}

fn ports(file: &File, runs: bool, found: &mut Findings) {
    if let Some(Some(ip)) = found.value("listen", address(&file.listen)) {
        for (key, port) in [("api_port", file.api_port), ("data_port", file.data_port)] {
            found.address(key, &SocketAddr::new(ip, port).to_string(), runs);
        }
        if file.api_port == file.data_port {
            found.refuse(format_args!("data_port: {} is api_port already", file.data_port));
        }
        let munge = Munge::load(some(&file.munge_socket).map(Into::into));
        let made = munge.and_then(|munge| munge.encode(b"check"));
        found.value("munge_socket", made.map_err(|error| chain(&error)));
    }
    if !file.metrics.is_empty() {
        found.address("metrics", &file.metrics, runs);
    }
}

/// Whether control takes a connection.
fn reach(control: &str) -> std::io::Result<()> {
    if control.starts_with('/') {
        return UnixStream::connect(control).map(drop);
    }
    let addresses: Vec<SocketAddr> = control.to_socket_addrs()?.collect();
    let mut last = Err(std::io::ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        last = TcpStream::connect_timeout(&address, PROBED).map(drop);
        if last.is_ok() {
            break;
        }
    }
    last
}

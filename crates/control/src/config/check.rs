//! `forebay-control --check`: what a start with a configuration would refuse.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use api::endpoint::check_socket_path;
use api::munge::Munge;
use daemon::check::Findings;
use daemon::error::chain;

use super::{File, nodes, pools};

/// Looks at the configuration `path`, and at what it names on this machine.
pub fn check(path: &Path) -> Findings {
    let mut found = Findings::default();
    let Some(file) = found.file::<File>(path) else { return found };
    found.value("pools", pools(&file.pools));
    found.value("nodes", nodes(&file.nodes));
    for user in &file.admin_users {
        found.value("admin_users", daemon::config::uid_of(user));
    }
    for user in &file.wlm_users {
        if let Err(reason) = daemon::config::uid_of(user) {
            found.remark(format_args!("wlm_users: {reason}: it cannot act for the owners of jobs"));
        }
    }
    found.own_folder("state_dir", &file.state_dir);
    let socket = match file.socket.as_str() {
        "" => file.state_dir.join("control.sock"),
        path => PathBuf::from(path),
    };
    if let Err(error) = check_socket_path(&socket) {
        found.refuse(format_args!("socket: {}", chain(&error)));
    }
    let runs = UnixStream::connect(&socket).is_ok();
    if runs {
        found.remark(format_args!("control runs already at {}", socket.display()));
    }
    network(&file, runs, &mut found);
    if !file.audit_log.is_empty() {
        found.appended("audit_log", Path::new(&file.audit_log));
    }
    found
}

fn network(file: &File, runs: bool, found: &mut Findings) {
    if !file.listen.is_empty() {
        found.address("listen", &file.listen, runs);
        let socket = (!file.munge_socket.is_empty()).then(|| PathBuf::from(&file.munge_socket));
        let made = Munge::load(socket).and_then(|munge| munge.encode(b"check"));
        found.value("munge_socket", made.map_err(|error| chain(&error)));
    }
    if !file.metrics.is_empty() {
        found.address("metrics", &file.metrics, runs);
    }
}

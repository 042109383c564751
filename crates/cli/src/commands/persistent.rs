//! `forebay mount --persistent` and its `umount`: a persistent buffer of a cluster on this node, without a job.
//!
//! The node mounts it below its own folder, as for jobs. At a place that the user names there is only a link to that,
//! which this process makes as the user: nothing privileged is done in a folder that users can change meanwhile.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use api::control::session_path;
use model::{NodeName, Token};
use wire::control::{ActivationStatus, MountPersistent, SessionStatus, Status, Teardown, TeardownReply};

use super::cluster::Control;
use super::{programs, rm};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::{identity, render, seen};

/// Mounts; the result is the process's exit status.
///
/// # Errors
/// Control refuses, this host has no node, or there is something where the link is to be.
pub fn mount(name: &Token, link: Option<&Path>, output: &Output) -> Result<u8, Failure> {
    if let Some(link) = link {
        check_free(link)?;
    }
    let request = MountPersistent { node: this_node()? };
    let control = Control::of_cluster(output);
    let session: SessionStatus = control.post(&format!("/v1/persistent/{name}/mount"), &request)?;
    for mount in &session.activations {
        if !seen::is_mounted(&mount.mountpoint, None) {
            return Err(hidden(name, &mount.mountpoint, output));
        }
        output
            .say(&format!("forebay: persistent buffer {name} is mounted at {}", mount.mountpoint.display()));
    }
    let first = session.activations.first().map(|mount| mount.mountpoint.as_path());
    if let (Some(link), Some(target)) = (link, first) {
        make_link(link, target)?;
        output.say(&format!("         {} is a link to it", link.display()));
    }
    if let Some(place) = link.or(first) {
        let command = output.command(&format!("umount {}", render::word(place)));
        output.say(&format!("         unmount it with `{command}`"));
    }
    Ok(ExitCode::Success.number())
}

/// It is mounted on this host, and not where this process looks.
fn hidden(name: &Token, place: &Path, output: &Output) -> Failure {
    let umount = output.command(&format!("umount {}", render::word(place)));
    Failure::unavailable(
        format!(
            "persistent buffer {name} is mounted at {}, but in another mount namespace: here it is not seen",
            place.display()
        ),
        format!("call the command outside of this container or job; `{umount}` ends that mount"),
    )
}

fn check_free(link: &Path) -> Result<(), Failure> {
    match link.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::local("look up", link, &error)),
        Ok(_) => Err(Failure::usage(
            format!("{} is there already, and a persistent buffer gets a link there", link.display()),
            "name a place where nothing is, or none: then the place of the mount itself is printed",
        )),
    }
}

fn make_link(link: &Path, target: &Path) -> Result<(), Failure> {
    symlink(target, link).map_err(|error| {
        Failure::unavailable(
            format!("link {} to {}: {error}", link.display(), target.display()),
            format!("use {0} itself, or unmount it with `forebay umount {0}`", render::word(target)),
        )
    })
}

/// This host's name, which its node has unless its configuration says otherwise.
fn this_node() -> Result<NodeName, Failure> {
    let host = identity::host();
    host.parse().map_err(|_| {
        Failure::unavailable(
            format!("this host's name, {host:?}, is not that of a node"),
            "call the command on a compute node of the cluster",
        )
    })
}

/// A mount of a persistent buffer here.
#[derive(Debug)]
pub struct Mount {
    session: SessionStatus,
    mountpoint: PathBuf,
    /// The user's link to it.
    link: Option<PathBuf>,
}

/// The mount at `place`, or to which that is a link; `None`: there is none of a cluster's.
///
/// # Errors
/// The cluster's control is not to be reached.
pub fn mounted_at(place: &Path, output: &Output) -> Result<Option<Mount>, Failure> {
    let link = place.read_link().ok().map(|_| place.to_owned());
    let mountpoint = link.as_ref().and_then(|link| link.read_link().ok()).unwrap_or_else(|| place.to_owned());
    let node = this_node()?;
    let status: Status = Control::of_cluster(output).get("/v1/status")?;
    let is_it = |mount: &ActivationStatus| mount.node == node && mount.mountpoint == mountpoint;
    let mut by_hand = status.sessions.into_iter().filter(SessionStatus::is_by_hand);
    let session = by_hand.find(|session| session.activations.iter().any(is_it));
    Ok(session.map(|session| Mount { session, mountpoint, link }))
}

impl Mount {
    /// Unmounts; the result is the process's exit status.
    ///
    /// # Errors
    /// Programs use it, or control refuses.
    pub fn end(&self, force: bool, output: &Output) -> Result<u8, Failure> {
        if !force {
            let or = ", or give --force, which cuts them off from it";
            programs::check_unused([self.mountpoint.as_path()], or)?;
        }
        let path = session_path(self.session.token.as_str(), "/teardown");
        let _: TeardownReply = Control::of_cluster(output).post(&path, &Teardown { hurry: force })?;
        if let Some(link) = &self.link {
            std::fs::remove_file(link).map_err(|error| Failure::local("remove", link, &error))?;
        }
        output.say(&rm::destroyed(&self.session, false));
        Ok(ExitCode::Success.number())
    }
}

//! Whose rights a stage works with. A stage never reaches the PFS as root unless its owner is root.

use std::process::Command;

use rustix::process::{Gid, Uid};
use wire::control::Owner;

/// The rights of the calling thread, which every thread that it starts has too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    uid: u32,
    groups: Vec<u32>,
}

/// Why a process could not take on its owner's rights.
#[derive(Debug, thiserror::Error)]
pub enum AssumeError {
    /// Only root can become somebody else.
    #[error("stage for user {wanted} as user {current}: only root can do that")]
    NotRoot {
        /// The owner.
        wanted: u32,
        /// Who this is.
        current: u32,
    },
    /// `id -G` did not tell the user's groups.
    #[error("look up the groups of user {uid} with id -G")]
    Groups {
        /// The owner.
        uid: u32,
        /// Why it could not be started.
        #[source]
        source: std::io::Error,
    },
    /// The kernel refused.
    #[error("take on the rights of user {uid}")]
    Refused {
        /// The owner.
        uid: u32,
        /// Why.
        #[source]
        source: rustix::io::Errno,
    },
}

impl Identity {
    /// The rights of the calling thread.
    pub fn current() -> Identity {
        let mut groups: Vec<u32> = vec![rustix::process::getegid().as_raw()];
        groups.extend(rustix::process::getgroups().unwrap_or_default().into_iter().map(Gid::as_raw));
        Identity { uid: rustix::process::geteuid().as_raw(), groups }
    }

    /// Whether it may make a file that belongs to this user. The kernel says so for the PFS; a buffer takes any owner
    /// from its clients, so that the rule is kept here.
    pub(crate) fn may_give_to_user(&self, uid: u32) -> bool {
        self.is_root() || uid == self.uid
    }

    /// Whether it may make a file that belongs to this group.
    pub(crate) fn may_give_to_group(&self, gid: u32) -> bool {
        self.is_root() || self.groups.contains(&gid)
    }

    /// Whether it may make device nodes.
    pub(crate) fn may_make_devices(&self) -> bool {
        self.is_root()
    }

    fn is_root(&self) -> bool {
        self.uid == 0
    }
}

/// Gives up root for the rights of `owner`, with all the groups that the system knows for them. Nothing changes if the
/// owner is root or is who runs this already.
///
/// Works on the calling thread and the threads that it starts later: to be called before any other thread of the
/// process touches the PFS.
///
/// # Errors
/// [`AssumeError`]; the thread may then have lost some of its groups and must not go on.
pub fn assume(owner: &Owner) -> Result<(), AssumeError> {
    let current = rustix::process::geteuid().as_raw();
    if current == owner.uid {
        return Ok(());
    }
    if current != 0 {
        return Err(AssumeError::NotRoot { wanted: owner.uid, current });
    }
    let refused = |source| AssumeError::Refused { uid: owner.uid, source };
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    let groups = groups_of(owner)?;
    rustix::thread::set_thread_groups(&groups).map_err(refused)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(refused)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refused)
}

/// The groups of a user, from `id -G`: that asks the name services (LDAP, SSSD) as the C library does, which nothing
/// else in Rust can do without unsafe code. A user without a name has the owner's group alone.
fn groups_of(owner: &Owner) -> Result<Vec<Gid>, AssumeError> {
    let output = Command::new("id").args(["-G", "--", &owner.uid.to_string()]).output();
    let output = output.map_err(|source| AssumeError::Groups { uid: owner.uid, source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut groups: Vec<Gid> =
        text.split_whitespace().filter_map(|gid| gid.parse().ok()).map(Gid::from_raw).collect();
    groups.push(Gid::from_raw(owner.gid));
    Ok(groups)
}

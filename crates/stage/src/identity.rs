//! Whose rights a stage works with. A stage never reaches the PFS as root unless its owner is root.

use rustix::process::{Gid, Uid};
use wire::control::Owner;
use wire::data::credential::User;

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
    let groups: Vec<Gid> = user(owner)?.groups.into_iter().map(Gid::from_raw).collect();
    rustix::thread::set_thread_groups(&groups).map_err(refused)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(refused)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refused)
}

/// A user with all groups, as this host knows them.
///
/// # Errors
/// [`AssumeError::Groups`].
pub(crate) fn user(owner: &Owner) -> Result<User, AssumeError> {
    let failed = |source| AssumeError::Groups { uid: owner.uid, source };
    let groups = daemon::groups::of(owner.uid, owner.gid).map_err(failed)?;
    Ok(User { uid: owner.uid, groups })
}

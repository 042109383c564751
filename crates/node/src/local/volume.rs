//! One private volume on disk and in the mount table.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use daemon::error::{chain, site, user};
use disk::format::{self, UPGRADE};
use store::image::{self, VolumeError};
use wire::control::{ApiError, ErrorCode};

use super::backing::Backing;
use super::noted::Noted;
use super::user_path::{UserPath, UserPathsLock};
use super::{Kept, Setting};
use crate::keep;

kept::own_forms!(Kept);

/// How many bytes one more volume may hold.
pub(super) fn free(setting: &Setting) -> Result<u64, ApiError> {
    let backing = setting.kind.backing(&setting.folder);
    let room = backing.room().map_err(broken)?;
    let free = room.free_bytes.saturating_sub(setting.reserve_bytes);
    Ok(backing.holds(free / room.grain_bytes * room.grain_bytes))
}

/// Why there is no new volume.
pub(super) struct NotMade {
    pub(super) error: ApiError,
    /// Something of it could not be removed again.
    pub(super) left: bool,
}

/// Where one volume is.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    /// What the node keeps of it.
    pub(super) folder: PathBuf,
    /// Where it is mounted.
    pub(super) mountpoint: PathBuf,
    /// Where its user finds it.
    pub(super) shown: UserPath,
    id: String,
    noted: Noted,
    backing: Arc<dyn Backing>,
}

impl Volume {
    pub(super) fn of(setting: &Setting, lock: &UserPathsLock, kept: &Kept) -> Volume {
        Volume {
            folder: setting.folder.join(&kept.spec.id),
            // With the node's name: where nodes share the mount root, the kernel would unmount at all of them what one
            // removes.
            mountpoint: setting.mount_root.join(format!("local-{}-{}", setting.node, kept.spec.id)),
            shown: UserPath::new(setting.local_root.join(&kept.spec.user), lock),
            id: kept.spec.id.clone(),
            noted: Noted::of(&setting.folder, &kept.spec.id),
            backing: kept.kind.backing(&setting.folder),
        }
    }

    /// Makes and mounts it; what could not be finished is removed again. What is there of another one is left alone.
    pub(super) fn make(&self, setting: &Setting, kept: &Kept) -> Result<(), NotMade> {
        let not_begun = |error| NotMade { error: self.not_begun(&error), left: false };
        std::fs::create_dir(&self.folder).map_err(not_begun)?;
        self.try_make(setting, kept).map_err(|error| NotMade { error, left: self.discard().is_err() })
    }

    fn try_make(&self, setting: &Setting, kept: &Kept) -> Result<(), ApiError> {
        let room = self.backing.room().map_err(broken)?;
        let bytes = self.backing.taken(kept.capacity_bytes).div_ceil(room.grain_bytes);
        let bytes = bytes.saturating_mul(room.grain_bytes);
        if room.free_bytes < bytes.saturating_add(setting.reserve_bytes) {
            let message = format!(
                "a volume of {} bytes takes {bytes}; {} are free in {}, of which {} are never handed out",
                kept.capacity_bytes, room.free_bytes, kept.kind, setting.reserve_bytes
            );
            return Err(user(
                ErrorCode::NoRoom,
                message,
                "ask for less; `forebay local list` shows whose volumes take the space",
            ));
        }
        // Whoever finds it before it is finished discards it.
        self.keep(&Kept { given_up: true, ..kept.clone() })?;
        self.backing.create(&self.id, bytes).map_err(broken)?;
        self.mount(kept.released)?;
        self.make_drained(kept).map_err(|e| failed("make the drained folder in", &self.mountpoint, e))?;
        // Last: from then on its user may put links in the place of what root made in it.
        let owner = &kept.spec.owner;
        std::fs::set_permissions(&self.mountpoint, Permissions::from_mode(0o700))
            .and_then(|()| chown(&self.mountpoint, Some(owner.uid), Some(owner.gid)))
            .map_err(|e| failed("give away", &self.mountpoint, e))?;
        self.noted.put().map_err(|e| failed("note the volume of", &self.folder, e))?;
        self.keep(kept)
    }

    /// The volume's folder cannot be made; most likely because a volume is there that the node could not take up.
    fn not_begun(&self, error: &std::io::Error) -> ApiError {
        let message = format!("make {}: {error}", self.folder.display());
        let advice = "if it is there, it is kept as it is: the node's log says since its start what is wrong with it; mend \
                      that and start the node again, or remove the folder if what is in it is not needed";
        site(ErrorCode::LocalVolume, message, advice)
    }

    fn keep(&self, kept: &Kept) -> Result<(), ApiError> {
        keep::write(&self.spec(), kept).map_err(|e| failed("keep", &self.folder, e))
    }

    /// Makes the folder that is to be drained; the volume is still empty, and root's.
    fn make_drained(&self, kept: &Kept) -> std::io::Result<()> {
        let mut folders = vec![self.mountpoint.clone()];
        let drained = kept.spec.drain.iter().flat_map(|drain| Path::new(&drain.from).components());
        for part in drained.filter(|part| matches!(part, Component::Normal(_))) {
            folders.push(folders[folders.len() - 1].join(part));
        }
        folders[1..].iter().try_for_each(|folder| disk::make_passable(folder))?;
        // From the last upwards: what is above is root's until it is given away itself.
        let owner = &kept.spec.owner;
        folders[1..].iter().rev().try_for_each(|folder| chown(folder, Some(owner.uid), Some(owner.gid)))
    }

    /// Mounts it where it is not: for the node, and for its user until it is `released`.
    pub(super) fn mount(&self, released: bool) -> Result<(), ApiError> {
        disk::make_passable(&self.mountpoint).map_err(|e| failed("make", &self.mountpoint, e))?;
        if !image::mounted(&self.mountpoint).map_err(broken)? {
            self.backing.mount(&self.id, &self.mountpoint).map_err(broken)?;
        }
        if released {
            return Ok(());
        }
        self.shown.show(&self.mountpoint).map_err(broken)
    }

    /// Takes the user's path away.
    pub(super) fn hide(&self) -> Result<(), ApiError> {
        self.shown.hide(&self.mountpoint).map_err(broken)
    }

    /// Removes it with all that is in it, in one step.
    pub(super) fn discard(&self) -> Result<(), ApiError> {
        // First: what is being removed is never taken up again, but removed by later lives of the node too.
        let kept = keep::read::<Kept>(&self.spec()).map_err(|e| failed("read", &self.spec(), e))?;
        if let Some(kept) = kept.filter(|kept| !kept.given_up) {
            self.keep(&Kept { given_up: true, ..kept })?;
        }
        self.noted.remove().map_err(|e| failed("remove the note of", &self.folder, e))?;
        self.hide()?;
        image::detach(&self.mountpoint).map_err(broken)?;
        self.backing.remove(&self.id).map_err(broken)?;
        let _ = std::fs::remove_dir(&self.mountpoint);
        keep::remove(&self.folder).map_err(|e| failed("remove", &self.folder, e))
    }

    /// Whether it has begun to be discarded: it owes nothing any more, and perhaps cannot be mounted.
    pub(super) fn is_going(&self) -> Result<bool, ApiError> {
        let kept = keep::read::<Kept>(&self.spec()).map_err(|e| failed("read", &self.spec(), e))?;
        let there = disk::is_folder(&self.folder).map_err(|e| failed("look for", &self.folder, e))?;
        if kept.is_none() && !there {
            self.noted.check_gone()?;
        }
        Ok(kept.map_or(!there, |kept| kept.given_up))
    }

    fn spec(&self) -> PathBuf {
        self.folder.join(keep::SPEC)
    }
}

fn broken(error: VolumeError) -> ApiError {
    site(
        ErrorCode::LocalVolume,
        chain(&error),
        "look at the node's flash, and at `local_kind` in its configuration",
    )
}

fn failed(operation: &'static str, path: &Path, error: std::io::Error) -> ApiError {
    let is_newer = format::is_newer(&error);
    let failed = broken(image::failed(operation, path, error));
    match is_newer {
        true => {
            ApiError { advice: format!("{UPGRADE}, start the node again, then repeat the command"), ..failed }
        }
        false => failed,
    }
}

//! What private volumes are made of: one file for each kind.
//!
//! A volume is known by its job's id. Each kind keeps the limit by the kernel, and removes a volume in one step however
//! many files are in it.

mod image;
mod logical_volume;
mod project_quota;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::image::{IMAGE_BYTES_MIN, OVERHEAD_BYTES, VolumeError};

/// What a volume is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Kind {
    /// XFS in a preallocated image behind a loop device with direct I/O: works everywhere.
    #[default]
    Image,
    /// XFS on a logical volume.
    LogicalVolume {
        /// Of this volume group.
        volume_group: String,
    },
    /// A folder with a project quota.
    ProjectQuota {
        /// Below this folder, on XFS mounted with `prjquota`.
        folder: PathBuf,
    },
}

/// How much there is to make volumes of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes that no volume has or may still take.
    pub(super) free_bytes: u64,
    /// What volumes take is a multiple of this.
    pub(super) grain_bytes: u64,
}

/// What one kind of volumes can do.
pub(super) trait Backing: Send + Sync + fmt::Debug {
    /// Called when the node starts: takes up what an earlier life of the node has left half removed.
    ///
    /// # Errors
    /// The kernel or the tools lack what this kind needs.
    fn open(&self) -> Result<(), VolumeError>;

    /// How much there is.
    ///
    /// # Errors
    /// It cannot be asked.
    fn room(&self) -> Result<Room, VolumeError>;

    /// What a volume that holds `capacity_bytes` takes: XFS keeps some for itself.
    fn taken(&self, capacity_bytes: u64) -> u64 {
        let bytes = capacity_bytes.saturating_add(capacity_bytes / 64).saturating_add(OVERHEAD_BYTES);
        bytes.max(IMAGE_BYTES_MIN)
    }

    /// What a volume holds that takes `bytes`.
    fn holds(&self, bytes: u64) -> u64 {
        if bytes < IMAGE_BYTES_MIN { 0 } else { (bytes - OVERHEAD_BYTES) / 65 * 64 }
    }

    /// Makes the volume `id` of `bytes` bytes, empty.
    ///
    /// # Errors
    /// It is not made, or a part of it that [`Backing::remove`] removes.
    fn create(&self, id: &str, bytes: u64) -> Result<(), VolumeError>;

    /// Mounts it at `mountpoint`, without set-user-id programs, devices and access times.
    ///
    /// # Errors
    /// It is not mounted.
    fn mount(&self, id: &str, mountpoint: &Path) -> Result<(), VolumeError>;

    /// Removes it, unmounted, with all that is in it. Nothing to do where there is none.
    ///
    /// # Errors
    /// It is still there: repeat it.
    fn remove(&self, id: &str) -> Result<(), VolumeError>;
}

impl Kind {
    /// How long a measurement of the room counts.
    pub(super) fn fresh_for(&self) -> Duration {
        match self {
            // LVM's tools read all disks.
            Kind::LogicalVolume { .. } => Duration::from_secs(30),
            Kind::Image | Kind::ProjectQuota { .. } => Duration::ZERO,
        }
    }

    /// How volumes of this kind are handled, on a node with the folder `folder` for its volumes.
    pub(super) fn backing(&self, folder: &Path) -> Arc<dyn Backing> {
        match self {
            Kind::Image => Arc::new(image::Images { folder: folder.to_owned() }),
            Kind::LogicalVolume { volume_group } => {
                Arc::new(logical_volume::LogicalVolumes { group: volume_group.clone() })
            }
            Kind::ProjectQuota { folder } => Arc::new(project_quota::ProjectQuota { folder: folder.clone() }),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Image => f.write_str("the state folder's file system"),
            Kind::LogicalVolume { volume_group } => write!(f, "the volume group {volume_group}"),
            Kind::ProjectQuota { folder } => f.write_str(&folder.to_string_lossy()),
        }
    }
}

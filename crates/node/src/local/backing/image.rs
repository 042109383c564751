//! A volume in a preallocated image behind a loop device: `ID/volume.img` in the folder of the node's volumes.

use std::path::{Path, PathBuf};

use store::image::{self, VolumeError, failed};

use super::{Backing, Room};

#[derive(Debug)]
pub(super) struct Images {
    pub(super) folder: PathBuf,
}

impl Images {
    fn image(&self, id: &str) -> PathBuf {
        self.folder.join(id).join("volume.img")
    }
}

impl Backing for Images {
    fn open(&self) -> Result<(), VolumeError> {
        // The oldest kernel that we run on has what it needs.
        Ok(())
    }

    fn room(&self) -> Result<Room, VolumeError> {
        Ok(Room { free_bytes: image::available(&self.folder)?, grain_bytes: 1 })
    }

    fn create(&self, id: &str, bytes: u64) -> Result<(), VolumeError> {
        image::create(&self.image(id), bytes)
    }

    fn mount(&self, id: &str, mountpoint: &Path) -> Result<(), VolumeError> {
        image::mount(&self.image(id), mountpoint)
    }

    fn remove(&self, id: &str) -> Result<(), VolumeError> {
        let image = self.image(id);
        disk::remove_file(&image).map_err(|error| failed("remove", &image, error))
    }
}

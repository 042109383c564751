//! A disk of its own for what is beside a buffer: an XFS file system in an image.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::mount::{UnmountFlags, unmount};

/// A mounted image; unmounted on drop.
pub struct DiskImage(PathBuf);

impl DiskImage {
    /// Makes one of so many bytes at most at `folder`, with its image beside it.
    pub fn mount(folder: &Path, bytes: u64) -> Result<DiskImage> {
        let image = folder.with_extension("image");
        File::create(&image)
            .and_then(|file| file.set_len(bytes))
            .with_context(|| format!("make {}", image.display()))?;
        fs::create_dir_all(folder)?;
        run(Command::new("mkfs.xfs").arg("-q").arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(folder))?;
        Ok(DiskImage(folder.to_owned()))
    }
}

impl Drop for DiskImage {
    fn drop(&mut self) {
        // What is still open keeps it until then.
        let _detached = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

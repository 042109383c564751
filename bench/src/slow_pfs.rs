//! A parallel file system that is slower than the flash, as everywhere: XFS on a loop device whose writes the kernel
//! limits, with its bytes in memory, so that flash and PFS do not share a disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Where the bytes are.
const MEDIUM: &str = "/dev/shm";

/// As large as all that is written to it at once, and XFS's own.
const SIZE: u64 = 3 << 30;

/// cgroup version 1: limits of the I/O of a group's processes and, in the root group, of the kernel's own writing back.
const HIERARCHY: &str = "/sys/fs/cgroup/blkio";
const LIMIT: &str = "blkio.throttle.write_bps_device";

/// A mounted one.
pub struct SlowPfs {
    mountpoint: PathBuf,
    image: tempfile::NamedTempFile,
    device: String,
}

impl SlowPfs {
    /// Whether this machine's kernel can make one.
    pub fn possible() -> bool {
        Path::new(HIERARCHY).join(LIMIT).exists()
    }

    /// Mounts one that takes `bytes_per_s`.
    pub fn mount(mountpoint: &Path, bytes_per_s: u64) -> Result<SlowPfs> {
        let image = tempfile::Builder::new().prefix("forebay-bench-").tempfile_in(MEDIUM)?;
        image.as_file().set_len(SIZE)?;
        run(Command::new("mkfs.xfs").args(["-q", "-f"]).arg(image.path()))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(image.path()).arg(mountpoint))?;
        let number = fs::metadata(mountpoint)?.dev();
        let device = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let pfs = SlowPfs { mountpoint: mountpoint.to_owned(), image, device };
        pfs.limit(bytes_per_s)?;
        Ok(pfs)
    }

    /// Limits it to other bytes a second; 0: to none. Holds for the kernel and for this process and its children, which
    /// may be in a group of their own.
    pub fn limit(&self, bytes_per_s: u64) -> Result<()> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let own = own.lines().find_map(|line| line.split_once(":blkio:")).map_or("/", |(_, path)| path);
        for group in ["", own.trim_start_matches('/')] {
            let file = Path::new(HIERARCHY).join(group).join(LIMIT);
            fs::write(&file, format!("{} {bytes_per_s}", self.device))
                .with_context(|| format!("limit {} by {}", self.device, file.display()))?;
        }
        Ok(())
    }

    /// Waits until all of it is on the device.
    pub fn sync(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(fs::File::open(&self.mountpoint)?)?)
    }
}

impl Drop for SlowPfs {
    fn drop(&mut self) {
        // The device may be anybody's next.
        let _ = self.limit(0);
        let _ = Command::new("umount").arg("--lazy").arg(&self.mountpoint).status();
        let _ = self.image.as_file().set_len(0);
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

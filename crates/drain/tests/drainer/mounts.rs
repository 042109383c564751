//! File systems that tests mount: only root can.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether the test may mount; says so where it may not.
pub(crate) fn can_mount() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can mount");
    }
    is_root
}

/// Mounts something with these words.
pub(crate) fn mount(arguments: &[&str], at: &Path) {
    let done = Command::new(arguments[0]).args(&arguments[1..]).arg(at).status().unwrap();
    assert!(done.success(), "{arguments:?} {}", at.display());
}

/// Mounts an ext4 at `at`, whose inodes are too small for the time when they were made, and for times after 2038.
pub(crate) fn mount_old(root: &tempfile::TempDir, at: &Path) -> Unmounted {
    let image = root.path().join("image");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let made =
        Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-I", "128"]).arg(&image).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    mount(&["mount", "-o", "loop", image.to_str().unwrap()], at);
    Unmounted(at.to_owned())
}

/// Unmounts a PFS when a test ends, however.
pub(crate) struct Unmounted(pub(crate) PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).stderr(Stdio::null()).status();
    }
}

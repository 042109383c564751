//! What must be there before anything is started: a FUSE device that this user can open, and the program that mounts
//! for ordinary users.

use std::fs::OpenOptions;
use std::io::ErrorKind;

use crate::arguments::Volume;
use crate::failure::Failure;
use crate::{env, identity};

const DEVICE: &str = "/dev/fuse";

/// Whether this user can mount.
///
/// # Errors
/// What is missing, and who does what about it.
pub fn can_mount() -> Result<(), Failure> {
    let root = identity::is_root();
    let opened = OpenOptions::new().read(true).write(true).open(DEVICE).map(drop);
    judge(opened, root, root || env::program("fusermount3").is_some())
}

/// Whether a volume of this kind can be made; an image needs a loop device and a mount of XFS.
///
/// # Errors
/// This user is not root.
pub fn can_make(volume: Option<Volume>) -> Result<(), Failure> {
    judge_volume(volume, identity::is_root())
}

fn judge_volume(volume: Option<Volume>, root: bool) -> Result<(), Failure> {
    match volume {
        Some(Volume::Image) if !root => Err(Failure::unavailable(
            "only root can make an image (`--volume image`): it is mounted on a loop device",
            "leave the option out, or write --volume directory",
        )),
        _ => Ok(()),
    }
}

fn judge(opened: std::io::Result<()>, root: bool, helper: bool) -> Result<(), Failure> {
    match opened {
        Err(error) => {
            let advice = match (error.kind(), root) {
                (ErrorKind::PermissionDenied, false) => "ask the administrator for `chmod 0666 /dev/fuse`",
                (ErrorKind::PermissionDenied, true) => {
                    "give the container or virtual machine the device (`--device /dev/fuse --cap-add SYS_ADMIN`)"
                }
                (_, true) => "run `modprobe fuse`",
                (_, false) => "ask the administrator for `modprobe fuse`",
            };
            Err(Failure::unavailable(format!("open {DEVICE}: {error}"), advice))
        }
        Ok(()) if !helper => Err(Failure::unavailable(
            "fusermount3 is not in PATH, and only root mounts without it",
            "install the package fuse3",
        )),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(opened: std::io::Result<()>, root: bool, helper: bool) -> String {
        judge(opened, root, helper).expect_err("something is missing").to_string()
    }

    #[test]
    fn an_image_is_for_root_alone() {
        let refused = judge_volume(Some(Volume::Image), false).unwrap_err().to_string();
        assert!(refused.contains("only root") && !refused.contains("mkfs"), "{refused}");
        judge_volume(Some(Volume::Image), true).unwrap();
        judge_volume(None, false).unwrap();
    }

    #[test]
    fn each_thing_that_is_missing_has_its_own_advice() {
        let missing = || Err(std::io::Error::from_raw_os_error(2));
        let denied = || Err(std::io::Error::from_raw_os_error(13));
        assert!(advice(missing(), true, true).ends_with("run `modprobe fuse`"));
        assert!(advice(missing(), false, true).contains("administrator"));
        assert!(advice(denied(), false, true).contains("chmod 0666 /dev/fuse"));
        assert!(advice(Ok(()), false, false).ends_with("install the package fuse3"));
        assert!(judge(Ok(()), false, true).is_ok());
    }
}

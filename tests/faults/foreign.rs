//! Volumes that a process in another mount namespace still has mounted.

use std::process::{Child, Command};
use std::time::Duration;

use tests::processes::wait_until;
use wire::control::VolumeKind;

use crate::site::Site;

/// A process with a mount namespace that was cloned from ours; ended when dropped.
struct Foreign(Child);

impl Foreign {
    fn start() -> Foreign {
        let child =
            Command::new("unshare").args(["--mount", "--propagation", "private", "sleep", "600"]).spawn();
        let child = child.unwrap();
        let own = std::fs::read_link("/proc/self/ns/mnt").unwrap();
        let theirs = || std::fs::read_link(format!("/proc/{}/ns/mnt", child.id())).is_ok_and(|ns| ns != own);
        assert!(wait_until(Duration::from_secs(10), theirs));
        Foreign(child)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_volume_that_another_mount_namespace_still_holds_is_mounted_again() {
    let mut site = Site::new();
    site.start_well();
    site.create("i1", VolumeKind::Image).unwrap();
    site.fill("i1");
    let foreign = Foreign::start();
    site.stop();
    let health = site.start_well();
    assert_eq!(health.fragments[0].error, None);
    site.check("i1", &"while the other namespace holds it");
    site.stop();
    drop(foreign);
    site.start_well();
    site.check("i1", &"after the other namespace has ended");
    site.delete("i1").unwrap();
}

#[test]
fn a_volume_that_was_brought_back_from_a_copy_is_mounted_while_the_original_is_held() {
    let mut site = Site::new();
    site.start_well();
    site.create("i1", VolumeKind::Image).unwrap();
    site.fill("i1");
    let _foreign = Foreign::start();
    site.stop();
    let image = site.fragments().join("i1/volume.img");
    let copy = image.with_extension("copy");
    assert!(Command::new("cp").arg("--sparse=always").args([&image, &copy]).status().unwrap().success());
    std::fs::rename(&copy, &image).unwrap();
    let health = site.start_well();
    assert_eq!(health.fragments[0].error, None);
    site.check("i1", &"from the copy");
    site.delete("i1").unwrap();
}

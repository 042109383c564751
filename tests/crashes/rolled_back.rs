//! After one node's power loss what is left of unconfirmed changes is one picture: names have their bytes, files end
//! where their sizes say, and the kernel shows what the storage nodes have.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use tests::processes::wait_until;
use tests::site::{HANGS_AFTER, Site};

use crate::one_node::{BYTES, FILES, Sick, contents, written};

/// The shortest file that is cut off or grows.
const SHORT: u64 = 1000;

/// How many objects storage node `n` has.
fn objects(site: &Site, n: usize) -> usize {
    let folder = site.storage[n].folder().join("fragments/i1/objects/0");
    let folders =
        fs::read_dir(folder).expect("the node made it").map(|entry| entry.expect("it is ours").path());
    folders.map(|folder| fs::read_dir(folder).expect("it is ours").count()).sum()
}

/// What was closed before is told to the home node: closes go along with the next change of a name.
#[track_caller]
fn tell_closes(folder: &Path, name: &str) {
    fs::create_dir(folder.join(name)).expect("all nodes are there");
}

#[track_caller]
fn assert_ends_where_it_says(path: &Path) {
    let file = File::open(path).expect("its name was confirmed");
    let size = file.metadata().expect("it is open").len();
    for at in (0..2 * BYTES as u64).step_by(65_536).map(|stripe| stripe.max(size)) {
        let read = file.read_at(&mut [0; 4096], at).expect("all nodes are there");
        assert_eq!(read, 0, "{} has {size} bytes, and some at {at}", path.display());
    }
}

#[test]
fn a_file_that_a_power_loss_gives_back_its_name_has_its_bytes() {
    let mut sick = Sick::start(0);
    let folder = sick.site.mountpoint(0);
    let path = |folder: &Path, n: usize| folder.join(format!("file-{n}"));
    for n in 0..FILES {
        let [file, _] = written(&folder, &format!("file-{n}"), n).expect("all nodes are there");
        file.sync_all().expect("all nodes are there");
    }
    (0..FILES).for_each(|n| fs::remove_file(path(&folder, n)).expect("all nodes are there"));
    assert!(wait_until(HANGS_AFTER, || objects(&sick.site, 1) == 0), "objects without names stay");
    sick.lose_power();
    let fresh = sick.site.add_mount();
    for n in 0..FILES {
        // Its removal was not confirmed: both may be.
        let found = fs::read(path(&sick.site.mountpoint(fresh), n)).ok();
        assert!(found.is_none_or(|found| found == contents(n)), "file {n} is back without its bytes");
    }
}

#[test]
fn a_file_that_grew_ends_where_its_size_says_when_the_home_node_lost_that() {
    let mut sick = Sick::start_shared(0);
    let folder = sick.site.mountpoint(0);
    let path = folder.join("file");
    fs::write(&path, &contents(1)[..SHORT as usize]).expect("all nodes are there");
    tell_closes(&folder, "short");
    File::open(&folder).and_then(|folder| folder.sync_all()).expect("all nodes are there");
    let file = File::options().write(true).open(&path).expect("all nodes are there");
    file.write_all_at(&contents(1), 0).expect("all nodes are there");
    drop(file);
    tell_closes(&folder, "long");
    sick.lose_power();
    assert_ends_where_it_says(&path);
    let fresh = sick.site.add_mount();
    assert_ends_where_it_says(&sick.site.mountpoint(fresh).join("file"));
}

#[test]
fn a_file_that_was_cut_off_ends_where_its_size_says_when_another_node_lost_that() {
    let mut sick = Sick::start_shared(2);
    let folder = sick.site.mountpoint(0);
    let [file, second] = written(&folder, "file", 1).expect("all nodes are there");
    file.sync_all().expect("all nodes are there");
    file.set_len(SHORT).expect("all nodes are there");
    drop((file, second));
    tell_closes(&folder, "short");
    sick.lose_power();
    let file = File::open(folder.join("file")).expect("its name was confirmed");
    file.sync_all().expect_err("a node has lost that the file was cut off, and fsync says that it was not");
    assert_ends_where_it_says(&folder.join("file"));
    let fresh = sick.site.add_mount();
    assert_ends_where_it_says(&sick.site.mountpoint(fresh).join("file"));
}

#[test]
fn the_kernel_shows_no_bytes_that_a_storage_node_has_lost() {
    let mut sick = Sick::start(2);
    let folder = sick.site.mountpoint(0);
    drop(written(&folder, "file", 1).expect("all nodes are there"));
    File::open(&folder).and_then(|folder| folder.sync_all()).expect("all nodes are there");
    let file = File::open(folder.join("file")).expect("all nodes are there");
    let read = || {
        let mut bytes = vec![0; BYTES];
        file.read_exact_at(&mut bytes, 0).map(|()| bytes).expect("all nodes are there")
    };
    assert!(read() == contents(1));
    sick.lose_power();
    file.sync_all().expect_err("the node has lost what was written to the file");
    let fresh = sick.site.add_mount();
    let found = fs::read(sick.site.mountpoint(fresh).join("file")).expect("its name was confirmed");
    assert!(found != contents(1), "the node has lost nothing");
    assert!(read() == found, "the kernel shows what the storage node has lost");
}

#[test]
fn the_kernel_shows_no_names_that_the_home_node_has_lost() {
    let mut sick = Sick::start(0);
    let folder = sick.site.mountpoint(0).join("folder");
    fs::create_dir(&folder).expect("all nodes are there");
    fs::write(folder.join("before"), "text").expect("all nodes are there");
    let listing = File::open(&folder).expect("all nodes are there");
    listing.sync_all().expect("all nodes are there");
    fs::rename(folder.join("before"), folder.join("after")).expect("all nodes are there");
    fs::metadata(folder.join("after")).expect("all nodes are there");
    sick.lose_power();
    listing.sync_all().expect_err("the node has lost a name");
    let fresh = sick.site.add_mount();
    let theirs = sick.site.mountpoint(fresh).join("folder");
    let there = |folder: &Path| ["before", "after"].map(|name| fs::metadata(folder.join(name)).is_ok());
    assert_eq!(there(&theirs), [true, false], "the node has lost nothing");
    assert_eq!(there(&folder), [true, false], "the kernel shows a name that is not there");
}

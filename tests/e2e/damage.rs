//! What a scrub and a check of the file system tell of what is wrong on a node's disk: in the user's terms.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::cluster::Cluster;
use tests::processes::wait_until_told;

const BLOCK: usize = 4096;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(40);

/// A file over two nodes whose every block begins with its number; gives the mount point, the buffer's token and the
/// folder of objects of each node.
fn numbered_file(cluster: &Cluster, more: &[&str]) -> (PathBuf, String, [PathBuf; 2]) {
    let path = cluster.pfs("mnt");
    let options = ["--capacity", "64MiB", "--nodes", "2", "--volume", "directory"];
    cluster.forebay(&[&["mount", path.to_str().unwrap()], &options[..], more].concat()).expect_success();
    let bytes: Vec<u8> = (0..1280_u32).flat_map(|n| [n.to_le_bytes(); BLOCK / 4].concat()).collect();
    fs::create_dir(path.join("out")).unwrap();
    fs::write(path.join("out/a.h5"), bytes).unwrap();
    let objects = |n| cluster.state.join(format!("nodes/n{n}/fragments/i1/objects/0"));
    (path.clone(), cluster.tokens().remove(0), [objects(0), objects(1)])
}

/// The object of a file in this folder of objects.
fn object(folder: &Path, file: &Path) -> PathBuf {
    let ino = fs::metadata(file).unwrap().ino();
    folder.join(format!("{:02x}/{ino:016x}", ino.to_le_bytes()[0]))
}

/// Scrubs until nobody has a file open any more, so that all of it is summed: the kernel tells of a close after the
/// program's call has returned.
fn sum_all(cluster: &Cluster, token: &str) {
    let in_use =
        || cluster.forebay(&["scrub", token, "--json"]).expect_success().json()["scrub"]["in_use"].clone();
    assert!(wait_until_told(SOON, || in_use() == 0), "a file is still in use");
}

#[test]
fn a_damaged_place_is_told_by_file_range_in_the_file_and_node() {
    let cluster = Cluster::new();
    let (path, token, folders) = numbered_file(&cluster, &[]);
    sum_all(&cluster, &token);
    // In the second stripe that the node has: elsewhere in the object than in the file.
    let at = (1 << 20) + 5 * BLOCK as u64;
    let object = object(&folders[1], &path.join("out/a.h5"));
    let file = fs::File::options().read(true).write(true).open(object).unwrap();
    let mut number = [0; 4];
    file.read_exact_at(&mut number, at).unwrap();
    file.write_all_at(b"x", at + 100).unwrap();
    let start = u64::from(u32::from_le_bytes(number)) * BLOCK as u64;
    let end = start + BLOCK as u64;
    assert_ne!(start, at);

    let scrub = cluster.forebay(&["scrub", &token]);
    assert_eq!(scrub.code(), 74, "{}", scrub.stderr);
    let line = format!("out/a.h5: bytes {start} to {end}, on node n1, do not match their checksums");
    assert!(scrub.stdout.contains(&line), "{line}\n{}", scrub.stdout);
    let found = cluster.forebay(&["scrub", &token, "--json"]).json();
    let place = &found["scrub"]["damaged"][0];
    assert_eq!((&place["file_start"], &place["file_end"]), (&start.into(), &end.into()), "{place}");
    assert_eq!((&place["node"], &place["start"], &place["part"]), (&"n1".into(), &at.into(), &1.into()));
}

#[test]
fn what_is_among_the_objects_and_is_none_is_listed_and_kept() {
    let cluster = Cluster::new();
    let (path, token, folders) = numbered_file(&cluster, &[]);
    let own = object(&folders[1], &path.join("out/a.h5"));
    let wrong = folders[1].join("fe").join(own.file_name().unwrap());
    fs::create_dir_all(wrong.parent().unwrap()).unwrap();
    fs::write(&wrong, "in the wrong folder").unwrap();
    let note = own.with_file_name("note.txt");
    fs::write(&note, "no object").unwrap();
    for options in [&["fsck", &token][..], &["fsck", &token, "--repair"]] {
        let fsck = cluster.forebay(options);
        assert_eq!(fsck.code(), 74, "{}\n{}", fsck.stdout, fsck.stderr);
        for stray in [&wrong, &note] {
            let line = format!("{} on node n1", stray.display());
            assert!(fsck.stdout.contains(&line), "{line}\n{}", fsck.stdout);
            assert!(stray.exists(), "only a person knows what it is");
        }
        assert!(fsck.stderr.contains("2 files in the folders of objects are not objects"), "{}", fsck.stderr);
    }
    fs::remove_file(wrong).unwrap();
    fs::remove_file(note).unwrap();
    cluster.forebay(&["fsck", &token]).expect_success();
}

/// Changes one bit of a block.
fn flip(object: &Path, block: usize) {
    let object = fs::File::options().read(true).write(true).open(object).unwrap();
    let (mut byte, at) = ([0], (block * BLOCK) as u64 + 7);
    object.read_exact_at(&mut byte, at).unwrap();
    object.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn what_is_damaged_on_one_of_two_nodes_is_read_and_repaired_and_a_scrub_says_so() {
    let cluster = Cluster::new();
    let (path, token, [first, _]) = numbered_file(&cluster, &["--mirror"]);
    let file = path.join("out/a.h5");
    let bytes = fs::read(&file).unwrap();
    sum_all(&cluster, &token);
    let own = object(&first, &file);
    let mirror = cluster.state.join("nodes/n1/fragments/i1/mirror/0").join(own.strip_prefix(&first).unwrap());
    let good = fs::read(&own).unwrap();
    let is_good = || fs::read(&own).unwrap() == good && fs::read(&mirror).unwrap() == good;
    // Mounted anew: the kernel has nothing of it.
    let text = path.to_str().unwrap();
    cluster.forebay(&["umount", text]).expect_success();
    flip(&own, 5);
    cluster.forebay(&["mount", text, "--token", &token]).expect_success();
    assert!(fs::read(&file).unwrap() == bytes);
    assert!(is_good(), "whoever reads it has it repaired");
    let says = || cluster.forebay(&["status"]).expect_success().stdout;
    let repaired = || says().contains("data repaired on node n0: 1 damaged place since it was started");
    assert!(wait_until_told(SOON, repaired), "{}", says());

    // A node that was started again has sent all to its mirror, which sums it anew.
    assert!(wait_until_told(SOON, || says().contains("data: two copies")), "{}", says());
    sum_all(&cluster, &token);
    flip(&own, 6);
    flip(&mirror, 7);
    let scrub = cluster.forebay(&["scrub", &token]).expect_success();
    assert!(scrub.stdout.contains("repaired 2 damaged places from the other copy"), "{}", scrub.stdout);
    assert!(is_good());
    flip(&mirror, 8);
    let found = cluster.forebay(&["scrub", &token, "--json"]).expect_success().json();
    assert_eq!(
        (&found["scrub"]["repaired"], &found["scrub"]["damaged"]),
        (&1.into(), &serde_json::json!([]))
    );
    flip(&own, 9);
    cluster.forebay(&["fsck", &token]).expect_success();
    assert!(is_good());
}

mod root_only {
    use super::*;

    /// A file in an image, of which the kernel has the whole: nobody compares what it reads.
    #[test]
    fn damage_in_an_image_is_never_staged_out_as_verified_and_once_found_never_read() {
        let cluster = Cluster::new();
        let path = cluster.pfs("mnt");
        let mountpoint = path.to_str().unwrap();
        let options = ["--capacity", "512MiB", "--nodes", "1", "--volume", "image"];
        cluster.forebay(&[&["mount", mountpoint], &options[..]].concat()).expect_success();
        let token = cluster.tokens().remove(0);
        let bytes: Vec<u8> = (0..1024_u32).flat_map(|n| [n.to_le_bytes(); BLOCK / 4].concat()).collect();
        let file = path.join("a.h5");
        fs::write(&file, &bytes).unwrap();
        cluster.forebay(&["umount", mountpoint]).expect_success();
        sum_all(&cluster, &token);
        flip(&cluster.state.join("nodes/n0/fragments/i1/volume.img"), &bytes[300 * BLOCK..301 * BLOCK]);
        cluster.forebay(&["mount", mountpoint, "--token", &token]).expect_success();

        let copy = cluster.pfs("out").join("copy.h5");
        let (source, target) = (file.to_str().unwrap(), copy.to_str().unwrap());
        let staged = cluster.forebay(&["stage", "out", source, target, "--wait"]);
        assert_ne!(staged.code(), 0, "{}", staged.stdout);
        assert!(!copy.exists(), "a damaged file was published");
        assert_eq!(cluster.forebay(&["scrub", &token]).code(), 74);
        let read = fs::read(&file).expect_err("the scrub has found it damaged");
        assert_eq!(read.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));

        fs::write(&file, &bytes).unwrap();
        cluster.forebay(&["scrub", &token]).expect_success();
        cluster.forebay(&["stage", "out", source, target, "--wait"]).expect_success();
        assert!(fs::read(copy).unwrap() == bytes);
    }

    /// The same, of files that programs have open: what they do not write themselves is compared nevertheless.
    #[test]
    fn a_bit_that_changes_in_an_image_below_an_open_file_is_never_staged_out_as_verified() {
        let cluster = Cluster::new();
        let path = cluster.pfs("mnt");
        let options = ["--capacity", "512MiB", "--nodes", "1", "--volume", "image"];
        cluster.forebay(&[&["mount", path.to_str().unwrap()], &options[..]].concat()).expect_success();
        let token = cluster.tokens().remove(0);
        let bytes_of = |name: u32| -> Vec<u8> {
            (0..256_u32).flat_map(|n| [(name << 16 | n).to_le_bytes(); BLOCK / 4].concat()).collect()
        };
        let names = ["read.h5", "closed.h5", "write.h5"];
        for (name, n) in names.iter().zip(1..) {
            fs::write(path.join(name), bytes_of(n)).unwrap();
        }
        sum_all(&cluster, &token);
        let open =
            |name: &str| fs::File::options().read(true).write(name == "write.h5").open(path.join(name));
        let mut opened: Vec<fs::File> = names.iter().map(|name| open(name).unwrap()).collect();
        opened.iter().for_each(|file| file.read_exact_at(&mut [0; BLOCK], 0).unwrap());
        drop(opened.remove(1));
        let fragment = cluster.state.join("nodes/n0/fragments/i1");
        let out = cluster.pfs("out");
        for (name, n) in names.iter().zip(1..) {
            let object = object(&fragment.join("volume/objects/0"), &path.join(name));
            rustix::fs::syncfs(fs::File::open(&object).unwrap()).unwrap();
            flip(&fragment.join("volume.img"), &bytes_of(n)[200 * BLOCK..201 * BLOCK]);
            forget_pages(&object);
            let (source, target) = (path.join(name), out.join(name));
            let stage = ["stage", "out", source.to_str().unwrap(), target.to_str().unwrap(), "--wait"];
            let staged = cluster.forebay(&stage);
            assert_ne!(staged.code(), 0, "{name}: {}", staged.stdout);
            assert!(!target.exists(), "{name} was published with a wrong bit");
        }
        let scrub = cluster.forebay(&["scrub", &token]);
        assert_eq!(scrub.code(), 74);
        names.iter().for_each(|name| assert!(scrub.stdout.contains(name), "{name}: {}", scrub.stdout));
    }

    /// As when there is no room for them any more: whoever reads the object reads the disk.
    fn forget_pages(object: &Path) {
        let object = fs::File::open(object).unwrap();
        rustix::fs::fadvise(&object, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    /// Changes one bit of the block that the image has of these bytes.
    fn flip(image: &Path, block: &[u8]) {
        let file = fs::File::options().read(true).write(true).open(image).unwrap();
        let mut found = vec![0; BLOCK];
        let is_it = |place: &u64| {
            file.read_exact_at(&mut found, *place).unwrap();
            found == block
        };
        let place = (0..file.metadata().unwrap().len()).step_by(BLOCK).find(is_it).unwrap();
        file.write_all_at(&[block[9] ^ 1], place + 9).unwrap();
    }
}

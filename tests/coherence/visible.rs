//! Sentences 2, 3, 4 and 8: what one node did, every other sees at once, whatever its kernel remembers.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{Dir, FallocateFlags, Mode, fallocate, mkdirat};
use rustix::io::Errno;

use crate::folder::{Folder, open_or_make};
use crate::records::bytes_at;
use crate::site::{NODES, Site};

const ROUNDS: usize = 60;

fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn open_everywhere(folder: &Folder<'_>, name: &str) -> Vec<File> {
    folder.everywhere(name).iter().map(|path| open_or_make(path)).collect()
}

pub fn bytes(site: &Site) {
    let files = open_everywhere(&site.folder(), "shared");
    for round in 0..ROUNDS {
        // The same place, again and again: what another node read before must not come back.
        let (writer, bytes) = (round % NODES, bytes_at(round, 5000));
        files[writer].write_all_at(&bytes, 1_048_000).expect("there is room");
        for (node, file) in files.iter().enumerate() {
            let mut read = vec![0; 5000];
            file.read_exact_at(&mut read, 1_048_000).expect("it was written");
            assert!(read == bytes, "round {round}: node {node} reads what node {writer} has overwritten");
        }
    }
}

pub fn attributes(site: &Site) {
    let folder = site.folder();
    let files = open_everywhere(&folder, "shared");
    let mut before = files[0].metadata().expect("it is open");
    for round in 0..ROUNDS {
        let writer = round % NODES;
        files[writer].write_all_at(b"x", (round * 70_000) as u64).expect("there is room");
        let own = files[writer].metadata().expect("it is open");
        assert_eq!(own.len(), (round * 70_000 + 1) as u64);
        let time = |data: &fs::Metadata| (data.mtime(), data.mtime_nsec());
        assert!(time(&own) >= time(&before), "round {round}: time goes on");
        for (node, path) in folder.everywhere("shared").iter().enumerate() {
            let other = fs::metadata(path).expect("it is there");
            assert_eq!((other.len(), time(&other)), (own.len(), time(&own)), "round {round}: node {node}");
        }
        before = own;
    }
    drop(files);
    for path in folder.everywhere("shared") {
        let closed = fs::metadata(path).expect("it is there");
        assert_eq!((closed.len(), closed.mtime()), (before.len(), before.mtime()), "closing changes nothing");
    }
}

pub fn names(site: &Site) {
    let folder = site.folder();
    for round in 0..ROUNDS {
        let (writer, reader) = (round % NODES, (round + 1 + round / NODES % (NODES - 1)) % NODES);
        let at = |name: &str| folder.at(writer, name);
        let seen = |name: &str| folder.at(reader, name);
        let missing = |name: &str| is_missing(&seen(name));
        // Asked before each change, so that the other kernel has something to remember.
        assert!(missing("a") && missing("d") && missing("link"));
        fs::write(at("a"), "one").expect("the buffer is writable");
        assert_eq!(fs::read(seen("a")).expect("it is there"), b"one");
        fs::set_permissions(at("a"), Permissions::from_mode(0o604)).expect("it is ours");
        assert_eq!(fs::metadata(seen("a")).expect("it is there").mode() & 0o7777, 0o604);
        fs::create_dir(at("d")).expect("the name is free");
        assert!(fs::read_dir(seen("d")).expect("it is there").next().is_none());
        fs::rename(at("a"), at("d/b")).expect("it is there");
        assert!(missing("a") && seen("d/b").is_file());
        let listed =
            fs::read_dir(seen("d")).expect("it is there").map(|entry| entry.expect("it lists").file_name());
        assert_eq!(listed.collect::<Vec<_>>(), ["b"]);
        fs::hard_link(at("d/b"), at("c")).expect("it is there");
        assert_eq!(fs::metadata(seen("c")).expect("it is there").nlink(), 2);
        fs::write(at("c"), "two").expect("it is there");
        assert_eq!(fs::read(seen("d/b")).expect("it is there"), b"two");
        fs::remove_file(at("d/b")).expect("it is there");
        assert!(missing("d/b") && fs::metadata(seen("c")).expect("it is there").nlink() == 1);
        symlink(format!("target-{round}"), at("link")).expect("the name is free");
        let target = fs::read_link(seen("link")).expect("it is there");
        assert_eq!(target, Path::new(&format!("target-{round}")), "a link's text is no former link's");
        for name in ["c", "link"] {
            fs::remove_file(at(name)).expect("it is there");
        }
        fs::remove_dir(at("d")).expect("it is empty");
        assert!(missing("c") && missing("d") && missing("link"));
    }
}

pub fn truncation(site: &Site) {
    let files = open_everywhere(&site.folder(), "shared");
    for round in 0..ROUNDS {
        let (writer, other) = (round % NODES, (round + 2) % NODES);
        files[writer].write_all_at(&[7; 9000], 0).expect("there is room");
        assert_eq!(files[other].metadata().expect("it is open").len(), 9000);
        files[other].set_len(100).expect("it is open");
        let mut read = [1; 200];
        for file in &files {
            assert_eq!(file.read_at(&mut read, 0).expect("it is open"), 100);
        }
        // Beyond the new end are zeros, also when the file grows again.
        files[writer].write_all_at(&[8], 8999).expect("there is room");
        for file in &files {
            let mut tail = [1; 8900];
            file.read_exact_at(&mut tail, 100).expect("it is that long");
            assert!(tail[..8899].iter().all(|byte| *byte == 0) && tail[8899] == 8);
        }
        files[other].set_len(0).expect("it is open");
    }
}

pub fn holes(site: &Site) {
    let files = open_everywhere(&site.folder(), "shared");
    let len = 3 << 20;
    files[0].write_all_at(&vec![9; len], 0).expect("there is room");
    let mut read = vec![1; len];
    files[4].read_exact_at(&mut read, 0).expect("it is that long");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&files[1], punch, 1 << 19, 2 << 20).expect("holes can be punched");
    for file in &files {
        file.read_exact_at(&mut read, 0).expect("it is that long");
        let (hole, rest) = ((1 << 19)..(5 << 19), |byte: &u8| *byte == 9);
        assert!(read[hole.clone()].iter().all(|byte| *byte == 0));
        assert!(read[..hole.start].iter().all(rest) && read[hole.end..].iter().all(rest));
        assert_eq!(file.metadata().expect("it is open").blocks(), 1 << 11, "a hole costs no space");
    }
}

pub fn unlinked(site: &Site) {
    let folder = site.folder();
    fs::write(folder.at(0, "file"), "kept").expect("the buffer is writable");
    let (reader, writer) =
        (File::open(folder.at(1, "file")).expect("it is there"), open_or_make(&folder.at(2, "file")));
    fs::remove_file(folder.at(3, "file")).expect("it is there");
    writer.write_all_at(b"more", 4).expect("it is open");
    let mut read = [0; 8];
    reader.read_exact_at(&mut read, 0).expect("it is open");
    assert_eq!(&read, b"keptmore");
    assert_eq!(reader.metadata().expect("it is open").nlink(), 0);
}

pub fn removed_folder(site: &Site) {
    let folder = site.folder();
    fs::create_dir(folder.at(0, "gone")).expect("the name is free");
    let open = File::open(folder.at(1, "gone")).expect("it is there");
    fs::remove_dir(folder.at(2, "gone")).expect("it is empty");
    for _ in 0..2 {
        let data = open.metadata().expect("it is open");
        assert!(data.is_dir() && data.nlink() == 0);
        let entries = Dir::read_from(&open).expect("it is open").map(|entry| entry.map(drop));
        assert_eq!(entries.collect::<Vec<_>>(), []);
        open.set_permissions(Permissions::from_mode(0o711)).expect("it is open");
        assert_eq!(mkdirat(&open, "sub", Mode::RWXU), Err(Errno::NOENT));
        // Once more when another folder has its name.
        fs::create_dir(folder.at(3, "gone")).expect("the name is free");
        fs::remove_dir(folder.at(4, "gone")).expect("it is empty");
    }
}

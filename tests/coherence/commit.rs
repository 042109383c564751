//! Sentence 13: `coherence=commit`.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use tests::processes::Process;

use crate::folder::open_or_make;
use crate::records::bytes_at;
use crate::site::Site;

pub fn visible(site: &Site) {
    let folder = site.commit_folder();
    let reader = open_or_make(&folder.at(1, "shared"));
    for round in 0..20 {
        let writer = open_or_make(&folder.at(0, "shared"));
        let (one, two) = (bytes_at(round, 3000), bytes_at(round + 7, 3000));
        let mut read = vec![0; 3000];
        writer.write_all_at(&one, 1_047_000).expect("there is room");
        writer.sync_all().expect("the storage nodes are there");
        reader.read_exact_at(&mut read, 1_047_000).expect("it was synced");
        assert!(read == one, "round {round}: after fsync");
        writer.write_all_at(&two, 1_047_000).expect("there is room");
        drop(writer);
        reader.read_exact_at(&mut read, 1_047_000).expect("it was closed");
        assert!(read == two, "round {round}: after close");
    }
    let mut peer = folder.peer(0, "shared");
    assert_eq!(peer.ask("f = os.open(path, os.O_WRONLY | os.O_DSYNC)"), "done");
    assert_eq!(peer.ask("os.pwrite(f, b'synchronous', 0)"), "11");
    let mut read = [0; 11];
    reader.read_exact_at(&mut read, 0).expect("it was synced");
    assert_eq!(&read, b"synchronous", "every write on a file open for synchronous writing is an fsync");
    assert_eq!(fs::metadata(folder.at(2, "shared")).expect("it is there").len(), 1_050_000);
}

/// The node itself sees its writes at once, in every way.
pub fn own(site: &Site) {
    let folder = site.commit_folder();
    let mut file = open_or_make(&folder.at(0, "shared"));
    let mut read = [0; 4];
    for round in 0..20u8 {
        file.write_all_at(&[round; 4], 10).expect("there is room");
        file.read_exact_at(&mut read, 10).expect("it was written");
        assert_eq!(read, [round; 4]);
        file.write_all_at(&[round; 4], 100).expect("there is room");
        assert_eq!(fs::metadata(folder.at(0, "shared")).expect("it is there").len(), 104);
        file.write_all_at(&[round; 4], 200).expect("there is room");
        assert_eq!(file.seek(SeekFrom::End(0)).expect("it is open"), 204);
        file.write_all_at(&[round; 4], 300).expect("there is room");
        let mut log = OpenOptions::new().append(true).open(folder.at(0, "shared")).expect("it is there");
        log.write_all(b"end").expect("there is room");
        file.seek(SeekFrom::Start(300)).expect("it is open");
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).expect("it is open");
        assert_eq!(rest, [&[round; 4][..], b"end"].concat());
        file.write_all_at(&[round; 400], 0).expect("there is room");
        file.set_len(2).expect("it is open");
        assert_eq!(fs::read(folder.at(0, "shared")).expect("it is there"), [round; 2]);
        file.set_len(0).expect("it is open");
    }
}

pub fn killed(site: &Site) {
    let folder = site.commit_folder();
    let files: Vec<File> = (0..3).map(|n| open_or_make(&folder.at(0, &format!("file{n}")))).collect();
    for n in 0..300 {
        for (file, seed) in files.iter().zip(0..) {
            file.write_all_at(&bytes_at(n + seed, 1000), (n * 3000) as u64).expect("there is room");
        }
    }
    files[0].sync_all().expect("the storage nodes are there");
    let other = fs::metadata(folder.at(1, "file1")).expect("it is there").len();
    assert_eq!(other, 0, "nothing is held back, so this shows nothing");
    site.mount_processes(0).iter().for_each(Process::kill);
    drop(files);
    for seed in 0..3 {
        let read = fs::read(folder.at(1, &format!("file{seed}"))).expect("it is there");
        assert_eq!(read.len(), 299 * 3000 + 1000);
        for n in 0..300 {
            assert!(read[n * 3000..][..1000] == bytes_at(n + seed, 1000), "file {seed}: record {n} is lost");
        }
    }
}

/// No room is told at fsync, and at close where nobody asked before.
pub fn error(site: &Site) {
    let folder = site.commit_folder();
    let filler = open_or_make(&folder.at(0, "filler"));
    let stat = rustix::fs::fstatvfs(&filler).expect("the buffer is mounted");
    fallocate(&filler, FallocateFlags::empty(), 0, stat.f_bavail * stat.f_frsize).expect("all of it is free");
    let file = open_or_make(&folder.at(0, "file"));
    file.write_all_at(&[1; 100_000], 0).expect("it is held back");
    let told = file.sync_all().expect_err("nothing is free");
    assert_eq!(told.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    file.sync_all().expect("an error is told once");
    let mut peer = folder.peer(0, "closed");
    assert_eq!(peer.ask("f = os.open(path, os.O_RDWR | os.O_CREAT)"), "done");
    assert_eq!(peer.ask("os.pwrite(f, b'x' * 100000, 0)"), "100000");
    assert_eq!(peer.ask("os.close(f)"), "ENOSPC");
    fs::remove_file(folder.at(0, "filler")).expect("it is there");
}

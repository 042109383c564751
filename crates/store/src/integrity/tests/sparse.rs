//! Objects that are nearly all hole: what is done for them is as much as they have bytes, however long they are. Work
//! that grew with their length would not end.

use model::NodeName;

use crate::integrity::other::{NotRead, OtherCopy};
use crate::integrity::report::Fault;

use super::*;

/// 4 EiB, but for a little: other file systems than this folder's have no such files.
const END: u64 = (1 << 62) - 5;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// The byte at the end of the object.
fn last(objects: &Objects) -> std::io::Result<u8> {
    let mut byte = [0];
    objects.read(INO, END - 1, &mut byte).map(|_| byte[0])
}

#[test]
fn a_long_hole_is_sealed_again_and_scrubbed() {
    let folder = folder();
    let objects = Arc::new(open(folder.path()));
    objects.write(INO, END - 1, b"z").unwrap();
    seal(&objects);
    for at in [0, 5 << 40] {
        objects.write(INO, at, b"a").unwrap();
        objects.write(Ino(78), 0, b"another").unwrap();
        seal(&objects);
        assert_eq!(objects.keeper().queued().len(), 0, "something is not sealed");
    }
    let sealed = objects.keeper().log.get(INO).unwrap().seal;
    assert_eq!((sealed.length, sealed.chunks.len()), (END, 3));
    let status = scrubbed(&objects);
    assert_eq!((status.objects, status.bytes < 8 << 20, status.damaged), (2, true, Vec::new()));
    flip(&objects, INO, END - 1);
    assert_eq!(scrubbed(&objects).damaged.len(), 1);
    assert!(last(&objects).is_err());
}

#[test]
fn what_a_hole_lost_or_has_got_is_damage() {
    let folder = folder();
    let objects = Arc::new(open(folder.path()));
    objects.write(INO, END - 1, b"z").unwrap();
    objects.write(INO, 1 << 40, b"a").unwrap();
    seal(&objects);
    let below = File::options().write(true).open(objects.path(INO)).unwrap();
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&below, punch, 1 << 40, 4096).unwrap();
    below.write_all_at(b"b", 1 << 50).unwrap();
    let places: Vec<u64> = scrubbed(&objects).damaged.iter().map(|damage| damage.start).collect();
    assert_eq!(places, [1 << 40, 1 << 50]);
}

#[test]
fn work_for_objects_of_a_namespace_that_is_closed_ends() {
    let folder = folder();
    let objects = Arc::new(open(folder.path()));
    objects.write(INO, 0, b"a").unwrap();
    objects.adopt().unwrap();
    objects.keeper().close();
    objects.seal_idle(Duration::ZERO, &mut Pace::new(None)).unwrap();
    assert!(objects.keeper().log.get(INO).is_none(), "it goes on with what it was at");
}

/// Has the byte at the end.
#[derive(Debug)]
struct Elsewhere;

impl OtherCopy for Elsewhere {
    fn read(&self, _: Ino, offset: u64, len: u32) -> Result<Vec<u8>, NotRead> {
        let end = (offset + u64::from(len)).min(END);
        let mut bytes = vec![0; usize::try_from(end - offset).unwrap()];
        if end == END {
            *bytes.last_mut().unwrap() = b'z';
        }
        Ok(bytes)
    }

    fn node(&self) -> NodeName {
        NodeName::literal("n1")
    }
}

#[test]
fn a_long_hole_that_is_gone_is_repaired() {
    let folder = folder();
    let objects = Arc::new(open(folder.path()).with_other(Arc::new(Elsewhere)));
    objects.write(INO, END - 1, b"z").unwrap();
    seal(&objects);
    fs::remove_file(objects.path(INO)).unwrap();
    objects.repair_all(INO, &[Fault::Missing { was: END }], END).unwrap();
    assert_eq!(last(&objects).unwrap(), b'z');
    assert_eq!(scrubbed(&objects).damaged, Vec::new());
}

//! Notes that take long to be written.

use std::sync::mpsc;
use std::time::Duration;

use model::Ino;

use super::{INO, open, seal};
use crate::integrity::keeper::Keeper;
use crate::integrity::note::hanging;
use crate::integrity::report::Fault;
use crate::objects::Objects;

/// Longer than anything here takes that does not wait for a disk.
const SOON: Duration = Duration::from_secs(10);

const OTHER: Ino = Ino(8);

/// Has a note written to a disk that hangs, and shows that `work` does not wait for that.
fn beside_a_note(name: &str, note: impl Fn(&Keeper) + Sync, work: impl Fn(&Objects) + Sync) {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    objects.write(INO, 0, &[3; 100_000]).unwrap();
    seal(&objects);
    let noted = folder.path().join(format!("{name}-seals"));
    hanging::begin(&noted);
    let (done, is_done) = mpsc::channel();
    std::thread::scope(|scope| {
        let noting = scope.spawn(|| note(objects.keeper()));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!noting.is_finished(), "the disk hangs");
        scope.spawn(|| {
            work(&objects);
            done.send(()).unwrap();
        });
        let in_time = is_done.recv_timeout(SOON);
        hanging::end(&noted);
        assert!(in_time.is_ok(), "whoever uses another object waits for the note in {name}");
    });
}

#[test]
fn who_uses_an_object_waits_for_no_note_of_another_that_is_being_written() {
    let read = |objects: &Objects| {
        assert!(!objects.keeper().unverified.has(OTHER), "it is not noted yet");
        assert_eq!(objects.read(INO, 0, &mut [0; 4096]).unwrap(), 4096);
        objects.write(INO, 0, &[4; 4096]).unwrap();
    };
    let take = |keeper: &Keeper| drop(keeper.unverified.begin_taken(OTHER, "a test"));
    beside_a_note("unverified", take, read);

    let make = |objects: &Objects| {
        assert_eq!(objects.keeper().lost.length(OTHER), None, "it is not noted yet");
        objects.write(Ino(9), 0, &[4; 4096]).map(drop).unwrap();
    };
    beside_a_note("lost", |keeper| drop(keeper.lost.add(OTHER, 4096)), make);

    let damage = |keeper: &Keeper| assert!(keeper.known.add(OTHER, &Fault::Blocks { blocks: 0..1 }));
    beside_a_note("damaged", damage, |objects| objects.keeper().check_faults(INO).unwrap());
}

//! Which objects fragments are told that they should have.

use model::Ino;

use super::*;

#[test]
fn nobody_is_told_that_an_object_of_a_file_that_is_being_removed_should_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let (shard, ino) = settled_file(folder.path());
    let on = shard.layout.start(ino);
    assert_eq!(shard.meant(on, Ino(0)), [(ino, 7)]);
    let by = |id| Caller::new(SESSION, id);
    shard.handle(by(3), Request::Open { ino, write: false });
    shard.handle(by(4), Request::Unlink { parent: ROOT, name: b"f".to_vec() });
    assert_eq!(shard.meant(on, Ino(0)), [(ino, 7)], "it is open");
    let handles = vec![ClosedHandle { ino, write: false, written: None }];
    // There is no other node, so its objects are never gone from all.
    shard.handle(by(5), Request::Close { handles });
    assert!(shard.lock().tree.is_orphan(ino));
    assert!(shard.meant(on, Ino(0)).is_empty());
}

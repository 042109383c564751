//! A PFS without a free block: who waits hears of it. A flash without one: it is drained all the same.

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use super::node::Node;
use super::{Silent, Unmounted, can_mount, mount, mount_old, read};

#[test]
fn a_wait_on_a_pfs_that_is_full_says_so_and_does_not_wait_for_answers_that_cannot_come() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let pfs = node.to.clone();
    mount(&["mount", "-t", "tmpfs", "-o", "size=4m", "none"], &pfs);
    let _unmounted = Unmounted(pfs.clone());
    node.to = pfs.join("out");
    node.start();
    assert_eq!(node.settle().failed, []);
    let mut filler = fs::File::create(pfs.join("filler")).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}
    let rendezvous = node.to.join(".forebay-drain/s");
    let begun = Instant::now();
    let told = drain::wait::wait(&rendezvous, Some(Duration::from_secs(60)), &mut Silent).unwrap_err();
    assert!(disk::is_full(&told) && told.to_string().contains(pfs.to_str().unwrap()), "{told}");
    assert!(begun.elapsed() < Duration::from_secs(30), "only when its time was over");
    // Nothing of it stays; with room it is answered.
    for folder in ["requests", "answers"] {
        assert_eq!(fs::read_dir(rendezvous.join(folder)).unwrap().count(), 0, "{folder}");
    }
    filler.set_len(0).unwrap();
    let ending = drain::wait::wait(&rendezvous, Some(Duration::from_secs(60)), &mut Silent).unwrap();
    assert!(matches!(ending, drain::wait::Ending::Answered(_)), "{ending:?}");
}

#[test]
fn a_drainer_that_was_killed_starts_again_on_a_flash_without_a_free_block() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let _unmounted = mount_old(&root, &node.from);
    fs::write(node.from.join("first"), "1").unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    node.kill();
    fs::write(node.from.join("second"), "2").unwrap();
    // Earlier drainers have used up what was set aside for this.
    fs::write(node.state().join("room"), "").unwrap();
    // What is there is not drained.
    for (name, length) in [("filler", 1 << 16), ("rest", 1)] {
        let mut filler = fs::File::create(node.state().join(name)).unwrap();
        while filler.write_all(&vec![1; length]).is_ok() {}
    }
    // More than one block of what each start adds.
    for _ in 0..12 {
        node.start();
        assert_eq!(node.settle().failed, []);
        assert_eq!(read(&node.to.join("second")), "2");
        node.kill();
    }
}

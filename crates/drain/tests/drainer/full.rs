//! A PFS without a free block: who waits hears of it.

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use super::node::Node;
use super::{Silent, Unmounted, mount};

#[test]
fn a_wait_on_a_pfs_that_is_full_says_so_and_does_not_wait_for_answers_that_cannot_come() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can mount");
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

//! What had landed and is not there any more when everything is to be called drained.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::node::{LIMIT, Node, library};
use super::read;

const NAMES: [&str; 3] = ["f1", "f2", "folder/f3"];

/// A node whose files have all landed.
fn drained(root: &tempfile::TempDir) -> Node {
    let mut node = Node::new(root, "n1", &[]);
    fs::create_dir(node.from.join("folder")).unwrap();
    NAMES.iter().for_each(|name| fs::write(node.from.join(name), *name).unwrap());
    node.start();
    assert_eq!(node.settle().failed, []);
    node
}

fn are_there(to: &Path) -> bool {
    NAMES.iter().all(|name| read(&to.join(name)) == *name)
}

#[test]
fn what_was_removed_on_the_pfs_is_copied_again_before_all_is_called_drained() {
    let root = tempfile::tempdir().unwrap();
    let node = drained(&root);
    fs::remove_dir_all(node.to.join("folder")).unwrap();
    fs::remove_file(node.to.join("f1")).unwrap();
    assert_eq!(node.settle().failed, []);
    assert!(are_there(&node.to), "all is called drained, and is not there");
}

#[test]
fn what_was_removed_on_the_pfs_is_copied_again_also_while_its_source_is_looked_at() {
    let root = tempfile::tempdir().unwrap();
    let node = drained(&root);
    for _ in 0..5 {
        fs::remove_file(node.to.join("f1")).unwrap();
        // Nothing is changed, but a close of it is noticed.
        drop(fs::File::options().write(true).open(node.from.join("f1")).unwrap());
        assert_eq!(node.settle().failed, []);
        assert!(are_there(&node.to), "all is called drained, and is not there");
    }
}

#[test]
fn nothing_is_owed_of_what_could_not_be_copied_and_was_removed() {
    let root = tempfile::tempdir().unwrap();
    let mut node = drained(&root);
    let to = node.to.clone();
    let receipt = || read(&to.join(".forebay-drain/s/receipt.jsonl"));
    fs::create_dir(node.to.join("blocked")).unwrap();
    fs::write(node.to.join("blocked/by"), "of another").unwrap();
    for name in ["blocked", "f1"] {
        fs::write(node.from.join(name), "new").unwrap();
    }
    fs::write(node.to.join("f1"), "of another").unwrap();
    let failed = node.settle().failed;
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(receipt().contains("\"complete\":false"), "{}", receipt());
    for is_another_drainer in [true, false] {
        let name = if is_another_drainer { "blocked" } else { "f1" };
        fs::remove_file(node.from.join(name)).unwrap();
        if is_another_drainer {
            node.kill();
            node.start();
        }
        let left = usize::from(is_another_drainer);
        // The folder of that name there is not of this drain.
        let rendezvous = to.join(".forebay-drain/s");
        assert_eq!(node.settle().failed.len(), left);
        assert!(!drain::wait::has_drained(&rendezvous, &to, Path::new("blocked")).unwrap());
        assert!(receipt().contains(&format!("\"complete\":{}", left == 0)), "{}", receipt());
        assert!(receipt().contains(&format!("\"failed\":{left}")), "{}", receipt());
    }
}

#[test]
fn what_another_has_put_in_the_place_of_a_copy_is_named_and_stays() {
    let root = tempfile::tempdir().unwrap();
    let node = drained(&root);
    fs::write(node.to.join("f2"), "of another").unwrap();
    let failed = node.settle().failed;
    let [trouble] = &failed[..] else { panic!("{failed:?}") };
    assert!(trouble.message.contains("/f2 is not what was drained there"), "{trouble:?}");
    assert_eq!(read(&node.to.join("f2")), "of another", "it was overwritten");
    node.wait_said("the figures are the answer's", |said| {
        (said.done, said.enqueued, said.failed) == (2, 3, 1) && said.troubles == failed
    });
    // Either way that the advice names helps.
    fs::rename(node.to.join("f2"), node.to.join("theirs")).unwrap();
    assert_eq!(node.settle().failed, []);
    node.wait_said("it is drained again", |said| (said.done, said.enqueued, said.failed) == (3, 3, 0));
    assert!(are_there(&node.to));
    fs::write(node.to.join("f1"), "of another").unwrap();
    fs::remove_file(node.from.join("f1")).unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("f1")), "of another");
}

/// Parts cannot be synced while there is `FOLDER/parts-fail`, nor the folder on the PFS while `FOLDER/folder-fails` is.
const FAILS_WHILE_ASKED_TO: &str = "
int fsync(int fd) {
    char path[4096];
    ssize_t length = path_of(fd, path, sizeof path);
    int is_part = length > 5 && strcmp(path + length - 5, \".part\") == 0;
    int fails = is_part ? access(\"FOLDER/parts-fail\", F_OK) == 0
                        : strcmp(path, \"FOLDER/pfs\") == 0 && access(\"FOLDER/folder-fails\", F_OK) == 0;
    if (!fails) return syscall(SYS_fsync, fd);
    errno = EIO;
    return -1;
}
";

/// A node whose files have all landed, and whose next attempts fail while `mark` is there.
pub(crate) fn drained_and_failing(root: &tempfile::TempDir, mark: &str) -> Node {
    let mut node = drained(root);
    node.kill();
    let folder = root.path().canonicalize().unwrap();
    node.preload = Some(library(root, &FAILS_WHILE_ASKED_TO.replace("FOLDER", folder.to_str().unwrap())));
    fs::write(root.path().join(mark), "").unwrap();
    node.start();
    node
}

/// As a program does that writes beside and renames.
fn put(path: &Path, text: &str) {
    fs::write(path.with_file_name("beside"), text).unwrap();
    fs::rename(path.with_file_name("beside"), path).unwrap();
}

#[test]
fn what_another_has_put_in_the_place_of_a_copy_stays_also_after_an_attempt_that_failed() {
    let root = tempfile::tempdir().unwrap();
    let node = drained_and_failing(&root, "parts-fail");
    for name in ["f1", "f2"] {
        fs::write(node.from.join(name), "newer").unwrap();
    }
    assert_eq!(node.settle().failed.len(), 2);
    assert_eq!(read(&node.to.join("f1")), "f1");
    put(&node.to.join("f1"), "of another");
    fs::remove_file(root.path().join("parts-fail")).unwrap();
    let failed = node.settle().failed;
    let [trouble] = &failed[..] else { panic!("{failed:?}; {}", read(&node.to.join("f1"))) };
    assert!(trouble.message.contains("/f1 is not what was drained there"), "{trouble:?}");
    assert_eq!(read(&node.to.join("f1")), "of another", "it was overwritten");
    assert_eq!(read(&node.to.join("f2")), "newer", "what is its own is replaced");
    fs::remove_file(node.to.join("f1")).unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("f1")), "newer");
}

#[test]
fn what_another_has_put_in_the_place_of_a_copy_that_did_not_get_to_the_disk_stays() {
    let root = tempfile::tempdir().unwrap();
    let mut node = drained_and_failing(&root, "folder-fails");
    fs::write(node.to.join("earlier"), "of an earlier job").unwrap();
    for name in ["earlier", "first", "f1", "f2"] {
        fs::write(node.from.join(name), "newer").unwrap();
    }
    assert_eq!(node.settle().failed.len(), 4);
    assert_eq!(read(&node.to.join("earlier")), "newer");
    for name in ["first", "f1"] {
        put(&node.to.join(name), "of another");
    }
    // The next drainer knows as much.
    node.kill();
    fs::remove_file(root.path().join("folder-fails")).unwrap();
    node.start();
    for name in ["earlier", "f2"] {
        fs::write(node.from.join(name), "newest").unwrap();
    }
    let failed = node.settle().failed;
    let said =
        |name: &str| failed.iter().any(|trouble| trouble.message.contains(&format!("/{name} is not what")));
    assert!(failed.len() == 2 && said("first") && said("f1"), "{failed:?}");
    for name in ["first", "f1"] {
        assert_eq!(read(&node.to.join(name)), "of another", "it was overwritten");
    }
    for name in ["earlier", "f2"] {
        assert_eq!(read(&node.to.join(name)), "newest");
    }
}

#[test]
fn a_folder_on_the_pfs_that_was_moved_away_ends_the_drainer_and_the_next_fills_another() {
    let root = tempfile::tempdir().unwrap();
    let mut node = drained(&root);
    fs::rename(&node.to, root.path().join("moved")).unwrap();
    fs::create_dir(&node.to).unwrap();
    let begun = Instant::now();
    while node.running.as_mut().unwrap().try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < LIMIT, "it goes on where nobody can hear of it");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    node.start();
    assert_eq!(node.settle().failed, []);
    assert!(are_there(&node.to), "all is called drained, and is not there");
    assert!(node.to.join(".forebay-drain/s/n1.jsonl").exists());
}

#[test]
fn who_asks_while_another_is_answered_is_told_of_what_is_missing_as_well() {
    const FILES: usize = 12;
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &["--workers", "1"]);
    node.preload = Some(library(&root, IS_SLOW));
    node.start();
    let names: Vec<_> = (0..FILES).map(|index| format!("f{index}")).collect();
    names.iter().for_each(|name| fs::write(node.from.join(name), name).unwrap());
    assert_eq!(node.settle().failed, []);
    for _ in 0..3 {
        names.iter().for_each(|name| fs::remove_file(node.to.join(name)).unwrap());
        let (node, names) = (&node, &names);
        let ask = |after: u64| {
            move || {
                std::thread::sleep(Duration::from_millis(after));
                let answer = node.settle();
                let missing = names.iter().filter(|name| !node.to.join(name).exists()).count();
                assert!(missing == 0 || !answer.is_whole(), "{missing} of {FILES} are called drained");
            }
        };
        std::thread::scope(|scope| {
            for after in [0, 5, 20, 50] {
                scope.spawn(ask(after));
            }
        });
    }
}

/// Each sync of a file takes a while.
const IS_SLOW: &str = "
int fsync(int file) {
    usleep(30000);
    return syscall(SYS_fsync, file);
}
";

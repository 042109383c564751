//! What the node's flash has of a file before it is copied, and what it could not take.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use drain::status::Trouble;
use tempfile::TempDir;

use crate::node::{Node, library};
use crate::read;

#[test]
fn a_file_is_on_the_flash_before_its_copy_is_on_the_pfs() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.preload = Some(library(&root, TELLS_WHAT_IS_SYNCED));
    node.start();
    fs::write(node.from.join("f"), "contents").unwrap();
    assert_eq!(node.settle().failed, []);
    let synced = read(&node.from.join("../synced"));
    let (file, own) = (node.from.join("f"), node.to.join(".forebay-drain"));
    let place = |is_it: &dyn Fn(&Path) -> bool| synced.lines().position(|line| is_it(Path::new(line)));
    let source = place(&|name| name == file);
    let copies = place(&|name| name.starts_with(&node.to) && !name.starts_with(&own));
    assert!(source.is_some() && source < copies, "{synced}");
}

/// Writes into the file `synced` beside the drained folder what is synced, in that order.
const TELLS_WHAT_IS_SYNCED: &str = "
static char to[4096];
__attribute__((constructor)) static void begin(void) {
    FILE *words = fopen(\"/proc/self/cmdline\", \"r\");
    char *word = NULL;
    size_t size = 0;
    while (getdelim(&word, &size, 0, words) > 0)
        if (strcmp(word, \"--from\") == 0 && getdelim(&word, &size, 0, words) > 0)
            snprintf(to, sizeof to, \"%s/../synced\", word);
    fclose(words);
}
int fsync(int file) {
    char name[4096];
    ssize_t length = path_of(file, name, sizeof name);
    int told = open(to, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (length > 0 && told >= 0) {
        name[length] = '\\n';
        if (write(told, name, length + 1) < 0) {}
    }
    close(told);
    return syscall(SYS_fsync, file);
}
";

#[test]
fn what_the_flash_could_not_write_back_is_not_drained_before_it_is_written_anew() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.preload = Some(library(&root, FAILS_ONCE));
    node.start();
    fs::write(node.from.join("lost"), "what the disk has").unwrap();
    for _ in 0..2 {
        let failed = node.settle().failed;
        assert!(failed.len() == 1 && failed[0].message.contains("could not write back"), "{failed:?}");
        // The kernel has said so once: another process would hear nothing any more.
        node.kill();
        node.preload = None;
        node.start();
    }
    let renamed = node.from.join("renamed");
    fs::rename(node.from.join("lost"), &renamed).unwrap();
    assert_eq!(node.settle().failed.len(), 1);
    // The rest of it is lost still.
    let mut file = fs::File::options().append(true).open(&renamed).unwrap();
    file.write_all(b", and more").unwrap();
    drop(file);
    assert_eq!(node.settle().failed.len(), 1);
    assert!(!node.to.join("lost").exists() && !node.to.join("renamed").exists());
    fs::write(node.from.join("anew"), "what was written").unwrap();
    fs::rename(node.from.join("anew"), &renamed).unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("renamed")), "what was written");
}

#[test]
fn a_flash_that_takes_no_note_of_what_it_lost_is_drained_by_no_other_drainer() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.preload = Some(library(&root, &[FAILS_ONCE, TAKES_NO_NOTE].concat()));
    node.start();
    fs::write(node.from.join("lost"), "what the disk has").unwrap();
    assert_eq!(node.settle().failed.len(), 2, "the file and the flash");
    refuses_to_go_on(&mut node);
    assert!(!node.to.join("lost").exists());
}

#[test]
fn what_was_drained_of_a_flash_that_refused_the_fsync_is_replaced_by_no_other_drainer() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    turns_read_only(&mut node, &root);
    assert_eq!(read(&node.to.join("lost")), "what the page cache has");
    // As it is after a remount.
    fs::write(node.from.join("lost"), "older").unwrap();
    refuses_to_go_on(&mut node);
    assert_eq!(read(&node.to.join("lost")), "what the page cache has");
    let receipt = read(&node.to.join(".forebay-drain/s/receipt.jsonl"));
    assert!(receipt.is_empty() || receipt.contains("\"complete\":false"), "{receipt}");
}

/// Starts the drainer of a flash that is read-only once a file is synced there.
fn turns_read_only(node: &mut Node, root: &TempDir) -> Vec<Trouble> {
    node.preload = Some(library(root, &FAILS_ONCE.replace("EIO", "EROFS")));
    node.start();
    fs::write(node.from.join("lost"), "what the page cache has").unwrap();
    let failed = node.settle().failed;
    assert!(failed.len() == 1 && failed[0].message.contains("the node's flash has failed"), "{failed:?}");
    failed
}

/// Kills the drainer; the next starts in no session before the note was removed.
#[track_caller]
fn refuses_to_go_on(node: &mut Node) {
    node.kill();
    node.preload = None;
    let name = node.name;
    for (host, session) in [(name, "s"), (name, "another"), ("by-another-name", "s")] {
        (node.name, node.words) = (host, vec!["--session", session].leak());
        let said = node.refused();
        assert!(said.contains("the node's flash has failed") && said.contains(".flash-failed"), "{said}");
    }
    (node.name, node.words) = (name, &[]);
}

#[test]
fn each_folder_on_a_flash_that_failed_has_a_note_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let mut nodes = [("a", "s"), ("b", "t")].map(|(folder, session)| {
        let mut node = Node::new(&root, folder, vec!["--session", session].leak());
        node.name = "n1";
        turns_read_only(&mut node, &root);
        node
    });
    nodes.iter_mut().for_each(refuses_to_go_on);
}

#[test]
fn what_a_failed_flash_has_is_drained_as_it_is_once_the_note_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let failed = turns_read_only(&mut node, &root);
    let note = failed[0].advice.split_whitespace().find(|word| word.ends_with(".flash-failed")).unwrap();
    assert_eq!(node.settle().failed, failed);
    fs::remove_file(note).unwrap();
    assert_eq!(node.settle().failed, []);
}

#[test]
fn whatever_the_kernel_says_of_the_whole_flash_is_a_failure() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.preload = Some(library(&root, HAS_A_MEDIUM_ERROR));
    node.start();
    fs::write(node.from.join("file"), "contents").unwrap();
    let failed = node.settle().failed;
    assert!(failed.len() == 1 && failed[0].message.contains("could not write back something"), "{failed:?}");
    node.preload = None;
    refuses_to_go_on(&mut node);
}

/// A sync of the whole file system says what the block layer gives for a medium error.
const HAS_A_MEDIUM_ERROR: &str = "
__attribute__((constructor)) static void begin(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_syncfs, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENODATA),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    judge(filter, sizeof filter / sizeof *filter);
}
";

#[test]
fn who_drains_another_users_folder_as_root_or_through_a_link_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let (victim, state) = (root.path().join("victim"), node.state());
    fs::create_dir(&victim).unwrap();
    std::os::unix::fs::symlink(&victim, &state).unwrap();
    assert!(node.refused().contains("is not a folder but a link"));
    fs::remove_file(&state).unwrap();
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&node.from, fs::Permissions::from_mode(0o2775)).unwrap();
        assert!(node.refused().contains("others than root may rename what is in"));
        fs::set_permissions(&node.from, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&node.from, Some(54_321), None).unwrap();
        let said = node.refused();
        assert!(said.contains("belongs to user 54321"), "{said}");
    }
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert!(!state.exists());
}

#[test]
fn what_the_flash_could_not_write_back_is_drained_by_none_of_its_names() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.preload = Some(library(&root, FAILS_ONCE));
    // Both are there when the first is looked at.
    fs::write(node.from.join("lost"), "what the disk has").unwrap();
    fs::hard_link(node.from.join("lost"), node.from.join("also-lost")).unwrap();
    node.start();
    assert_eq!(node.settle().failed.len(), 2);
    assert!(!node.to.join("lost").exists() && !node.to.join("also-lost").exists());
}

/// The first sync of a file `lost`, by whichever name, fails as that after an error of the disk, and it is a while
/// until the caller hears of it.
const FAILS_ONCE: &str = "
static int told;
int fsync(int file) {
    char name[4096];
    ssize_t length = path_of(file, name, sizeof name);
    if (length > 4 && memcmp(name + length - 4, \"lost\", 4) == 0 && !__sync_lock_test_and_set(&told, 1)) {
        usleep(500000);
        errno = EIO;
        return -1;
    }
    return syscall(SYS_fsync, file);
}
";

/// From then on the ledger is on a file system that has gone read-only.
const TAKES_NO_NOTE: &str = "
ssize_t pwrite64(int file, const void *bytes, size_t count, off_t at) {
    char name[4096];
    ssize_t length = path_of(file, name, sizeof name);
    if (told && length > 6 && memcmp(name + length - 6, \"ledger\", 6) == 0) {
        errno = EROFS;
        return -1;
    }
    return syscall(SYS_pwrite64, file, bytes, count, at);
}
";

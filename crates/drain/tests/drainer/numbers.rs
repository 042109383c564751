//! Numbers of inodes, which are used again and may have several names: no copy goes from the PFS for an equal number.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::node::{LIMIT, Node, library};
use super::{can_mount, mount_old, read};

#[test]
fn a_copy_stays_where_the_flash_gives_its_inode_number_to_a_later_file() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let _unmounted = mount_old(&root, &node.from);
    node.from = node.from.join("out");
    fs::create_dir(&node.from).unwrap();
    node.start();
    let drained = |name, text: &str| {
        fs::write(node.from.join(name), text).unwrap();
        assert_eq!(node.settle().failed, []);
        fs::metadata(node.from.join(name)).unwrap().ino()
    };
    let first = drained("ck1", "checkpoint one");
    fs::remove_file(node.from.join("ck1")).unwrap();
    assert_eq!(drained("ck2", "checkpoint two, another"), first, "another number: this shows nothing");
    let there = ["ck1", "ck2"].map(|name| read(&node.to.join(name)));
    assert_eq!(there, ["checkpoint one", "checkpoint two, another"]);
    node.kill();
}

#[test]
fn a_copy_stays_as_one_of_two_names_of_its_file_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    node.start();
    fs::write(node.from.join("ck1"), "one").unwrap();
    assert_eq!(node.settle().failed, []);
    fs::hard_link(node.from.join("ck1"), node.from.join("newest")).unwrap();
    assert_eq!(node.settle().failed, []);
    // Also for the next drainer.
    node.kill();
    node.start();
    fs::remove_file(node.from.join("ck1")).unwrap();
    assert_eq!(node.settle().failed, []);
    let there = ["ck1", "newest"].map(|name| read(&node.to.join(name)));
    assert_eq!(there, ["one", "one"]);
}

#[test]
fn what_is_renamed_at_the_end_of_a_wait_keeps_its_copy_until_the_new_name_is_there() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &["--removed", "follow"]);
    let folder = root.path().canonicalize().unwrap();
    node.preload = Some(library(&root, &WAITS_AT_THE_END.replace("FOLDER", folder.to_str().unwrap())));
    node.start();
    fs::write(node.from.join("a"), "contents").unwrap();
    assert_eq!(node.settle().failed, []);
    fs::write(folder.join("wait"), "").unwrap();
    std::thread::scope(|scope| {
        let settled = scope.spawn(|| node.settle());
        let begun = Instant::now();
        while !folder.join("waits").exists() {
            assert!(begun.elapsed() < LIMIT, "it does not come to its end");
            std::thread::sleep(Duration::from_millis(5));
        }
        // The new name cannot be had.
        fs::create_dir_all(node.to.join("b/folder")).unwrap();
        fs::rename(node.from.join("a"), node.from.join("b")).unwrap();
        fs::remove_file(folder.join("wait")).unwrap();
        settled.join().unwrap();
    });
    assert_eq!(read(&node.to.join("a")), "contents", "the only copy on the PFS is gone");
    fs::remove_dir_all(node.to.join("b")).unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&node.to.join("b")), "contents");
    assert!(!node.to.join("a").exists(), "the old name stays");
}

/// The whole of the flash is synced only when there is no `FOLDER/wait` any more.
const WAITS_AT_THE_END: &str = "
static void waits(int signal, siginfo_t *about, void *context) {
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    while (access(\"FOLDER/wait\", F_OK) == 0) {
        close(open(\"FOLDER/waits\", O_WRONLY | O_CREAT, 0600));
        usleep(5000);
    }
#ifdef __x86_64__
    machine->gregs[REG_RAX] = 0;
#else
    machine->regs[0] = 0;
#endif
}
__attribute__((constructor)) static void begin(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_syncfs, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sigaction action = {.sa_sigaction = waits, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    judge(filter, sizeof filter / sizeof *filter);
}
";

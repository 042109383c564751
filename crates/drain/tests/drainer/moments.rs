//! Somebody's file that comes to a name on the PFS right as the drainer replaces or removes what it has seen there: it
//! is never lost, at whatever moment the drainer is killed or the PFS fails.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::node::{Node, library};
use super::read;
use super::revisited::drained_and_failing;
use super::unknown::{cut, is_told};

/// What happens, and when.
pub(crate) enum Moment {
    /// `theirs` comes to the name right before a copy and what has it change places; killed right after.
    KilledAfterChange,
    /// The same, and the change back fails.
    ChangeBackFails,
    /// `theirs` comes right before the name is taken from what was seen there.
    ComesAtRemoval,
}

/// The drainer's system calls that change a name go through `act`, where `FOLDER/theirs` may come to `FOLDER/pfs/f`.
const AT_A_CALL: &str = "
static const int MOMENT = WHICH;
static const long OURS = 0x46424159;
static int changes;
static long call(long number, greg_t *r) {
    return syscall(number, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], OURS);
}
static void come(void) { rename(\"FOLDER/theirs\", \"FOLDER/pfs/NAME\"); }
static long act(long number, greg_t *r) {
    int is_rename = number == SYS_renameat2, change = is_rename && r[REG_R8] == 2 /* RENAME_EXCHANGE */;
    int takes = is_rename ? !change : r[REG_RDX] == 0;
    if (change) changes++;
    if (change && MOMENT == 1 && changes == 2) { errno = EIO; return -1; }
    if (change && MOMENT < 2 && changes == 1) come();
    if (takes && MOMENT == 2 && strcmp((char *)r[REG_RSI], \"f\") == 0) come();
    long result = call(number, r);
    if (change && MOMENT == 0) kill(getpid(), SIGKILL);
    return result;
}
static void trapped(int number, siginfo_t *info, void *context) {
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    long result = act(info->si_syscall, r);
    r[REG_RAX] = result == -1 ? -errno : result;
}
__attribute__((constructor)) static void begin(void) {
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSYS, &action, NULL);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unlinkat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x46424159, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    judge(filter, sizeof filter / sizeof *filter);
}
";

fn at(root: &tempfile::TempDir, moment: Moment) -> std::path::PathBuf {
    at_name(root, "f", moment)
}

/// The same where `theirs` comes to `FOLDER/pfs/NAME`.
pub(crate) fn at_name(root: &tempfile::TempDir, name: &str, moment: Moment) -> std::path::PathBuf {
    let folder = root.path().canonicalize().unwrap();
    fs::write(folder.join("theirs"), "by somebody").unwrap();
    let text = AT_A_CALL.replace("FOLDER", folder.to_str().unwrap()).replace("NAME", name);
    library(root, &text.replace("WHICH", &(moment as u8).to_string()))
}

/// Names on the PFS that are the drain's own and not of a copy that is being made.
fn left(to: &Path) -> Vec<String> {
    let names = fs::read_dir(to).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".forebay.")).collect()
}

#[test]
fn what_a_copy_took_from_its_name_gets_it_back_after_a_kill_whatever_is_forgotten() {
    for forgotten in 0..3 {
        let root = tempfile::tempdir().unwrap();
        let mut node = Node::new(&root, "n1", &[]);
        fs::write(node.to.join("f"), "of an earlier job").unwrap();
        fs::write(node.from.join("f"), "new").unwrap();
        node.preload = Some(at(&root, Moment::KilledAfterChange));
        node.start();
        let ended = node.running.take().unwrap().wait().unwrap();
        assert!(ended.code().is_none(), "it was not killed: {ended}");
        assert_eq!(read(&node.to.join("f")), "new", "it was killed at another moment");
        node.preload = None;
        if forgotten > 0 {
            cut(&node, |line| line.contains("\"of\""));
        }
        if forgotten > 1 {
            fs::remove_dir_all(node.to.join(".forebay-drain/s")).unwrap();
        }
        for _ in 0..2 {
            node.start();
            is_told(&node, "f");
            assert_eq!(read(&node.to.join("f")), "by somebody");
            assert_eq!(left(&node.to), [""; 0]);
            node.kill();
        }
        fs::rename(node.to.join("f"), node.to.join("theirs")).unwrap();
        node.start();
        assert_eq!(node.settle().failed, []);
        assert_eq!(read(&node.to.join("f")), "new");
    }
}

#[test]
fn what_a_copy_took_from_its_name_gets_it_back_where_the_pfs_refuses_that_at_first() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    fs::write(node.to.join("f"), "of an earlier job").unwrap();
    fs::write(node.from.join("f"), "new").unwrap();
    node.preload = Some(at(&root, Moment::ChangeBackFails));
    node.start();
    assert!(!node.settle().is_whole());
    is_told(&node, "f");
    assert_eq!(read(&node.to.join("f")), "by somebody");
    assert_eq!(left(&node.to), [""; 0]);
}

#[test]
fn what_comes_to_a_name_as_the_old_copy_of_a_renamed_file_goes_from_it_stays() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    fs::write(node.from.join("f"), "contents").unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    node.stop();
    node.preload = Some(at(&root, Moment::ComesAtRemoval));
    fs::rename(node.from.join("f"), node.from.join("g")).unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    let there = ["f", "g"].map(|name| read(&node.to.join(name)));
    assert_eq!(there, ["by somebody", "contents"]);
    assert_eq!(left(&node.to), [""; 0]);
    let receipt = read(&node.to.join(".forebay-drain/s/receipt.jsonl"));
    assert!(receipt.contains("\"kept\":1"), "{receipt}");
}

#[test]
fn what_comes_to_a_name_during_a_first_copy_that_fails_stays_when_that_is_made_again() {
    for is_another_drainer in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let mut node = drained_and_failing(&root, "parts-fail");
        let names = ["new", "earlier", "same"];
        names[1..].iter().for_each(|name| fs::write(node.to.join(name), "of an earlier job").unwrap());
        names.iter().for_each(|name| fs::write(node.from.join(name), "of the node").unwrap());
        assert_eq!(node.settle().failed.len(), 3);
        for name in &names[..2] {
            fs::write(node.to.join(name), "by somebody").unwrap();
        }
        if is_another_drainer {
            node.kill();
        }
        fs::remove_file(root.path().join("parts-fail")).unwrap();
        if is_another_drainer {
            node.start();
        }
        let failed = node.settle().failed;
        let there = names.map(|name| read(&node.to.join(name)));
        assert_eq!(there, ["by somebody", "by somebody", "of the node"], "{is_another_drainer}");
        assert_eq!(failed.len(), 2, "{failed:?}");
        names[..2].iter().for_each(|name| fs::rename(node.to.join(name), node.to.join("theirs")).unwrap());
        assert_eq!(node.settle().failed, []);
        assert!(names.iter().all(|name| read(&node.to.join(name)) == "of the node"));
    }
}

/// Changes a file in place, so that its size and its time of change are what they were.
fn change_unseen(path: &Path) {
    let (file, len) =
        (fs::File::options().write(true).open(path).unwrap(), fs::metadata(path).unwrap().len());
    let time = file.metadata().unwrap().modified().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![b'X'; len as usize], 0).unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn a_copy_that_was_changed_in_place_with_its_time_put_back_is_replaced_by_no_newer_version() {
    // While that is copied; where the ledger is gone; where the file had gone from the node.
    for moment in ["copied", "forgotten", "kept"] {
        let root = tempfile::tempdir().unwrap();
        let mut node = drained_and_failing(&root, "parts-fail");
        let (here, there) = (node.from.join("f1"), node.to.join("f1"));
        match moment {
            "copied" => {
                fs::write(&here, "new").unwrap();
                assert_eq!(node.settle().failed.len(), 1);
            }
            "forgotten" => {
                node.kill();
                cut(&node, |line| line.contains("\"of\""));
            }
            _ => {
                change_unseen(&there);
                fs::rename(&here, node.from.join("other")).unwrap();
                fs::remove_file(root.path().join("parts-fail")).unwrap();
                assert_eq!(node.settle().failed, []);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
        change_unseen(&there);
        let _ = fs::remove_file(root.path().join("parts-fail"));
        fs::write(&here, "new").unwrap();
        if moment == "forgotten" {
            node.start();
        }
        is_told(&node, "f1");
        assert_eq!(read(&there), "XX", "{moment}");
    }
}

#[test]
fn a_copy_of_which_only_the_mode_was_changed_is_replaced_also_where_the_ledger_is_gone() {
    for is_forgotten in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let mut node = drained_and_failing(&root, "nothing-fails");
        if is_forgotten {
            node.kill();
            cut(&node, |line| line.contains("\"of\""));
        }
        fs::set_permissions(node.to.join("f1"), fs::Permissions::from_mode(0o640)).unwrap();
        if is_forgotten {
            node.start();
        } else {
            fs::write(node.from.join("f1"), "new").unwrap();
        }
        assert_eq!(node.settle().failed, []);
        fs::write(node.from.join("f1"), "newer").unwrap();
        assert_eq!(node.settle().failed, []);
        assert_eq!(read(&node.to.join("f1")), "newer");
    }
}

//! What a drainer's ledger does not have of what is on the PFS: what somebody has put there, or changed, is never
//! replaced, and what the job has written anew is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::node::{LIMIT, Node, library};
use super::{can_mount, mount_old, read};

/// Writes a file as whole, or in its place.
fn put(path: &Path, text: &str, in_place: bool) {
    if in_place {
        return fs::write(path, text).unwrap();
    }
    fs::write(path.with_file_name("beside"), text).unwrap();
    fs::rename(path.with_file_name("beside"), path).unwrap();
}

/// Has the ledger lose all lines but those that `stays` keeps.
pub(crate) fn cut(node: &Node, stays: impl Fn(&str) -> bool) {
    let ledger = node.state().join("ledger");
    let text: Vec<String> =
        read(&ledger).lines().filter(|line| stays(line)).map(|line| format!("{line}\n")).collect();
    fs::write(&ledger, text.concat()).unwrap();
}

/// Asserts that one of these could not be drained, as another is in its place.
pub(crate) fn is_told(node: &Node, name: &str) {
    let failed = node.settle().failed;
    let [trouble] = &failed[..] else { panic!("{failed:?}; {name} is {}", read(&node.to.join(name))) };
    assert!(trouble.message.contains(&format!("/{name} is not what was drained there")), "{trouble:?}");
}

#[test]
fn what_was_changed_on_the_pfs_stays_where_the_ledger_does_not_have_it() {
    stays_though_unknown(&[], false, true);
    stays_though_unknown(&[], true, false);
    stays_though_unknown(&["--same-name", "folder"], true, true);
}

fn stays_though_unknown(words: &'static [&'static str], loses_all: bool, in_place: bool) {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", words);
    node.start();
    // Also what a file of an earlier job was replaced by, and what was drained more than once.
    let (to, name) = match words {
        [] => (node.to.clone(), "changed"),
        _ => (node.to.join("n1"), "n1/changed"),
    };
    fs::create_dir_all(&to).unwrap();
    fs::write(to.join("changed"), "of an earlier job").unwrap();
    for text in ["first", "second"] {
        for name in ["changed", "rewritten", "same"] {
            fs::write(node.from.join(name), text).unwrap();
        }
        assert_eq!(node.settle().failed, []);
    }
    node.kill();
    // As of a kill right after the rename, or of a disk that took nothing, or lost it.
    let is_before =
        |line: &str| !line.contains("landed") && (!line.contains("placed") || line.contains("over"));
    cut(&node, |line| line.contains("\"of\"") || !loses_all && is_before(line));
    put(&to.join("changed"), "by somebody", in_place);
    fs::write(node.from.join("rewritten"), "by the job").unwrap();
    for _ in 0..2 {
        node.start();
        is_told(&node, name);
        node.kill();
    }
    let there = ["changed", "rewritten", "same"].map(|name| read(&to.join(name)));
    assert_eq!(there, ["by somebody", "by the job", "second"], "{loses_all} {in_place}");
    // As is advised.
    fs::rename(to.join("changed"), to.join("theirs")).unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&to.join("changed")), "second");
}

/// Killed as a copy and what has its name change places.
const ENDS_BEFORE_A_NAME: &str = "
__attribute__((constructor)) static void begin(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 2 /* RENAME_EXCHANGE */, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    judge(filter, sizeof filter / sizeof *filter);
}
";

#[test]
fn a_drainer_that_was_killed_before_a_copy_had_its_name_replaces_what_was_there_and_nothing_that_came_since()
{
    for loses_all in [false, true] {
        for comes in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let mut node = Node::new(&root, "n1", &[]);
            fs::write(node.to.join("f"), "of an earlier job").unwrap();
            fs::write(node.from.join("f"), "new").unwrap();
            node.preload = Some(library(&root, ENDS_BEFORE_A_NAME));
            node.start();
            let ended = node.running.take().unwrap().wait().unwrap();
            assert!(ended.code().is_none(), "it was not killed: {ended}");
            assert_eq!(read(&node.to.join("f")), "of an earlier job");
            node.preload = None;
            if loses_all {
                cut(&node, |line| line.contains("\"of\""));
            }
            if comes {
                put(&node.to.join("f"), "by somebody", false);
            }
            node.start();
            if comes {
                is_told(&node, "f");
            } else {
                assert_eq!(node.settle().failed, []);
            }
            assert_eq!(read(&node.to.join("f")), if comes { "by somebody" } else { "new" });
        }
    }
}

#[test]
fn a_copy_that_was_changed_and_whose_file_was_renamed_is_replaced_by_no_later_file_of_any_node() {
    let root = tempfile::tempdir().unwrap();
    let (mut first, mut second) = (Node::new(&root, "n1", &[]), Node::new(&root, "n2", &[]));
    first.start();
    fs::write(first.from.join("f"), "of n1").unwrap();
    assert_eq!(first.settle().failed, []);
    fs::write(first.to.join("f"), "by somebody").unwrap();
    fs::rename(first.from.join("f"), first.from.join("g")).unwrap();
    let (begun, log) = (Instant::now(), first.to.join(".forebay-drain/s/n1.jsonl"));
    while !read(&log).contains("\"kept\"") {
        assert!(begun.elapsed() < LIMIT, "the old name is not kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    second.start();
    fs::write(second.from.join("f"), "of n2").unwrap();
    assert_eq!(second.settle().failed, []);
    let there = ["f", "f.n2"].map(|name| read(&first.to.join(name)));
    assert_eq!(there, ["by somebody", "of n2"]);
    // Nor by one of the same node, whatever drainer it has.
    for is_another_drainer in [false, true] {
        if is_another_drainer {
            first.kill();
            first.start();
        }
        fs::write(first.from.join("f"), "new").unwrap();
        is_told(&first, "f");
        assert_eq!(read(&first.to.join("f")), "by somebody");
    }
    fs::rename(first.to.join("f"), first.to.join("theirs")).unwrap();
    assert_eq!(first.settle().failed, []);
    assert_eq!(read(&first.to.join("f")), "new");
}

/// Parts are synced only when there is no `FOLDER/wait` any more.
const WAITS_WITH_PARTS: &str = "
int fsync(int fd) {
    char path[4096];
    ssize_t length = path_of(fd, path, sizeof path);
    if (length > 5 && strcmp(path + length - 5, \".part\") == 0)
        while (access(\"FOLDER/wait\", F_OK) == 0) usleep(5000);
    return syscall(SYS_fsync, fd);
}
";

#[test]
fn what_comes_to_a_name_during_its_copy_stays_on_a_pfs_that_tells_no_births() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let _unmounted = mount_old(&root, &node.to);
    node.to = node.to.join("out");
    fs::create_dir(&node.to).unwrap();
    for name in ["earlier", "replaced"] {
        fs::write(node.to.join(name), "of an earlier job").unwrap();
    }
    let folder = root.path().canonicalize().unwrap();
    node.preload = Some(library(&root, &WAITS_WITH_PARTS.replace("FOLDER", folder.to_str().unwrap())));
    fs::write(folder.join("wait"), "").unwrap();
    let names = ["earlier", "new", "replaced"];
    names.iter().for_each(|name| fs::write(node.from.join(name), "of the node").unwrap());
    node.start();
    let parts = || {
        let names = fs::read_dir(&node.to).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().ends_with(".part")).count()
    };
    let begun = Instant::now();
    while parts() < names.len() {
        assert!(begun.elapsed() < LIMIT, "nothing is copied");
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::write(node.to.join("new"), "by somebody").unwrap();
    put(&node.to.join("earlier"), "by somebody", false);
    fs::remove_file(folder.join("wait")).unwrap();
    for _ in 0..2 {
        let failed = node.settle().failed;
        assert_eq!(failed.len(), 2, "{failed:?}");
        let there = names.map(|name| read(&node.to.join(name)));
        assert_eq!(there, ["by somebody", "by somebody", "of the node"]);
    }
    node.kill();
}

/// Drains a file and changes its copy; whether no time tells that. Else the copy goes.
fn is_changed_as_it_lands(node: &Node, name: &str) -> bool {
    let times = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        [(found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())]
    };
    while SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_millis() > 100 {
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::write(node.from.join(name), "of the node").unwrap();
    let log = node.to.join(".forebay-drain/s/n1.jsonl");
    while !read(&log).contains(&format!("{name}\"")) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let there = node.to.join(name);
    let before = times(&there);
    fs::write(&there, "by somebody").unwrap();
    let is_hidden = times(&there) == before;
    if !is_hidden {
        fs::remove_file(&there).unwrap();
    }
    is_hidden
}

#[test]
fn a_copy_that_was_changed_in_the_second_in_which_it_landed_is_told_also_where_times_are_whole_seconds() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(&root, "n1", &[]);
    let _unmounted = mount_old(&root, &node.to);
    node.to = node.to.join("out");
    fs::create_dir(&node.to).unwrap();
    node.start();
    assert_eq!(node.settle().failed, []);
    let mut names = (0..20).map(|number| format!("f{number}"));
    let name = names.find(|name| is_changed_as_it_lands(&node, name)).expect("none lands in time");
    // Also when that second is long over.
    for _ in 0..2 {
        is_told(&node, &name);
        std::thread::sleep(Duration::from_millis(1500));
    }
    let there = node.to.join(&name);
    assert_eq!(read(&there), "by somebody");
    fs::remove_file(&there).unwrap();
    assert_eq!(node.settle().failed, []);
    assert_eq!(read(&there), "of the node");
    node.kill();
}

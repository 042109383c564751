//! `forebay drain`: what is closed on a node's flash arrives on the PFS.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::cluster::{Outcome, program_folder};
use tests::processes::wait_until;

/// One node: a folder of its flash, and its drainer.
pub struct Node {
    /// What is drained.
    pub from: PathBuf,
    /// Where to.
    pub to: PathBuf,
    host: String,
}

impl Node {
    /// A node without a drainer; `folder` is the test's.
    pub fn new(folder: &Path, host: &str) -> Node {
        let (from, to) = (folder.join(host), folder.join("pfs"));
        fs::create_dir_all(&from).unwrap();
        fs::create_dir_all(&to).unwrap();
        Node { from, to, host: host.to_owned() }
    }

    /// The same with a drainer.
    pub fn start(folder: &Path, host: &str, options: &[&str]) -> Node {
        let node = Node::new(folder, host);
        node.start_drain(options);
        node
    }

    pub fn start_drain(&self, options: &[&str]) {
        self.drain(&[&["start", "--host", &self.host], options].concat()).expect_success();
    }

    /// `forebay drain WORDS...`, with the environment of the OLCF tutorial.
    pub fn drain(&self, words: &[&str]) -> Outcome {
        let output = self.command(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Outcome { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// That command, not run yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program_folder().join("forebay"));
        command.arg("drain").args(words).env("PERSIST_DIR", &self.from).env("PFS_DIR", &self.to);
        for name in ["SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "SLURM_JOB_END_TIME"] {
            command.env_remove(name);
        }
        command
    }

    /// Kills the drainer, as a crash does.
    pub fn kill(&self) {
        let lock = fs::read_to_string(self.from.join(".forebay-drain/lock")).unwrap();
        let pid = rustix::process::Pid::from_raw(lock.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        assert!(wait_until(Duration::from_secs(10), || self.drain(&["pause"]).code() == 66));
    }

    /// Waits for a file on the PFS.
    #[track_caller]
    pub fn wait_for(&self, name: &str, text: &str) {
        let path = self.to.join(name);
        let is_there = || fs::read_to_string(&path).is_ok_and(|found| found == text);
        assert!(wait_until(Duration::from_secs(20), is_there), "{} is not `{text}`", path.display());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.drain(&["stop"]);
    }
}

#[test]
fn files_arrive_while_the_program_runs_and_only_once_they_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    fs::write(node.from.join("before"), "written before the start").unwrap();
    node.start_drain(&[]);
    node.wait_for("before", "written before the start");

    let mut open = fs::File::create(node.from.join("open")).unwrap();
    open.write_all(b"half ").unwrap();
    fs::create_dir_all(node.from.join("a/b")).unwrap();
    fs::write(node.from.join("a/b/c"), "below").unwrap();
    std::os::unix::fs::symlink("c", node.from.join("a/b/link")).unwrap();
    node.wait_for("a/b/c", "below");
    let waited = node.drain(&["wait"]);
    assert_eq!(waited.code(), 74, "{}", waited.stderr);
    assert!(waited.stderr.contains("open is open for writing"), "{}", waited.stderr);
    assert!(!node.to.join("open").exists(), "a file that is being written is not published");
    let receipt = || -> Vec<serde_json::Value> {
        let text = fs::read_to_string(node.to.join(".forebay-drain/shell/receipt.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let lines = receipt();
    assert_eq!(
        (&lines[0]["complete"], &lines[0]["done"], &lines[0]["open"]),
        (&false.into(), &3.into(), &1.into())
    );
    assert!(lines.iter().any(|line| line["path"] == "open" && line["event"] == "open"), "{lines:?}");

    open.write_all(b"and whole").unwrap();
    drop(open);
    node.wait_for("open", "half and whole");
    let waited = node.drain(&["wait"]).expect_success();
    assert!(waited.stdout.ends_with("Enqueued:4 Dequeued:4 Done:4\nAll files moved\n"), "{}", waited.stdout);
    assert_eq!(fs::read_link(node.to.join("a/b/link")).unwrap(), Path::new("c"));

    let lines = receipt();
    assert_eq!((&lines[0]["complete"], &lines[0]["done"], lines.len()), (&true.into(), &4.into(), 5));
    let log = fs::read_to_string(node.to.join("spectral.log")).unwrap();
    let of_open: Vec<&str> = log.lines().filter(|line| line.ends_with("/open")).collect();
    let path = node.to.canonicalize().unwrap().join("open").display().to_string();
    let line = |verb: &str| format!("Spectral Work {verb} File : {path}");
    assert_eq!(of_open, [line("ENQUEUE"), line("DEQUEUE"), line("DONE")]);
    let json = fs::read_to_string(node.to.join(".forebay-drain/shell/n1.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!((&last["path"], &last["size"], &last["errno"]), (&"open".into(), &14.into(), &0.into()));
    // CRC32C of the contents, as any other program computes it.
    assert_eq!(last["crc32c"], "1aec4de8");
}

#[test]
fn the_last_counters_of_a_wait_are_those_of_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = ["n1", "n2"].map(|host| Node::start(folder.path(), host, &[]));
    for round in 1..=4 {
        // All of them land in a moment, while somebody waits already.
        nodes.iter().for_each(|node| drop(node.drain(&["pause"]).expect_success()));
        for (node, number) in nodes.iter().flat_map(|node| (0..10).map(move |number| (node, number))) {
            fs::write(node.from.join(format!("{}.{round}.{number}", node.host)), "x").unwrap();
        }
        let waited = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| nodes[0].drain(&["wait"]).expect_success().stdout);
            std::thread::sleep(Duration::from_millis(700));
            nodes.iter().for_each(|node| drop(node.drain(&["resume"]).expect_success()));
            waiting.join().unwrap()
        });
        let files = 20 * round;
        let last = format!("Enqueued:{files} Dequeued:{files} Done:{files}\nAll files moved\n");
        assert!(waited.ends_with(&last), "{waited}");
    }
}

#[test]
fn what_a_mapping_and_a_killed_process_wrote_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "n1", &[]);
    // The descriptor is closed long before the last store through the mapping; then the process is killed.
    let program = "import mmap, os, signal, sys, time\n\
        fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n\
        os.ftruncate(fd, 8192)\n\
        m = mmap.mmap(fd, 8192)\n\
        os.close(fd)\n\
        m[0:3] = b'one'\n\
        time.sleep(0.3)\n\
        m[0:3] = b'two'\n\
        os.kill(os.getpid(), signal.SIGKILL)\n";
    let file = node.from.join("mapped");
    let status = Command::new("python3").args(["-c", program]).arg(&file).status().unwrap();
    assert!(!status.success());
    node.drain(&["wait"]).expect_success();
    let found = fs::read(node.to.join("mapped")).unwrap();
    assert_eq!((&found[..3], found.len()), (&b"two"[..], 8192));
}

#[test]
fn two_nodes_with_one_name_do_not_overwrite_each_other() {
    for (policy, names) in
        [("suffix", vec!["same", "same.n2"]), ("folder", vec!["n1/same", "n2/same"]), ("error", vec!["same"])]
    {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--same-name", policy];
        let (a, b) = (Node::start(folder.path(), "n1", &options), Node::start(folder.path(), "n2", &options));
        fs::write(a.to.join("same"), "of an earlier job").unwrap();
        fs::write(a.from.join("same"), "of n1").unwrap();
        a.wait_for(names[0], "of n1");
        fs::write(b.from.join("same"), "of n2").unwrap();
        let waited = b.drain(&["wait"]);
        match names.get(1) {
            Some(second) => {
                waited.expect_success();
                b.wait_for(second, "of n2");
            }
            None => {
                assert_eq!(waited.code(), 74);
                assert!(waited.stderr.contains("n2: another node of this job"), "{}", waited.stderr);
            }
        }
        fs::write(a.from.join("same"), "of n1 again").unwrap();
        a.wait_for(names[0], "of n1 again");
    }
}

#[test]
fn a_group_is_committed_only_when_all_its_nodes_files_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (Node::start(folder.path(), "n1", &[]), Node::start(folder.path(), "n2", &[]));
    for (node, rank) in [(&a, "rank0"), (&b, "rank1")] {
        fs::create_dir(node.from.join("step1")).unwrap();
        fs::write(node.from.join("step1").join(rank), "state").unwrap();
    }
    // A folder is in the way of one node's file.
    fs::create_dir_all(b.to.join("step1/rank1")).unwrap();
    let refused = a.drain(&["commit", "step1"]);
    assert_eq!(refused.code(), 74, "{}", refused.stderr);
    assert!(refused.stderr.contains("step1/rank1"), "{}", refused.stderr);
    let receipt = a.drain(&["receipt"]).expect_success().stdout;
    assert!(receipt.contains("done ") && receipt.contains(" 5 n1:step1/rank0 "), "{receipt}");
    assert!(
        receipt.contains("failed - 0 n2:step1/rank1 rename into place ") && receipt.lines().count() == 2,
        "{receipt}"
    );
    assert!(!a.to.join("step1.committed").exists() && !a.to.join("latest").exists());

    fs::remove_dir(b.to.join("step1/rank1")).unwrap();
    a.drain(&["commit", "step1"]).expect_success();
    assert_eq!(fs::read_to_string(a.to.join("latest/rank1")).unwrap(), "state");
    let marker: serde_json::Value =
        serde_json::from_slice(&fs::read(a.to.join("step1.committed")).unwrap()).unwrap();
    assert_eq!(marker["hosts"], serde_json::json!(["n1", "n2"]));

    // A node that does not answer is no reason to believe that its files are there.
    b.kill();
    let refused = a.drain(&["commit", "step2", "--timeout", "1"]);
    assert_eq!(refused.code(), 74, "{}", refused.stderr);
    assert!(refused.stderr.contains("n2") && !a.to.join("step2.committed").exists());
    for (node, rank) in [(&a, "rank0"), (&b, "rank1")] {
        fs::create_dir(node.from.join("step2")).unwrap();
        fs::write(node.from.join("step2").join(rank), "next").unwrap();
    }
    b.start_drain(&[]);
    a.drain(&["commit", "step2"]).expect_success();
    assert_eq!(fs::read_to_string(a.to.join("latest/rank1")).unwrap(), "next");
}

#[test]
fn a_paused_drain_copies_nothing_until_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "n1", &[]);
    node.drain(&["pause"]).expect_success();
    fs::write(node.from.join("a"), "text").unwrap();
    let waited = node.drain(&["wait", "--timeout", "3"]);
    let told = waited.stderr.matches("`forebay drain resume --from ").count();
    assert_eq!((waited.code(), told, node.to.join("a").exists()), (74, 2, false), "{}", waited.stderr);
    // What is said of a node is what it last noted where the nodes of a job meet.
    let status = || node.drain(&["status"]).stdout;
    let is_told = || status().starts_with("n1: 0 of 1 files done, ") && status().ends_with(", paused\n");
    assert!(wait_until(Duration::from_secs(20), is_told), "{}", status());
    assert!(!node.to.join("a").exists());
    node.drain(&["resume"]).expect_success();
    node.drain(&["wait"]).expect_success();
    node.wait_for("a", "text");
}

#[test]
fn a_drainer_that_is_killed_in_a_large_file_goes_on_inside_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    let bytes = tests::tree::bytes(1, 100 << 20);
    fs::write(node.from.join("large"), &bytes).unwrap();
    node.start_drain(&["--limit", "40MiB"]);
    // Most of it is there, under its working name.
    let copied = || {
        let there = fs::read_dir(&node.to).unwrap().flatten().filter_map(|entry| entry.metadata().ok());
        there.filter(fs::Metadata::is_file).map(|file| file.blocks() * 512).max().unwrap_or_default()
    };
    assert!(wait_until(Duration::from_secs(30), || copied() > 50 << 20), "{} bytes", copied());
    node.kill();
    assert!(!node.to.join("large").exists());
    node.start_drain(&[]);
    node.drain(&["wait"]).expect_success();
    assert!(fs::read(node.to.join("large")).unwrap() == bytes, "it differs");
    let log = fs::read_to_string(node.from.join(".forebay-drain/log")).unwrap();
    let line = log.lines().find(|line| line.contains(" MiB are there")).unwrap_or_else(|| panic!("{log}"));
    let kept: u64 = line.rsplit(' ').nth(3).and_then(|word| word.parse().ok()).unwrap_or_default();
    assert!(kept >= 32, "{line}");
}

/// Everything below a folder of the PFS that is not a file of the job's, a log or the drainers' own.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(parts(&path));
        } else if path.extension().is_some_and(|extension| extension == "part") {
            found.push(path);
        }
    }
    found
}

/// A node whose drainer copies slowly, in the middle of a small and a large file of each of two folders.
fn node_in_the_middle(folder: &Path) -> Node {
    let node = Node::new(folder, "n1");
    for name in ["a", "b"] {
        fs::create_dir(node.from.join(name)).unwrap();
        fs::write(node.from.join(name).join("large"), tests::tree::bytes(1, 40 << 20)).unwrap();
        fs::write(node.from.join(name).join("small"), tests::tree::bytes(2, 3 << 20)).unwrap();
    }
    node.start_drain(&["--limit", "4MiB"]);
    let both = || ["a", "b"].iter().all(|name| node.to.join(name).exists());
    let there = || both() && ["a", "b"].iter().all(|name| !parts(&node.to.join(name)).is_empty());
    assert!(wait_until(Duration::from_secs(30), there), "nothing is under way");
    node
}

#[test]
fn no_part_stays_on_the_pfs_where_folders_are_renamed_after_a_drainer_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_in_the_middle(folder.path());
    node.kill();
    assert!(!parts(&node.to).is_empty(), "the drainer left nothing");
    // One folder gets another name on the node, one on the PFS.
    fs::rename(node.from.join("a"), node.from.join("renamed")).unwrap();
    fs::create_dir(node.to.join("elsewhere")).unwrap();
    fs::rename(node.to.join("b"), node.to.join("elsewhere/b")).unwrap();
    node.start_drain(&[]);
    node.drain(&["wait"]).expect_success();
    assert_eq!(parts(&node.to), Vec::<PathBuf>::new());
    for name in ["renamed/large", "renamed/small", "b/large", "b/small"] {
        assert!(
            fs::read(node.to.join(name)).unwrap() == fs::read(node.from.join(name)).unwrap(),
            "{name} differs"
        );
    }
}

#[test]
fn a_drainer_that_is_stopped_leaves_no_part_on_the_pfs() {
    let folder = tempfile::tempdir().unwrap();
    let node = node_in_the_middle(folder.path());
    node.drain(&["stop"]).expect_success();
    assert!(wait_until(Duration::from_secs(10), || node.drain(&["pause"]).code() == 66));
    assert_eq!(parts(&node.to), Vec::<PathBuf>::new());
}

#[test]
fn no_part_stays_on_the_pfs_of_a_large_file_that_was_renamed_after_its_drainer_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    fs::write(node.from.join("large"), tests::tree::bytes(1, 100 << 20)).unwrap();
    node.start_drain(&["--limit", "40MiB"]);
    // So much that its successor would go on with it.
    let copied = || {
        let there = parts(&node.to).into_iter().filter_map(|part| fs::metadata(part).ok());
        there.map(|part| part.blocks() * 512).max().unwrap_or_default()
    };
    assert!(wait_until(Duration::from_secs(30), || copied() > 50 << 20), "{} bytes", copied());
    node.kill();
    fs::rename(node.from.join("large"), node.from.join("other")).unwrap();
    node.start_drain(&[]);
    node.drain(&["wait"]).expect_success();
    assert_eq!(parts(&node.to), Vec::<PathBuf>::new());
    assert!(fs::read(node.to.join("other")).unwrap() == fs::read(node.from.join("other")).unwrap());
}

#[test]
fn a_drainer_that_has_said_that_it_stops_lets_nobody_in_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "n1", &[]);
    let socket = node.from.join(".forebay-drain/socket");
    for _ in 0..10 {
        let mut asker = UnixStream::connect(&socket).unwrap();
        asker.write_all(b"stop\n").unwrap();
        let mut reply = String::new();
        BufReader::new(asker).read_line(&mut reply).unwrap();
        assert!(reply.starts_with('{'), "{reply}");
        // Whoever comes now finds no drainer, and may start one.
        let refused = UnixStream::connect(&socket).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        node.start_drain(&[]);
    }
}

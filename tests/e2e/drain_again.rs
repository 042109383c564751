//! What is said of a drainer that is not there any more, and how it is started again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use tests::cluster::program_folder;
use tests::processes::wait_until;

use crate::drain::Node;

/// This machine's name, as a drainer has it that is given none.
fn own_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[test]
fn a_drainer_that_was_killed_is_not_told_to_have_finished_and_how_to_start_it_is() {
    let folder = tempfile::Builder::new().prefix("fb drain").tempdir().unwrap();
    let node = Node::start(folder.path(), &own_host(), &[]);
    fs::write(node.from.join("before"), "x").unwrap();
    node.drain(&["wait"]).expect_success();
    let running = node.drain(&["status"]).expect_success().stdout;
    assert!(running.ends_with(": 1 of 1 files done\n"), "{running}");
    node.kill();
    fs::write(node.from.join("later"), "x").unwrap();

    let told = node.drain(&["status"]).expect_success().stdout;
    assert!(told.contains("no drain runs there any more"), "{told}");
    let waited = node.drain(&["wait", "--timeout", "1"]);
    assert_eq!(waited.code(), 74, "{}", waited.stdout);
    // What both advise is for a shell to read.
    let advised = told.split('`').nth(1).unwrap();
    assert!(
        advised.starts_with("forebay drain start") && waited.stderr.contains(advised),
        "{}",
        waited.stderr
    );
    let forebay = program_folder().join("forebay").display().to_string();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(advised.replacen("forebay", &forebay, 1));
    for name in ["SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "SLURM_JOB_END_TIME"] {
        shell.env_remove(name);
    }
    assert!(shell.status().unwrap().success(), "{advised}");
    node.wait_for("later", "x");
    node.drain(&["stop"]).expect_success();
    let told = || node.drain(&["status"]).expect_success().stdout;
    // It answers before it has noted its end.
    let is_stopped = wait_until(Duration::from_secs(20), || told().contains("it was stopped"));
    assert!(is_stopped, "{}", told());
}

#[test]
fn a_drain_is_started_again_where_the_jobs_folder_is_named_and_no_node_service_runs() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    let start = || {
        let mut command = node.command(&["start", "--host", "n1"]);
        command.env("FOREBAY_LOCAL", &node.from).env("FOREBAY_NODE_SOCKET", folder.path().join("none"));
        command.output().unwrap()
    };
    for name in ["first", "second"] {
        let begin = std::time::Instant::now();
        let started = start();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
        fs::write(node.from.join(name), name).unwrap();
        node.wait_for(name, name);
        node.kill();
    }
}

#[test]
fn a_copy_that_was_written_to_is_neither_called_drained_nor_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "n1", &[]);
    let names = ["same", "newer", "touched"];
    for name in names {
        fs::write(node.from.join(name), "of the job").unwrap();
    }
    node.drain(&["wait"]).expect_success();
    // Its length stays and its time is put back; the file on the node has changed, too; only its mode is another.
    let same = node.to.join("same");
    let before = fs::metadata(&same).unwrap().modified().unwrap();
    fs::write(&same, "of another").unwrap();
    fs::File::options().write(true).open(&same).unwrap().set_modified(before).unwrap();
    fs::write(node.to.join("newer"), "of others").unwrap();
    fs::write(node.from.join("newer"), "a newer version").unwrap();
    fs::set_permissions(node.to.join("touched"), fs::Permissions::from_mode(0o640)).unwrap();
    let waited = node.drain(&["wait", "--timeout", "30"]);
    assert_eq!(waited.code(), 74, "{}", waited.stdout);
    let told = format!("{}{}", waited.stdout, waited.stderr);
    assert!(told.contains("pfs/same") && told.contains("pfs/newer") && !told.contains("touched"), "{told}");
    assert_eq!(
        [&same, &node.to.join("newer")].map(|path| fs::read_to_string(path).unwrap()),
        ["of another", "of others"]
    );
    for name in ["same", "newer"] {
        fs::remove_file(node.to.join(name)).unwrap();
    }
    node.drain(&["wait"]).expect_success();
    node.wait_for("same", "of the job");
    node.wait_for("newer", "a newer version");
}

#[test]
fn who_waits_for_a_drainer_that_was_stopped_is_told_so_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "n1", &[]);
    node.drain(&["pause"]).expect_success();
    fs::write(node.from.join("file"), "x").unwrap();
    let stopped = node.drain(&["stop"]);
    assert_eq!(stopped.code(), 0, "{}", stopped.stderr);
    let waited = node.drain(&["wait", "--timeout", "30"]);
    assert_eq!(waited.code(), 74, "{}", waited.stderr);
    for said in [&stopped.stdout, &stopped.stderr, &waited.stderr] {
        assert!(!said.contains("paused"), "to resume one that was stopped is of no use: {said}");
    }
    let log = fs::read_to_string(node.from.join(".forebay-drain/log")).unwrap();
    assert!(!log.contains("left out"), "its own folder is to be removed: {log}");
    let advised = "`forebay drain start --from ";
    assert!(
        waited.stderr.contains("the drainers of n1 were stopped") && waited.stderr.contains(advised),
        "{}",
        waited.stderr
    );
    node.start_drain(&[]);
    node.drain(&["resume"]).expect_success();
    node.drain(&["wait"]).expect_success();
    assert_eq!(fs::read_to_string(node.to.join("file")).unwrap(), "x");
}

#[test]
fn a_folder_that_is_not_there_is_not_drained_but_for_one_in_the_jobs_volume() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::new(folder.path(), "n1");
    let wrong = folder.path().join("a typo/below");
    let text = wrong.display().to_string();
    let refused = node.drain(&["start", "--from", &text]);
    assert_eq!(refused.code(), 66, "{}", refused.stderr);
    let advised = format!("mkdir -p '{text}'");
    assert!(
        refused.stderr.contains("no such folder") && refused.stderr.contains(&advised),
        "{}",
        refused.stderr
    );
    assert!(!wrong.exists() && !folder.path().join("a typo").exists(), "it was made");
    fs::write(node.from.join("file"), "x").unwrap();
    let refused = node.drain(&["start", "--from", node.from.join("file").to_str().unwrap()]);
    assert!(refused.code() == 66 && refused.stderr.contains("it is not a folder"), "{}", refused.stderr);

    let own = node.from.join("made/for/it");
    let mut start = node.command(&["start", "--host", "n1", "--from", own.to_str().unwrap()]);
    start.env("FOREBAY_LOCAL", &node.from).env("FOREBAY_NODE_SOCKET", folder.path().join("none"));
    let started = start.output().unwrap();
    assert!(started.status.success() && own.is_dir(), "{}", String::from_utf8_lossy(&started.stderr));
    node.kill();
}

#[test]
fn a_name_of_which_nothing_was_drained_is_published_only_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), "n1", &[]);
    fs::create_dir(node.from.join("step1")).unwrap();
    fs::write(node.from.join("step1/rank0"), "x").unwrap();
    // Of another session: it says nothing of what this one has written.
    fs::create_dir(node.to.join("step")).unwrap();
    for name in ["step", "step1/rank", "nosuch"] {
        let refused = node.drain(&["commit", name]);
        assert_eq!(refused.code(), 66, "{name}: {}", refused.stderr);
        assert!(refused.stderr.contains(name) && refused.stderr.contains("--empty"), "{}", refused.stderr);
        assert!(!node.to.join(format!("{name}.committed")).exists());
    }
    for name in ["step1", "step1/rank0"] {
        node.drain(&["commit", name]).expect_success();
    }
    // What was drained stays drained when the node needs the room.
    fs::remove_dir_all(node.from.join("step1")).unwrap();
    node.drain(&["wait"]).expect_success();
    node.drain(&["commit", "step1"]).expect_success();
    node.drain(&["commit", "nosuch", "--empty"]).expect_success();
    // The link would lead to itself.
    let refused = node.drain(&["commit", "latest", "--empty"]);
    assert!(refused.code() == 64 && refused.stderr.contains("`latest`"), "{}", refused.stderr);
    assert_eq!(fs::read_link(node.to.join("latest")).unwrap().to_str(), Some("step1"));
    assert!(node.to.join("nosuch.committed").exists());
    node.kill();
}

#[test]
fn a_second_folder_of_the_jobs_volume_is_not_said_to_be_drained() {
    let folder = tempfile::tempdir().unwrap();
    let volume = Node::new(folder.path(), "n1");
    let start = |name: &str| {
        let from = volume.from.join(name);
        fs::create_dir_all(&from).unwrap();
        fs::write(from.join(format!("{name}-data")), name).unwrap();
        let mut command = volume.command(&["start", "--host", "n1", "--from"]);
        let output = command.arg(from).env("FOREBAY_LOCAL", &volume.from).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(start("a").0, Some(0));
    let (code, said) = start("b");
    assert!(
        code == Some(64) && said.contains("/b is not drained: ") && said.contains("stop --from"),
        "{code:?} {said}"
    );
    // The same again is no mistake.
    assert_eq!(start("a").0, Some(0));
}

#[test]
fn what_the_job_has_drained_is_not_taken_for_what_a_commit_has_made() {
    for name in ["latest", "out.committed"] {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::start(folder.path(), "n1", &[]);
        fs::create_dir(node.from.join("out")).unwrap();
        fs::write(node.from.join("out/f"), "result").unwrap();
        fs::write(node.from.join(name), "of the job").unwrap();
        let refused = node.drain(&["commit", "out"]);
        assert!(
            refused.code() == 64 && refused.stderr.contains("no commit has made it"),
            "{}",
            refused.stderr
        );
        assert_eq!(fs::read_to_string(node.to.join(name)).unwrap(), "of the job");
        fs::remove_file(node.from.join(name)).unwrap();
        fs::remove_file(node.to.join(name)).unwrap();
        for _ in 0..2 {
            node.drain(&["commit", "out"]).expect_success();
        }
    }
}

//! `forebay with`: a buffer around one command; and the same options on `forebay run`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tests::cluster::{Cluster, Outcome, Running};
use tests::processes::wait_until;
use tests::tree;

/// Starts `forebay with OPTIONS -- sh -c SCRIPT`.
fn start(cluster: &Cluster, options: &[&str], script: &str) -> Running {
    let mut command = cluster.command(&[&["with", "--capacity", "64MiB"], options].concat());
    command.args(["--", "sh", "-c", script]);
    cluster.spawn(command)
}

#[track_caller]
fn with(cluster: &Cluster, options: &[&str], script: &str) -> Outcome {
    start(cluster, options, script).wait()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_command_has_files_and_folders_in_its_buffer_and_its_results_are_where_they_were_to_go() {
    let cluster = Cluster::new();
    let (work, tree) = (&cluster.work, cluster.pfs("a tree"));
    tree::generate(&tree).expect("the folder is ours");
    fs::write(work.join("my input, 100%.txt"), "input\n").unwrap();
    let given = format!("{}:below/tree", tree.display());
    let back = format!("below/tree:{}", cluster.folder().join("back again").display());
    let options = [
        "--in",
        "my input, 100%.txt",
        "--in",
        &given,
        "--out",
        "made/:my results",
        "--out",
        "one:1.txt",
        "--out",
        &back,
    ];
    let script = "cd \"$DW_JOB_STRIPED\" && mkdir -p made/deep && cp 'my input, 100%.txt' made/deep/copy && \
                  echo one >one && echo \"said $SLURM_JOB_NAME\"";
    let outcome = with(&cluster, &options, script).expect_success();
    assert!(outcome.stdout.starts_with("said sh\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("(sh): completed, job exit status 0"), "{}", outcome.stdout);
    assert_eq!(read(&work.join("my results/deep/copy")), "input\n");
    assert_eq!(read(&work.join("1.txt")), "one\n");
    tree::assert_equal(&tree, &cluster.folder().join("back again"));
    cluster.assert_nothing_left();
}

#[test]
fn the_exit_status_is_the_commands_and_what_it_made_is_staged_out_all_the_same() {
    let cluster = Cluster::new();
    let script = "echo half >${DW_JOB_STRIPED}half; exit 42";
    let outcome = with(&cluster, &["--out", "half:half", "--out", "other:other", "--json"], script);
    assert_eq!(outcome.code(), 42, "{}", outcome.stderr);
    let summary = outcome.json();
    assert_eq!(summary["outcome"], "job_failed");
    assert_eq!(summary["job_name"], "sh");
    assert_eq!(read(&cluster.work.join("half")), "half\n");
    assert!(!cluster.work.join("other").exists(), "it was never made");
    cluster.assert_nothing_left();
}

#[test]
fn what_a_command_that_did_well_did_not_make_is_owed() {
    let cluster = Cluster::new();
    let outcome = with(&cluster, &["--out", "never:made"], "true");
    assert_eq!(outcome.code(), 74, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("forebay stage retry 1"), "{}", outcome.stdout);
    cluster.forebay(&["rm", "1", "--discard"]).expect_success();
    cluster.assert_nothing_left();
}

#[test]
fn what_cannot_be_staged_or_started_is_said_before_anything_is_made() {
    let cluster = Cluster::new();
    let refused = |options: &[&str], command: &[&str], code: i32, part: &str| {
        let mut run = cluster.command(&[&["with"], options].concat());
        run.arg("--").args(command);
        let outcome = cluster.spawn(run).wait();
        assert_eq!(outcome.code(), code, "{options:?}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert!(
            outcome.stderr.starts_with("forebay: ") && outcome.stderr.contains(part),
            "{}",
            outcome.stderr
        );
        cluster.assert_nothing_left();
    };
    let room = ["--capacity", "64MiB"];
    refused(&[&room[..], &["--in", "no such file"]].concat(), &["true"], 66, "w/no such file: No such file");
    refused(&[&room[..], &["--in", "../w:../x"]].concat(), &["true"], 64, "leads out of the buffer");
    refused(&[&room[..], &["--out", "results"]].concat(), &["true"], 64, "does not say where to");
    refused(&["--capacity", "64Mig"], &["true"], 64, "--capacity");
    refused(&["--capacity", "4PiB"], &["true"], 64, "4 PiB");
    refused(&[], &["true"], 64, "--capacity");
    refused(&room, &["no-such-program"], 66, "no program no-such-program in PATH");
}

#[test]
fn a_command_whose_forebay_was_killed_is_run_again() {
    let cluster = Cluster::new();
    let script = "test -e again && echo second >${DW_JOB_STRIPED}x && exit; touch again started; sleep 600";
    let killed = start(&cluster, &["--out", "x:x"], script);
    assert!(wait_until(Duration::from_secs(60), || cluster.work.join("started").exists()));
    killed.kill();
    let resumed = cluster.forebay(&["run", "--resume"]).expect_success();
    assert!(!resumed.stderr.contains("was changed since"), "{}", resumed.stderr);
    assert_eq!(read(&cluster.work.join("x")), "second\n");
    cluster.assert_nothing_left();
}

#[test]
fn options_of_run_say_what_directives_say() {
    let cluster = Cluster::new();
    fs::write(cluster.work.join("in put"), "input\n").unwrap();
    let script = "#!/bin/bash\necho \"$0\" >name\ncp \"${DW_JOB_STRIPED}in put\" ${DW_JOB_STRIPED}out";
    let options = ["--capacity", "64MiB", "--in", "in put", "--out", "out:out put"];
    cluster.run(script, &options).expect_success();
    assert_eq!(read(&cluster.work.join("out put")), "input\n");
    assert_eq!(read(&cluster.work.join("name")).trim(), cluster.work.join("job.sh").to_str().unwrap());

    let both = format!("#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\n{script}");
    cluster.run(&both, &options[2..]).expect_success();
    let twice = cluster.run(&both, &options);
    assert_eq!(twice.code(), 64, "{}", twice.stderr);
    assert!(twice.stderr.starts_with("forebay: --capacity 64MiB: "), "{}", twice.stderr);
    let neither = cluster.run(script, &options[2..]);
    assert_eq!((neither.code(), neither.stderr.lines().count()), (64, 2), "{}", neither.stderr);
    assert!(neither.stderr.starts_with("forebay: --in 'in put': "), "{}", neither.stderr);
    cluster.assert_nothing_left();
}

#[test]
fn the_tasks_that_have_not_run_are_given_the_same_options() {
    let cluster = Cluster::new();
    let script = cluster.script("#!/bin/bash\n#SBATCH --array=1-2\ntouch started; sleep 600");
    let running = cluster.start(&["run", &script, "--capacity", "64MiB", "--out", "a b:c"]);
    assert!(wait_until(Duration::from_secs(60), || cluster.work.join("started").exists()));
    running.signal_group(rustix::process::Signal::INT);
    let told = running.wait().stderr;
    assert!(told.contains("run --array=2 --capacity 64MiB --out 'a b:c' "), "{told}");
    cluster.forebay(&["rm", "1", "--discard"]).expect_success();
}

#[test]
fn who_keeps_buffers_on_the_disk_of_the_data_is_told_that_this_is_not_faster() {
    let cluster = Cluster::new();
    let told = with(&cluster, &["--out", "x:x"], "touch ${DW_JOB_STRIPED}x").expect_success().stderr;
    let place = format!("buffers are kept in {}, on the same disk as ", cluster.state.display());
    assert!(told.contains(&place) && told.contains("give --dir"), "{told}");
    let elsewhere = tempfile::tempdir_in("/dev/shm").expect("it is in memory");
    let target = format!("x:{}", elsewhere.path().join("x").display());
    let told = with(&cluster, &["--out", &target], "touch ${DW_JOB_STRIPED}x").expect_success().stderr;
    assert!(!told.contains("same disk"), "{told}");
    let status = cluster.forebay(&["status"]).expect_success().stdout;
    assert!(status.starts_with(&format!("buffers are kept in {} (", cluster.state.display())), "{status}");
}

//! What a user is told who knows only the pages: of what one machine lacks, of what is not there, and of what goes on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use tests::cluster::{Cluster, Outcome, program_folder};
use tests::processes::wait_until;

const JOBDW: &str = "#DW jobdw capacity=64MiB access_mode=striped type=scratch";

/// It ended with `code`, and says `part`.
#[track_caller]
fn says(outcome: &Outcome, code: i32, part: &str) {
    assert_eq!(outcome.code(), code, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains(part), "{part:?} in\n{}", outcome.stderr);
}

/// `forebay with OPTIONS -- COMMAND`.
fn with(cluster: &Cluster, options: &[&str], command: &[&str]) -> Command {
    let mut with = cluster.command(&[&["with", "--capacity", "64MiB"], options].concat());
    with.arg("--").args(command);
    with
}

#[test]
fn a_check_says_of_what_one_machine_lacks_what_a_run_says() {
    let cluster = Cluster::new();
    for line in [
        "#BB create_persistent name=a capacity=1GiB access_mode=striped type=scratch",
        "#BB destroy_persistent name=a",
        "#DW persistentdw name=a",
        &format!("{JOBDW} pool=gold"),
        "#DW jobdw capacity=64MiB access_mode=private type=scratch redundancy=mirror",
    ] {
        let script = cluster.script(&format!("#!/bin/sh\n{line}\n"));
        let run = cluster.forebay(&["run", &script]);
        let said = run.stderr.trim().strip_prefix("forebay: ").expect(&run.stderr).to_owned();
        let check = cluster.forebay(&["check", &script]);
        assert_eq!((run.code(), check.code()), (65, 65), "{line}: {}", check.stderr);
        let is_said = check.stderr.lines().any(|line| line.ends_with(&format!("job.sh: line 2: {said}")));
        assert!(is_said, "{said:?} in\n{}", check.stderr);
    }
    let local = cluster.script(&format!("#!/bin/sh\n{JOBDW} pool=local\n"));
    cluster.forebay(&["check", &local]).expect_success();
}

#[test]
fn a_program_that_reads_json_is_told_what_went_wrong() {
    let cluster = Cluster::new();
    let dos = cluster.script(&format!("#!/bin/sh\r\n{JOBDW}\r\n"));
    for (script, code, part) in
        [("no-such.sh", 66, "No such file or directory"), (&dos, 65, "DOS line breaks")]
    {
        let checked = cluster.forebay(&["check", "--json", script]);
        says(&checked, code, part);
        let told = checked.json();
        assert!(told["script"].as_str().unwrap().ends_with(script), "{told}");
        assert!(told["mistakes"][0].as_str().unwrap().contains(part), "{told}");
        assert_eq!((&told["schema"], &told["asked"]), (&1.into(), &false.into()), "{told}");
    }
    let words = [&["status", "--token"][..], &["scrub"], &["fsck"], &["rekey"]];
    for words in words {
        let refused = cluster.forebay(&[words, &["9", "--json"]].concat());
        says(&refused, 66, "there is no buffer 9");
        assert_eq!(refused.json()["error"]["message"], "there is no buffer 9", "{words:?}");
    }
}

#[test]
fn a_namespace_that_a_buffer_does_not_have_is_named_with_what_it_has() {
    let cluster = Cluster::new();
    fs::write(cluster.work.join("file"), "text").unwrap();
    cluster.forebay(&["mount", "fast", "--capacity", "64MiB"]).expect_success();
    let staged = cluster.forebay(&["stage", "in", "file", "$DW_JOB_PRIVATE/n", "--token", "1"]);
    says(&staged, 66, "buffer 1 has no $DW_JOB_PRIVATE; it has $DW_JOB_STRIPED; name a path in that");
    let none = cluster.forebay(&["stage", "in", "file", "$DW_JOB_STRIPED/n", "--token", "9"]);
    says(&none, 66, "there is no buffer 9");
    says(&cluster.forebay(&["stage", "status", "--token", "9"]), 66, "there is no buffer 9");
    for words in [&["in", "file", "n"][..], &["status"]] {
        let staged = cluster.forebay(&[&["stage"], words, &["--persistent", "sets"]].concat());
        says(&staged, 64, "persistent buffers are a cluster's");
    }
    let missing = cluster.forebay(&["stage", "out", "fast/never", "never", "--wait"]);
    says(&missing, 74, "No such file or directory; check the spelling");
    assert!(!missing.stderr.contains("the job"), "there is none: {}", missing.stderr);
    let over = cluster.forebay(&["mount", "fast", "--capacity", "64MiB"]);
    says(&over, 64, "/fast already; name another folder, or unmount that one with `forebay umount ");
    cluster.forebay(&["umount", "fast"]).expect_success();
    cluster.forebay(&["rm", "1", "--discard"]).expect_success();
}

#[test]
fn an_empty_buffer_is_destroyed_as_one() {
    let cluster = Cluster::new();
    cluster.forebay(&["mount", "fast", "--capacity", "64MiB", "--volume", "directory"]).expect_success();
    cluster.forebay(&["umount", "fast"]).expect_success();
    let removed = cluster.forebay(&["rm", "1"]).expect_success().stdout;
    assert_eq!(removed, "forebay: destroyed buffer 1, which was empty\n");
}

#[test]
fn what_first_can_succeed_is_advised_first() {
    let cluster = Cluster::new();
    let script = cluster.script(&format!(
        "#!/bin/bash\n{JOBDW}\n#DW stage_out type=file source=$DW_JOB_STRIPED/x destination=%d/x\n\
         test -e again && echo done >$DW_JOB_STRIPED/x && exit\ntouch again started; sleep 600\n"
    ));
    let mut job = cluster.start(&["run", &script]);
    assert!(wait_until(Duration::from_secs(60), || cluster.work.join("started").exists()));
    job.signal_group(Signal::INT);
    assert!(wait_until(Duration::from_secs(60), || !job.is_running()));
    let told = job.wait();
    assert_eq!(told.code(), 130, "{}", told.stderr);
    let advised: Vec<&str> =
        told.stdout.lines().filter(|line| line.starts_with("             forebay ")).collect();
    assert!(advised[0].contains("forebay run --resume 1"), "{}", told.stdout);
    assert!(advised[1].contains("forebay stage retry 1"), "{}", told.stdout);
    let words: Vec<&str> = advised[0].split_whitespace().skip(1).take(3).collect();
    cluster.forebay(&words).expect_success();
    assert_eq!(fs::read_to_string(cluster.work.join("x")).unwrap(), "done\n");
}

#[test]
fn what_the_kernel_does_not_start_is_refused_before_anything_is_made() {
    let cluster = Cluster::new();
    let program = |name: &str, text: &str| {
        let path = cluster.work.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let text = program("text", "echo hi\n");
    for (command, part) in [
        (&text, "it is text without a `#!` line"),
        (&program("empty", ""), "it is empty"),
        (&program("astray", "#!/no/such\n"), "its first line names `/no/such`"),
    ] {
        let refused = cluster.spawn(with(&cluster, &[], &[command])).wait();
        says(&refused, 66, part);
        assert!(!cluster.state.exists(), "{}", refused.stderr);
    }
    for interpreter in ["/no/such", &text] {
        let script = cluster.script(&format!("#!{interpreter}\n{JOBDW}\n"));
        let refused = cluster.forebay(&["run", &script]);
        says(&refused, 65, &format!("job.sh: line 1: {interpreter} cannot be started"));
        assert!(!cluster.state.exists(), "{}", refused.stderr);
        says(&cluster.forebay(&["check", &script]), 65, &format!("line 1: {interpreter} cannot be started"));
    }
    // As the kernel says it, where only that can tell.
    let broken = program("broken", "\u{7f}ELF\u{1}\u{1}\u{1}");
    says(&cluster.spawn(with(&cluster, &[], &[&broken])).wait(), 66, "Exec format error");
}

#[test]
fn a_command_is_called_one() {
    let cluster = Cluster::new();
    let command = "test -e again && exit; touch again started; sleep 600";
    let killed = cluster.spawn(with(&cluster, &[], &["sh", "-c", command]));
    assert!(wait_until(Duration::from_secs(60), || cluster.work.join("started").exists()));
    killed.kill();
    let resumed = cluster.forebay(&["run", "--resume"]).expect_success();
    assert!(resumed.stderr.contains("the command was interrupted"), "{}", resumed.stderr);
    assert!(!resumed.stderr.contains("script"), "{}", resumed.stderr);
}

#[test]
fn a_buffer_that_is_kept_is_said_to_be() {
    let cluster = Cluster::new();
    let write = ["sh", "-c", "echo a >${DW_JOB_STRIPED}x"];
    for options in [&["--keep"][..], &["--keep", "--out", "x:x"]] {
        cluster.spawn(with(&cluster, options, &write)).wait().expect_success();
    }
    let shown = cluster.forebay(&["status"]).expect_success().stdout;
    assert!(shown.contains("buffer 1 (sh): unmounted,"), "nothing was staged out: {shown}");
    assert!(shown.contains("buffer 2 (sh): staged out,"), "{shown}");
    assert_eq!(shown.matches("  kept: --keep asked for it\n").count(), 2, "{shown}");
    for token in ["1", "2"] {
        cluster.forebay(&["rm", token]).expect_success();
    }
}

#[test]
fn status_refuses_names_of_nothing_and_says_that_there_are_no_buffers() {
    let cluster = Cluster::new();
    let nothing = cluster.forebay(&["status", "--user", "nobody"]).expect_success();
    assert!(nothing.stdout.lines().any(|line| line == "no buffers"), "{}", nothing.stdout);
    for (option, name, what) in
        [("--user", "no-such-user", "user"), ("--pool", "other", "pool"), ("--node", "n7", "node")]
    {
        says(&cluster.forebay(&["status", option, name]), 66, &format!("there is no {what} {name}"));
    }
}

#[test]
fn a_shell_is_offered_the_buffers_that_are_kept_while_no_service_runs() {
    let cluster = Cluster::new();
    let complete = || {
        let mut completing = Command::new(program_folder().join("forebay"));
        completing.args(["--", "forebay", "rm", ""]).env("FOREBAY_DIR", &cluster.state);
        completing.envs([("COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", "2"), ("_CLAP_IFS", "\n")]);
        let offered = completing.output().unwrap();
        assert!(offered.stderr.is_empty(), "{}", String::from_utf8_lossy(&offered.stderr));
        let offered = String::from_utf8(offered.stdout).unwrap();
        offered.lines().filter(|word| !word.starts_with('-')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(complete().is_empty() && !cluster.state.exists());
    let options = ["--volume", "directory", "--keep"];
    cluster.spawn(with(&cluster, &options, &["true"])).wait().expect_success();
    assert!(wait_until(Duration::from_secs(20), || cluster.processes().is_empty()));
    assert_eq!(complete(), ["1"]);
    assert!(wait_until(Duration::from_secs(20), || cluster.processes().is_empty()), "it is stopped again");
    cluster.forebay(&["rm", "1"]).expect_success();
}

#[test]
fn a_drain_that_runs_says_what_it_is_not_told() {
    let cluster = Cluster::new();
    for folder in ["flash", "pfs"] {
        fs::create_dir(cluster.work.join(folder)).unwrap();
    }
    let start = ["drain", "start", "--from", "flash", "--to", "pfs", "--session", "s"];
    let first = cluster.forebay(&start).expect_success();
    let again = cluster.forebay(&[&start[..], &["--limit", "1MiB", "--workers", "2"]].concat());
    let stopped = cluster.forebay(&["drain", "stop", "--from", "flash"]);
    says(&again, 0, "it was started before, and is not told --limit or --workers: end it with");
    assert!(!first.stderr.contains("not told"), "{}", first.stderr);
    stopped.expect_success();
}

#[test]
fn what_is_said_of_an_array_is_of_its_task_and_true_when_it_is_resumed() {
    let cluster = Cluster::new();
    let script = cluster.script(&format!(
        "#!/bin/bash\n#SBATCH --array=4-5\n{JOBDW}\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/x destination=%d/out-%a-%j\n\
         echo a >$DW_JOB_STRIPED/x; test -e started && exit; touch started; sleep 600\n"
    ));
    let killed = cluster.start(&["run", &script]);
    assert!(wait_until(Duration::from_secs(60), || cluster.work.join("started").exists()));
    let told = killed.output();
    assert!(told.contains("same disk as ") && told.contains("/out-4-1: this will not"), "{told}");
    killed.kill();
    let resumed = cluster.forebay(&["run", "--resume"]).expect_success();
    let after =
        "tasks of the array that come after this one, unless they were run since: 5; `forebay run --array=5 ";
    assert!(resumed.stderr.contains(after), "{}", resumed.stderr);
}

#[test]
fn a_wrong_command_line_is_one_line_with_what_to_do() {
    let cluster = Cluster::new();
    let cases = [
        (
            &["with", "--hosts", "a", "--", "true"][..],
            "unexpected argument '--hosts'",
            "`forebay with --help`",
        ),
        (&["stage", "in", "--wayt"], "unexpected argument '--wayt'", "'--wait'"),
        (&["run", "--volume", "x", "j"], "possible values: directory, image", "`forebay --help`"),
        (&["rm"], "were not provided: <TOKEN>", "`forebay rm --help`"),
        (&["stats"], "unrecognized subcommand 'stats'", "'status'"),
    ];
    for (words, what, advice) in cases {
        let refused = cluster.forebay(words);
        says(&refused, 64, what);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        let (before, after) = refused.stderr.split_once("; ").expect(&refused.stderr);
        assert!(before.starts_with("forebay: ") && after.contains(advice), "{}", refused.stderr);
    }
    for (option, why) in [("--keep", "the buffer ends with the command"), ("--volume=image", "in a folder")] {
        let refused = cluster.spawn(with(&cluster, &["--on-allocation", option], &["true"])).wait();
        says(&refused, 64, why);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    }
}

#[test]
fn what_a_shell_left_in_an_option_is_said_once_and_for_a_command_line() {
    let cluster = Cluster::new();
    for (typed, what) in [
        ("in*", "/in*` has a wildcard, which no shell replaced; name the folder"),
        ("$HOME/x", "no shell replaced the variable `$HOME`; write it outside"),
    ] {
        let refused = cluster.spawn(with(&cluster, &["--in", typed], &["true"])).wait();
        says(&refused, 64, what);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        assert!(!refused.stderr.contains("type=") && !refused.stderr.contains("%d"), "{}", refused.stderr);
    }
    let both = cluster.spawn(with(&cluster, &["--in", "a*:b*"], &["true"])).wait();
    assert_eq!(both.stderr.lines().count(), 2, "{}", both.stderr);
}

//! `forebay run` where nobody interrupts it: which functions it calls, and what it says and exits with.

use crate::fake::{Fake, said};

#[test]
fn a_job_goes_through_the_functions_in_their_order() {
    let fake = Fake::start();
    let script = fake.script("echo hello $1 > ${DW_JOB_STRIPED}b; echo out; cp ${DW_JOB_STRIPED}b seen");
    let output = fake.forebay(&["run", &script, "world"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(
        fake.calls(),
        [
            "job_process",
            "tokens",
            "setup",
            "data_in",
            "pre_run",
            "paths",
            "post_run",
            "data_out",
            "teardown",
            "shutdown"
        ]
    );
    assert_eq!(std::fs::read_to_string(fake.work().join("seen")).unwrap(), "hello world\n");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.starts_with("out\n"), "{stdout}");
    assert!(stdout.contains("results in /pfs/b"), "{stdout}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("note: a remark"), "{}", said(&output));
    assert!(!fake.state().join("run/1.json").exists());
}

#[test]
fn the_jobs_exit_status_is_ours_and_its_results_are_staged_out_all_the_same() {
    let fake = Fake::start();
    let output = fake.forebay(&["run", &fake.script("exit 42")]);
    assert_eq!(output.status.code(), Some(42), "{}", said(&output));
    assert_eq!(fake.count("data_out"), 1);
    assert_eq!(fake.count("teardown"), 1);
}

#[test]
fn a_job_that_a_signal_killed_is_reported_as_a_shell_does() {
    let fake = Fake::start();
    let output = fake.forebay(&["run", &fake.script("kill -9 $$")]);
    assert_eq!(output.status.code(), Some(137), "{}", said(&output));
    assert!(said(&output).contains("killed by signal 9"), "{}", said(&output));
}

#[test]
fn a_failed_stage_in_names_the_file_and_does_not_start_the_job() {
    let fake = Fake::start();
    fake.with(|inner| inner.failing.insert("data_in"));
    let output = fake.forebay(&["run", &fake.script("touch started")]);
    assert_eq!(output.status.code(), Some(66), "{}", said(&output));
    assert!(said(&output).contains("open /pfs/a: Permission denied; ask its owner"), "{}", said(&output));
    assert!(!fake.made("started"));
    assert_eq!(fake.count("pre_run"), 0);
    assert_eq!(fake.count("teardown"), 1);
    assert_eq!(fake.calls().last().unwrap(), "shutdown");
}

#[test]
fn a_failed_stage_out_keeps_the_buffer_until_a_retry_succeeds() {
    let fake = Fake::start();
    fake.with(|inner| inner.failing.insert("data_out"));
    let output = fake.forebay(&["run", &fake.script("touch started")]);
    assert_eq!(output.status.code(), Some(74), "{}", said(&output));
    assert_eq!(fake.count("teardown"), 0);
    assert!(said(&output).contains("forebay stage retry 1"), "{}", said(&output));

    let again = fake.forebay(&["stage", "retry", "1"]);
    assert_eq!(again.status.code(), Some(74), "{}", said(&again));
    assert_eq!(fake.count("teardown"), 0);

    fake.with(|inner| inner.failing.clear());
    let retried = fake.forebay(&["stage", "retry", "1"]);
    assert_eq!(retried.status.code(), Some(0), "{}", said(&retried));
    assert_eq!(fake.count("teardown"), 1);
    assert_eq!(fake.count("paths"), 1, "the job ran again");
}

#[test]
fn a_retry_that_fails_destroys_nothing_where_no_record_tells_of_the_job() {
    let fake = Fake::start();
    fake.with(|inner| {
        inner.mount();
        inner.failing.insert("post_run");
    });
    let output = fake.forebay(&["stage", "retry", "1"]);
    assert_ne!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(fake.count("teardown"), 0, "a buffer that owes a stage-out was destroyed: {}", said(&output));

    fake.with(|inner| inner.failing.clear());
    let retried = fake.forebay(&["stage", "retry", "1"]);
    assert_eq!(retried.status.code(), Some(0), "{}", said(&retried));
    assert_eq!((fake.count("data_out"), fake.count("teardown")), (1, 1));
}

#[test]
fn a_retry_forgets_a_run_only_where_its_buffer_is_gone() {
    let fake = Fake::start();
    fake.with(|inner| inner.failing.insert("data_out"));
    fake.forebay(&["run", &fake.script("true")]);
    let record = fake.state().join("run/1.json");
    assert!(record.exists());

    fake.with(|inner| inner.failing.insert("session"));
    let refused = fake.forebay(&["stage", "retry", "1"]);
    assert!(said(&refused).contains("session failed"), "{}", said(&refused));
    assert!(record.exists(), "how its job ended is forgotten");

    fake.with(|inner| inner.failing.clear());
    assert_eq!(fake.forebay(&["stage", "retry", "1"]).status.code(), Some(0));
    assert_eq!(fake.forebay(&["stage", "retry", "1"]).status.code(), Some(66));
}

#[test]
fn a_call_whose_reply_is_lost_is_made_again() {
    let fake = Fake::start();
    fake.with(|inner| inner.breaking.extend(["setup", "data_in", "post_run", "data_out", "teardown"]));
    let output = fake.forebay(&["run", &fake.script("echo once >> runs")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for function in ["setup", "data_in", "post_run", "data_out", "teardown"] {
        assert_eq!(fake.count(function), 2, "{function}");
    }
    assert_eq!(std::fs::read_to_string(fake.work().join("runs")).unwrap(), "once\n");
}

#[test]
fn a_service_that_another_command_stops_is_asked_again() {
    let fake = Fake::start();
    fake.with(|inner| inner.stopping.extend(["setup", "pre_run"]));
    let output = fake.forebay(&["run", &fake.script("true")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!((fake.count("setup"), fake.count("pre_run")), (2, 2));
}

#[test]
fn a_setup_that_is_refused_is_one_line_and_leaves_nothing() {
    let fake = Fake::start();
    fake.with(|inner| {
        inner.failing.insert("setup");
    });
    let output = fake.forebay(&["run", &fake.script("touch started")]);
    assert_eq!(output.status.code(), Some(65), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "forebay: setup failed; correct it\n");
    assert_eq!(fake.count("teardown"), 1);
    assert!(!fake.made("started"));
}

#[test]
fn a_job_that_lost_its_mount_and_failed_is_not_staged_out() {
    let fake = Fake::start();
    let script = fake.script("touch started; while [ ! -e go ]; do sleep 0.01; done; exit 5");
    let run = fake.start_forebay(&["run", &script]);
    crate::fake::wait_until("the job starts", || fake.made("started"));
    fake.with(|inner| inner.interruptions = 1);
    std::fs::write(fake.work().join("go"), "").unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert_eq!(fake.count("data_out"), 0);
    assert_eq!(fake.count("teardown"), 0);
    assert!(said(&output).contains("forebay run --resume 1"), "{}", said(&output));

    std::fs::write(fake.work().join("job.sh"), "#!/bin/sh\necho changed meanwhile\n").unwrap();
    std::fs::remove_file(fake.work().join("started")).unwrap();
    let resumed = fake.forebay(&["run", "--resume"]);
    assert!(fake.made("started"), "what was submitted did not run again: {}", said(&resumed));
    assert_eq!(resumed.status.code(), Some(5), "{}", said(&resumed));
    assert_eq!(fake.count("data_out"), 1);
}

#[test]
fn programs_get_one_object_on_the_last_line() {
    let fake = Fake::start();
    let output = fake.forebay(&["run", "--json", &fake.script("echo the job speaks; exit 3")]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    assert_eq!(lines[0], "the job speaks");
    let summary: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(summary["outcome"], "job_failed");
    assert_eq!(summary["job"]["exit_status"], 3);
    assert_eq!(summary["results"][0], "/pfs/b");
    assert_eq!(summary["kept"], serde_json::Value::Null);
}

#[test]
fn a_refusal_is_an_object_too() {
    let fake = Fake::start();
    let output = fake.forebay(&["run", "--json", "absent.sh"]);
    assert_eq!(output.status.code(), Some(66));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["outcome"], "refused");
    assert!(summary["error"]["message"].as_str().unwrap().contains("absent.sh"));
    assert!(fake.calls().is_empty(), "a script that is not there needs no service");
}

#[test]
fn a_buffer_that_is_to_be_kept_is_kept() {
    let fake = Fake::start();
    let output = fake.forebay(&["run", "--keep", &fake.script("true")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(fake.count("data_out"), 1);
    assert_eq!(fake.count("teardown"), 0);
    let removed = fake.forebay(&["rm", "1"]);
    assert_eq!(removed.status.code(), Some(0), "{}", said(&removed));
    assert!(said(&removed).contains("destroyed buffer 1 with at least 5 bytes"), "{}", said(&removed));
    assert_eq!(fake.forebay(&["rm", "1"]).status.code(), Some(66));
}

#[test]
fn on_a_cluster_what_is_not_there_and_a_stage_that_fails_again_have_the_statuses_of_the_manual() {
    let fake = Fake::start();
    for command in ["rm", "scrub", "fsck"] {
        let output = fake.on_cluster(&[command, "absent"]);
        assert_eq!(output.status.code(), Some(66), "{command}: {}", said(&output));
    }
    fake.with(|inner| inner.failing.insert("data_out"));
    let output = fake.on_cluster(&["stage", "retry", "1"]);
    assert_eq!(output.status.code(), Some(74), "{}", said(&output));
    assert!(said(&output).contains("session 1 (job.sh): stage out failed"), "{}", said(&output));
    assert!(said(&output).contains("forebay stage retry 1"), "{}", said(&output));
    let output = fake.on_cluster(&["stage", "retry", "1", "--json"]);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["outcome"], &summary["exit_status"]), (&"stage_out_failed".into(), &74.into()));
}

#[test]
fn nothing_is_called_staged_out_on_a_cluster_that_never_was() {
    let fake = Fake::start();
    fake.with(|inner| {
        inner.hand_to_slurm();
        inner.failing.insert("data_in");
        inner.act("setup");
        inner.act("data_in");
    });
    let held = fake.on_cluster(&["stage", "retry", "1"]);
    assert_eq!(held.status.code(), Some(66), "{}", said(&held));
    for words in ["the stage-in of buffer 1 failed", "`scancel --hurry 1`"] {
        assert!(said(&held).contains(words), "{}", said(&held));
    }
    fake.with(|inner| inner.make_persistent());
    let output = fake.on_cluster(&["stage", "retry", "1"]);
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(said(&output).contains("buffer 1 has no stage_out; copy what you need"), "{}", said(&output));
    assert_eq!(fake.count("data_out"), 0);
}

#[test]
fn a_jobs_buffer_whose_stage_out_fails_again_is_not_offered_for_removal_which_would_be_refused() {
    let fake = Fake::start();
    fake.with(|inner| {
        inner.hand_to_slurm();
        inner.failing.insert("data_out");
        inner.act("post_run");
    });
    let output = fake.on_cluster(&["stage", "retry", "1"]);
    assert_eq!(output.status.code(), Some(74), "{}", said(&output));
    assert!(said(&output).contains("forebay stage retry 1"), "{}", said(&output));
    assert!(!said(&output).contains("forebay rm 1"), "{}", said(&output));
}

#[test]
fn a_wrong_command_line_has_its_own_status() {
    let fake = Fake::start();
    for words in [&["run"][..], &["frobnicate"], &["run", "--nodes", "0", "x"], &["rm", "../x"]] {
        assert_eq!(fake.forebay(words).status.code(), Some(64), "{words:?}");
    }
}

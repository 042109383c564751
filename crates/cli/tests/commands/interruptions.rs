//! `forebay run` that is interrupted, by its user or by its death.

use std::process::{Child, Output};

use rustix::process::{Pid, Signal, kill_process};

use crate::fake::{Fake, said, wait_until};

/// A script that waits for `go`, and says so.
const WAITS: &str = "echo x >> starts; trap 'touch told; exit 1' TERM; touch started
while [ ! -e go ]; do sleep 0.02; done; touch finished";

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn interrupted_in(function: &'static str) -> (Fake, Output) {
    let fake = Fake::start();
    fake.with(|inner| inner.hanging.insert(function));
    let run = fake.start_forebay(&["run", &fake.script("touch finished")]);
    wait_until("the function is called", || fake.count(function) == 1);
    signal(&run, Signal::INT);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(fake.count("cancel") >= 1);
    (fake, output)
}

#[test]
fn an_interrupt_in_the_stage_in_releases_the_buffer() {
    let (fake, output) = interrupted_in("data_in");
    assert!(!fake.made("finished"));
    assert_eq!(fake.count("teardown"), 1);
    assert!(said(&output).contains("nothing is lost"), "{}", said(&output));
}

#[test]
fn an_interrupt_in_the_stage_out_keeps_the_buffer() {
    let (fake, output) = interrupted_in("data_out");
    assert!(fake.made("finished"));
    assert_eq!(fake.count("teardown"), 0);
    assert!(said(&output).contains("forebay stage retry 1"), "{}", said(&output));
}

#[test]
fn an_interrupt_in_the_job_ends_it_and_keeps_what_it_wrote() {
    let fake = Fake::start();
    let run = fake.start_forebay(&["run", &fake.script(WAITS)]);
    wait_until("the job starts", || fake.made("started"));
    signal(&run, Signal::TERM);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(fake.made("told") && !fake.made("finished"));
    assert_eq!(fake.count("post_run"), 1);
    assert_eq!(fake.count("data_out") + fake.count("teardown"), 0);
    for command in ["stage retry 1", "run --resume 1", "rm 1"] {
        assert!(said(&output).contains(&format!("forebay {command}")), "{}", said(&output));
    }
}

#[test]
fn a_second_interrupt_leaves_at_once_and_unmounts() {
    let fake = Fake::start();
    let deaf = "trap '' TERM INT; touch started; while :; do sleep 0.02; done";
    let run = fake.start_forebay(&["run", &fake.script(deaf)]);
    wait_until("the job starts", || fake.made("started"));
    signal(&run, Signal::INT);
    // The kernel merges two signals that are pending at the same time.
    std::thread::sleep(std::time::Duration::from_millis(200));
    signal(&run, Signal::INT);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert_eq!(fake.count("post_run"), 1);
    assert_eq!(fake.count("teardown"), 0);
    assert!(said(&output).contains("left at once"), "{}", said(&output));
}

#[test]
fn a_job_whose_forebay_was_killed_runs_again_and_only_once_at_a_time() {
    let fake = Fake::start();
    let mut run = fake.start_forebay(&["run", &fake.script(WAITS)]);
    wait_until("the job starts", || fake.made("started"));
    for words in [&["run", "--resume", "1"][..], &["run", "--resume"], &["rm", "1"], &["stage", "retry", "1"]]
    {
        let refused = fake.forebay(words);
        assert_eq!(refused.status.code(), Some(75), "{words:?}: {}", said(&refused));
        assert!(said(&refused).contains(&format!("process {}", run.id())), "{}", said(&refused));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let refused = fake.forebay(&["stage", "retry", "1"]);
    assert_eq!(refused.status.code(), Some(66), "half of its results: {}", said(&refused));
    assert!(said(&refused).contains("forebay run --resume 1"), "{}", said(&refused));
    assert_eq!(fake.count("post_run") + fake.count("data_out") + fake.count("teardown"), 0);
    assert!(!fake.made("told"), "the job goes on");
    std::fs::remove_file(fake.work().join("started")).unwrap();
    let resumed = fake.start_forebay(&["run", "--resume"]);
    wait_until("the job starts again", || fake.made("started"));
    assert!(fake.made("told"), "the first one still runs");
    std::fs::write(fake.work().join("go"), "").unwrap();
    let output = resumed.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(std::fs::read_to_string(fake.work().join("starts")).unwrap(), "x\nx\n");
    assert_eq!(fake.count("data_in"), 1);
    assert_eq!(fake.count("teardown"), 1);
}

#[test]
fn a_job_that_had_ended_does_not_run_again() {
    let fake = Fake::start();
    fake.with(|inner| inner.hanging.insert("data_out"));
    let mut run = fake.start_forebay(&["run", &fake.script("echo x >> starts; exit 7")]);
    wait_until("the stage-out starts", || fake.count("data_out") == 1);
    run.kill().unwrap();
    run.wait().unwrap();
    let status = fake.forebay(&["status"]);
    assert!(said(&status).contains("interrupted, `forebay run --resume 1"), "{}", said(&status));
    fake.with(|inner| inner.hanging.clear());
    let resumed = fake.forebay(&["run", "--resume", "1"]);
    assert_eq!(resumed.status.code(), Some(7), "{}", said(&resumed));
    assert_eq!(std::fs::read_to_string(fake.work().join("starts")).unwrap(), "x\n");
    assert_eq!(fake.count("teardown"), 1);
    assert_eq!(fake.forebay(&["run", "--resume"]).status.code(), Some(66), "nothing is left to resume");
}

#[test]
fn what_a_job_leaves_running_ends_with_it() {
    let fake = Fake::start();
    let script = fake.script(
        "sh -c 'trap \"touch told; exit\" TERM; touch started; while :; do sleep 0.02; done' &\n\
        while [ ! -e started ]; do sleep 0.02; done",
    );
    let output = fake.forebay(&["run", &script]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(fake.made("told"));
}

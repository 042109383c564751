//! What commands say and exit with where something is wrong: names, not numbers; commands that can be copied.

use std::fs;
use std::process::Command;

use tests::cluster::{Cluster, program_folder};

/// A command that fails with `code` and one line with `part`, which has no errno's number.
#[track_caller]
fn fails(cluster: &Cluster, words: &[&str], code: i32, part: &str) {
    let outcome = cluster.forebay(words);
    assert_eq!(outcome.code(), code, "{words:?}: {}", outcome.stderr);
    assert!(outcome.stderr.contains(part), "{words:?}: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("os error"), "{words:?}: {}", outcome.stderr);
}

#[test]
fn what_is_not_there_or_not_fitting_has_the_status_of_the_manual() {
    let cluster = Cluster::new();
    fs::write(cluster.work.join("file"), "").unwrap();
    fs::create_dir(cluster.work.join("folder")).unwrap();
    fails(&cluster, &["umount", "/no/such/place"], 66, "no buffer is mounted at /no/such/place");
    fails(&cluster, &["umount", "file/below"], 66, "no buffer is mounted at");
    fails(&cluster, &["mount", "m", "--capacity", "0"], 64, "--capacity 0 is zero");
    fails(&cluster, &["mount", "file", "--capacity", "64MiB"], 64, "file is a file");
    fails(&cluster, &["run", "no-such.sh"], 66, "No such file or directory; give");
    let overlapping = ["drain", "start", "--from", "folder", "--to", "folder/below"];
    let mut command = Command::new(program_folder().join("forebay"));
    command.args(overlapping).current_dir(&cluster.work);
    let outcome = cluster.spawn(command).wait();
    assert_eq!(outcome.code(), 64, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is inside the other"), "{}", outcome.stderr);
}

#[test]
fn what_programs_read_has_names_of_errors_too() {
    let cluster = Cluster::new();
    let refused = cluster.forebay(&["run", "--json", "no-such.sh"]);
    assert_eq!(refused.code(), 66, "{}", refused.stderr);
    assert!(refused.stdout.contains("No such file or directory"), "{}", refused.stdout);
    assert!(!refused.stdout.contains("os error"), "{}", refused.stdout);
}

#[test]
fn a_level_of_the_log_that_there_is_not_is_said() {
    let cluster = Cluster::new();
    let mut command = Command::new(program_folder().join("forebay"));
    command.args(["status", "--dir"]).arg(&cluster.work).env("FOREBAY_LOG", "loud");
    let said = cluster.spawn(command).wait().expect_success().stderr;
    let level = "FOREBAY_LOG=loud is not a level (error, warn, info, debug); info is logged";
    assert!(said.contains(level), "{said}");
}

#[test]
fn the_buffer_to_be_retried_may_be_named_as_with_other_commands() {
    let cluster = Cluster::new();
    fails(&cluster, &["stage", "retry", "--token", "9"], 66, "there is no buffer 9");
    fails(&cluster, &["stage", "retry", "9", "--token", "9"], 64, "cannot be used with");
}

#[test]
fn a_state_folder_whose_sockets_would_have_too_long_paths_is_refused_with_how_much() {
    let cluster = Cluster::new();
    let rm = |bytes: usize| {
        let above = format!("{}/", cluster.work.display());
        let folder = format!("{above}{}", "d".repeat(bytes - above.len()));
        let mut command = Command::new(program_folder().join("forebay"));
        command.args(["rm", "9", "--dir", &folder]);
        cluster.spawn(command).wait()
    };
    // `/nodes/n63/node.sock` has 20 bytes.
    let (long, fits) = (rm(90), rm(87));
    assert_eq!((long.code(), fits.code()), (64, 66), "{}{}", long.stderr, fits.stderr);
    let why = "has 110 bytes, and the kernel takes 107: that of its folder must be 3 bytes shorter; choose";
    assert!(long.stderr.contains(why), "{}", long.stderr);
}

#[test]
fn the_command_that_unmounts_a_place_with_a_space_can_be_copied() {
    let cluster = Cluster::new();
    let place = cluster.work.join("a b");
    cluster.forebay(&["mount", place.to_str().unwrap(), "--capacity", "64MiB"]).expect_success();
    let shown = cluster.forebay(&["status"]).expect_success().stdout;
    let command =
        shown.split('`').find(|quoted| quoted.starts_with("forebay umount ")).expect("it is advised");
    let mut shell = Command::new("bash");
    let path = format!("{}:{}", program_folder().display(), std::env::var("PATH").unwrap());
    shell.args(["-c", command]).env("PATH", path).current_dir("/");
    cluster.spawn(shell).wait().expect_success();
    assert!(cluster.mounts().is_empty());
    cluster.forebay(&["rm", "1"]).expect_success();
}

#[test]
fn a_step_that_failed_has_its_heading_in_the_summary_and_status_says_why_the_buffer_is_kept() {
    let cluster = Cluster::new();
    let script = "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch\n\
                  #DW stage_out type=file source=$DW_JOB_STRIPED/never destination=%d/never\ntrue\n";
    let failed = cluster.run(script, &[]);
    assert_eq!(failed.code(), 74, "{}", failed.stderr);
    let lines: Vec<&str> = failed.stdout.lines().collect();
    let heading =
        lines.iter().position(|line| line.trim_start().starts_with("stage out ")).expect(&failed.stdout);
    assert!(lines[heading].ends_with("failed"), "{}", failed.stdout);
    assert!(lines[heading + 1].contains("stage_out $DW_JOB_STRIPED/never"), "{}", failed.stdout);
    assert_eq!(cluster.status()["sessions"][0]["kept"], "its stage-out is not complete");
    cluster.forebay(&["rm", "1", "--discard"]).expect_success();
}

#[test]
fn status_shows_what_is_asked_for_and_shells_are_told_the_tokens() {
    let cluster = Cluster::new();
    for place in ["a", "b"] {
        cluster.forebay(&["mount", place, "--capacity", "64MiB"]).expect_success();
    }
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let tokens = |words: &[&str]| {
        let shown = cluster.forebay(&[&["status", "--json"], words].concat()).expect_success().json();
        let rows = shown["sessions"].as_array().unwrap().iter();
        rows.map(|row| row["token"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(tokens(&["--token", "2"]), ["2"]);
    assert_eq!(tokens(&["--user", user.trim(), "--pool", "local", "--node", "n0"]), ["1", "2"]);
    assert!(tokens(&["--user", "nobody"]).is_empty());
    assert_eq!(cluster.status()["sessions"][0]["user"], user.trim());
    assert_eq!(cluster.forebay(&["status", "--token", "7"]).code(), 66);

    let mut completing = Command::new(program_folder().join("forebay"));
    completing.args(["--", "forebay", "rm", ""]);
    completing.envs([("COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", "2"), ("_CLAP_IFS", "\n")]);
    completing.env("FOREBAY_DIR", &cluster.state);
    let offered = completing.output().unwrap();
    let offered = String::from_utf8_lossy(&offered.stdout);
    let tokens: Vec<&str> = offered.lines().filter(|word| !word.starts_with('-')).collect();
    assert_eq!(tokens, ["1", "2"], "{offered}");
    for place in ["a", "b"] {
        cluster.forebay(&["umount", place]).expect_success();
    }
}

#[test]
fn who_watches_on_a_terminal_sees_one_screen_with_the_time() {
    let cluster = Cluster::new();
    let state = cluster.state.display();
    let forebay = program_folder().join("forebay");
    let mut watching = Command::new("script");
    let command = format!("timeout -s INT 3 {} status --watch --dir {state}", forebay.display());
    watching.args(["-qec", &command, "/dev/null"]).current_dir(&cluster.work);
    let shown = cluster.spawn(watching).wait().stdout;
    let screens: Vec<&str> = shown.split("\u{1b}[H").skip(1).collect();
    assert!(screens.len() >= 2, "{shown:?}");
    for screen in screens {
        assert!(screen.starts_with("20") && screen.contains("pool local"), "{screen:?}");
    }
}

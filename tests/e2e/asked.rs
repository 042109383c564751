//! What a command asks its user, and what it does when nobody reads or answers.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::cluster::{Cluster, program_folder};
use tests::processes::wait_until;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// Leaves a buffer whose stage-out failed: its token.
fn owing(cluster: &Cluster) -> String {
    let obstacle = cluster.pfs("pfs").join("obstacle");
    fs::write(&obstacle, "in the way").unwrap();
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/out destination={}/out\n\
         head -c 100000 /dev/zero >$DW_JOB_STRIPED/out\n",
        obstacle.display()
    );
    let outcome = cluster.run(&script, &[]);
    assert_eq!(outcome.code(), 74, "{}\n{}", outcome.stdout, outcome.stderr);
    cluster.tokens().remove(0)
}

/// Runs `forebay rm TOKEN` on a terminal on which `answer` is typed: its exit status and what is on the screen.
fn on_a_terminal(cluster: &Cluster, token: &str, answer: &str) -> (Option<i32>, String) {
    let forebay = program_folder().join("forebay");
    let command = format!("{} rm {token} --dir {}", forebay.display(), cluster.state.display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"]);
    let mut terminal =
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    terminal.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    let shown = terminal.wait_with_output().unwrap();
    (shown.status.code(), String::from_utf8_lossy(&shown.stdout).into_owned())
}

#[test]
fn what_is_owed_is_given_up_only_where_somebody_says_so() {
    let cluster = Cluster::new();
    let token = owing(&cluster);
    let refused = cluster.forebay(&["rm", &token]);
    assert_eq!(refused.code(), 64, "{}", refused.stderr);
    for words in ["not staged out", "$DW_JOB_STRIPED/out", "--discard"] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
    // `--force` is for who has files open, and says nothing of what is owed.
    assert_eq!(cluster.forebay(&["rm", &token, "--force"]).code(), 64);
    let (status, shown) = on_a_terminal(&cluster, &token, "n\n");
    assert_eq!(status, Some(130), "{shown}");
    assert!(shown.contains(&format!("destroy buffer {token} with it? [y/N]")), "{shown}");
    assert!(shown.contains("is kept as it is"), "{shown}");
    assert_eq!(cluster.tokens(), std::slice::from_ref(&token));
    let (status, shown) = on_a_terminal(&cluster, &token, "y\n");
    assert_eq!(status, Some(0), "{shown}");
    assert!(cluster.tokens().is_empty());

    let token = owing(&cluster);
    cluster.forebay(&["rm", &token, "--discard"]).expect_success();
    cluster.assert_nothing_left();
}

#[test]
fn a_watched_status_ends_when_nobody_reads_it_any_more() {
    let cluster = Cluster::new();
    for options in [&["status", "--watch"][..], &["status", "--watch", "--json"]] {
        let mut watch = cluster.command(options).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(watch.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let begins_with = if options.contains(&"--json") { "pool" } else { "Z\n" };
        assert!(first.contains(begins_with), "{first}");
        let mut ended = None;
        wait_until(SOON, || {
            ended = watch.try_wait().unwrap();
            ended.is_some()
        });
        let status = ended.unwrap_or_else(|| {
            watch.kill().unwrap();
            panic!("{options:?} goes on")
        });
        assert!(status.success(), "{status}");
    }
}

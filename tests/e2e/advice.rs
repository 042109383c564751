//! What commands refuse, and what they advise: a command that works when it is copied.

use std::process::Command;
use std::time::Duration;

use tests::cluster::Cluster;
use tests::processes::wait_until;

use crate::unmount::Beside;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn rm_of_a_buffer_that_a_program_uses_is_refused_and_names_it_unless_forced() {
    let cluster = Cluster::new();
    let path = cluster.pfs("mnt");
    let text = path.to_str().unwrap();
    let options = ["mount", text, "--capacity", "64MiB", "--volume", "directory"];
    cluster.forebay(&options).expect_success();
    let token = cluster.tokens().remove(0);
    let mut writer = Beside::start(Command::new("sh").args(["-c", "exec sleep 1000 >>out"]).current_dir(&path));
    assert!(wait_until(SOON, || path.join("out").exists()));
    let refused = cluster.forebay(&["rm", &token]);
    assert_eq!(refused.code(), 75, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains(&format!("(process {})", writer.0.id())), "{}", refused.stderr);
    assert!(writer.lives() && path.join("out").exists(), "what was refused was done all the same");
    cluster.forebay(&["rm", &token, "--force"]).expect_success();
    assert!(cluster.tokens().is_empty());
    writer.0.kill().unwrap();
    cluster.assert_nothing_left();
}

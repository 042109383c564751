//! With few descriptors everything works, only slower, and the log says so.

use std::process::Command;

use tests::cluster::Cluster;
use tests::hosts::plain;

use super::run;

/// What each process of ours may have open. Far fewer than the files of the test.
const LIMIT: &str = "--nofile=400:400";

#[test]
fn far_more_files_than_descriptors_can_be_made_read_and_removed() {
    for options in [["--nodes", "1", "--volume", "image"], ["--nodes", "3", "--volume", "directory"]] {
        println!("with {options:?}");
        let cluster = Cluster::new();
        let path = cluster.pfs("mnt");
        let mount = cluster.command(&[&["mount", plain(&path), "--capacity", "1GiB"][..], &options].concat());
        let mut limited = Command::new("prlimit");
        limited.arg(LIMIT).arg(mount.get_program()).args(mount.get_args()).current_dir(&cluster.work);
        cluster.spawn(limited).wait().expect_success();
        let script = "for i in $(seq 1500); do echo $i > f$i; done\n\
                      for i in $(seq 1500); do read n < f$i && [ $n = $i ]; done\n\
                      exec {held}<> f7 && for i in $(seq 1 3 1500); do echo more >> f$i; done\n\
                      [ $(cat f* | wc -l) = 2000 ] && read n <&$held && [ $n = 7 ] && rm f*";
        run(Command::new("bash").args(["-euo", "pipefail", "-c", script]).current_dir(&path));
        let log = std::fs::read_to_string(cluster.state.join("log/n0.log")).expect("a node logs");
        let warned = log.lines().any(|line| line.contains("WARN") && line.contains("RLIMIT_NOFILE"));
        assert!(warned, "{log}");
    }
}

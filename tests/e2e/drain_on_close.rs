//! `#DW jobdw drain=on-close`: what a job closes is on the PFS while it still runs, and all of it, as it is then, at
//! its end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tests::cluster::Cluster;
use tests::gate::Gate;
use tests::processes::wait_until;

#[track_caller]
fn wait_for(path: &Path, text: &str) {
    let is_there = || fs::read_to_string(path).is_ok_and(|found| found == text);
    assert!(wait_until(Duration::from_secs(60), is_there), "{} is not `{text}`", path.display());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The job closes a file, keeps one open and has one under a temporary name; then writes the first again, gives it its
/// old time, closes the second and renames the third. Meanwhile a storage node is killed, and then control.
#[track_caller]
fn what_is_closed_arrives_early_and_the_rest_at_the_end(nodes: &str) {
    let cluster = Cluster::new();
    let gate = Gate::new(cluster.folder());
    let target = cluster.folder().join("target");
    let script = format!(
        "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped type=scratch drain=on-close\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/results destination={}\n\
         set -e\nmkdir ${{DW_JOB_STRIPED}}results; cd ${{DW_JOB_STRIPED}}results\n\
         echo first > closed; touch -r closed ../time; echo kept > name.tmp\n\
         exec 3> open; echo half >&3\n{}\
         echo other > closed; touch -r ../time closed; mv name.tmp name\n\
         echo whole >&3; exec 3>&-\n",
        target.display(),
        gate.commands(),
    );
    let mut job = cluster.start(&["run", &cluster.script(&script), "--nodes", nodes]);
    gate.wait_reached(&mut job);
    wait_for(&target.join("closed"), "first\n");
    wait_for(&target.join("name.tmp"), "kept\n");

    cluster.process("forebay-node", "n0").kill();
    cluster.process("forebay-node", "n0");
    let results = cluster.state.join("mnt").join(cluster.tokens().remove(0)).join("striped/results");
    fs::write(results.join("later"), "after the node was killed\n").unwrap();
    wait_for(&target.join("later"), "after the node was killed\n");
    assert!(!target.join("open").exists(), "a file that is being written is published");

    cluster.process("forebay-control", "").kill();
    gate.open();
    job.wait().expect_success();
    assert_eq!(names(&target), ["closed", "later", "name", "open"]);
    wait_for(&target.join("closed"), "other\n");
    wait_for(&target.join("name"), "kept\n");
    wait_for(&target.join("open"), "half\nwhole\n");
    cluster.assert_nothing_left();
}

#[test]
fn what_is_closed_arrives_early_and_the_rest_at_the_end_with_one_node() {
    what_is_closed_arrives_early_and_the_rest_at_the_end("1");
}

#[test]
fn what_is_closed_arrives_early_and_the_rest_at_the_end_with_three_nodes() {
    what_is_closed_arrives_early_and_the_rest_at_the_end("3");
}

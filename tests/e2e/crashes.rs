//! `kill -9` of any one process, in the middle of the example or of a stage: the results are correct all the same.

use std::fs;
use std::path::{Display, PathBuf};

use rustix::process::Signal;
use tests::cluster::{Cluster, Running};
use tests::gate::Gate;
use tests::star_catalogue;
use tests::tree;

/// Who dies: program and an argument that tells it from its like.
type Victim = (&'static str, &'static str);

const CONTROL: Victim = ("forebay-control", "");
const FIRST_NODE: Victim = ("forebay-node", "n0");
const SECOND_NODE: Victim = ("forebay-node", "n1");
const MOUNT: Victim = ("forebay-mount", "");
const STAGE: Victim = ("forebay-stage", "");
/// The user's own `forebay run`, which a `forebay run --resume` then follows.
const COMMAND: Victim = ("forebay", "");

/// Kills `victim`; returns the command whose end is the job's.
#[track_caller]
fn strike(cluster: &Cluster, job: Running, victim: Victim) -> Running {
    if victim == COMMAND {
        job.kill();
        return cluster.start(&["run", "--resume"]);
    }
    cluster.process(victim.0, victim.1).kill();
    job
}

#[track_caller]
fn the_example_survives_the_death_of(victim: Victim) {
    let cluster = Cluster::new();
    let gate = Gate::new(cluster.folder());
    let script = star_catalogue::prepare(&cluster, &gate.commands());
    let path = cluster.script(&script);
    let mut job = cluster.start(&["run", &path, "--nodes", "4"]);
    gate.wait_reached(&mut job);

    let job = strike(&cluster, job, victim);
    if victim == MOUNT {
        // A new process serves the same mount point before the job goes on.
        cluster.process(victim.0, victim.1);
        let listing = cluster.state.join("mnt").join(cluster.tokens().remove(0)).join("striped/catalogue");
        tests::processes::wait_until(std::time::Duration::from_secs(30), || fs::read_dir(&listing).is_ok());
    }
    gate.open();
    job.wait().expect_success();
    star_catalogue::assert_results(&cluster);
    cluster.assert_nothing_left();
}

#[test]
fn the_example_survives_the_death_of_control() {
    the_example_survives_the_death_of(CONTROL);
}

#[test]
fn the_example_survives_the_death_of_its_metadata_node() {
    the_example_survives_the_death_of(FIRST_NODE);
}

#[test]
fn the_example_survives_the_death_of_a_storage_node() {
    the_example_survives_the_death_of(SECOND_NODE);
}

#[test]
fn the_example_survives_the_death_of_its_mount() {
    the_example_survives_the_death_of(MOUNT);
}

#[test]
fn the_example_survives_the_death_of_forebay_run() {
    the_example_survives_the_death_of(COMMAND);
}

#[test]
fn a_record_of_a_run_that_cannot_be_understood_is_named_and_kept() {
    let cluster = Cluster::new();
    let record = cluster.state.join("run/7.json");
    fs::create_dir_all(cluster.state.join("run")).expect("the folder is ours");
    fs::write(&record, "{\"token\":").expect("the folder is ours");
    for command in [&["run", "--resume", "7"][..], &["run", "--resume"]] {
        let outcome = cluster.forebay(command);
        assert!(outcome.code() != 0, "{command:?} has succeeded");
        assert!(outcome.stderr.contains("run/7.json"), "{command:?}: {}", outcome.stderr);
        assert_eq!(fs::read_to_string(&record).expect("it is kept"), "{\"token\":");
    }
}

/// A tree of files that is long enough on its way to be struck there.
fn large_tree(cluster: &Cluster) -> PathBuf {
    let root = cluster.pfs("source");
    tree::generate(&root).expect("the folder is ours");
    for number in 0..8 {
        fs::write(root.join(format!("large-{number}")), tree::bytes(number, 12 << 20))
            .expect("the folder is ours");
    }
    root
}

/// Strikes while a stage worker stands still in the middle of its work, then lets it go on.
#[track_caller]
fn strike_in_a_stage(cluster: &Cluster, job: Running, victim: Victim) -> Running {
    let worker = cluster.process("forebay-stage", "");
    worker.signal(Signal::STOP);
    assert!(worker.is_alive(), "the stage was over before it could be struck");
    let job = strike(cluster, job, victim);
    worker.signal(Signal::CONT);
    job
}

#[track_caller]
fn a_stage_in_survives_the_death_of(victim: Victim) {
    a_job_survives_the_death_of(victim, |source, target| {
        format!(
            "#DW stage_in type=directory source={source} destination=$DW_JOB_STRIPED/tree\n\
             cp -a ${{DW_JOB_STRIPED}}tree {target}\n"
        )
    });
}

#[track_caller]
fn a_stage_out_survives_the_death_of(victim: Victim) {
    a_job_survives_the_death_of(victim, |source, target| {
        format!(
            "#DW stage_out type=directory source=$DW_JOB_STRIPED/tree destination={target}\n\
             cp -a {source} ${{DW_JOB_STRIPED}}tree\n"
        )
    });
}

/// What it copies in its one stage is whole.
#[track_caller]
fn a_job_survives_the_death_of(victim: Victim, lines: impl FnOnce(Display<'_>, Display<'_>) -> String) {
    let cluster = Cluster::new();
    let source = large_tree(&cluster);
    let target = cluster.folder().join("target");
    let lines = lines(source.display(), target.display());
    let head = "#!/bin/bash\n#DW jobdw capacity=512MiB access_mode=striped type=scratch\n";
    let path = cluster.script(&format!("{head}{lines}"));
    let job = cluster.start(&["run", &path, "--nodes", "4"]);
    let job = strike_in_a_stage(&cluster, job, victim);
    job.wait().expect_success();
    tree::assert_equal(&source, &target);
    cluster.assert_nothing_left();
}

#[test]
fn a_stage_in_survives_the_death_of_control() {
    a_stage_in_survives_the_death_of(CONTROL);
}

#[test]
fn a_stage_in_survives_the_death_of_its_coordinating_node() {
    a_stage_in_survives_the_death_of(FIRST_NODE);
}

#[test]
fn a_stage_in_survives_the_death_of_a_storage_node() {
    a_stage_in_survives_the_death_of(SECOND_NODE);
}

#[test]
fn a_stage_in_survives_the_death_of_its_worker() {
    a_stage_in_survives_the_death_of(STAGE);
}

#[test]
fn a_stage_in_survives_the_death_of_forebay_run() {
    a_stage_in_survives_the_death_of(COMMAND);
}

#[test]
fn a_stage_out_survives_the_death_of_control() {
    a_stage_out_survives_the_death_of(CONTROL);
}

#[test]
fn a_stage_out_survives_the_death_of_its_coordinating_node() {
    a_stage_out_survives_the_death_of(FIRST_NODE);
}

#[test]
fn a_stage_out_survives_the_death_of_a_storage_node() {
    a_stage_out_survives_the_death_of(SECOND_NODE);
}

#[test]
fn a_stage_out_survives_the_death_of_its_worker() {
    a_stage_out_survives_the_death_of(STAGE);
}

#[test]
fn a_stage_out_survives_the_death_of_forebay_run() {
    a_stage_out_survives_the_death_of(COMMAND);
}

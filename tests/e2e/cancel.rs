//! Ctrl-C: once for a clean end, twice for one at once.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use tests::cluster::{Cluster, Running};
use tests::gate::Gate;
use tests::processes::wait_until;
use tests::tree;

/// Where a job is when the user loses patience.
#[derive(Clone, Copy)]
enum Phase {
    StageIn,
    Job,
    StageOut,
}

/// A job that stands still in `phase`: its stage worker is stopped, or the script waits at its gate.
fn job_in(phase: Phase, cluster: &Cluster) -> Running {
    let source = cluster.pfs("source");
    fs::write(source.join("large"), tree::bytes(1, 64 << 20)).expect("the folder is ours");
    let gate = Gate::new(cluster.folder());
    let stage_in =
        format!("#DW stage_in type=directory source={} destination=$DW_JOB_STRIPED/in\n", source.display());
    let stage_out = format!(
        "#DW stage_out type=directory source=$DW_JOB_STRIPED/out destination={}\n",
        cluster.folder().join("target").display()
    );
    let directives = "#!/bin/bash\n#DW jobdw capacity=512MiB access_mode=striped type=scratch\n";
    let make = "mkdir $DW_JOB_STRIPED/out\nhead -c 64M /dev/urandom > $DW_JOB_STRIPED/out/file\n";
    let script = match phase {
        Phase::StageIn => format!("{directives}{stage_in}{stage_out}touch started\n{make}"),
        Phase::Job => format!("{directives}{stage_out}{make}{}touch finished\n", gate.commands()),
        Phase::StageOut => format!("{directives}{stage_out}{make}"),
    };
    let path = cluster.script(&script);
    let mut job = cluster.start(&["run", &path]);
    match phase {
        Phase::Job => gate.wait_reached(&mut job),
        Phase::StageIn | Phase::StageOut => cluster.process("forebay-stage", "").signal(Signal::STOP),
    }
    job
}

#[track_caller]
fn once_ends_cleanly(phase: Phase) {
    let cluster = Cluster::new();
    let mut job = job_in(phase, &cluster);
    // A stopped worker cannot hear that it is cancelled, and a real one is not stopped.
    job.signal_group(Signal::INT);
    for worker in cluster.processes().iter().filter(|process| process.program() == "forebay-stage") {
        worker.signal(Signal::CONT);
    }
    let ended = wait_until(Duration::from_secs(60), || !job.is_running());
    assert!(ended, "it goes on after Ctrl-C:\n{}", job.output());
    let outcome = job.wait();
    assert_ne!(outcome.code(), 0, "{}", outcome.stdout);
    assert!(!cluster.work.join("started").exists(), "the job started after it was cancelled");
    assert!(!cluster.work.join("finished").exists(), "the job went on after it was cancelled");
    cluster.assert_nothing_left();

    // Undrained data is either where it was to go or kept in a buffer that the message names.
    let landed = cluster.folder().join("target/file").exists();
    let kept = !cluster.tokens().is_empty();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    match phase {
        Phase::StageIn => {}
        Phase::Job | Phase::StageOut => {
            assert!(landed || kept, "the data is nowhere:\n{said}");
            assert!(!kept || said.contains(&cluster.tokens()[0]), "it does not say what was kept:\n{said}");
        }
    }
}

#[track_caller]
fn twice_ends_at_once(phase: Phase) {
    let cluster = Cluster::new();
    let mut job = job_in(phase, &cluster);
    job.signal_group(Signal::INT);
    // Two signals in the same instant are one: the second comes when the first was heard.
    std::thread::sleep(Duration::from_millis(300));
    if job.is_running() {
        job.signal_group(Signal::INT);
    }
    let ended = wait_until(Duration::from_secs(20), || !job.is_running());
    assert!(ended, "it goes on after the second Ctrl-C:\n{}", job.output());
    assert_ne!(job.wait().code(), 0);
    cluster.assert_nothing_mounted();
}

#[test]
fn ctrl_c_in_the_stage_in_ends_cleanly() {
    once_ends_cleanly(Phase::StageIn);
}

#[test]
fn ctrl_c_in_the_job_ends_cleanly() {
    once_ends_cleanly(Phase::Job);
}

#[test]
fn ctrl_c_in_the_stage_out_ends_cleanly() {
    once_ends_cleanly(Phase::StageOut);
}

#[test]
fn ctrl_c_twice_in_the_stage_in_leaves_no_mount() {
    twice_ends_at_once(Phase::StageIn);
}

#[test]
fn ctrl_c_twice_in_the_job_leaves_no_mount() {
    twice_ends_at_once(Phase::Job);
}

#[test]
fn ctrl_c_twice_in_the_stage_out_leaves_no_mount() {
    twice_ends_at_once(Phase::StageOut);
}

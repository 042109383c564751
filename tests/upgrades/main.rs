//! A cluster of which one half is the last release and the other half today's: what docs/understand/compatibility.md
//! says of an upgrade, node by node, with jobs running.
//!
//! Each test has a cluster of namespaces of its own (`scripts/cluster`, without Slurm), so it is for root. The programs
//! of the last release are built by `scripts/last-release`.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

mod job;
mod load;
mod mixture;
mod release;

use job::Job;
use load::Load;
use mixture::Mixture;
use release::Release::{Last, Todays};
use tests::processes::wait_until;
use tests::site::HANGS_AFTER;

#[test]
fn nodes_of_the_last_release_serve_todays_control_and_mounts() {
    let mixture = Mixture::of_the_last_release();
    mixture.install("head", Todays);
    mixture.install("n3", Todays);
    let job = Job::begin(&mixture, "1");
    mixture.assert_mounted_by("n3", Todays);
    mixture.assert_mounted_by("n4", Last);
    job.work();
    job.end();
    mixture.assert_nothing_left();
}

#[test]
fn todays_nodes_serve_control_and_mounts_of_the_last_release() {
    let mixture = Mixture::of_the_last_release();
    ["n1", "n2", "n4"].iter().for_each(|node| mixture.install(node, Todays));
    let job = Job::begin(&mixture, "1");
    mixture.assert_mounted_by("n3", Last);
    mixture.assert_mounted_by("n4", Todays);
    job.work();
    job.end();
    mixture.assert_nothing_left();
}

#[test]
fn a_job_goes_on_while_its_cluster_is_upgraded_node_by_node_and_loses_nothing() {
    let mixture = Mixture::of_the_last_release();
    let job = Job::begin(&mixture, "1");
    let load = Load::start(&job);
    for host in ["head", "n1", "n2", "n3", "n4"] {
        mixture.install(host, Todays);
        load.goes_on();
        if host == "n1" {
            let refused = mixture.rekey(&job).stderr;
            assert!(refused.contains("n2 is of a release that cannot change the key"), "{refused}");
            // The storage nodes differ now, and help each other with its stages.
            let other = Job::begin(&mixture, "2");
            other.work();
            other.end();
        }
    }
    ["n3", "n4"].iter().for_each(|node| mixture.assert_mounted_by(node, Last));
    mixture.kill_mounts("n4");
    load.goes_on();
    mixture.assert_mounted_by("n4", Todays);
    let refused = mixture.rekey(&job).stderr;
    assert!(
        refused.contains("1-striped runs an older release of forebay-mount, which cannot take another key"),
        "{refused}"
    );
    load.goes_on();
    mixture.kill_mounts("n3");
    mixture.rekey(&job).expect_success();
    load.goes_on();
    let records = load.finish();
    job.work();
    let out = job.end();
    assert!(std::fs::read(out.join("records")).unwrap() == records, "what is staged out differs");
    mixture.assert_nothing_left();
}

#[test]
fn a_stage_under_way_goes_on_in_the_new_program_of_its_node() {
    let slowly = "stage_bandwidth = \"4MiB\"";
    let mixture = Mixture::of_the_last_release_with(slowly);
    let job = Job::set_up(&mixture, "1");
    std::thread::scope(|scope| {
        let staged = scope.spawn(|| job.stage_in());
        let (node, old) = mixture.stage_worker();
        Last.assert_runs(&old);
        mixture.install(node, Todays);
        assert!(wait_until(HANGS_AFTER, || !old.is_alive()), "the old worker goes on");
        let (still, new) = mixture.stage_worker();
        assert_eq!(still, node);
        Todays.assert_runs(&new);
        let other = if node == "n1" { "n2" } else { "n1" };
        Last.assert_runs(&mixture.mover(other));
        assert!(!staged.is_finished(), "the stage was over before");
        staged.join().unwrap();
    });
    for node in ["n1", "n2"] {
        mixture.configure(node, slowly, "");
        mixture.install(node, Todays);
    }
    job.mount();
    job.work();
    job.end();
    mixture.assert_nothing_left();
}

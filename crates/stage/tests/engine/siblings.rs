//! Stages of one job whose destinations are the same folder, or one below the other.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use model::phase::{Direction, StageKind, StageState};
use stage::engine::Engine;
use stage::journal::Journal;
use stage::monitor::Monitor;
use wire::control::StageStatus;
use wire::node::StageSpec;

use crate::support::Site;

/// Runs the stage with this id, with its journal where a node keeps it.
fn run(site: &Site, id: &str, mut spec: StageSpec) -> StageStatus {
    spec.id = id.into();
    let folder = site.path().join("stages").join(id);
    fs::create_dir_all(&folder).unwrap();
    let journal = Journal::open(&folder.join("journal"), &spec).unwrap();
    let monitor = Arc::new(Monitor::new(&spec.policy));
    Engine::new(&spec, &[], site.namespace()).run(&spec, journal, &monitor)
}

fn out(site: &Site, source: &str, target: &str) -> StageSpec {
    site.spec(Direction::Out, StageKind::Directory, target, source)
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn what_another_stage_of_the_job_has_published_is_not_replaced() {
    for (first, second) in [("out", "out"), ("out", "out/below"), ("out/below", "out")] {
        let site = Site::new();
        let in_both = if first == second { ("x", "x") } else { ("below/x", "x") };
        let in_both = if first.len() > second.len() { (in_both.1, in_both.0) } else { in_both };
        write(&site.buffer("a").join(in_both.0), "of a");
        write(&site.buffer("b").join(in_both.1), "of b");
        write(&site.buffer("b/alone"), "alone");
        assert_eq!(run(&site, "7.0", out(&site, "a", first)).state, StageState::Complete);
        for _retried in [false, true] {
            let status = run(&site, "7.1", out(&site, "b", second));
            assert_eq!((status.state, status.progress.entries_failed), (StageState::Failed, 1), "{status:?}");
            let failure = &status.failures[0];
            assert!(failure.message.contains("x: two sources for one target"), "{failure:?}");
            assert!(failure.message.contains("$DW_JOB_STRIPED/a"), "{failure:?}");
            assert_eq!(fs::read_to_string(site.pfs(first).join(in_both.0)).unwrap(), "of a");
            assert!(site.pfs(second).join("alone").exists());
        }
        // Whoever moves the first copy away has seen it.
        fs::rename(site.pfs(first).join(in_both.0), site.pfs("moved")).unwrap();
        assert_eq!(run(&site, "7.1", out(&site, "b", second)).state, StageState::Complete);
    }
}

#[test]
fn a_symbolic_link_to_where_another_stage_publishes_is_no_other_place() {
    let site = Site::new();
    write(&site.buffer("a/x"), "of a");
    write(&site.buffer("b/x"), "of b");
    fs::create_dir_all(site.pfs("real")).unwrap();
    std::os::unix::fs::symlink("real", site.pfs("link")).unwrap();
    assert_eq!(run(&site, "7.0", out(&site, "a", "real")).state, StageState::Complete);
    let status = run(&site, "7.1", out(&site, "b", "link"));
    assert_eq!((status.state, status.progress.entries_failed), (StageState::Failed, 1), "{status:?}");
    assert_eq!(fs::read_to_string(site.pfs("real/x")).unwrap(), "of a");
}

#[test]
fn a_later_stage_in_may_put_a_file_over_one_of_a_folder() {
    let site = Site::new();
    write(&site.pfs("defaults/x"), "default");
    write(&site.pfs("own/x"), "own");
    for (id, source) in [("7.0", "defaults"), ("7.1", "own")] {
        let spec = site.spec(Direction::In, StageKind::Directory, source, "input");
        assert_eq!(run(&site, id, spec).state, StageState::Complete);
    }
    assert_eq!(fs::read_to_string(site.buffer("input/x")).unwrap(), "own");
}

#[test]
fn the_same_file_by_two_stages_and_what_is_of_another_job_are_no_conflict() {
    let site = Site::new();
    write(&site.buffer("a/b/x"), "x");
    write(&site.buffer("c/x"), "of another job");
    assert_eq!(run(&site, "7.0", out(&site, "a", "out")).state, StageState::Complete);
    assert_eq!(run(&site, "7.1", out(&site, "a/b", "out/b")).state, StageState::Complete);
    assert_eq!(run(&site, "8.0", out(&site, "c", "out/b")).state, StageState::Complete);
    assert_eq!(fs::read_to_string(site.pfs("out/b/x")).unwrap(), "of another job");
}

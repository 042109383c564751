//! List files.

use std::fs;

use crate::support::Site;
use model::phase::{Direction, StageKind, StageState};

fn list(site: &Site, text: &str) -> wire::control::StageStatus {
    fs::write(site.pfs("list"), text).unwrap();
    site.stage_in(StageKind::List, "list", "")
}

#[test]
fn every_line_is_staged_and_comments_are_skipped() {
    let site = Site::new();
    for name in ["a", "b", "c"] {
        fs::write(site.pfs(name), name).unwrap();
    }
    let pfs = site.pfs("");
    let pfs = pfs.display();
    fs::create_dir(site.buffer("dir")).unwrap();
    let status = list(
        &site,
        &format!(
            "# inputs\n\n{pfs}a $DW_JOB_STRIPED/x/a\n{pfs}b ${{DW_JOB_STRIPED}}/dir\n{pfs}c $DW_JOB_STRIPED/x/c"
        ),
    );
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(status.progress.entries_done, 3);
    for (name, path) in [("a", "x/a"), ("b", "dir/b"), ("c", "x/c")] {
        assert_eq!(fs::read_to_string(site.buffer(path)).unwrap(), name);
    }
}

#[test]
fn a_list_goes_out_with_the_buffer_side_first() {
    let site = Site::new();
    fs::write(site.buffer("result"), b"42").unwrap();
    fs::write(site.pfs("list"), format!("$DW_JOB_STRIPED/result {}", site.pfs("deep/er/result").display()))
        .unwrap();
    let status = site.run(&site.spec(Direction::Out, StageKind::List, "list", ""));
    assert_eq!(status.state, StageState::Complete, "{status:?}");
    assert_eq!(fs::read(site.pfs("deep/er/result")).unwrap(), b"42");
}

#[test]
fn a_bad_line_is_named_and_nothing_is_staged() {
    let site = Site::new();
    fs::write(site.pfs("a"), b"A").unwrap();
    let good = format!("{} $DW_JOB_STRIPED/a", site.pfs("a").display());
    for bad in [
        "/scratch/alone".to_owned(),
        "/scratch/a /elsewhere/a".to_owned(),
        "relative $DW_JOB_STRIPED/a".to_owned(),
        "/scratch/a $DW_JOB_PRIVATE/a".to_owned(),
        "/scratch/a $DW_JOB_STRIPED/../a".to_owned(),
        good.clone(),
    ] {
        let status = list(&site, &format!("{good}\n# comment\n{bad}\n"));
        let error = status.error.unwrap();
        assert!(error.message.contains("list, line 3"), "{bad}: {error}");
        assert!(!site.buffer("a").exists(), "{bad}");
    }
}

#[test]
fn a_missing_source_fails_its_line_only() {
    let site = Site::new();
    fs::write(site.pfs("a"), b"A").unwrap();
    let pfs = site.pfs("");
    let pfs = pfs.display();
    let status = list(&site, &format!("{pfs}gone $DW_JOB_STRIPED/gone\n{pfs}a $DW_JOB_STRIPED/a\n"));
    assert_eq!(status.state, StageState::Failed);
    assert_eq!((status.progress.entries_failed, status.progress.entries_done), (1, 1));
    assert_eq!(status.progress.sources_missing, 1);
    assert_eq!(status.failures[0].errno, 2);
    assert_eq!(fs::read(site.buffer("a")).unwrap(), b"A");
}

#[test]
fn a_missing_list_file_is_one_clear_error() {
    let site = Site::new();
    let error = site.stage_in(StageKind::List, "nowhere", "").error.unwrap();
    assert!(error.message.contains("open list file"), "{error}");
    assert!(error.message.contains("nowhere: No such file"), "{error}");
}

#[test]
fn two_sources_for_one_target_are_refused_however_the_target_is_spelt() {
    let site = Site::new();
    for name in ["a", "b"] {
        fs::write(site.buffer(name), name).unwrap();
    }
    let out = site.pfs("out");
    let out = out.display();
    let line = |name: &str, target: &str| format!("$DW_JOB_STRIPED/{name} {out}/{target}\n");
    fs::write(site.pfs("list"), line("a", "x") + &line("b", "./x")).unwrap();
    let status = site.run(&site.spec(Direction::Out, StageKind::List, "list", ""));
    let error = status.error.unwrap();
    assert!(error.message.contains("line 2") && error.message.contains("line 1"), "{error}");
    assert!(!site.pfs("out").exists(), "nothing is copied of a list with a mistake");
}

#[test]
fn two_sources_for_one_target_behind_a_folder_or_a_link_are_a_failure_and_the_first_copy_stays() {
    let site = Site::new();
    for name in ["a", "d/x"] {
        fs::create_dir_all(site.buffer(name).parent().unwrap()).unwrap();
        fs::write(site.buffer(name), name).unwrap();
    }
    fs::create_dir(site.pfs("out")).unwrap();
    std::os::unix::fs::symlink("out", site.pfs("link")).unwrap();
    for (second, named) in [("out", "out/x"), ("link/x", "link/x")] {
        let (first, second) = (site.pfs("out/x"), site.pfs(second));
        let text =
            format!("$DW_JOB_STRIPED/a {}\n$DW_JOB_STRIPED/d/x {}\n", first.display(), second.display());
        fs::write(site.pfs("list"), text).unwrap();
        let status = site.run(&site.spec(Direction::Out, StageKind::List, "list", ""));
        assert_eq!(status.state, StageState::Failed, "{second:?}");
        let failure = &status.failures[0];
        assert!(failure.message.contains(&format!("{named}: two sources for one target")), "{failure:?}");
        assert_eq!(fs::read_to_string(&first).unwrap(), "a");
    }
}

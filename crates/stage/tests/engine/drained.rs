//! Passes while the job runs, and what the job, another stage or another user makes of what they have published.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use model::phase::{Direction, StageKind, StageState};
use wire::control::StageStatus;
use wire::node::StageSpec;

use crate::support::Site;

/// A folder of the job that passes publish to `out`.
struct Job {
    site: Site,
    spec: StageSpec,
}

impl Job {
    /// With these files, each published by a pass.
    fn with(files: &[&str]) -> Job {
        Job::of(Site::new(), files, files)
    }

    /// With these files, after passes that publish `published`.
    fn of(site: Site, files: &[&str], published: &[&str]) -> Job {
        let spec = site.spec(Direction::Out, StageKind::Directory, "out", "work");
        let job = Job { site, spec };
        for file in files {
            let path = job.work(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("result {file}")).unwrap();
        }
        let begin = Instant::now();
        while !published.iter().all(|file| job.out(file).exists()) {
            assert!(begin.elapsed() < Duration::from_secs(60), "a pass has not published what rests");
            job.pass();
        }
        job
    }

    fn work(&self, path: &str) -> std::path::PathBuf {
        self.site.buffer("work").join(path)
    }

    fn out(&self, path: &str) -> std::path::PathBuf {
        self.site.pfs("out").join(path)
    }

    fn pass(&self) {
        let mut spec = self.spec.clone();
        spec.policy.while_running = true;
        self.site.run(&spec);
    }

    /// The stage at the job's end.
    #[track_caller]
    fn end(&self) -> StageStatus {
        let status = self.site.run(&self.spec);
        assert_eq!(status.state, StageState::Complete, "{:?} {:?}", status.failures, status.error);
        status
    }
}

/// Another file of the same size and times, as `mv` in the buffer followed by another stage, and `cp -p`, make it.
fn replace_alike(path: &Path) {
    let (before, other) = (fs::metadata(path).unwrap(), path.with_extension("other"));
    fs::copy(path, &other).unwrap();
    fs::File::options().write(true).open(&other).unwrap().set_modified(before.modified().unwrap()).unwrap();
    fs::rename(&other, path).unwrap();
    let after = fs::metadata(path).unwrap();
    assert_eq!((before.size(), before.mtime_nsec()), (after.size(), after.mtime_nsec()));
}

#[test]
fn what_the_job_removed_is_removed_with_the_folders_that_passes_made() {
    let job = Job::with(&["kept", "gone", "d/e/gone"]);
    fs::remove_file(job.work("gone")).unwrap();
    fs::remove_dir_all(job.work("d")).unwrap();
    job.end();
    assert!(job.out("kept").exists() && !job.out("gone").exists());
    assert!(!job.out("d").exists(), "an empty folder of a pass is left");
}

#[test]
fn what_another_has_published_under_the_name_since_stays_and_is_remarked() {
    for by_a_pass in [false, true] {
        let job = Job::with(&["x"]);
        replace_alike(&job.out("x"));
        fs::remove_file(job.work("x")).unwrap();
        if by_a_pass {
            job.pass();
        }
        let status = job.end();
        assert_eq!(fs::read_to_string(job.out("x")).unwrap(), "result x");
        assert!(format!("{:?}", status.notes).contains("it stays"), "{:?}", status.notes);
    }
}

#[test]
fn what_another_has_changed_since_stays() {
    let job = Job::with(&["x"]);
    let times = fs::metadata(job.out("x")).unwrap().modified().unwrap();
    fs::write(job.out("x"), "RESULT x").unwrap();
    fs::File::options().write(true).open(job.out("x")).unwrap().set_modified(times).unwrap();
    fs::remove_file(job.work("x")).unwrap();
    job.end();
    assert_eq!(fs::read_to_string(job.out("x")).unwrap(), "RESULT x");
}

#[test]
fn what_another_has_put_in_place_of_the_own_result_is_replaced_by_that_at_the_end() {
    let job = Job::with(&["x"]);
    replace_alike(&job.out("x"));
    let theirs = fs::metadata(job.out("x")).unwrap().ino();
    job.pass();
    assert_eq!(fs::metadata(job.out("x")).unwrap().ino(), theirs, "a pass replaces what is not its own");
    job.end();
    assert_ne!(fs::metadata(job.out("x")).unwrap().ino(), theirs, "another's file is called verified");
}

#[test]
fn what_was_there_before_stays_if_the_job_takes_its_own_file_back_and_is_replaced_if_not() {
    for taken_back in [false, true] {
        let site = Site::new();
        fs::create_dir(site.pfs("out")).unwrap();
        fs::write(site.pfs("out/x"), "of yesterday").unwrap();
        let job = Job::of(site, &["x", "y"], &["y"]);
        assert_eq!(fs::read_to_string(job.out("x")).unwrap(), "of yesterday");
        if taken_back {
            fs::remove_file(job.work("x")).unwrap();
        }
        job.end();
        let expected = if taken_back { "of yesterday" } else { "result x" };
        assert_eq!(fs::read_to_string(job.out("x")).unwrap(), expected);
    }
}

#[test]
fn a_folder_that_became_a_link_to_its_new_name_leaves_the_files_there() {
    let job = Job::with(&["d/x", "d/deep/y"]);
    fs::rename(job.work("d"), job.work("run-17")).unwrap();
    symlink("run-17", job.work("d")).unwrap();
    job.end();
    assert_eq!(fs::read_link(job.out("d")).unwrap(), Path::new("run-17"));
    assert_eq!(fs::read_to_string(job.out("run-17/x")).unwrap(), "result d/x");
    assert_eq!(fs::read_to_string(job.out("run-17/deep/y")).unwrap(), "result d/deep/y");
}

#[test]
fn nothing_is_removed_through_a_link_that_somebody_else_made() {
    let job = Job::with(&["d/x"]);
    fs::rename(job.out("d"), job.site.pfs("moved")).unwrap();
    symlink(job.site.pfs("moved"), job.out("d")).unwrap();
    fs::remove_dir_all(job.work("d")).unwrap();
    job.end();
    assert_eq!(fs::read_to_string(job.site.pfs("moved/x")).unwrap(), "result d/x");
}

#[test]
fn a_folder_that_became_a_file_and_a_file_that_became_a_folder_are_replaced() {
    let job = Job::with(&["d/x", "f"]);
    fs::remove_dir_all(job.work("d")).unwrap();
    fs::write(job.work("d"), "now a file").unwrap();
    fs::remove_file(job.work("f")).unwrap();
    fs::create_dir(job.work("f")).unwrap();
    fs::write(job.work("f/y"), "now below").unwrap();
    job.end();
    assert_eq!(fs::read_to_string(job.out("d")).unwrap(), "now a file");
    assert_eq!(fs::read_to_string(job.out("f/y")).unwrap(), "now below");
}

#[test]
fn what_others_put_into_a_folder_of_a_pass_is_not_removed_for_what_the_job_has_in_its_place() {
    let job = Job::with(&["d/x"]);
    fs::write(job.out("d/theirs"), "kept").unwrap();
    fs::remove_dir_all(job.work("d")).unwrap();
    symlink("elsewhere", job.work("d")).unwrap();
    assert_eq!(job.site.run(&job.spec).state, StageState::Failed);
    assert_eq!(fs::read_to_string(job.out("d/theirs")).unwrap(), "kept");
}

#[test]
fn folders_that_the_job_took_files_from_get_their_times_all_the_same() {
    let job = Job::with(&["b/f", "b/c/h", "e/k", "m/r"]);
    fs::remove_dir_all(job.work("b/c")).unwrap();
    fs::remove_file(job.work("m/r")).unwrap();
    fs::rename(job.work("e/k"), job.work("b/k")).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800);
    for folder in ["b", "e", "m", ""] {
        fs::File::open(job.work(folder)).unwrap().set_modified(then).unwrap();
    }
    job.end();
    assert!(!job.out("b/c").exists() && !job.out("m/r").exists() && !job.out("e/k").exists());
    for folder in ["b", "e", "m", ""] {
        assert_eq!(fs::metadata(job.out(folder)).unwrap().modified().unwrap(), then, "{folder}");
    }
}

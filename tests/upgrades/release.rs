//! The two versions, and where their programs are.

use std::fs;
use std::path::PathBuf;

use tests::cluster::program_folder;
use tests::processes::Process;

/// The last release's tag and commit, as `scripts/last-release` reads them.
const LAST: &str = include_str!("last-release");

/// Of which version programs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The last release.
    Last,
    /// What is tested.
    Todays,
}

impl Release {
    /// Where its programs are.
    #[track_caller]
    pub fn programs(self) -> PathBuf {
        let todays = program_folder();
        if self == Release::Todays {
            return todays;
        }
        let folder = todays.parent().unwrap().join("last-release");
        let built = fs::read_to_string(folder.join("commit")).unwrap_or_default();
        let is_it = !built.is_empty() && LAST.split_whitespace().nth(1) == Some(built.trim());
        assert!(is_it, "the last release, {}, is not built: run scripts/last-release", LAST.trim());
        folder.join("release")
    }

    /// The process runs this version's program and not the other's. Their numbers may be the same, their bytes are not.
    #[track_caller]
    pub fn assert_runs(self, process: &Process) {
        let name = process.program();
        let runs = fs::read(format!("/proc/{}/exe", process.pid)).unwrap();
        let is_of = |release: Release| fs::read(release.programs().join(name)).unwrap() == runs;
        let found = [Release::Last, Release::Todays].map(is_of);
        let wanted = [Release::Last, Release::Todays].map(|release| release == self);
        assert_eq!(found, wanted, "{name}, process {}, is of the last release, and is today's", process.pid);
    }
}

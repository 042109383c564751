//! The example job, in a copy of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cluster::{Cluster, examples_folder};

/// The folder that the example stages in.
pub const CATALOGUE: &str = "/usr/share/astrometry";

/// Puts the example below the cluster's working folder; returns its job script. In the job, before its program
/// starts, run `commands`.
pub fn prepare(cluster: &Cluster, commands: &str) -> String {
    let source = examples_folder().join("star-catalogue");
    let target = cluster.work.join("examples/star-catalogue");
    fs::create_dir_all(&target).expect("the folder is ours");
    for entry in fs::read_dir(&source).expect("the examples are beside the programs").flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), target.join(entry.file_name())).expect("the folder is ours");
        }
    }
    let script = fs::read_to_string(source.join("job.sh")).expect("the example has a job.sh");
    let changed = script.replacen("\nsrun ", &format!("\n{commands}\nsrun "), 1);
    assert_ne!(script, changed, "the example's job starts its program with srun");
    changed
}

/// What the job runs to compare the staged-in catalogue with its source: content, mode, time, links, attributes.
pub fn compare_staged_in() -> String {
    format!(
        "rsync -nrlptHXO --checksum --itemize-changes {CATALOGUE}/ $DW_JOB_STRIPED/catalogue/ > differences.txt"
    )
}

/// The staged-out result is what the program makes without a buffer, byte for byte, and every star in it is the PFS's.
#[track_caller]
pub fn assert_results(cluster: &Cluster) {
    let results = cluster.work.join("results/star-catalogue");
    let direct = cluster.folder().join("direct.h5");
    let example = cluster.work.join("examples/star-catalogue");
    let python = |script: &str, arguments: &[&Path]| {
        let mut command = Command::new("/usr/bin/python3");
        command.arg("-B").arg(example.join(script)).args(arguments);
        let output = command.output().expect("python3 is installed");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = python("check_against_pfs.py", &[&results.join("stars.h5")]);
    assert!(said.starts_with("5000 of 5000 selected stars are equal"), "{said}");

    let request = example.join("request.txt");
    let arguments = ["--catalogue", CATALOGUE, "--request"].map(Path::new);
    python("select_stars.py", &[&arguments[..], &[&request, Path::new("--output"), &direct]].concat());
    let [staged, direct] =
        [results.join("stars.h5"), direct].map(|path| fs::read(path).expect("the job wrote it"));
    assert!(staged == direct, "stars.h5 differs from what the program writes without a buffer");

    let listing = fs::read_to_string(results.join("catalogue.txt")).expect("the job listed the catalogue");
    assert_eq!(listing.matches("index-tycho2-").count(), 10, "{listing}");
}

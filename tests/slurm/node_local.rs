//! The job scripts that the page on flash in the nodes shows do what it says of them.

use crate::job::{Job, read};
use crate::local::submit;
use crate::site::{ADA, Site};

const PAGE: &str = include_str!("../../docs/NODE-LOCAL.md");

/// Writes a file for each process.
const PROGRAM: &str = "#!/bin/bash\n[ \"$1\" = --out ] && echo rank $SLURM_PROCID >\"$2/r$SLURM_PROCID\"\n";

/// What the page shows as lines of a job script.
fn scripts() -> Vec<&'static str> {
    PAGE.split("```bash\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// What is there in place of what a site has.
#[track_caller]
fn with(script: &str, ours: &[(&str, &str)]) -> String {
    ours.iter().fold(script.to_owned(), |script, (theirs, ours)| {
        assert!(script.contains(theirs), "the page shows another script: {script}");
        script.replace(theirs, ours)
    })
}

pub fn page(site: &Site) {
    let scripts = scripts();
    let [spectral, directive] = scripts[..] else { panic!("the page shows other scripts: {scripts:?}") };
    let pfs = site.pfs(ADA, "page");
    let files = [("program", PROGRAM)];
    let arrived = |folder: &str, job: &Job<'_>| {
        for rank in 0..2 {
            let file = pfs.join(folder).join(format!("r{rank}"));
            assert_eq!(read(&file), format!("rank {rank}\n"), "{}\n{}", file.display(), job.output());
        }
    };
    let job = submit(site, &pfs, &files, spectral, ("spectral", 2));
    job.wait_success();
    assert!(job.output().ends_with("All files moved\n"), "{}", job.output());
    arrived("output", &job);

    let results = pfs.join("results").display().to_string();
    let directive = with(directive, &[("capacity=1TiB", "capacity=50MiB"), ("/pfs/ada/results", &results)]);
    let script = format!(
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1\n{directive}srun ./program --out $PERSIST_DIR\n\
         forebay drain wait\n"
    );
    let job = site.submit(ADA, &pfs, &script);
    job.wait_success();
    assert!(job.output().ends_with("All files moved\n"), "{}", job.output());
    arrived("results", &job);
}

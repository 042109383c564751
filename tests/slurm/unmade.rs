//! Jobs that end before they made what they wanted staged out: the most common failure there is.

use std::fs;
use std::path::Path;

use crate::job::{Job, read};
use crate::site::{ADA, Site, own};

/// A job that wants a folder and the files of a list staged out, and makes nothing by itself.
fn submit<'a>(site: &'a Site, pfs: &Path, commands: &str) -> Job<'a> {
    let names = (0..150).map(|n| format!("$DW_JOB_STRIPED/{n} {}/{n}\n", pfs.display()));
    fs::write(pfs.join("list"), names.collect::<String>()).expect("ours");
    own(pfs, ADA);
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/results destination={p}/results\n\
         #DW stage_out type=list source={p}/list\n{commands}\n",
        p = pfs.display()
    );
    site.submit(ADA, pfs, &script)
}

/// However it was cut short: what it made is staged out, and its buffer is released.
pub fn cut_short(site: &Site) {
    let pfs = ["exits", "is-killed", "is-cancelled"].map(|name| site.pfs(ADA, name));
    let ends = ["exit 3", "kill -9 $$", "touch running; sleep 600"];
    let jobs = [0, 1, 2].map(|n| submit(site, &pfs[n], &format!("echo 7 > $DW_JOB_STRIPED/7; {}", ends[n])));
    jobs[2].wait_until("the job runs", || pfs[2].join("running").exists());
    jobs[2].cancel(&[]);
    for (job, pfs) in jobs.iter().zip(&pfs) {
        assert!(["FAILED", "CANCELLED"].contains(&job.wait_end().as_str()), "job {}", job.id);
        assert_eq!(read(&pfs.join("7")), "7\n", "what it made is not there");
        assert!(!pfs.join("results").exists());
    }
}

/// A job that succeeded may have its results under another name: they are kept, in one line that says how they are
/// given up, and that is no lie when they are.
pub fn succeeded(site: &Site) {
    let pfs = site.pfs(ADA, "misspelt");
    let job = submit(site, &pfs, "mkdir $DW_JOB_STRIPED/result; echo precious > $DW_JOB_STRIPED/result/file");
    let id = job.id.to_string();
    job.wait_shown(&["STAGE_OUT", "No such file or directory", &format!("`scancel --hurry {id}`")]);
    let squeue = || site.on("head", &["squeue", "--all", "--states=all", "-h", "-j", &id, "-o", "%i %r"]);
    let listed = squeue().stdout;
    assert_eq!(listed.lines().count(), 1, "a line for each job:\n{listed}");
    let kept =
        format!("kept in the buffer until `forebay stage retry {id}` succeeds or `scancel --hurry {id}`");
    assert!(listed.contains(&kept), "{listed}");
    job.cancel(&["--hurry"]);
    assert_eq!(job.wait_end(), "COMPLETED");
    let listed = squeue().stdout;
    assert!(listed.contains(&kept) || !listed.contains("kept in the buffer"), "{listed}");
}

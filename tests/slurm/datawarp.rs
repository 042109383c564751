//! libdatawarp and `forebay stage` in a job of Slurm, as an ordinary user.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tests::datawarp;

use crate::job::read;
use crate::site::{ADA, Site};

/// A C program for each function; stages by hand, from the job and from the login node.
pub fn functions(site: &Site) {
    let pfs = site.pfs(ADA, "datawarp");
    let (prefix, programs, results) = (pfs.join("prefix"), pfs.join("programs"), pfs.join("results"));
    fs::create_dir(&programs).expect("ours");
    let names = datawarp::build(&prefix, &programs);
    assert_eq!(names.len(), 24);
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=64MiB\n{lines}\
         echo by hand > $DW_JOB_STRIPED/hand\n\
         forebay stage out $DW_JOB_STRIPED/hand {r}/ --wait 2> {r}/progress || echo stage failed\n\
         touch {r}/ready\n\
         for i in $(seq 600); do [ -e $DW_JOB_STRIPED/sent ] && break; sleep 0.1; done\n\
         cat $DW_JOB_STRIPED/sent\n",
        lines = datawarp::script(&names, &programs, "$DW_JOB_STRIPED", &results),
        r = results.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    job.wait_until("its files", || results.join("ready").exists());
    let (token, source) = (job.id.to_string(), results.join("hand"));
    let source = source.to_str().expect("a plain name");
    let words = ["forebay", "stage", "in", source, "$DW_JOB_STRIPED/sent", "--token", &token, "--wait"];
    let refused = site.on("head/grace", &words);
    assert!(!refused.status.success(), "another user staged into the buffer");
    let sent = site.on("head/ada", &words);
    assert!(sent.status.success(), "{}{}", sent.stdout, sent.stderr);
    job.wait_success();
    assert_eq!(job.output(), "by hand\n", "{}", job.output());
    let last = results.join("dw_stage_file_out/last");
    assert_eq!(read(&last), "after the job", "what was to be staged out at the job's end");
    assert_eq!(fs::metadata(&last).expect("it is there").uid(), ADA.id);
}

//! Many jobs, small pool.

use std::time::Duration;

use tests::processes::wait_until;

use crate::site::{ADA, GRACE, Site};

/// The pool has 64 grains: ten buffers of six.
const SCRIPT: &str = "#!/bin/bash\n#SBATCH --output=/dev/null\n\
    #DW jobdw type=scratch access_mode=striped capacity=96MiB\n\
    #DW stage_out type=file source=$DW_JOB_STRIPED/id destination=%d/%j.id\n\
    echo $SLURM_JOB_ID > $DW_JOB_STRIPED/id\n";

/// Fifty jobs of each of two users.
pub fn hundred_jobs(site: &Site) {
    let mut jobs = Vec::new();
    for user in [ADA, GRACE] {
        let pfs = site.pfs(user, "crowd");
        for _ in 0..50 {
            jobs.push(site.submit(user, &pfs, SCRIPT));
        }
    }
    let waiting = || site.on("head", &["squeue", "-a", "-h", "-o", "%i %T %r"]).stdout;
    let done = wait_until(Duration::from_secs(300), || {
        std::thread::sleep(Duration::from_millis(500));
        waiting().trim().is_empty()
    });
    assert!(done, "still there:\n{}", waiting());
    for job in &jobs {
        let text = crate::job::read(&job.folder.join(format!("{}.id", job.id)));
        assert_eq!(text, format!("{}\n", job.id));
    }
}

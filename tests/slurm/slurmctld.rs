//! slurmctld is terminated, or killed, in each phase, and started again.

use std::path::PathBuf;

use rustix::process::Signal;

use crate::job::{Job, read};
use crate::site::{ADA, Site};

/// SIGTERM: Slurm kills the calls in flight and repeats them, or starts the staging again after a minute.
pub fn terminated(site: &Site) {
    all_phases(site, "TERM");
}

/// SIGKILL: calls in flight go on beside their repetitions.
pub fn killed(site: &Site) {
    all_phases(site, "KILL");
}

/// Four jobs at once, one in each phase, when slurmctld goes away.
fn all_phases(site: &Site, signal: &str) {
    let jobs: Vec<(Job<'_>, PathBuf)> = (0..4).map(|n| submit(site, n)).collect();
    let [(setup, _), (pre_run, _), (runs, _), (out, _)] = &jobs[..] else { unreachable!() };
    runs.wait_until("the job runs", || runs.folder.join("running").exists());
    out.wait_until("the job runs", || out.folder.join("running").exists());
    let _ = (setup, pre_run);
    std::fs::write(out.folder.join("go"), "").expect("ours");
    let storage = site.node("n2");
    storage.signal(Signal::STOP);
    std::thread::sleep(std::time::Duration::from_millis(500));
    site.stop_slurmctld(signal);
    storage.signal(Signal::CONT);
    site.start_slurmctld();
    for (job, _) in &jobs {
        std::fs::write(job.folder.join("go"), "").expect("ours");
    }
    for (job, pfs) in &jobs {
        job.wait_end();
        assert_eq!(read(&pfs.join("out")), "precious\n", "job {}", job.id);
    }
}

/// A job that waits for the file `go`.
fn submit(site: &Site, n: usize) -> (Job<'_>, PathBuf) {
    let pfs = site.pfs(ADA, &format!("restart{n}"));
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=32MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/out destination={p}/out\n\
         echo precious > $DW_JOB_STRIPED/out; touch {p}/running\n\
         for i in $(seq 1200); do [ -e {p}/go ] && break; sleep 0.1; done\n",
        p = pfs.display()
    );
    (site.submit(ADA, &pfs, &script), pfs)
}

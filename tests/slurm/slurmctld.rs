//! slurmctld is terminated, or killed, while jobs are in each phase, and started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::job::{Job, read};
use crate::site::{ADA, Site};

/// Longer than slurmctld waits before it writes down what it knows (5 s): what a kill takes away is then only what is new.
const WRITTEN_DOWN: Duration = Duration::from_secs(6);

/// SIGTERM: Slurm kills the calls in flight and repeats them, or starts the staging again.
pub fn terminated(site: &Site) {
    let phases = Phases::hold(site);
    site.stop_slurmctld("TERM");
    phases.release(site);
    for (job, pfs) in [phases.setup, phases.pre_run, phases.runs, phases.stage_out] {
        finish(&job, &pfs);
    }
}

/// SIGKILL: calls in flight go on beside their repetitions. Jobs that slurmctld had not written down are forgotten, with
/// nothing left of them.
pub fn killed(site: &Site) {
    let phases = Phases::hold(site);
    site.stop_slurmctld("KILL");
    phases.release(site);
    for (job, pfs) in [phases.setup, phases.pre_run] {
        if job.is_known() {
            finish(&job, &pfs);
        }
    }
    for (job, pfs) in [phases.runs, phases.stage_out] {
        finish(&job, &pfs);
    }
}

type Held<'a> = (Job<'a>, PathBuf);

/// A job in each phase, held there by nodes that are stopped.
struct Phases<'a> {
    setup: Held<'a>,
    pre_run: Held<'a>,
    runs: Held<'a>,
    stage_out: Held<'a>,
}

impl<'a> Phases<'a> {
    fn hold(site: &'a Site) -> Self {
        let [runs, stage_out] = ["runs", "stage-out"].map(|name| submit(site, name, "-w n3"));
        for (job, pfs) in [&runs, &stage_out] {
            job.wait_until("the job runs", || pfs.join("running").exists());
        }
        std::thread::sleep(WRITTEN_DOWN);
        site.node("n4").signal(Signal::STOP);
        let pre_run = submit(site, "pre-run", "-w n4");
        pre_run.0.wait_buffer("pre-run");
        site.node("n2").signal(Signal::STOP);
        go(&stage_out.1);
        stage_out.0.wait_state("STAGE_OUT");
        let setup = submit(site, "setup", "-N 1");
        setup.0.wait_buffer("staging-in");
        Phases { setup, pre_run, runs, stage_out }
    }

    fn release(&self, site: &Site) {
        ["n2", "n4"].iter().for_each(|host| site.node(host).signal(Signal::CONT));
        site.start_slurmctld();
        [&self.setup, &self.pre_run, &self.runs].iter().for_each(|(_, pfs)| go(pfs));
        // Slurm would wait for a minute before it stages in again.
        let id = format!("JobId={}", self.setup.0.id);
        site.on("head", &["scontrol", "update", &id, "StartTime=now"]);
    }
}

/// A job that waits for the file `go`.
fn submit<'a>(site: &'a Site, name: &str, options: &str) -> Held<'a> {
    let pfs = site.pfs(ADA, name);
    let script = format!(
        "#!/bin/bash\n#SBATCH {options}\n#DW jobdw type=scratch access_mode=striped capacity=32MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/out destination={p}/out\n\
         echo precious > $DW_JOB_STRIPED/out; touch {p}/running\n\
         for i in $(seq 1200); do [ -e {p}/go ] && break; sleep 0.1; done\n",
        p = pfs.display()
    );
    (site.submit(ADA, &pfs, &script), pfs)
}

fn go(pfs: &Path) {
    fs::write(pfs.join("go"), "").expect("ours");
}

#[track_caller]
fn finish(job: &Job<'_>, pfs: &Path) {
    job.wait_end();
    assert_eq!(read(&pfs.join("out")), "precious\n", "job {} in {}", job.id, pfs.display());
}

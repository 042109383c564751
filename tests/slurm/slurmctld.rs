//! slurmctld is terminated, or killed, while jobs are in each phase, and started again.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tests::processes::{Stopped, wait_until};

use crate::job::{Job, read};
use crate::site::{ADA, Site};

/// Of the output: lines enough for a few stripes, so that every storage node has some.
const LINES: usize = 1 << 19;

/// Longer than slurmctld waits before it writes down what it knows (5 s).
const WRITTEN_DOWN: Duration = Duration::from_secs(6);

/// Longer than it takes slurmctld to ask for the pools again (30 s).
const ASKED_AGAIN: Duration = Duration::from_secs(40);

/// SIGTERM: Slurm kills the calls in flight and repeats them, or starts the staging again.
pub fn terminated(site: &Site) {
    let phases = Phases::hold(site);
    site.stop_slurmctld("TERM");
    for held in phases.release(site) {
        held.finish();
    }
}

/// SIGKILL: calls in flight go on beside their repetitions. What slurmctld had not written down it does again, some of
/// it minutes later; here it has written down everything.
pub fn killed(site: &Site) {
    let phases = Phases::hold(site);
    let held = SystemTime::now();
    wait_until(WRITTEN_DOWN, || site.slurmctld_saved() > held);
    site.stop_slurmctld("KILL");
    for held in phases.release(site) {
        held.finish();
    }
}

/// slurmctld starts while control does not answer: it learns the pools from the last answer, and a job that ended
/// meanwhile is staged out when control is back.
pub fn without_control(site: &Site) {
    let held = Held::submit(site, "no-control", "-N 1", true);
    held.job.wait_until("the job runs", || held.pfs.join("running").exists());
    let held_at = SystemTime::now();
    wait_until(WRITTEN_DOWN, || site.slurmctld_saved() > held_at);
    // The last answer may be of a moment in which nodes that the test before had stopped were offline.
    wait_until(ASKED_AGAIN, || whole_pool(site).is_ok());
    let control = site.control().stop();
    site.stop_slurmctld("TERM");
    site.start_slurmctld();
    if let Err(pools) = whole_pool(site) {
        panic!("{pools}");
    }
    held.go();
    held.job.wait_buffer("post-run");
    drop(control);
    held.finish();
}

/// What Slurm shows of the pools, as an error unless all of their nodes are counted.
fn whole_pool(site: &Site) -> Result<(), String> {
    let pools = site.on("head", &["scontrol", "show", "burstbuffer"]).stdout;
    if pools.contains("TotalSpace=1GiB") { Ok(()) } else { Err(pools) }
}

/// A job that waits in its script for a file `go`.
struct Held<'a> {
    job: Job<'a>,
    pfs: PathBuf,
    stages_out: bool,
}

/// A job in each phase, held there by nodes that are stopped.
struct Phases<'a> {
    setup: Held<'a>,
    pre_run: Held<'a>,
    runs: Held<'a>,
    stage_out: Held<'a>,
    teardown: Held<'a>,
    stopped: [Stopped; 2],
}

impl<'a> Phases<'a> {
    fn hold(site: &'a Site) -> Self {
        let [runs, stage_out] = ["runs", "stage-out"].map(|name| Held::submit(site, name, "-w n3", true));
        let teardown = Held::submit(site, "teardown", "-w n3", false);
        for held in [&runs, &stage_out, &teardown] {
            held.job.wait_until("the job runs", || held.pfs.join("running").exists());
        }
        let compute = site.node("n4").stop();
        let pre_run = Held::submit(site, "pre-run", "-w n4", true);
        pre_run.job.wait_buffer("pre-run");
        let storage = site.node("n2").stop();
        stage_out.go();
        teardown.go();
        stage_out.job.wait_buffer("staging-out");
        teardown.job.wait_buffer("teardown");
        let setup = Held::submit(site, "setup", "-N 1", true);
        setup.job.wait_buffer("staging-in");
        Phases { setup, pre_run, runs, stage_out, teardown, stopped: [compute, storage] }
    }

    /// Lets the nodes go on, then slurmctld, then the jobs.
    fn release(self, site: &Site) -> [Held<'a>; 5] {
        drop(self.stopped);
        site.start_slurmctld();
        for held in [&self.setup, &self.pre_run, &self.runs] {
            held.go();
        }
        // Slurm would wait for a minute before it stages in again.
        let id = format!("JobId={}", self.setup.job.id);
        site.on("head", &["scontrol", "update", &id, "StartTime=now"]);
        [self.setup, self.pre_run, self.runs, self.stage_out, self.teardown]
    }
}

impl<'a> Held<'a> {
    fn submit(site: &'a Site, name: &str, options: &str, stages_out: bool) -> Self {
        let pfs = site.pfs(ADA, name);
        let p = pfs.display();
        let directive = format!("#DW stage_out type=file source=$DW_JOB_STRIPED/out destination={p}/out\n");
        let script = format!(
            "#!/bin/bash\n#SBATCH {options}\n#DW jobdw type=scratch access_mode=striped capacity=32MiB\n{}\
             yes precious | head -n {LINES} > $DW_JOB_STRIPED/out; touch {p}/running\n\
             for i in $(seq 1200); do [ -e {p}/go ] && break; sleep 0.1; done\n",
            if stages_out { directive.as_str() } else { "" }
        );
        Held { job: site.submit(ADA, &pfs, &script), pfs, stages_out }
    }

    fn go(&self) {
        fs::write(self.pfs.join("go"), "").expect("ours");
    }

    #[track_caller]
    fn finish(&self) {
        self.job.wait_end();
        if self.stages_out {
            let same = read(&self.pfs.join("out")) == "precious\n".repeat(LINES);
            assert!(same, "the output of job {} is not in {}", self.job.id, self.pfs.display());
        }
    }
}

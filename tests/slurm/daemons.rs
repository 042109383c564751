//! Our daemons are killed while jobs are in each phase. They are started again a second later, as systemd would.

#![expect(clippy::print_stdout, reason = "what was hit differs from run to run")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::job::{Job, read};
use crate::site::{ADA, Site, own};

/// Enough files that the stages last while daemons die.
const FILES: usize = 300;

/// A victim is killed until it was in each of these phases of some job.
const PHASES: [&str; 4] = ["staging-in", "pre-run", "running", "staging-out"];

/// How long phases are hunted for; a phase of milliseconds may be missed.
const HUNT: Duration = Duration::from_secs(25);

/// Jobs at a time.
const JOBS: usize = 4;

/// control, a storage node and a compute node: every job ends well and its bytes are right.
pub fn killed(site: &Site) {
    for victim in ["control", "n1", "n3"] {
        hunt(site, victim);
    }
}

fn hunt(site: &Site, victim: &str) {
    let started = Instant::now();
    let (mut hit, mut jobs, mut kills) = (BTreeSet::new(), Vec::new(), 0);
    while hit.len() < PHASES.len() && started.elapsed() < HUNT {
        let states = states(site);
        if states.len() < JOBS {
            jobs.push(submit(site));
        }
        let present = PHASES.iter().copied().filter(|phase| states.iter().any(|state| state == phase));
        let fresh: Vec<_> = present.filter(|phase| !hit.contains(phase)).collect();
        if !fresh.is_empty() {
            let process = if victim == "control" { site.control() } else { site.node(victim) };
            process.kill();
            hit.extend(fresh);
            kills += 1;
        }
    }
    println!("     {victim} killed {kills} times, in {}", hit.into_iter().collect::<Vec<_>>().join(", "));
    for (job, pfs) in jobs {
        job.wait_success();
        for n in 0..FILES {
            assert_eq!(
                read(&pfs.join(format!("back/{n}"))),
                format!("{n}\n"),
                "{victim} killed, job {}",
                job.id
            );
        }
        assert_eq!(read(&pfs.join("back/new")), "1\n2\n3\n4\n5\n6\n", "{victim} killed, job {}", job.id);
    }
}

/// The states of the buffers of all jobs that are not done.
fn states(site: &Site) -> Vec<String> {
    let text = site.on("head", &["scontrol", "--oneliner", "show", "job"]).stdout;
    let states = text.split_whitespace().filter_map(|word| word.strip_prefix("BurstBufferState="));
    states.filter(|state| *state != "complete").map(str::to_owned).collect()
}

fn submit(site: &Site) -> (Job<'_>, PathBuf) {
    let pfs = site.pfs(ADA, "daemons");
    let input = pfs.join("in");
    fs::create_dir(&input).expect("ours");
    (0..FILES).for_each(|n| fs::write(input.join(format!("{n}")), format!("{n}\n")).expect("ours"));
    own(&input, ADA);
    let script = format!(
        "#!/bin/bash\n#SBATCH -w n3\n#DW jobdw type=scratch access_mode=striped capacity=48MiB\n\
         #DW stage_in type=directory source={p}/in destination=$DW_JOB_STRIPED/d\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/d destination={p}/back\n\
         for n in 1 2 3 4 5 6; do echo $n >> $DW_JOB_STRIPED/d/new; sleep 0.3; done\n",
        p = pfs.display()
    );
    (site.submit(ADA, &pfs, &script), pfs)
}

/// While control is stopped `pools` answers with what it last knew, in Slurm's form, and nothing on standard error.
pub fn control_is_down(site: &Site) {
    let stopped = site.control().stop();
    let outcome = site.shim(&["--function", "pools"]);
    let refused = site.shim(&["--function", "show_sessions"]);
    drop(stopped);
    let value: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(value["pools"][0]["granularity"], 16 << 20, "{}", outcome.stdout);
    assert_eq!(outcome.stderr, "");
    assert_eq!((refused.code(), refused.stderr.as_str()), (1, ""), "{}", refused.stdout);
    assert_eq!(refused.stdout.lines().count(), 1);
    assert!(serde_json::from_str::<serde_json::Value>(&refused.stdout).is_err(), "{}", refused.stdout);
}

/// Control is away when a job could start: `paths` fails while Slurm still waits for it, with all its locks held. Slurm
/// holds the job and keeps its buffer; once it is cancelled nothing is left.
pub fn paths_without_control(site: &Site) {
    let pfs = site.pfs(ADA, "paths");
    let alone = ["-w", "n4", "--exclusive"];
    let occupy = format!("#!/bin/bash\nwhile [ ! -e {}/go ]; do sleep 0.1; done\n", pfs.display());
    let occupant = site.try_submit(ADA, &pfs, &occupy, &alone).expect("Slurm is up");
    occupant.wait_state("RUNNING");
    let script = "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\necho ran\n";
    let job = site.try_submit(ADA, &pfs, script, &alone).expect("Slurm is up");
    job.wait_buffer("staged-in");
    let stopped = site.control().stop();
    fs::write(pfs.join("go"), "").expect("ours");
    job.wait_until("Slurm holds it", || job.field("Reason") == "JobHeldAdmin");
    drop(stopped);
    assert!(site.dwstat("sessions").contains(&format!(" {} ", job.id)), "its buffer is kept");
    job.cancel(&[]);
    job.wait_end();
    occupant.wait_end();
    assert_eq!(job.output(), "");
}

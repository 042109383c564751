//! Each of our daemons is killed while jobs are in each phase. They are started again a second later, as systemd would.

use std::fs;

use rustix::process::Signal;

use crate::job::read;
use crate::site::{ADA, Site, own};

/// Input and output of enough files that the stages last while daemons die.
const FILES: usize = 400;

/// The phases of the victim job, by its buffer's state.
const PHASES: [&str; 4] = ["staging-in", "pre-run", "running", "staging-out"];

/// control, a storage node and a compute node, one after the other, in each phase: the job ends well and its bytes are right.
pub fn killed(site: &Site) {
    for victim in ["control", "n1", "n3"] {
        for phase in PHASES {
            one(site, victim, phase);
        }
    }
}

fn one(site: &Site, victim: &str, phase: &str) {
    let pfs = site.pfs(ADA, "daemons");
    let input = pfs.join("in");
    fs::create_dir(&input).expect("ours");
    (0..FILES).for_each(|n| fs::write(input.join(format!("{n}")), format!("{n}\n")).expect("ours"));
    own(&input, ADA);
    let script = format!(
        "#!/bin/bash\n#SBATCH -w n3\n#DW jobdw type=scratch access_mode=striped capacity=48MiB\n\
         #DW stage_in type=directory source={p}/in destination=$DW_JOB_STRIPED/d\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/d destination={p}/back\n\
         for n in 1 2 3 4 5 6 7 8; do echo $n >> $DW_JOB_STRIPED/d/new; sleep 0.25; done\n",
        p = pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    job.wait_until(phase, || {
        let state = job.field("BurstBufferState");
        state == phase || is_past(phase, &state)
    });
    let process = if victim == "control" { site.control() } else { site.node(victim) };
    process.signal(Signal::KILL);
    job.wait_success();
    for n in 0..FILES {
        assert_eq!(read(&pfs.join(format!("back/{n}"))), format!("{n}\n"), "{victim} killed in {phase}");
    }
    assert_eq!(read(&pfs.join("back/new")), "1\n2\n3\n4\n5\n6\n7\n8\n", "{victim} killed in {phase}");
}

/// A phase may be over before it is seen; the kill then comes in a later one.
fn is_past(phase: &str, state: &str) -> bool {
    let place = |name: &str| ORDER.iter().position(|other| *other == name);
    matches!((place(phase), place(state)), (Some(wanted), Some(now)) if now > wanted)
}

const ORDER: [&str; 9] = [
    "pending",
    "staging-in",
    "staged-in",
    "pre-run",
    "running",
    "post-run",
    "staging-out",
    "teardown",
    "complete",
];

/// While control is stopped `pools` answers with what it last knew, in Slurm's form, and nothing on standard error.
pub fn control_is_down(site: &Site) {
    let control = site.control();
    control.signal(Signal::STOP);
    let outcome = site.shim(&["--function", "pools"]);
    let refused = site.shim(&["--function", "show_sessions"]);
    control.signal(Signal::CONT);
    let value: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(value["pools"][0]["granularity"], 16 << 20, "{}", outcome.stdout);
    assert_eq!(outcome.stderr, "");
    assert_eq!((refused.code(), refused.stderr.as_str()), (1, ""), "{}", refused.stdout);
    assert_eq!(refused.stdout.lines().count(), 1);
    assert!(serde_json::from_str::<serde_json::Value>(&refused.stdout).is_err(), "{}", refused.stdout);
}

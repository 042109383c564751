//! Nodes that stop answering, and nodes that are gone.

use std::time::{Duration, Instant};

use tests::processes::Process;

use crate::job::read;
use crate::site::{ADA, Site};

/// A compute node whose daemon never answers: pre_run fails in bounded time and names it.
pub fn silent_at_pre_run(site: &Site) {
    let pfs = site.pfs(ADA, "silent");
    let stopped = site.node("n4").stop();
    let started = Instant::now();
    let script = "#!/bin/bash\n#SBATCH -N 1 -w n4\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\necho ran\n";
    let job = site.submit(ADA, &pfs, script);
    job.wait_shown(&["pre_run", "node n4"]);
    let took = started.elapsed();
    drop(stopped);
    assert!(took < Duration::from_secs(60), "it took {took:?}");
    job.cancel(&["--hurry"]);
    job.wait_end();
    assert_eq!(job.output(), "");
}

/// A compute node dies with its job; a job beside it goes on, and the dead node's buffer is released.
pub fn dies_during_the_job(site: &Site) {
    let [doomed, other] = ["doomed", "beside"].map(|name| site.pfs(ADA, name));
    let script = |options: &str, pfs: &std::path::Path| {
        format!(
            "#!/bin/bash\n#SBATCH {options} --no-requeue\n#DW jobdw type=scratch access_mode=striped capacity=32MiB\n\
             #DW stage_out type=file source=$DW_JOB_STRIPED/out destination={p}/out\n\
             echo precious > $DW_JOB_STRIPED/out; touch {p}/running\n\
             for i in $(seq 1200); do [ -e {p}/go ] && break; sleep 0.1; done\n",
            p = pfs.display()
        )
    };
    let first = site.submit(ADA, &doomed, &script("-w n4", &doomed));
    let second = site.submit(ADA, &other, &script("-w n3", &other));
    first.wait_until("the job runs", || doomed.join("running").exists());
    second.wait_until("the job runs", || other.join("running").exists());
    site.kill_host("n4");
    std::fs::write(other.join("go"), "").expect("ours");
    second.wait_success();
    assert_eq!(read(&other.join("out")), "precious\n");
    // Slurm gives the node up after SlurmdTimeout; what the job wrote is then staged out by the storage nodes.
    let state = first.wait_end();
    assert_eq!(state, "NODE_FAIL");
    assert_eq!(read(&doomed.join("out")), "precious\n");
    let nodes = site.dwstat("nodes");
    assert!(nodes.lines().any(|line| line.contains("n4") && line.contains("offline")), "{nodes}");
}

/// A storage node dies for good while its data is staged out: the job says so in bounded time and names the node; with
/// hurry the job ends, and nothing is left on the nodes that live.
pub fn dies_during_the_stage_out(site: &Site) {
    let pfs = site.pfs(ADA, "dies-out");
    // One grain: all of it on one storage node. Many files: there is time to stop who copies them.
    let script = format!(
        "#!/bin/bash\n#SBATCH -w n3\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/d destination={}/d\n\
         mkdir $DW_JOB_STRIPED/d; cd $DW_JOB_STRIPED/d; for n in $(seq 1500); do echo $n > $n; done\n",
        pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    let id = job.id.to_string();
    let mut held = Vec::new();
    job.wait_until("a stage worker works", || {
        held.extend(site.processes("forebay-stage", &id).iter().map(Process::stop));
        !held.is_empty()
    });
    job.wait_buffer("staging-out");
    let fragments = site.dwstat("fragments");
    let node = fragments.split_whitespace().last().expect("a table").to_owned();
    site.kill_host(&node);
    drop(held);
    let started = Instant::now();
    job.wait_shown(&["staging-out", &format!("node {node} does not answer")]);
    assert!(started.elapsed() < Duration::from_secs(60), "it took {:?}", started.elapsed());
    let status = site.forebay(&["status"]).stdout;
    assert!(
        status.contains(&format!("node {node}: offline")) && status.contains("the site's fault"),
        "{status}"
    );
    let staged = std::fs::read_dir(pfs.join("d")).map_or(0, Iterator::count);
    assert!(staged < 1500, "all was staged out");
    job.cancel(&["--hurry"]);
    job.wait_end();
}

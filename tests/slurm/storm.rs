//! Many jobs of one user on nodes with flash: they wait for each other, and no node suffers.

use std::fs;

use tests::processes::wait_until_told;

use crate::job::{Job, PHASE_LIMIT, read};
use crate::site::{ADA, Site};

/// Has an empty volume of its own, and says so.
const FLASH: &str = "#!/bin/bash\n[ -z \"$(ls /mnt/bb/ada)\" ] && mountpoint -q /mnt/bb/ada || exit 1\n\
    echo $SLURM_JOB_ID >/mnt/bb/ada/id; cat /mnt/bb/ada/id\n";

/// A user's jobs whose place on a node another of theirs has: each waits in the queue and runs later, with a volume and
/// a buffer of its own; `salloc` is told why not. No node is drained.
pub fn of_one_user(site: &Site) {
    let pfs = site.pfs(ADA, "storm");
    let submit = |script: &str, options: &[&str]| {
        let all = [&["--nodelist=n1", "--constraint=nvme"], options].concat();
        site.try_submit(ADA, &pfs, script, &all).unwrap_or_else(|text| panic!("sbatch: {text}"))
    };
    let until_told = format!("#!/bin/bash\nuntil [ -e {}/go ]; do sleep 0.1; done\n", pfs.display());
    let first = submit(&until_told, &[]);
    first.wait_state("RUNNING");
    let array = submit(FLASH, &["--array=1-3"]);
    let once = submit(FLASH, &["--no-requeue"]);
    let others = [submit(FLASH, &["--nodes=2"]), submit(FLASH, &[])];
    let buffer = format!(
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/id destination={}/staged\n",
        pfs.display()
    );
    let save = "cp /mnt/bb/ada/id $DW_JOB_STRIPED/id\n";
    let staged = submit(&format!("{}{save}", FLASH.replacen('\n', &format!("\n{buffer}"), 1)), &[]);
    assert_salloc_refused(site, &first);

    let waiting = || site.on("head", &["squeue", "-h", "-t", "PENDING", "-O", "RestartCnt:4"]).stdout;
    let all_wait = || waiting().lines().filter(|restarts| restarts.trim() == "1").count() == 7;
    assert!(wait_until_told(PHASE_LIMIT, all_wait), "{}", site.on("head", &["squeue", "-a"]).stdout);
    assert_no_node_drained(site);

    // Each of them would run; they take their turns half a minute apart.
    assert_eq!(once.field("Requeue"), "0", "as its user wants it");
    others.iter().chain([&once]).for_each(|job| job.cancel(&[]));
    site.on("head", &["scancel", &format!("{}_[1-2]", array.id)]);
    fs::write(pfs.join("go"), "").expect("ours");
    first.wait_success();
    staged.wait_success();
    assert_eq!(read(&pfs.join("staged")), format!("{}\n", staged.id));
    let task = pfs.join(format!("{}.out", array.id));
    assert!(wait_until_told(PHASE_LIMIT, || !read(&task).is_empty()), "the array's last task does not run");
    assert_no_node_drained(site);
}

#[track_caller]
fn assert_salloc_refused(site: &Site, first: &Job<'_>) {
    let salloc = site.on("head/ada", &["salloc", "--nodelist=n1", "--constraint=nvme", "true"]);
    let why = format!("n1: forebay: /mnt/bb/ada is the volume of job {}", first.id);
    assert!(!salloc.status.success() && salloc.stderr.contains(&why), "{}", salloc.stderr);
}

#[track_caller]
fn assert_no_node_drained(site: &Site) {
    let lost = site.on("head", &["sinfo", "-h", "-N", "-t", "drain,fail,down", "-o", "%N %T %E"]).stdout;
    assert_eq!(lost, "", "nodes that Slurm does not use any more");
}

//! More scripts of OLCF's tutorial and talk on Summit's flash: metadata, and one shared file.
//!
//! The programs are ours: they make and write files as the benchmarks of these names do.

use crate::job::read;
use crate::local::submit;
use crate::site::{ADA, Site};

const METADATA: &str = include_str!("olcf/nvme_metadata.sh");
const BTIO: &str = include_str!("olcf/nvme_btio.sh");

/// Each process makes, writes and closes many small files in its working folder.
const METADATA_PROGRAM: &str = "#!/bin/bash\n\
    for i in {1..500}; do echo $SLURM_PROCID >file.$SLURM_PROCID.$i; done\n\
    echo $SLURM_PROCID: $(ls file.$SLURM_PROCID.* | wc -l) files in $(findmnt -no FSTYPE -T .) at $PWD\n";

/// All processes write one file: at each of as many steps as the input file says, a block of each, one after the other.
const BTIO_PROGRAM: &str = "#!/bin/bash\n\
    cd \"$(dirname \"$0\")\" && steps=$(cat inputbt.data) || exit\n\
    for ((step = 0; step < steps; step++)); do\n\
        printf '%01023d\\n' $((step * SLURM_NTASKS + SLURM_PROCID)) |\n\
            dd of=btio.nc bs=1024 seek=$((step * SLURM_NTASKS + SLURM_PROCID)) conv=notrunc 2>/dev/null || exit\n\
    done\n";

/// Two processes on one node, in the folder that `--chdir` names; with short options and with long ones.
pub fn metadata(site: &Site) {
    let long =
        METADATA.replace("-n 2 -r 2 -a 1 -c 1", "--nrs=2 --rs_per_host 2 --tasks_per_rs=1 --cpu_per_rs 1");
    assert_ne!(long, METADATA);
    for script in [METADATA, &long] {
        let pfs = site.pfs(ADA, "olcf-metadata");
        let job = submit(site, &pfs, &[("metadata", METADATA_PROGRAM)], script, ("nvme", 1));
        job.wait_success();
        let said = job.output();
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["0: 500 files in xfs at /mnt/bb/ada", "1: 500 files in xfs at /mnt/bb/ada"]);
    }
    // What jsrun does not know is named; nothing runs with half of what was asked for.
    let pfs = site.pfs(ADA, "olcf-unknown");
    let unknown = METADATA.replace("--chdir", "--frobnicate");
    let job = submit(site, &pfs, &[("metadata", METADATA_PROGRAM)], &unknown, ("nvme", 1));
    assert_eq!(job.wait_end(), "FAILED");
    assert!(job.output().contains("jsrun: unknown option --frobnicate"), "{}", job.output());
}

/// Sixteen processes write one file on the flash of one node, which the script then copies to the PFS.
pub fn btio(site: &Site) {
    const STEPS: usize = 20;
    let pfs = site.pfs(ADA, "olcf-btio");
    let steps = STEPS.to_string();
    let files = [("btio", BTIO_PROGRAM), ("inputbt.data", steps.as_str())];
    let job = submit(site, &pfs, &files, BTIO, ("nvme", 1));
    job.wait_success();
    let blocks: String = (0..STEPS * 16).map(|block| format!("{block:01023}\n")).collect();
    assert!(read(&pfs.join("btio.nc")) == blocks, "the shared file differs: {}", job.output());
    assert!(job.output().contains("btio.nc"), "{}", job.output());
}

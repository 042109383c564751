//! The scripts of OLCF's tutorial, as they were submitted on Summit, on nodes with flash of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::job::{Job, read};
use crate::site::{ADA, GRACE, Site, User, own};

/// The three scripts, byte for byte but for the name of the project.
const PFS: &str = include_str!("olcf/gpfs_ior.sh");
const NVME: &str = include_str!("olcf/nvme_ior.sh");
const SPECTRAL: &str = include_str!("olcf/spectral_ior.sh");

/// A program that writes one file for each process, with the options of IOR that the scripts use.
const WRITER: &str = "#!/bin/bash\n\
    while [ $# -gt 0 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n\
    printf \"rank $SLURM_PROCID of job $SLURM_JOB_ID\\n%.0s\" {1..1000} >\"$out.$(printf %08d $SLURM_PROCID)\"\n";

/// The second script has both nodes copy a folder of one name to one place: `cp` on one of them fails if both make it
/// in the same moment. Here the second waits until the first has made it.
const COPY: &str = "#!/bin/bash\n\
    [ \"$SLURM_PROCID\" = 0 ] || until [ -d \"${@: -1}/$USER\" ]; do sleep 0.05; done\n\
    exec /usr/bin/cp \"$@\"\n";

/// Processes of the scripts.
const RANKS: usize = 32;

/// Submits a script of Summit's, as users do under Slurm; `files` are beside it, and may be run.
pub fn submit<'a>(
    site: &'a Site,
    pfs: &Path,
    files: &[(&str, &str)],
    script: &str,
    (feature, nodes): (&str, u32),
) -> Job<'a> {
    let bin = pfs.join("bin");
    fs::create_dir_all(&bin).expect("ours");
    fs::create_dir_all(pfs.join("output")).expect("ours");
    own(pfs, ADA);
    for (name, text) in files.iter().chain(&[("bin/ior", WRITER), ("bin/cp", COPY)]) {
        let file = pfs.join(name);
        fs::write(&file, text).expect("ours");
        own(&file, ADA);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    // What a site's login shells set, so that `module` is there.
    let modules = format!(
        "--export=ALL,BASH_ENV=/usr/share/modules/init/bash,MODULEPATH={site}/modulefiles,\
         PATH={bin}:{site}/bin:/usr/bin:/bin",
        site = site.folder().display(),
        bin = bin.display()
    );
    site.try_submit(
        ADA,
        pfs,
        script,
        &["--ignore-pbs", &format!("--nodes={nodes}"), &format!("--constraint={feature}"), &modules],
    )
    .unwrap_or_else(|text| panic!("sbatch: {text}"))
}

/// All ranks' files are in the folder, whole.
#[track_caller]
fn assert_output(folder: &Path, job: &Job<'_>) {
    for rank in 0..RANKS {
        let line = format!("rank {rank} of job {}\n", job.id);
        let file = folder.join(format!("ior_file_easy.{rank:08}"));
        assert!(read(&file) == line.repeat(1000), "{}\n{}", file.display(), job.output());
    }
}

/// The folder that the script made for its output.
fn made(pfs: &Path) -> PathBuf {
    let found = fs::read_dir(pfs).expect("ours").flatten().map(|entry| entry.path());
    found.into_iter().find(|path| path.display().to_string().contains("nvme_output_")).expect("it was made")
}

/// No node has a volume of the job any more, nor its user's path.
#[track_caller]
fn wait_discarded(site: &Site, job: &Job<'_>, user: User) {
    let own = format!("{}: ", job.id);
    for node in site.names() {
        let socket = format!("FOREBAY_NODE_SOCKET={}/node.sock", site.state_of(node).display());
        let forebay = site.program("forebay");
        job.wait_until("the volumes are discarded", || {
            let listed = site.on(node, &["env", &socket, &forebay, "local", "list"]);
            listed.status.success() && !listed.stdout.lines().any(|line| line.starts_with(&own))
        });
        let left = site.on(node, &["ls", "/mnt/bb"]).stdout;
        assert!(!left.lines().any(|name| name == user.name), "{left}");
    }
}

/// With the PFS alone, with flash and copies by hand, and with Spectral.
pub fn tutorial(site: &Site) {
    let pfs = site.pfs(ADA, "olcf");
    let job = submit(site, &pfs, &[], PFS, ("nvme", 2));
    job.wait_success();
    assert_output(&pfs.join("output"), &job);

    let pfs = site.pfs(ADA, "olcf-nvme");
    let job = submit(site, &pfs, &[], NVME, ("nvme", 2));
    job.wait_success();
    assert_output(&made(&pfs).join("ada"), &job);

    let pfs = site.pfs(ADA, "olcf-spectral");
    let job = submit(site, &pfs, &[], SPECTRAL, ("spectral", 2));
    job.wait_success();
    assert_output(&made(&pfs), &job);
    let said = job.output();
    assert!(
        said.ends_with(&format!("Enqueued:{RANKS} Dequeued:{RANKS} Done:{RANKS}\nAll files moved\n")),
        "{said}"
    );
    let log = read(&made(&pfs).join("spectral.log"));
    for rank in 0..RANKS {
        let file = made(&pfs).join(format!("ior_file_easy.{rank:08}"));
        for verb in ["ENQUEUE", "DEQUEUE", "DONE"] {
            let line = format!("Spectral Work {verb} File : {}", file.display());
            assert!(log.lines().any(|found| found == line), "{line}\n{log}");
        }
    }
    wait_discarded(site, &job, ADA);
}

/// Asked for by a `#DW` line: a volume on each of four nodes, drained while the job runs and, for what comes last,
/// after it. Slurm shows the job as staging out until all is on the PFS.
pub fn directive(site: &Site) {
    let pfs = site.pfs(ADA, "dw-private");
    let script = format!(
        "#!/bin/bash\n#SBATCH --nodes=4 --ntasks-per-node=1\n\
         #DW jobdw type=scratch access_mode=private pool=nvme capacity=50MiB drain=on-close\n\
         #DW stage_out type=directory source=$DW_JOB_PRIVATE/out/ destination={p}/out\n\
         echo $DW_JOB_PRIVATE $BBPATH $FOREBAY_LOCAL\n\
         srun bash -c 'cd $DW_JOB_PRIVATE; echo $(findmnt -no FSTYPE -T .) $(stat -c %a:%U .) $(ls)\n\
             [ $(df --output=avail -B1 . | tail -1) -ge $((50 << 20)) ] || echo too small\n\
             echo rank $SLURM_PROCID >out/r$SLURM_PROCID; echo rank $SLURM_PROCID >out/same'\n\
         forebay drain wait | tail -1\n\
         echo drained $(cat {p}/out/r[0-3])\n\
         srun bash -c 'head -c 9000000 /dev/zero >$BBPATH/out/late$SLURM_PROCID'\n",
        p = pfs.display()
    );
    let refused = site.try_submit(ADA, &pfs, &script.replace("50MiB drain", "900TiB drain"), &[]);
    assert!(refused.err().is_some_and(|said| said.contains("the largest node of pool nvme has")));
    let job = site.submit(ADA, &pfs, &script);
    job.wait_success();
    let nodes = "xfs 700:ada out\n".repeat(4);
    let expected = "All files moved\ndrained rank 0 rank 1 rank 2 rank 3\n";
    assert_eq!(job.output(), format!("/mnt/bb/ada/ /mnt/bb/ada /mnt/bb/ada\n{nodes}{expected}"));
    for rank in 0..4 {
        let late = fs::metadata(pfs.join(format!("out/late{rank}"))).expect("staged out");
        assert_eq!(late.len(), 9_000_000);
    }
    let same = fs::read_dir(pfs.join("out")).expect("staged out").flatten();
    let same = same.filter(|entry| entry.file_name().to_string_lossy().starts_with("same"));
    let mut texts: Vec<String> = same.map(|entry| read(&entry.path())).collect();
    texts.sort();
    assert_eq!(texts, ["rank 0\n", "rank 1\n", "rank 2\n", "rank 3\n"], "one name on four nodes");
    wait_discarded(site, &job, ADA);
}

/// One file of all ranks on the flash of the job's own nodes, two of which store nothing for others; it is drained
/// while the job runs.
pub fn striped(site: &Site) {
    let pfs = site.pfs(GRACE, "own-nodes");
    let script = format!(
        "#!/bin/bash\n#SBATCH --nodes=4 --ntasks-per-node=1\n\
         #DW jobdw type=scratch access_mode=striped pool=nvme capacity=100MiB drain=on-close\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/shared destination={p}/shared\n\
         session=$(dwstat sessions | grep \" $SLURM_JOB_ID \" | awk '{{print $1}}')\n\
         instance=$(dwstat instances | awk \"/ $session /\"'{{print $1}}')\n\
         dwstat fragments | grep \" $instance \" | grep -o 'n[1-4] *$' | sort | tr -d '\\n '; echo\n\
         srun bash -c 'yes $SLURM_PROCID | head -c 3000000 |\n\
             dd of=$DW_JOB_STRIPED/shared bs=3000000 iflag=fullblock seek=$SLURM_PROCID conv=notrunc 2>/dev/null'\n\
         srun bash -c 'md5sum <$DW_JOB_STRIPED/shared' | sort -u | wc -l\n\
         for i in $(seq 600); do [ -e {p}/shared ] && break; sleep 0.1; done; ls {p}/shared\n",
        p = pfs.display()
    );
    let job = site.submit(GRACE, &pfs, &script);
    job.wait_success();
    let drained = pfs.join("shared");
    assert_eq!(job.output(), format!("n1n2n3n4\n1\n{}\n", drained.display()));
    let expected: Vec<u8> =
        (0..4).flat_map(|rank| format!("{rank}\n").repeat(1_500_000).into_bytes()).collect();
    assert!(fs::read(pfs.join("shared")).expect("staged out") == expected, "the shared file differs");
}

/// A job that is cancelled before anything is drained: the nodes drain all of it afterwards, then discard the volumes.
pub fn cancelled(site: &Site) {
    let pfs = site.pfs(ADA, "olcf-cancel");
    let script = SPECTRAL.replace("jsrun -n 2 -r 1 ls", "touch written\nsleep 600\njsrun -n 2 -r 1 ls");
    let writer = "forebay drain pause >/dev/null; exec ./bin/ior";
    let script = script.replace("./bin/ior", &format!("sh -c '{writer} \"$@\"' -"));
    let job = submit(site, &pfs, &[], &script, ("spectral", 2));
    job.wait_until("everything is written", || pfs.join("written").exists());
    assert!(!made(&pfs).join("ior_file_easy.00000000").exists(), "the drain is paused");
    job.cancel(&[]);
    assert_eq!(job.wait_end(), "CANCELLED");
    wait_discarded(site, &job, ADA);
    assert_output(&made(&pfs), &job);
}

/// A job whose time ends before its drain: its output says so, the drain hurries, and what a node has not drained when
/// the job is killed (here it was told to pause) is drained afterwards. The receipt counts what all nodes have drained.
pub fn time_limit(site: &Site) {
    const FILES: usize = 30;
    let pfs = site.pfs(GRACE, "time-limit");
    let script = format!(
        "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1\n\
         #DW jobdw type=scratch access_mode=private pool=nvme capacity=50MiB\n\
         until [ -e {p}/go ]; do sleep 0.1; done\n\
         srun bash -c 'forebay drain start --from $BBPATH --to {p}/out --limit 100KiB --workers 1 2>/dev/null\n\
             [ $SLURM_PROCID = 1 ] || forebay drain pause --from $BBPATH >/dev/null\n\
             for i in {{1..{FILES}}}; do head -c 100000 /dev/zero >$BBPATH/r$SLURM_PROCID.$i; done\n\
             touch {p}/written$SLURM_PROCID; sleep 600'\n",
        p = pfs.display()
    );
    let job = site.submit(GRACE, &pfs, &script);
    job.wait_state("RUNNING");
    let (id, ends) = (format!("JobId={}", job.id), "EndTime=now+12");
    let changed = site.on("head", &["scontrol", "update", &id, ends]);
    assert!(changed.status.success(), "{}", changed.stderr);
    fs::write(pfs.join("go"), "").expect("ours");
    job.wait_until("everything is written", || {
        [0, 1].iter().all(|n| pfs.join(format!("written{n}")).exists())
    });
    job.wait_until("a warning", || job.output().contains("will not be ready by the job's time limit"));
    assert!(!pfs.join("out/r0.1").exists(), "the drain of the first node is paused");
    assert_eq!(job.wait_end(), "TIMEOUT");
    wait_discarded(site, &job, GRACE);
    for rank in 0..2 {
        for file in 1..=FILES {
            let landed = fs::metadata(pfs.join(format!("out/r{rank}.{file}"))).expect("drained");
            assert_eq!(landed.len(), 100_000);
        }
    }
    let receipt = read(&pfs.join(format!("out/.forebay-drain/{}/receipt.jsonl", job.id)));
    let summary: serde_json::Value =
        serde_json::from_str(receipt.lines().next().unwrap_or_default()).expect("a receipt");
    assert_eq!((&summary["complete"], &summary["done"]), (&true.into(), &(2 * FILES).into()), "{summary}");
    assert_eq!(summary["hosts"].as_array().map(Vec::len), Some(2), "{summary}");
    assert_eq!(receipt.lines().filter(|line| line.contains("\"crc32c\":\"")).count(), 2 * FILES);
}

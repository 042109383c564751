//! Ways to ask for a buffer and to use it that are no plain batch job with `#DW` lines: options, the components of a
//! heterogeneous job, the ranks of an MPI program.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::processes::wait_until;

use crate::job::read;
use crate::site::{ADA, Site, own};

/// Runs a command of ada's in `folder` on the head, to its end; what it printed.
#[track_caller]
fn run(site: &Site, folder: &Path, command: &str) -> String {
    let words = format!("cd {} && {command}", folder.display());
    let outcome = site.on("head/ada", &["bash", "-c", &words]);
    assert!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
    outcome.stdout + &outcome.stderr
}

/// `sbatch`, `salloc` and `srun` with `--bb`, and with a file of directives.
pub fn options(site: &Site) {
    let pfs = site.pfs(ADA, "bb-options");
    let script = "#!/bin/bash\ndf --output=target $DW_JOB_STRIPED | tail -1\necho x >$DW_JOB_STRIPED/x\n";
    fs::write(pfs.join("job.sh"), script).expect("ours");
    let directives = format!(
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/x destination={}/x\n",
        pfs.display()
    );
    fs::write(pfs.join("bb.conf"), directives).expect("ours");
    own(&pfs, ADA);
    run(site, &pfs, "sbatch -W -o file.out --bbf=bb.conf job.sh");
    assert!(wait_until(Duration::from_secs(60), || read(&pfs.join("x")) == "x\n"));
    let bb = "--bb='capacity=16MiB access=striped type=scratch'";
    run(site, &pfs, &format!("sbatch -W -o words.out {bb} job.sh"));
    for output in ["file.out", "words.out"] {
        assert!(read(&pfs.join(output)).ends_with("/striped\n"), "{}", read(&pfs.join(output)));
    }
    let shown = "bash -c 'df --output=target $DW_JOB_STRIPED'";
    for command in [format!("srun -N1 {bb} {shown}"), format!("salloc -N1 {bb} srun {shown}")] {
        let said = run(site, &pfs, &command);
        assert!(said.contains("/striped\n"), "{command}: {said}");
    }
}

/// Each component has the buffer of the directives in its own part of the script.
pub fn heterogeneous(site: &Site) {
    let pfs = site.pfs(ADA, "components");
    let part = |destination: &str| {
        format!(
            "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
             #DW stage_out type=file source=$DW_JOB_STRIPED/r destination={}/{destination}\n",
            pfs.display()
        )
    };
    let script = format!(
        "#!/bin/bash\n#SBATCH -N1 -o job.out\n{}#SBATCH hetjob\n#SBATCH -N1\n{}\
         srun --het-group=0 bash -c 'echo first >$DW_JOB_STRIPED/r'\n\
         srun --het-group=1 bash -c 'echo x >$DW_JOB_STRIPED/r' || echo of another component\n\
         env -u DW_JOB_STRIPED srun --het-group=1 bash -c 'echo second >$DW_JOB_STRIPED/r'\n",
        part("first"),
        part("second")
    );
    fs::write(pfs.join("job.sh"), script).expect("ours");
    own(&pfs, ADA);
    run(site, &pfs, "sbatch job.sh");
    let is_out = |name: &str| read(&pfs.join(name)) == format!("{name}\n");
    let come = wait_until(Duration::from_secs(120), || is_out("first") && is_out("second"));
    let said = read(&pfs.join("job.out"));
    assert!(come && said.contains("of another component"), "{said}");
}

/// The hosts of the try-out cluster are namespaces of one machine, which UCX takes for one host.
pub fn mpi(site: &Site) {
    let pfs = site.pfs(ADA, "mpi");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/ranks.c");
    let compiled = Command::new("mpicc.mpich").args([source, "-o"]).arg(pfs.join("ranks")).status();
    assert!(compiled.expect("scripts/install-deps names what has it").success());
    let script = "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
                  export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0\n\
                  cp ranks $DW_JOB_STRIPED/ && srun --mpi=pmi2 -N2 -n2 $DW_JOB_STRIPED/ranks\n";
    fs::write(pfs.join("job.sh"), script).expect("ours");
    std::os::unix::fs::chown(&pfs, Some(ADA.id), Some(ADA.id)).expect("the tests run as root");
    run(site, &pfs, "sbatch -W -N2 -o job.out job.sh");
    assert_eq!(read(&pfs.join("job.out")), "2 of 2 ranks\n");
}

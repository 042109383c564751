//! Scripts as users of DataWarp wrote them, judged by the bytes that come out.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::job::read;
use crate::site::{ADA, GRACE, Site, own};

/// `stage_in` and `stage_out` of files, a directory and a list, one of them below the commands as NERSC's tests have
/// it.
pub fn files_directories_and_lists(site: &Site) {
    let pfs = site.pfs(ADA, "seed");
    fs::create_dir(pfs.join("sub")).expect("ours");
    fs::write(pfs.join("tool"), "#!/bin/sh\necho ran\n").expect("ours");
    fs::write(pfs.join("a"), "list a\n").expect("ours");
    let content: Vec<u8> = (0..3_000_000u32).flat_map(|n| (n % 251).to_le_bytes()).collect();
    fs::write(pfs.join("sub/large"), &content).expect("ours");
    fs::write(pfs.join("list"), format!("{0}/a $DW_JOB_STRIPED/from-list/a\n", pfs.display())).expect("ours");
    own(&pfs, ADA);
    fs::set_permissions(pfs.join("tool"), fs::Permissions::from_mode(0o755)).expect("ours");
    let script = format!(
        "#!/bin/bash\n#SBATCH -N 2\n\
         #DW jobdw capacity=100MB access_mode=striped type=scratch\n\
         #DW stage_in source={p}/tool destination=$DW_JOB_STRIPED/bin/tool type=file\n\
         #DW stage_in type=directory source={p}/sub destination=$DW_JOB_STRIPED/sub\n\
         #DW stage_in type=list source={p}/list\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/out destination={p}/out\n\
         set -e\n\
         case $DW_JOB_STRIPED in */) ;; *) echo no slash; exit 1 ;; esac\n\
         $DW_JOB_STRIPED/bin/tool\n\
         cat $DW_JOB_STRIPED/from-list/a\n\
         mkdir $DW_JOB_STRIPED/out\n\
         cp $DW_JOB_STRIPED/sub/large ${{DW_JOB_STRIPED}}out/copy\n\
         srun -N2 -n2 bash -c 'hostname > $DW_JOB_STRIPED/out/$SLURM_PROCID'\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/bin/tool destination={p}/tool.back\n",
        p = pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    job.wait_success();
    assert_eq!(job.output(), "ran\nlist a\n");
    assert!(fs::read(pfs.join("out/copy")).expect("staged out") == content, "the copy differs");
    assert_eq!(fs::metadata(pfs.join("tool.back")).expect("staged out").permissions().mode() & 0o777, 0o755);
    let mut names = [read(&pfs.join("out/0")), read(&pfs.join("out/1"))];
    names.sort();
    assert_ne!(names[0], names[1]);
    let copy = fs::metadata(pfs.join("out/copy")).expect("staged out");
    assert_eq!((copy.uid(), copy.gid()), (ADA.id, ADA.id));
}

/// Four nodes write into one file and see each other's.
pub fn striped_on_all_nodes(site: &Site) {
    let pfs = site.pfs(GRACE, "striped");
    let script = format!(
        "#!/bin/bash\n#SBATCH -N 4\n\
         #DW jobdw type=scratch access_mode=striped capacity=128MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/all destination={p}/all\n\
         set -e\n\
         srun bash -c 'head -c 4194304 /dev/zero | tr \"\\\\0\" $SLURM_PROCID |\
           dd of=$DW_JOB_STRIPED/all bs=1M seek=$((4 * SLURM_PROCID)) conv=notrunc iflag=fullblock status=none'\n\
         srun --quiet bash -c 'md5sum < $DW_JOB_STRIPED/all' | sort -u | wc -l\n",
        p = pfs.display()
    );
    let job = site.submit(GRACE, &pfs, &script);
    job.wait_state("RUNNING");
    job.wait_success();
    assert_eq!(job.output().trim(), "1", "the nodes do not see the same bytes");
    let all = fs::read(pfs.join("all")).expect("staged out");
    let expected: Vec<u8> = b"0123".iter().flat_map(|digit| std::iter::repeat_n(*digit, 4 << 20)).collect();
    assert!(all == expected, "the file of {} bytes has the wrong ones", all.len());
}

/// Striped and private at once; the private one differs from node to node.
pub fn private_on_each_node(site: &Site) {
    let pfs = site.pfs(ADA, "private");
    let script = "#!/bin/bash\n#SBATCH -N 2\n\
         #DW jobdw type=scratch access_mode=striped,private capacity=128MiB\n\
         set -e\n\
         srun bash -c 'echo $SLURM_PROCID > $DW_JOB_PRIVATE/own; echo $SLURM_PROCID > $DW_JOB_STRIPED/of-$SLURM_PROCID'\n\
         srun --quiet bash -c 'echo $SLURM_PROCID sees $(cat $DW_JOB_PRIVATE/own) and $(ls $DW_JOB_STRIPED)' | sort\n\
         case $DW_JOB_PRIVATE in */) ;; *) echo no slash ;; esac\n";
    let job = site.submit(ADA, &pfs, script);
    job.wait_success();
    assert_eq!(job.output(), "0 sees 0 and of-0 of-1\n1 sees 1 and of-0 of-1\n");
}

/// Lines as public scripts have them: one for each kind of namespace, remarks behind them, and options that only tune.
pub fn hints_and_remarks(site: &Site) {
    let pfs = site.pfs(ADA, "hints");
    let script = "#!/bin/bash\n\
         #DW jobdw type=scratch access_mode=striped(client_cache=yes) capacity=32MiB type=scratch # half of it\n\
         #DW jobdw type=scratch access_mode=private capacity=32MiB optimization_strategy=interference\n\
         echo $SLURM_JOB_ID >$DW_JOB_STRIPED/id; cp $DW_JOB_STRIPED/id $DW_JOB_PRIVATE/id\n\
         cmp $DW_JOB_PRIVATE/id <(echo $SLURM_JOB_ID)\n\
         forebay status --json | grep -c 'without effect here: client_cache=yes optimization_strategy=interference'\n\
         dwstat instances | grep $(dwstat sessions | grep \" $SLURM_JOB_ID \" | awk '{print $1}') | awk '{print $4}'\n\
         srun -n1 true\n";
    let job = site.submit(ADA, &pfs, script);
    job.wait_success();
    let note =
        "forebay: note: options without effect here: client_cache=yes optimization_strategy=interference\n";
    assert_eq!(job.output(), format!("{note}1\n64MiB\n"));
}

/// `%A`, `%a`, `%d`, `%u` and `%x` in directives of an array, each task with its own buffer.
pub fn arrays_and_symbols(site: &Site) {
    let pfs = site.pfs(GRACE, "array");
    let script = "#!/bin/bash\n#SBATCH --array=1-3 --job-name=sweep --output=/dev/null\n\
         #DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/r destination=%d/%u-%x-%A-%a%%\n\
         echo task $SLURM_ARRAY_TASK_ID > $DW_JOB_STRIPED/r\n";
    let id = run_array(site, &pfs, script);
    for task in 1..=3 {
        let path = pfs.join(format!("grace-sweep-{id}-{task}%"));
        assert_eq!(read(&path), format!("task {task}\n"), "{}", path.display());
    }
}

/// Without a symbol Slurm gives each task the whole array's script.
pub fn array_without_symbols(site: &Site) {
    let pfs = site.pfs(GRACE, "plain-array");
    let script = format!(
        "#!/bin/bash\n#SBATCH --array=1-3 --nodes=2 --ntasks-per-node=1 --output=/dev/null\n\
         #DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/r destination={}/r\n\
         mkdir $DW_JOB_STRIPED/r\n\
         srun bash -c 'echo $DW_JOB_STRIPED >$DW_JOB_STRIPED/r/$SLURM_ARRAY_TASK_ID.$SLURM_PROCID'\n",
        pfs.display()
    );
    run_array(site, &pfs, &script);
    let said = |task, rank| read(&pfs.join(format!("r/{task}.{rank}")));
    let mut buffers: Vec<String> = (1..=3).map(|task| said(task, 0)).collect();
    assert_eq!(buffers, [said(1, 1), said(2, 1), said(3, 1)], "both nodes have the task's buffer");
    buffers.sort();
    buffers.dedup();
    assert!(buffers.len() == 3 && !buffers[0].is_empty(), "{buffers:?}");
}

/// Submits an array and waits until Slurm lists none of its tasks any more; its id.
#[track_caller]
fn run_array(site: &Site, folder: &Path, script: &str) -> String {
    let id = site.submit(GRACE, folder, script).id.to_string();
    let listed = || site.on("head", &["squeue", "-a", "-h", "-j", &id]).stdout;
    let done = tests::processes::wait_until(std::time::Duration::from_secs(120), || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        listed().trim().is_empty()
    });
    assert!(done, "{}", listed());
    id
}

/// Options that say where results are and what a job sees: `tests/e2e` has `forebay run` make the same of them.
pub fn options(site: &Site) {
    let pfs = site.pfs(GRACE, "options");
    fs::write(pfs.join("job.sh"), tests::sbatch::SCRIPT).expect("ours");
    let folder = pfs.to_str().expect("a plain name");
    let submitted =
        site.on("head/grace", &["sbatch", "--wait", "--chdir", folder, &format!("{folder}/job.sh")]);
    assert!(submitted.status.success(), "{}{}", submitted.stdout, submitted.stderr);
    let limit = std::time::Duration::from_secs(60);
    assert!(tests::processes::wait_until(limit, || tests::sbatch::is_staged_out(&pfs)));
    tests::sbatch::assert_results(&pfs, GRACE.name);
}

/// Slurm does not say how the job ended; what it wrote is saved.
pub fn failing_job(site: &Site) {
    let pfs = site.pfs(ADA, "failing");
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/core destination={}/core\n\
         echo why > $DW_JOB_STRIPED/core\nexit 3\n",
        pfs.display()
    );
    let job = site.submit(ADA, &pfs, &script);
    assert_eq!((job.wait_end().as_str(), job.field("ExitCode").as_str()), ("FAILED", "3:0"));
    assert_eq!(read(&pfs.join("core")), "why\n");
}

/// `srun --bb`, `salloc --bbf`.
pub fn interactive(site: &Site) {
    let pfs = site.pfs(ADA, "interactive");
    let command = "echo $DW_JOB_STRIPED; echo x > $DW_JOB_STRIPED/x; cat $DW_JOB_STRIPED/x";
    let bb = "--bb=capacity=16MiB access=striped type=scratch";
    let srun = site.on("head/ada", &["srun", "-N1", bb, "bash", "-c", command]);
    assert!(srun.stdout.ends_with("/striped/\nx\n"), "{}{}", srun.stdout, srun.stderr);
    let directives = pfs.join("bb.conf");
    let text = format!(
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/x destination={}/x\n",
        pfs.display()
    );
    fs::write(&directives, text).expect("ours");
    let bbf = format!("--bbf={}", directives.display());
    let salloc =
        site.on("head/ada", &["salloc", "-N2", &bbf, "srun", "bash", "-c", "echo y > $DW_JOB_STRIPED/x"]);
    assert!(salloc.status.success(), "{}{}", salloc.stdout, salloc.stderr);
    wait_file(&pfs.join("x"), "y\n");
}

/// A source that is gone between `sbatch` and the stage-in: the job is held, and says why.
pub fn source_that_vanishes(site: &Site) {
    let pfs = site.pfs(GRACE, "vanishes");
    let source = pfs.join("input-%j");
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_in type=file source={} destination=$DW_JOB_STRIPED/input\ntrue\n",
        source.display()
    );
    let job = site.submit(GRACE, &pfs, &script);
    let wanted = pfs.join(format!("input-{}", job.id));
    job.wait_shown(&[wanted.to_str().expect("a plain name"), "No such file"]);
    job.cancel(&[]);
    job.wait_end();
}

fn wait_file(path: &Path, text: &str) {
    tests::processes::wait_until(std::time::Duration::from_secs(60), || read(path) == text);
    assert_eq!(read(path), text, "{}", path.display());
}

/// The scripts that a new user of the cluster finds in the home folder.
pub fn examples(site: &Site) {
    let pfs = site.pfs(ADA, "examples");
    let hello = site.submit(ADA, &pfs, include_str!("../../examples/slurm/hello.sh"));
    hello.wait_success();
    let hosts = read(&pfs.join(format!("hosts-{}.txt", hello.id)));
    assert_eq!(hosts.lines().count(), 2, "{hosts}");

    let drained = site.submit(ADA, &pfs, include_str!("../../examples/slurm/drained.sh"));
    drained.wait_success();
    let said = drained.output();
    assert!(said.contains("step3.committed is published") && said.contains("3 of 3 files done"), "{said}");
    let steps = pfs.join(format!("steps-{}", drained.id));
    let of_step = |n| fs::read_dir(steps.join(format!("step{n}"))).expect("drained").flatten();
    let whole =
        (1..=3).flat_map(of_step).filter(|entry| entry.metadata().is_ok_and(|meta| meta.len() == 8 << 20));
    assert_eq!(whole.count(), 6, "three steps of two nodes");

    let around = site.submit(ADA, &pfs, include_str!("../../examples/slurm/around.sh"));
    around.wait_success();
    let ends = pfs.join(format!("ends-{}", around.id));
    let lines =
        |rank| read(&ends.join(format!("in-{rank}.txt"))).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!([lines(0)[0].as_str(), lines(1)[0].as_str()], ["10", "1"], "{}", around.output());
}

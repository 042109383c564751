//! Options of `sbatch` and `srun` that say where results are and what a job sees, where Slurm is absent.
//!
//! `tests/slurm` has Slurm run the first script, with the same results.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use tests::cluster::Cluster;
use tests::processes::wait_until;
use tests::sbatch;

const JOBDW: &str = "#DW jobdw capacity=64MiB access_mode=striped type=scratch\n";

fn user() -> String {
    let name = Command::new("id").arg("-un").output().expect("id is there");
    String::from_utf8(name.stdout).expect("a name is text").trim().to_owned()
}

#[test]
fn a_script_makes_of_sbatchs_options_what_it_makes_under_slurm() {
    let cluster = Cluster::new();
    let outcome = cluster.run(sbatch::SCRIPT, &[]).expect_success();
    sbatch::assert_results(&cluster.work, &user());
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("the job's output goes to ") && said.contains("task 5 of array 3-5:2"), "{said}");
    assert!(!said.contains("without meaning"), "{said}");
    cluster.assert_nothing_left();
}

#[test]
fn ranks_without_a_launcher_have_their_files_and_variables_too() {
    let cluster = Cluster::new();
    let hidden = cluster.pfs("hidden");
    fs::write(hidden.join("mpiexec"), "not to be run").unwrap();
    // A PATH with what the script needs, and no mpiexec.
    for program in ["bash", "sh", "hostname", "ls", "true"] {
        std::os::unix::fs::symlink(format!("/bin/{program}"), hidden.join(program)).unwrap();
    }
    let script = sbatch::SCRIPT.replace("LEVEL=3", &format!("LEVEL=3,PATH={}", hidden.display()));
    cluster.run(&script, &[]).expect_success();
    sbatch::assert_results(&cluster.work, &user());
}

#[test]
fn a_job_is_passed_the_variables_that_export_lists_and_those_of_a_login() {
    let cluster = Cluster::new();
    let script = format!(
        "#!/bin/bash\n#SBATCH --export=WANTED,NEW=x\n{JOBDW}\
         echo \"${{WANTED-none}} ${{OTHER-none}} $NEW $USER ${{HOME:+home}} ${{DW_JOB_STRIPED:+buffer}}\"\n\
         srun sh -c 'echo \"${{WANTED-none}} ${{NEW-none}} ${{DW_JOB_STRIPED:+buffer}}\"'\n\
         WANTED=again srun --export=ALL sh -c 'echo \"$WANTED $NEW\"'\n"
    );
    let path = cluster.script(&script);
    let mut command = cluster.command(&["run", &path]);
    command.env("WANTED", "wanted").env("OTHER", "other");
    let outcome = cluster.spawn(command).wait().expect_success();
    let expected = format!("wanted none x {} home buffer\nwanted x buffer\nagain x\n", user());
    assert!(outcome.stdout.starts_with(&expected), "{}", outcome.stdout);
}

#[test]
fn a_wrong_option_or_a_missing_folder_is_refused_before_anything_is_copied() {
    let cluster = Cluster::new();
    for (option, code, words) in [
        ("--array=5-3", 65, "`5-3` is not task numbers"),
        ("-c many", 65, "`many` is not a whole number"),
        ("-o none/%j", 66, "none of #SBATCH --output is not there"),
    ] {
        let outcome = cluster.run(&format!("#!/bin/bash\n#SBATCH {option}\n{JOBDW}touch ran\n"), &[]);
        assert_eq!(outcome.code(), code, "{}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
    assert!(!cluster.work.join("ran").exists());
    cluster.assert_nothing_left();
}

#[test]
fn an_interrupted_array_says_how_to_run_the_rest() {
    let cluster = Cluster::new();
    let script = format!(
        "#!/bin/bash\n#SBATCH --array=1-4\n{JOBDW}echo $1 >>ran.$SLURM_ARRAY_TASK_ID\n\
         [ $SLURM_ARRAY_TASK_ID != 2 ] || [ \"$1\" = again ] || sleep 100\n"
    );
    let path = cluster.script(&script);
    let running = cluster.start(&["run", &path]);
    assert!(wait_until(std::time::Duration::from_secs(60), || cluster.work.join("ran.2").exists()));
    running.signal_group(Signal::INT);
    let outcome = running.wait();
    assert_eq!(outcome.code(), 130, "{}", outcome.stderr);
    let advised = format!("`forebay run --array=3-4 {path} --dir {}` runs them", cluster.state.display());
    assert!(outcome.stderr.contains(&advised), "no {advised} in {}", outcome.stderr);
    cluster.forebay(&["run", "--array=2-4", &path, "again"]).expect_success();
    for task in 2..=4 {
        let text = fs::read_to_string(cluster.work.join(format!("ran.{task}"))).unwrap();
        assert!(text.ends_with("again\n"), "{text}");
    }
    cluster.assert_nothing_left();
}

#[test]
fn srun_says_what_it_takes() {
    let cluster = Cluster::new();
    let script = format!("#!/bin/bash\n{JOBDW}srun --help\n");
    let outcome = cluster.run(&script, &[]).expect_success();
    assert!(outcome.stdout.starts_with("Forebay's srun") && outcome.stdout.contains("--output=FILE"));
}

#[test]
fn a_resumed_run_says_that_its_script_was_changed() {
    let cluster = Cluster::new();
    let script =
        format!("#!/bin/bash\n{JOBDW}echo old >>ran\n[ -e go ] || {{ touch started; sleep 100; }}\n");
    let path = cluster.script(&script);
    let running = cluster.start(&["run", &path]);
    assert!(wait_until(std::time::Duration::from_secs(60), || cluster.work.join("started").exists()));
    running.kill();
    fs::write(cluster.work.join("go"), "").unwrap();
    cluster.script(&script.replace("old", "new"));
    let resumed = cluster.forebay(&["run", "--resume"]).expect_success();
    let said = format!("{path} was changed since; what runs is the script as it was submitted");
    assert!(resumed.stderr.contains(&said), "{}", resumed.stderr);
    assert_eq!(fs::read_to_string(cluster.work.join("ran")).unwrap(), "old\nold\n");
    cluster.assert_nothing_left();
}

/// A present `SLURM_JOB_NODELIST` sends MPICH's `mpiexec` looking for Slurm, and a `SLURM_JOB_ID` Open MPI's.
#[test]
fn mpi_launchers_work_in_a_job_with_the_variables_of_slurm() {
    let cluster = Cluster::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/ranks.c");
    for flavour in ["mpich", "openmpi"] {
        let program = cluster.work.join(flavour);
        let compiled = Command::new(format!("mpicc.{flavour}")).args([source, "-o"]).arg(&program).status();
        assert!(compiled.expect("scripts/install-deps names what has mpicc").success());
    }
    // Open MPI starts no more ranks than there are cores, and none for root, unless it is told to.
    let script = format!(
        "#!/bin/bash\n#SBATCH -n 3\n{JOBDW}[ -n \"$SLURM_JOB_NODELIST\" ] || exit 9\n\
         export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n\
         mpiexec.mpich -n 2 ./mpich\nmpiexec.mpich -n 5 ./mpich\nmpiexec.mpich ./mpich\n./mpich\n\
         mpiexec.openmpi --oversubscribe -n 2 ./openmpi\nmpiexec.openmpi --oversubscribe -n 5 ./openmpi\n./openmpi\n"
    );
    let outcome = cluster.run(&script, &[]).expect_success();
    let said: Vec<&str> = outcome.stdout.lines().filter(|line| line.ends_with("ranks")).collect();
    let count = |ranks| format!("{ranks} of {ranks} ranks");
    assert_eq!(said, [2, 5, 3, 1, 2, 5, 1].map(count), "{}{}", outcome.stdout, outcome.stderr);
    cluster.assert_nothing_left();
}

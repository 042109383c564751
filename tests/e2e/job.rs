//! What a job sees and what its end means.

use std::fs;

use tests::cluster::Cluster;

const JOBDW: &str = "#!/bin/bash\n#SBATCH -q regular\n#SBATCH -J plain\n\
                     #DW jobdw capacity=64MiB access_mode=striped type=scratch\n";

#[test]
fn the_jobs_exit_status_passes_through_and_its_results_are_staged_out_all_the_same() {
    let cluster = Cluster::new();
    let target = cluster.pfs("pfs").join("results");
    let script = format!(
        "{JOBDW}#DW stage_out type=directory source=$DW_JOB_STRIPED/results destination={}\n\
         mkdir $DW_JOB_STRIPED/results\necho partial > $DW_JOB_STRIPED/results/file\nexit 42\n",
        target.display()
    );
    let outcome = cluster.run(&script, &[]);
    assert_eq!(outcome.code(), 42, "{}\n{}", outcome.stdout, outcome.stderr);
    assert_eq!(fs::read_to_string(target.join("file")).expect("it was staged out"), "partial\n");
    cluster.assert_nothing_left();
}

#[test]
fn the_buffers_path_ends_with_a_slash_and_is_a_folder_that_the_user_owns() {
    let cluster = Cluster::new();
    let script = format!("{JOBDW}echo \"$DW_JOB_STRIPED\" > path\nstat -c %u $DW_JOB_STRIPED > owner\n");
    cluster.run(&script, &[]).expect_success();
    let path = fs::read_to_string(cluster.work.join("path")).unwrap();
    assert!(path.starts_with('/') && path.ends_with("/\n"), "{path}");
    let owner = fs::read_to_string(cluster.work.join("owner")).unwrap();
    assert_eq!(owner.trim(), rustix::process::getuid().as_raw().to_string());
}

#[test]
fn sbatch_options_without_a_meaning_here_are_one_note() {
    let cluster = Cluster::new();
    let script = JOBDW.replace("-q regular", "-q regular\n#SBATCH -C haswell\n#SBATCH --mail-user=me");
    let outcome = cluster.run(&format!("{script}true\n"), &[]).expect_success();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(said.lines().filter(|line| line.contains("SBATCH")).count(), 1, "{said}");
}

#[test]
fn srun_starts_the_ranks_that_it_is_asked_for() {
    let cluster = Cluster::new();
    let script = format!(
        "{JOBDW}srun -n 3 sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS > ${{DW_JOB_STRIPED}}rank.$SLURM_PROCID'\n\
         cat ${{DW_JOB_STRIPED}}rank.* > ranks\n"
    );
    cluster.run(&script, &[]).expect_success();
    assert_eq!(fs::read_to_string(cluster.work.join("ranks")).unwrap(), "0 of 3\n1 of 3\n2 of 3\n");
}

#[test]
fn a_failed_rank_is_sruns_exit_status() {
    let cluster = Cluster::new();
    let script =
        format!("{JOBDW}srun -n 2 sh -c '[ $SLURM_PROCID = 0 ] || exit 9'\necho srun said $? > status\n");
    cluster.run(&script, &[]).expect_success();
    assert_eq!(fs::read_to_string(cluster.work.join("status")).unwrap(), "srun said 9\n");
}

#[test]
fn a_private_buffer_has_a_path_of_its_own() {
    let cluster = Cluster::new();
    let script = "#!/bin/bash\n#DW jobdw capacity=64MiB access_mode=striped,private type=scratch\n\
                  echo striped > ${DW_JOB_STRIPED}file\necho private > ${DW_JOB_PRIVATE}file\n\
                  cat ${DW_JOB_STRIPED}file ${DW_JOB_PRIVATE}file > both\n";
    cluster.run(script, &["--nodes", "2"]).expect_success();
    assert_eq!(fs::read_to_string(cluster.work.join("both")).unwrap(), "striped\nprivate\n");
    cluster.assert_nothing_left();
}

#[test]
fn the_summary_for_programs_has_phases_stages_and_the_exit_status() {
    let cluster = Cluster::new();
    let source = cluster.pfs("pfs");
    fs::write(source.join("file"), vec![7; 300_000]).expect("the folder is ours");
    let script = format!(
        "{JOBDW}#DW stage_in type=directory source={} destination=$DW_JOB_STRIPED/in\necho the job speaks\nexit 3\n",
        source.display()
    );
    let outcome = cluster.run(&script, &["--json"]);
    assert_eq!(outcome.code(), 3, "{}", outcome.stderr);
    let summary = outcome.json();
    assert_eq!(summary["outcome"], "job_failed");
    assert_eq!(summary["exit_status"], 3);
    assert_eq!(summary["job"]["exit_status"], 3);
    assert_eq!(summary["stages"][0]["state"], "complete");
    assert_eq!(summary["stages"][0]["progress"]["bytes_verified"], 300_000);
    assert_eq!(summary["capacity_bytes"], 64 << 20);
    let phases = summary["phases"].as_array().unwrap();
    assert!(phases.iter().any(|phase| phase["phase"] == "job"), "{summary}");
    assert!(phases.iter().all(|phase| phase["elapsed_ms"].is_u64()), "{summary}");
    assert_eq!(summary["kept"], serde_json::json!(null));
    assert!(outcome.stdout.starts_with("the job speaks\n"), "{}", outcome.stdout);
}

#[test]
fn two_jobs_in_one_state_folder_do_not_see_each_other() {
    let cluster = Cluster::new();
    let path = cluster
        .script(&format!("{JOBDW}ls -A $DW_JOB_STRIPED\necho mine > ${{DW_JOB_STRIPED}}file\nsleep 1\n"));
    let first = cluster.start(&["run", &path]);
    let second = cluster.start(&["run", &path]);
    for outcome in [first.wait().expect_success(), second.wait().expect_success()] {
        assert!(!outcome.stdout.contains("file\n"), "a job saw another's file: {}", outcome.stdout);
    }
    cluster.assert_nothing_left();
}

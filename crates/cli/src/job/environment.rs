//! What a job finds in its environment: what `sbatch` sets, the paths of its buffer, and what it is passed of ours.
//!
//! `SLURM_JOB_NODELIST` makes the `mpiexec` of MPICH start its processes with `srun`, and a `SLURM_JOB_ID` that of Open
//! MPI; so both are told to start processes on this machine themselves. `docs/use/job-scripts.md` says what was tried.

use std::ffi::OsString;
use std::path::Path;

use model::sbatch::{Array, Export, Sbatch};
use tokio::process::Command;
use wire::control::Paths;

use crate::run_record::RunRecord;
use crate::{env, identity};

/// For MPI launchers: start processes here, whatever `SLURM_` variables say. MPICH's has its count of processes from
/// them all the same, as under Slurm.
const LAUNCHERS: [(&str, &str); 5] = [
    ("HYDRA_BOOTSTRAP", "fork"),
    ("OMPI_MCA_plm", "^slurm"),
    ("OMPI_MCA_ras", "^slurm"),
    ("PRTE_MCA_plm", "^slurm"),
    ("PRTE_MCA_ras", "^slurm"),
];

/// The script itself is rank 0 on node 0 of 1.
const BATCH: [(&str, &str); 8] = [
    ("ENVIRONMENT", "BATCH"),
    ("SLURM_CLUSTER_NAME", "forebay"),
    ("SLURM_GTIDS", "0"),
    ("SLURM_JOB_NUM_NODES", "1"),
    ("SLURM_LOCALID", "0"),
    ("SLURM_NNODES", "1"),
    ("SLURM_NODEID", "0"),
    ("SLURM_PROCID", "0"),
];

/// Gives `command` what is passed on of our environment.
pub(super) fn pass_on(command: &mut Command, export: Option<&Export>) {
    let Some(export) = export else { return };
    if !export.is_all() {
        command.env_clear().envs(identity::login_environment());
        command.envs(env::all().filter(|(name, _)| export.passes(&name.to_string_lossy())));
    }
    command.envs(export.values().iter().map(|(name, value)| (name, value)));
    command.env("SLURM_EXPORT_ENV", export.text());
}

/// All that is set for the job of `record`.
pub(super) fn variables(
    record: &RunRecord,
    sbatch: &Sbatch,
    paths: &Paths,
    records_folder: &Path,
    programs: &Path,
) -> Vec<(String, OsString)> {
    let owned = |(name, value): (&str, String)| (name.to_owned(), OsString::from(value));
    let mut variables = of_buffer(record, paths, records_folder);
    variables.extend(LAUNCHERS.into_iter().chain(BATCH).map(|(name, value)| owned((name, value.to_owned()))));
    variables.extend(of_this_job(record).map(|(name, value)| (name.to_owned(), value)));
    variables.extend(of_size(sbatch).into_iter().chain(of_array(record)).map(owned));
    let mut search_path = programs.as_os_str().to_owned();
    search_path.push(":");
    search_path.push(search_path_for(sbatch.export.as_ref()));
    variables.push(("PATH".to_owned(), search_path));
    variables
}

/// What every job has, wherever it runs.
pub(super) fn of_buffer(record: &RunRecord, paths: &Paths, records_folder: &Path) -> Vec<(String, OsString)> {
    let mut variables: Vec<(String, OsString)> =
        paths.variables.iter().map(|(name, value)| (name.clone(), value.into())).collect();
    // These two mark the job's processes for `Group::alive`, and let `forebay status` in the script find its own
    // buffer.
    let state_folder = records_folder.parent().unwrap_or(records_folder);
    variables.push(("FOREBAY_DIR".to_owned(), state_folder.into()));
    variables.push(("FOREBAY_TOKEN".to_owned(), record.token.as_str().into()));
    variables
}

/// The job's `PATH` without our folder of programs.
fn search_path_for(export: Option<&Export>) -> OsString {
    let Some(export) = export else { return env::search_path() };
    let set = export.values().iter().rev().find(|(name, _)| name == "PATH");
    match set {
        Some((_, value)) => value.into(),
        None if export.passes("PATH") => env::search_path(),
        None => env::DEFAULT_PATH.into(),
    }
}

fn of_this_job(record: &RunRecord) -> [(&'static str, OsString); 13] {
    let (owner, host) = (identity::owner(), identity::host());
    let token = || record.token.as_str().into();
    [
        ("SLURM_JOB_ID", token()),
        ("SLURM_JOBID", token()),
        ("SLURM_JOB_NAME", record.script.job_name.clone().into()),
        ("SLURM_JOB_USER", record.script.user.clone().into()),
        ("SLURM_JOB_UID", owner.uid.to_string().into()),
        ("SLURM_JOB_GID", owner.gid.to_string().into()),
        ("SLURM_SUBMIT_DIR", record.submit_folder.clone().into()),
        ("SLURM_SUBMIT_HOST", host.clone().into()),
        ("SLURM_JOB_NODELIST", host.clone().into()),
        ("SLURM_NODELIST", host.clone().into()),
        ("SLURMD_NODENAME", host.clone().into()),
        ("SLURM_TOPOLOGY_ADDR", host.into()),
        ("SLURM_TOPOLOGY_ADDR_PATTERN", "node".into()),
    ]
}

/// Tasks and processors, and what is only named. `sbatch` sets some only where they were asked for.
fn of_size(sbatch: &Sbatch) -> Vec<(&'static str, String)> {
    let ranks = sbatch.ranks().to_string();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).to_string();
    let mut variables = vec![
        ("SLURM_JOB_PARTITION", "forebay".to_owned()),
        ("SLURM_NTASKS", ranks.clone()),
        ("SLURM_NPROCS", ranks.clone()),
        ("SLURM_TASKS_PER_NODE", ranks),
        ("SLURM_CPUS_ON_NODE", processors.clone()),
        ("SLURM_JOB_CPUS_PER_NODE", processors),
    ];
    let asked_for =
        [("SLURM_CPUS_PER_TASK", sbatch.cpus_per_task), ("SLURM_NTASKS_PER_NODE", sbatch.ntasks_per_node)];
    variables.extend(asked_for.into_iter().filter_map(|(name, value)| Some((name, value?.to_string()))));
    variables.extend(sbatch.named.iter().cloned());
    variables
}

fn of_array(record: &RunRecord) -> Vec<(&'static str, String)> {
    let Some(array) = &record.array_task else { return Vec::new() };
    let mut variables = vec![
        ("SLURM_ARRAY_JOB_ID", array.job_id.to_string()),
        ("SLURM_ARRAY_TASK_ID", array.task.to_string()),
    ];
    variables.extend(Array::parse(&array.list).iter().flat_map(Array::variables));
    variables
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use model::{Token, sbatch};

    use super::*;
    use crate::fixtures;
    use crate::run_record::ArrayTask;

    fn seen(options: &str, array_task: Option<ArrayTask>) -> HashMap<String, String> {
        let record = RunRecord {
            array_task,
            ..RunRecord::new(Token::literal("7"), fixtures::session().script, "/home/u".into())
        };
        let paths =
            Paths { variables: [("DW_JOB_STRIPED".to_owned(), "/b/mnt/7/striped/".to_owned())].into() };
        let sbatch = sbatch::parse(&format!("#!/bin/sh\n#SBATCH {options}\n"));
        let set = variables(&record, &sbatch, &paths, Path::new("/b/run"), Path::new("/b/run/bin"));
        let set: HashMap<_, _> =
            set.into_iter().map(|(name, value)| (name, value.to_str().unwrap().to_owned())).collect();
        for mark in record.marks(Path::new("/b")) {
            let (name, expected) = mark.split_once('=').unwrap();
            assert_eq!(set[name], expected);
        }
        set
    }

    #[test]
    fn the_job_sees_a_slurm_job_and_its_buffer() {
        let seen = seen("-n 4", None);
        assert_eq!(seen["DW_JOB_STRIPED"], "/b/mnt/7/striped/");
        assert_eq!(seen["SLURM_JOB_ID"], "7");
        assert_eq!(seen["SLURM_JOB_NAME"], "stars");
        assert_eq!(seen["SLURM_NTASKS"], "4");
        assert_eq!(seen["SLURM_SUBMIT_DIR"], "/home/u");
        assert_eq!(seen["SLURM_JOB_NODELIST"], identity::host());
        assert!(seen["PATH"].starts_with("/b/run/bin:"));
        assert!(!seen.contains_key("SLURM_CPUS_PER_TASK") && !seen.contains_key("SLURM_ARRAY_TASK_ID"));
        // Open MPI takes these for a step of Slurm's, and looks for its PMI.
        assert!(!seen.contains_key("SLURM_STEP_ID") && !seen.contains_key("SLURM_STEPID"));
    }

    /// Debian's MPICH 4.0.2 and Open MPI 4.1.4 fail without them; `tests/e2e/sbatch.rs` runs both.
    #[test]
    fn mpi_launchers_are_kept_from_looking_for_slurm() {
        let seen = seen("-n 4", None);
        assert_eq!(seen["HYDRA_BOOTSTRAP"], "fork");
        assert_eq!((seen["OMPI_MCA_plm"].as_str(), seen["OMPI_MCA_ras"].as_str()), ("^slurm", "^slurm"));
    }

    #[test]
    fn what_options_ask_for_is_told_to_the_job() {
        let seen = seen("-N 2 --ntasks-per-node=3 -c 4 -p debug --mem=2G --export=NONE,PATH=/x", None);
        let expected = [
            ("SLURM_NTASKS", "6"),
            ("SLURM_NTASKS_PER_NODE", "3"),
            ("SLURM_TASKS_PER_NODE", "6"),
            ("SLURM_NNODES", "1"),
            ("SLURM_CPUS_PER_TASK", "4"),
            ("SLURM_MEM_PER_NODE", "2048"),
            ("SLURM_JOB_PARTITION", "debug"),
            ("PATH", "/b/run/bin:/x"),
        ];
        for (name, value) in expected {
            assert_eq!(seen[name], value, "{name}");
        }
    }

    #[test]
    fn a_task_of_an_array_knows_its_place() {
        let task = ArrayTask { job_id: Token::literal("5"), task: 3, list: "1-5:2".into() };
        let seen = seen("-n 1", Some(task));
        let values = ["JOB_ID", "TASK_ID", "TASK_COUNT", "TASK_MIN", "TASK_MAX", "TASK_STEP"]
            .map(|name| seen[&format!("SLURM_ARRAY_{name}")].as_str());
        assert_eq!(values, ["5", "3", "3", "1", "5", "2"]);
    }
}

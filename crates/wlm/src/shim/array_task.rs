//! What the plugin does not make for the tasks of a job array, but for the last one: slurmctld 24.11 has it check the
//! rest of the array where 22.05 had it check the task that is split off, and that call made the task's folder and its
//! script. So there the script of the whole array is read, and Slurm is asked for the nodes, whose list the plugin
//! could not write.

use std::path::{Path, PathBuf};

use model::{NodeName, hostlist};

use super::answer::Answer;
use super::squeue;

/// More than the names of a job's nodes take, in Slurm's short form.
const NODES: &str = "NodeList:65536";

/// The script of the array that a task is of, where the task's own is absent.
pub(super) fn script_of_array(script: &Path, task: &str) -> Option<PathBuf> {
    let row = squeue::ask(task, &["ArrayJobID:24"])?;
    of_job(script, row[0].parse().ok()?)
}

/// Where Slurm keeps the script of another job: `hash.7/job.107/script`, by the last digit.
fn of_job(script: &Path, job: u32) -> Option<PathBuf> {
    let state = script.ancestors().nth(3)?;
    Some(state.join(format!("hash.{}/job.{job}/script", job % 10)))
}

/// The nodes of a job that is about to start.
pub(super) fn hosts(job: &str) -> Result<Vec<NodeName>, Answer> {
    let nodes = squeue::ask(job, &[NODES]).and_then(|row| hostlist::names(&row[0]).ok());
    nodes.filter(|nodes| !nodes.is_empty()).ok_or_else(|| {
        Answer::failed(format!(
            "Slurm gave no list of the nodes of job {job}, and `squeue --jobs={job}` does not tell them; squeue must \
             be in slurmctld's PATH"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_an_array_is_where_slurm_keeps_it() {
        let script = of_job(Path::new("/s/hash.7/job.107/script"), 98);
        assert_eq!(script.as_deref(), Some(Path::new("/s/hash.8/job.98/script")));
        assert_eq!(of_job(Path::new("script"), 98), None);
    }
}

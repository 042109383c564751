//! What Slurm says of a job beyond the words of its calls. Not while Slurm holds its locks: it would not answer.

use std::process::{Command, Stdio};

/// The fields of a job, as `["ArrayJobID:24"]`, without those of its array's other tasks, which are listed with it.
/// `None` of a job that Slurm does not know, and where there is no Slurm.
pub(super) fn ask(job: &str, fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("squeue");
    command.args(["--noheader", "--all", "--states=all"]).arg(format!("--jobs={job}"));
    command.arg(format!("--Format=JobID:24,{}", fields.join(",")));
    let answer = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    row(&String::from_utf8_lossy(&answer.stdout), job, fields.len())
}

fn row(table: &str, job: &str, fields: usize) -> Option<Vec<String>> {
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let is_of_job = words.next().is_some_and(|id| id == job);
        let found: Vec<String> = words.collect();
        (is_of_job && found.len() == fields).then_some(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_row_that_begins_with_its_whole_id() {
        let table = "\
            70008                   768                     STAGE_OUT               \n\
            70007                   0                       PENDING                 \n";
        assert_eq!(row(table, "70007", 2), Some(vec!["0".to_owned(), "PENDING".to_owned()]));
        assert_eq!(row(table, "7000", 2), None);
        assert_eq!(row("slurm_load_jobs error: Invalid job id specified", "70007", 2), None);
    }
}

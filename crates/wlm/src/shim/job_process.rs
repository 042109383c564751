//! `job_process`: would this script work? Slurm asks inside `sbatch`, and shows the user what is wrong.

use model::symbols::Symbols;
use model::{directive, sbatch};
use wire::control::{JobProcess, JobSummary, Owner};

use super::answer::Answer;
use super::arguments::Arguments;
use super::submission;
use api::control::Control;

/// What symbols stand for as long as there is no job. Control does not look at paths that have it.
const UNKNOWN: &str = "<job-id>";

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    check(arguments, control).unwrap_or_else(|failure| failure)
}

fn check(arguments: &Arguments, control: &Control) -> Result<Answer, Answer> {
    let file = arguments.need(&arguments.job, "--job")?;
    let script = submission::read_submitted(file, UNKNOWN)?;
    refuse_what_slurm_would_lose(&script.text)?;
    // Slurm does not say whose job it is.
    let owner = Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
    let request = JobProcess { script, owner, submitter: submission::submitter(file) };
    match control.post::<_, JobSummary>("/v1/job_process", &request) {
        Ok(_) => Ok(Answer::Done(String::new())),
        Err(error) => Err(Answer::failed(error)),
    }
}

fn refuse_what_slurm_would_lose(text: &str) -> Result<(), Answer> {
    // Mistakes are told by control, in all its words.
    let Ok(parsed) = directive::parse(text, &symbols()) else { return Ok(()) };
    // Of a heterogeneous job each component is asked about, without what is lost.
    match sbatch::forgotten(text, &parsed, false) {
        Some(late) => Err(Answer::failed(format!("line {}: {}", late.line, late.message))),
        None => Ok(()),
    }
}

fn symbols() -> Symbols {
    let unknown = || UNKNOWN.to_owned();
    Symbols {
        job_id: unknown(),
        array_job_id: unknown(),
        array_task_id: "0".to_owned(),
        workdir: format!("/{UNKNOWN}"),
        user: unknown(),
        job_name: unknown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=1GiB\n";

    #[test]
    fn a_directive_below_a_command_is_fine_as_long_as_slurm_keeps_the_script() {
        let late = "hostname\n#DW stage_out type=file source=$DW_JOB_STRIPED/a destination=/pfs/a\n";
        assert_eq!(refuse_what_slurm_would_lose(&format!("{JOB}{late}")), Ok(()));
    }

    #[test]
    fn a_directive_that_slurm_would_forget_is_refused_with_its_line() {
        let late = "hostname\n#DW stage_out type=file source=$DW_JOB_STRIPED/a destination=/pfs/a.%j\n";
        let Err(Answer::Failed(line)) = refuse_what_slurm_would_lose(&format!("{JOB}{late}")) else {
            panic!("it was accepted")
        };
        assert!(line.starts_with("line 4: "), "{line}");
        let above = "#DW stage_out type=file source=$DW_JOB_STRIPED/a destination=/pfs/a.%j\nhostname\n";
        assert_eq!(refuse_what_slurm_would_lose(&format!("{JOB}{above}")), Ok(()));
    }
}

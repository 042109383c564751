//! The job's script as a process: its environment, its process group, its end.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};
use wire::control::Paths;

use crate::failure::Failure;
use crate::run_record::{Records, RunRecord};
use crate::script::Interpreter;
use crate::{env, identity};

/// Starts the script of `record` in a process group of its own.
///
/// # Errors
/// Its interpreter is not there, or the machine refuses.
pub fn start(record: &RunRecord, paths: &Paths, records: &Records) -> Result<Child, Failure> {
    let script = &record.script;
    let interpreter = Interpreter::of(&script.path, &script.text)?;
    let text = text_to_run(record, records)?;
    let programs = programs_folder(records)?;
    let mut command = Command::new(&interpreter.program);
    command
        .args(&interpreter.argument)
        .arg(text)
        .args(&record.arguments)
        .current_dir(&script.workdir)
        .envs(environment(record, paths, records.folder(), &programs))
        .process_group(0);
    if std::io::stdin().is_terminal() {
        // A terminal stops a process outside its foreground group that reads from it: the job would hang. Slurm's
        // batch jobs have no terminal to read from either.
        command.stdin(Stdio::null());
    }
    command.spawn().map_err(|e| {
        Failure::script(
            format!("start {} for {}: {e}", interpreter.program, script.path.display()),
            "correct the script's first line or its working folder",
        )
    })
}

/// The original, so that `$0` means what it says, unless it was changed since: then a copy of what was submitted.
fn text_to_run(record: &RunRecord, records: &Records) -> Result<PathBuf, Failure> {
    let script = &record.script;
    if std::fs::read(&script.path).is_ok_and(|now| now == script.text.as_bytes()) {
        return Ok(script.path.clone());
    }
    let copy = records.folder().join(format!("{}.script", record.token));
    std::fs::write(&copy, &script.text).map_err(|e| Failure::local("write", &copy, &e))?;
    Ok(copy)
}

/// A folder with our `srun`, which comes first in the job's `PATH`: there is no Slurm job that another could speak of.
fn programs_folder(records: &Records) -> Result<PathBuf, Failure> {
    let folder = records.folder().join("bin");
    let failed = |e: std::io::Error| Failure::local("make srun in", &folder, &e);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let forebay = std::env::current_exe().map_err(failed)?;
    let link = folder.join("srun");
    if std::fs::read_link(&link).is_ok_and(|target| target == forebay) {
        return Ok(folder);
    }
    // Replaced whole: another job may look for it at this moment.
    let temporary = folder.join(format!("srun.{}", std::process::id()));
    let _ = std::fs::remove_file(&temporary);
    symlink(&forebay, &temporary).and_then(|()| std::fs::rename(&temporary, &link)).map_err(failed)?;
    Ok(folder)
}

/// What the job finds in its environment beyond ours.
fn environment(
    record: &RunRecord,
    paths: &Paths,
    records_folder: &Path,
    programs: &Path,
) -> Vec<(String, OsString)> {
    let tasks = record.ntasks.unwrap_or(1).to_string();
    let state_folder = records_folder.parent().unwrap_or(records_folder);
    let mut search_path = programs.as_os_str().to_owned();
    search_path.push(":");
    search_path.push(env::search_path());
    let mut variables: Vec<(String, OsString)> =
        paths.variables.iter().map(|(name, value)| (name.clone(), value.into())).collect();
    let mut add = |name: &str, value: OsString| variables.push((name.to_owned(), value));
    add("SLURM_JOB_ID", record.token.as_str().into());
    add("SLURM_JOBID", record.token.as_str().into());
    add("SLURM_JOB_NAME", record.script.job_name.clone().into());
    add("SLURM_JOB_USER", record.script.user.clone().into());
    add("SLURM_JOB_UID", identity::owner().uid.to_string().into());
    add("SLURM_SUBMIT_DIR", record.submit_folder.clone().into());
    add("SLURM_NTASKS", tasks.clone().into());
    add("SLURM_NPROCS", tasks.into());
    add("SLURM_NNODES", "1".into());
    add("SLURM_JOB_NUM_NODES", "1".into());
    // These two mark the job's processes for `Group::alive`, and let `forebay status` in the script find its own
    // buffer.
    add("FOREBAY_DIR", state_folder.into());
    add("FOREBAY_TOKEN", record.token.as_str().into());
    add("PATH", search_path);
    // Open MPI takes a SLURM_JOB_ID for a real allocation and looks for the rest of Slurm: keep it from that.
    for framework in ["OMPI_MCA_plm", "OMPI_MCA_ras", "PRTE_MCA_plm", "PRTE_MCA_ras"] {
        add(framework, "^slurm".into());
    }
    variables
}

#[cfg(test)]
mod tests {
    use model::Token;

    use super::*;
    use crate::fixtures;
    use std::collections::HashMap;

    fn record() -> RunRecord {
        RunRecord::new(Token::literal("7"), fixtures::session().script, "/home/u".into())
    }

    #[test]
    fn the_job_sees_a_slurm_job_and_its_buffer() {
        let mut record = record();
        record.ntasks = Some(4);
        let paths =
            Paths { variables: [("DW_JOB_STRIPED".to_owned(), "/b/mnt/7/striped/".to_owned())].into() };
        let seen: HashMap<String, OsString> =
            environment(&record, &paths, Path::new("/b/run"), Path::new("/b/run/bin")).into_iter().collect();
        let value = |name: &str| seen[name].to_str().unwrap().to_owned();
        assert_eq!(value("DW_JOB_STRIPED"), "/b/mnt/7/striped/");
        assert_eq!(value("SLURM_JOB_ID"), "7");
        assert_eq!(value("SLURM_JOB_NAME"), "stars");
        assert_eq!(value("SLURM_NTASKS"), "4");
        assert_eq!(value("SLURM_SUBMIT_DIR"), "/home/u");
        assert!(value("PATH").starts_with("/b/run/bin:"));
        for mark in record.marks(Path::new("/b")) {
            let (name, expected) = mark.split_once('=').unwrap();
            assert_eq!(value(name), expected);
        }
        // Either of these makes MPI launchers ask the Slurm that is not there.
        assert!(!seen.contains_key("SLURM_NODELIST") && !seen.contains_key("SLURM_JOB_NODELIST"));
        assert!(!seen.contains_key("SLURM_STEP_ID") && !seen.contains_key("SLURM_STEPID"));
    }

    #[test]
    fn a_script_that_was_changed_since_runs_as_it_was_submitted() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        let path = folder.path().join("job.sh");
        let mut record = record();
        record.script.path = path.clone();
        std::fs::write(&path, &record.script.text).unwrap();
        assert_eq!(text_to_run(&record, &records).unwrap(), path);
        std::fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        let copy = text_to_run(&record, &records).unwrap();
        assert_eq!(std::fs::read_to_string(copy).unwrap(), record.script.text);
    }
}

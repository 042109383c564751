//! Reads a batch script and checks it here, before anything is started for it.

mod components;
mod options;

use std::path::{Path, PathBuf};

use model::NodeName;
use model::directive::{self, Directive};
use model::sbatch::{self, Array};
use model::symbols::Symbols;
use wire::control::Script;

pub use self::components::{Component, UNKNOWN};
use crate::arguments::{Buffer, Run};
use crate::directives::Added;
use crate::failure::Failure;
use crate::identity;
use crate::interpreter::Interpreter;
use crate::run_record::RunRecord;

/// A script that may be submitted.
#[derive(Debug)]
pub struct Submission {
    /// What the services need to know of it.
    pub script: Script,
    /// What options add to its directives.
    pub added: Added,
    /// What it asks for; at least one.
    pub components: Vec<Component>,
    /// It is no script, but the program of a command.
    pub is_command: bool,
    /// The folder that it was submitted in; absolute.
    pub submit_folder: PathBuf,
    /// `--array`, or `#SBATCH --array`.
    pub array: Option<Array>,
    /// The hosts that have the buffer and its mounts; none: this one.
    pub hosts: Vec<NodeName>,
    /// Names of the `#SBATCH` options that mean nothing here.
    pub ignored: Vec<String>,
}

impl Submission {
    /// A command of the program `program` in the folder `folder`, with a buffer that `buffer` describes.
    ///
    /// # Errors
    /// An option is wrong.
    pub fn of_command(program: PathBuf, folder: &Path, buffer: &Buffer) -> Result<Submission, Failure> {
        let script = Script {
            text: "#!/bin/sh\n".into(),
            workdir: folder.into(),
            job_name: file_name(&program),
            user: identity::user_name(),
            path: folder.join(program),
        };
        let added = Added::of(buffer, folder)?;
        let (components, wrong) = components::read(&script, &added, folder);
        if let Some(failure) = wrong.into_iter().next() {
            return Err(failure);
        }
        let submit_folder = folder.into();
        Ok(Submission {
            script,
            added,
            components,
            is_command: true,
            submit_folder,
            array: None,
            hosts: Vec::new(),
            ignored: Vec::new(),
        })
    }

    /// Where a line of a component stands: in the script, or which option says it.
    pub fn place(&self, line: u32) -> String {
        components::place(&self.script, &self.added, line)
    }
}

/// The places on the file system of the stages of what `record` runs.
pub fn data(record: &RunRecord) -> Vec<PathBuf> {
    let script = record.submitted();
    let symbols = symbols(&script, record.token.as_str());
    let (directives, _) = directive::understood(&script.text, &symbols);
    let stages = directives.directives.into_iter().filter_map(|located| match located.directive {
        Directive::StageIn(stage) | Directive::StageOut(stage) => Some(PathBuf::from(stage.pfs)),
        _ => None,
    });
    stages.collect()
}

/// What symbols stand for in the job `job_id`, which is no task of an array.
pub fn symbols(script: &Script, job_id: &str) -> Symbols {
    Symbols {
        job_id: job_id.into(),
        array_job_id: job_id.into(),
        array_task_id: "0".into(),
        workdir: script.workdir.display().to_string(),
        user: script.user.clone(),
        job_name: script.job_name.clone(),
    }
}

/// The folder that we were started in.
///
/// # Errors
/// It is not there any more.
pub fn current_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|e| {
        Failure::no_input(format!("find the current folder: {e}"), "change to a folder that exists")
    })
}

/// Reads and checks `path`. Relative names start in `folder`, which is absolute. Options count before what the script
/// says.
///
/// # Errors
/// It is not there, is not a batch script, or its options or directives are wrong or missing.
pub fn read(path: &Path, folder: &Path, options: &Run) -> Result<Submission, Failure> {
    let examined = examine(path, folder, options)?;
    match examined.failures.into_iter().next() {
        Some(failure) => Err(failure),
        None => Ok(examined.submission),
    }
}

/// What a script says, and everything that is wrong with it.
#[derive(Debug)]
pub struct Examined {
    /// The script, which may be submitted if nothing is wrong.
    pub submission: Submission,
    /// What is wrong.
    pub failures: Vec<Failure>,
}

/// As [`read`], to the end of the script.
///
/// # Errors
/// It cannot be read, or is no text.
pub fn examine(path: &Path, folder: &Path, options: &Run) -> Result<Examined, Failure> {
    let path = folder.join(path);
    let bytes = std::fs::read(&path).map_err(|e| {
        Failure::no_input(
            format!("read the script {}: {e}", path.display()),
            "give the path of a batch script",
        )
    })?;
    let text = text(&path, bytes)?;
    let sbatch = sbatch::parse(&text);
    let mut failures: Vec<Failure> = [
        Interpreter::found(&path, &text).err(),
        options::refuse_wrong(&path, &sbatch).err(),
        options::refuse_requests(&path, &sbatch).err(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let script = Script {
        workdir: options::working_folder(&sbatch, folder).unwrap_or_else(|failure| {
            failures.push(failure);
            folder.into()
        }),
        job_name: sbatch.job_name.unwrap_or_else(|| file_name(&path)),
        user: identity::user_name(),
        text,
        path,
    };
    let added = Added::of(&options.job.buffer, folder)?;
    let (components, wrong) = components::read(&script, &added, folder);
    failures.extend(options::refuse_components(&script.path, components.len()).err());
    failures.extend(wrong);
    let array = options.array.clone().or(sbatch.array);
    let (submit_folder, ignored, hosts) = (folder.into(), sbatch.ignored, Vec::new());
    let submission =
        Submission { script, added, components, is_command: false, submit_folder, array, hosts, ignored };
    Ok(Examined { submission, failures })
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, Failure> {
    let text = String::from_utf8(bytes).map_err(|e| {
        let line =
            e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::script(
            format!("{}: line {line}: this is not UTF-8 text", path.display()),
            "convert it to UTF-8",
        )
    })?;
    if text.lines().next().is_some() && text.contains("\r\n") {
        return Err(Failure::script(
            format!("{}: the script has DOS line breaks", path.display()),
            "convert it with `dos2unix`",
        ));
    }
    Ok(text)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit_code::ExitCode;

    fn read_text(text: &str) -> Result<Submission, Failure> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("job.sh"), text).unwrap();
        read(Path::new("job.sh"), folder.path(), &Run::default())
    }

    #[test]
    fn a_script_that_is_not_there_is_no_input() {
        let failure = read(Path::new("absent.sh"), Path::new("/"), &Run::default()).unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::NoInput);
        assert!(failure.to_string().contains("/absent.sh: No such file"));
    }

    #[test]
    fn what_is_no_batch_script_is_refused_as_sbatch_does() {
        for text in ["", "echo hi\n", "#!\n", "#!/bin/sh\r\n#DW jobdw\r\n"] {
            assert_eq!(read_text(text).unwrap_err().exit_code(), ExitCode::Script, "{text:?}");
        }
    }

    #[test]
    fn a_script_without_directives_is_told_so() {
        let failure = read_text("#!/bin/sh\n#SBATCH -J x\necho\n").unwrap_err();
        assert!(failure.to_string().contains("no #DW directives"), "{failure}");
    }

    #[test]
    fn job_name_and_folder_come_from_the_script_where_it_has_them() {
        let text =
            "#!/bin/sh\n#SBATCH -J stars -t 10\n#DW jobdw capacity=1GiB access_mode=striped type=scratch\n";
        let named = read_text(text).unwrap();
        assert_eq!(named.script.job_name, "stars");
        assert_eq!(named.ignored, ["-t"]);
        assert_eq!(named.script.workdir, named.submit_folder);
        let unnamed = read_text(&text.replace("-J stars", "")).unwrap();
        assert_eq!(unnamed.script.job_name, "job.sh");
        let astray = read_text(&text.replace("-J stars", "--chdir=absent")).unwrap_err();
        assert_eq!(astray.exit_code(), ExitCode::NoInput);
    }

    #[test]
    fn what_sbatch_refuses_is_refused() {
        let failure = read_text("#!/bin/sh\n#SBATCH --array=3-1 -n x\n#DW jobdw\n").unwrap_err();
        assert_eq!(failure.exit_code(), ExitCode::Script);
        let shown = failure.shown();
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.contains("job.sh: #SBATCH --array: `3-1` is not task numbers"), "{shown}");
    }

    #[test]
    fn every_error_is_a_line_that_names_script_line_and_column() {
        let text =
            "#!/bin/sh\n#DW jobdw capacity=1GiB access_mode=striped type=scratch\n#DW stage_inn\n#DW bogus\n";
        let shown = read_text(text).unwrap_err().shown();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert!(lines[0].contains("job.sh: line 3, column "), "{shown}");
        assert!(lines[1].contains("job.sh: line 4, column "), "{shown}");
    }
}

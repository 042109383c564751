//! Reads a batch script and checks it here, before anything is started for it.

use std::path::{Path, PathBuf};

use model::directive;
use model::sbatch::{self, Sbatch};
use model::symbols::Symbols;
use wire::control::Script;

use crate::failure::Failure;
use crate::identity;

/// A script that may be submitted.
#[derive(Debug)]
pub struct Submission {
    /// What the services need to know of it.
    pub script: Script,
    /// The folder that it was submitted in; absolute.
    pub submit_folder: PathBuf,
    /// `#SBATCH --ntasks`.
    pub ntasks: Option<u32>,
    /// Names of the `#SBATCH` options that mean nothing here.
    pub ignored: Vec<String>,
}

/// Reads and checks `path`. Relative names start in `folder`, which is absolute.
///
/// # Errors
/// It is not there, is not a batch script, or its directives are wrong or missing.
pub fn read(path: &Path, folder: &Path) -> Result<Submission, Failure> {
    let path = folder.join(path);
    let bytes = std::fs::read(&path).map_err(|e| {
        Failure::no_input(
            format!("read the script {}: {e}", path.display()),
            "give the path of a batch script",
        )
    })?;
    let text = text(&path, bytes)?;
    Interpreter::of(&path, &text)?;
    let sbatch = sbatch::parse(&text);
    refuse_requests_outside_directives(&path, &sbatch)?;
    let script = Script {
        workdir: working_folder(&sbatch, folder)?,
        job_name: sbatch.job_name.unwrap_or_else(|| file_name(&path)),
        user: identity::user_name(),
        text,
        path,
    };
    check_directives(&script)?;
    Ok(Submission { script, submit_folder: folder.into(), ntasks: sbatch.ntasks, ignored: sbatch.ignored })
}

/// What runs a script: its `#!` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The program.
    pub program: String,
    /// Its argument: the kernel gives the rest of the line as one (execve(2)).
    pub argument: Option<String>,
}

impl Interpreter {
    /// Reads the first line of the script `path`.
    ///
    /// # Errors
    /// There is no `#!` line; `sbatch` refuses such scripts too.
    pub fn of(path: &Path, text: &str) -> Result<Interpreter, Failure> {
        let line = text.lines().next().and_then(|line| line.strip_prefix("#!")).map(str::trim);
        let Some(line) = line.filter(|line| !line.is_empty()) else {
            return Err(Failure::script(
                format!("{}: line 1, column 1: this is not a batch script", path.display()),
                "begin it with `#!` and the path of an interpreter, as #!/bin/bash",
            ));
        };
        let (program, argument) = match line.split_once([' ', '\t']) {
            Some((program, argument)) => (program, Some(argument.trim().to_owned())),
            None => (line, None),
        };
        Ok(Interpreter { program: program.to_owned(), argument })
    }
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

fn refuse_requests_outside_directives(path: &Path, sbatch: &Sbatch) -> Result<(), Failure> {
    match sbatch.burst_buffer.first() {
        None => Ok(()),
        Some(option) => Err(Failure::script(
            format!("{}: the #SBATCH option {option} is not yet understood", path.display()),
            "write what it asks for as #DW lines",
        )),
    }
}

fn working_folder(sbatch: &Sbatch, submit_folder: &Path) -> Result<PathBuf, Failure> {
    let folder = submit_folder.join(sbatch.chdir.as_deref().unwrap_or_default());
    let is_there = disk::is_folder(&folder).map_err(|error| Failure::local("look up", &folder, &error))?;
    if is_there {
        // `join` of nothing adds a slash, which `%d` must not end with.
        return Ok(folder.components().collect());
    }
    Err(Failure::no_input(
        format!("the working folder {} of #SBATCH --chdir is not there", folder.display()),
        "make it, or correct the script",
    ))
}

fn check_directives(script: &Script) -> Result<(), Failure> {
    // No token is known yet. `0` has the form of one, which is all that a check needs.
    let symbols = Symbols {
        job_id: "0".into(),
        array_job_id: "0".into(),
        array_task_id: "0".into(),
        workdir: script.workdir.display().to_string(),
        user: script.user.clone(),
        job_name: script.job_name.clone(),
    };
    let errors = match directive::parse(&script.text, &symbols) {
        Ok(parsed) if parsed.directives.is_empty() => {
            return Err(Failure::script(
                format!("{} has no #DW directives, so it needs no buffer", script.path.display()),
                "add one as `#DW jobdw capacity=10GiB access_mode=striped type=scratch`, or run it without forebay",
            ));
        }
        Ok(parsed) => directive::unsupported(&parsed),
        Err(errors) => errors.0,
    };
    if errors.is_empty() {
        return Ok(());
    }
    let lines = errors.iter().map(|error| format!("{}: {error}", script.path.display())).collect();
    Err(Failure::Script { lines })
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
        read(Path::new("job.sh"), folder.path())
    }

    #[test]
    fn a_script_that_is_not_there_is_no_input() {
        let failure = read(Path::new("absent.sh"), Path::new("/")).unwrap_err();
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
    fn every_error_is_a_line_that_names_script_line_and_column() {
        let text =
            "#!/bin/sh\n#DW jobdw capacity=1GiB access_mode=striped type=scratch\n#DW stage_inn\n#DW bogus\n";
        let shown = read_text(text).unwrap_err().shown();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert!(lines[0].contains("job.sh: line 3, column "), "{shown}");
        assert!(lines[1].contains("job.sh: line 4, column "), "{shown}");
    }

    #[test]
    fn the_interpreter_has_at_most_one_argument() {
        let of = |line: &str| Interpreter::of(Path::new("j"), line).unwrap();
        assert_eq!(of("#!/bin/bash\n"), Interpreter { program: "/bin/bash".into(), argument: None });
        assert_eq!(of("#! /usr/bin/env -S a b\n").argument.as_deref(), Some("-S a b"));
    }
}

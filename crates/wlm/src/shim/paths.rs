//! `paths`: the variables of the job's environment, written to a file of Slurm's: `NAME=VALUE` lines, no quoting, and
//! the first empty line would end them.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use wire::control::Paths;

use super::answer::Answer;
use super::arguments::Arguments;
use api::control::{Control, session_path};

pub(super) fn run(arguments: &Arguments, control: &Control) -> Answer {
    write(arguments, control).unwrap_or_else(|failure| failure)
}

fn write(arguments: &Arguments, control: &Control) -> Result<Answer, Answer> {
    let token = arguments.token()?;
    let file = arguments.need(&arguments.pathfile, "--pathfile")?;
    let paths: Paths = control.get(&session_path(token, "/paths")).map_err(Answer::failed)?;
    write_file(file, &lines(&paths)).map_err(|error| {
        Answer::failed(format!("write the job's variables to {}: {error}", file.display()))
    })?;
    Ok(Answer::Done(String::new()))
}

fn lines(paths: &Paths) -> String {
    let plain = |text: &&String| !text.contains('\n');
    let lines = paths.variables.iter().filter(|(_, value)| plain(value));
    lines.map(|(name, value)| format!("{name}={value}\n")).collect()
}

/// Whatever an earlier call left is replaced. A task of an array may have no folder yet: `array_task`.
fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    let made = path.parent().map(|folder| std::fs::DirBuilder::new().mode(0o700).create(folder));
    match made {
        Some(Err(error)) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut file = std::fs::File::create(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_folder_of_an_arrays_task_is_made_for_slurms_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.7/path");
        for text in ["A=1\n", "B=2\n"] {
            write_file(&path, text).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(std::fs::metadata(dir.path().join("job.7")).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn variables_are_lines_without_quotes_and_without_a_blank_one() {
        let variables = [
            ("DW_JOB_PRIVATE", "/mnt/7/private/"),
            ("DW_JOB_STRIPED", "/mnt/7/striped/"),
            ("DW_PERSISTENT_STRIPED_mybuf", "/mnt/7/persistent-mybuf/"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(
            lines(&Paths { variables }),
            "DW_JOB_PRIVATE=/mnt/7/private/\nDW_JOB_STRIPED=/mnt/7/striped/\n\
             DW_PERSISTENT_STRIPED_mybuf=/mnt/7/persistent-mybuf/\n"
        );
    }
}

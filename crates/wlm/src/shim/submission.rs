//! The files that Slurm keeps for a job: its script and its nodes. Only Slurm's user can read them, so they are read
//! here and not by control.

use std::io::Read;
use std::path::Path;

use model::NodeName;
use nix::unistd::User;
use wire::control::Script;

use super::answer::Answer;

/// As much of an environment is looked at.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;

/// Reads a script for the functions after submission. Slurm has then replaced the symbols of `#DW` and `#BB` lines, if
/// there were any, and gives a copy in memory of these lines alone.
///
/// # Errors
/// It cannot be read, or is no text.
pub(crate) fn read(path: &Path) -> Result<Script, Answer> {
    let text = text(path)?;
    // What still has a percent sign is meant so, and must not be replaced again.
    let text = if is_replaced(path) { text.replace('%', "%%") } else { text };
    Ok(script(text, "/", ""))
}

/// Whether Slurm has written no script for the job.
pub(crate) fn is_absent(script: &Path) -> bool {
    // Whatever else is wrong with it, reading it will tell.
    std::fs::File::open(script).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Reads a script at submission, when neither the job's id nor its user nor its folder are known.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_submitted(path: &Path, unknown: &str) -> Result<Script, Answer> {
    Ok(script(text(path)?, &format!("/{unknown}"), unknown))
}

/// Who submits a batch script, by what Slurm keeps of his environment beside it; `None` where that does not tell. Of
/// use only to tell him early what he may not do.
pub(crate) fn submitter(script: &Path) -> Option<u32> {
    let mut environment = Vec::new();
    let file = std::fs::File::open(script.with_file_name("environment")).ok()?;
    file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment).ok()?;
    Some(User::from_name(name(&environment)?).ok()??.uid.as_raw())
}

/// What both variables call the user.
fn name(environment: &[u8]) -> Option<&str> {
    let value = |key: &[u8]| environment.split(|byte| *byte == 0).find_map(|word| word.strip_prefix(key));
    let name = value(b"USER=")?;
    (value(b"LOGNAME=") == Some(name)).then(|| std::str::from_utf8(name).ok()).flatten()
}

/// The copy in memory is a file of slurmctld's without a name (`memfd_create`).
fn is_replaced(path: &Path) -> bool {
    path.starts_with("/proc")
}

/// Slurm's name of the file would tell users nothing.
fn script(text: String, workdir: &str, user: &str) -> Script {
    let (job_name, user) = (user.to_owned(), user.to_owned());
    Script { text, path: "script".into(), workdir: workdir.into(), job_name, user }
}

fn text(path: &Path) -> Result<String, Answer> {
    let mut bytes = std::fs::read(path)
        .map_err(|error| Answer::failed(format!("read the script {}: {error}", path.display())))?;
    // Slurm ends the file with a NUL.
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| Answer::failed("the script is not UTF-8 text; convert it"))
}

/// Reads the names of the job's nodes.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn hosts(path: &Path) -> Result<Vec<NodeName>, Answer> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Answer::failed(format!("read the job's nodes from {}: {error}", path.display())))?;
    Ok(text.lines().map(str::trim).filter(|name| !name.is_empty()).map(NodeName::unchecked).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nul_that_slurm_writes_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script");
        std::fs::write(&path, "#!/bin/sh\n#DW swap 1GiB\n\0").unwrap();
        assert_eq!(read(&path).unwrap().text, "#!/bin/sh\n#DW swap 1GiB\n");
    }

    #[test]
    fn replaced_symbols_are_not_replaced_again() {
        assert!(is_replaced(Path::new("/proc/91/fd/12")));
        assert!(!is_replaced(Path::new("/var/spool/slurmctld/hash.7/job.7/script")));
    }

    #[test]
    fn a_submitter_has_the_name_that_both_variables_say() {
        let told =
            |words: &str| name([b"\x1c\0\0\0", words.as_bytes()].concat().as_slice()).map(str::to_owned);
        assert_eq!(told("USER=ada\0HOME=/home/ada\0LOGNAME=ada\0").as_deref(), Some("ada"));
        assert_eq!(told("USER=root\0LOGNAME=ada\0"), None, "as some `su` leave it");
        assert_eq!(told("SLURM_EXPORT_ENV=NONE\0"), None);
    }

    #[test]
    fn nodes_are_a_line_each() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client_nids");
        std::fs::write(&path, "n1\nn2\n").unwrap();
        assert_eq!(hosts(&path).unwrap(), ["n1", "n2"]);
    }
}

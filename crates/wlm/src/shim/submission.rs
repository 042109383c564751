//! The files that Slurm keeps for a job: its script and its nodes. Only Slurm's user can read them, so they are read
//! here and not by control.

use std::path::Path;

use model::NodeName;
use wire::control::Script;

use super::answer::Answer;

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

/// Reads a script at submission, when neither the job's id nor its user nor its folder are known.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_submitted(path: &Path, unknown: &str) -> Result<Script, Answer> {
    Ok(script(text(path)?, &format!("/{unknown}"), unknown))
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
    fn nodes_are_a_line_each() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client_nids");
        std::fs::write(&path, "n1\nn2\n").unwrap();
        assert_eq!(hosts(&path).unwrap(), ["n1", "n2"]);
    }
}

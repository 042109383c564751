//! The repository's files, and the programs that are asked about them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that a rule is about.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path from the repository's root.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the repository.
///
/// # Panics
/// It is not there.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

/// The files below these folders, or files, whose names end so; in order.
///
/// # Panics
/// A folder cannot be read.
pub fn sources(places: &[&str], ending: &str) -> Vec<Source> {
    let mut found = Vec::new();
    for place in places {
        collect(Path::new(place), ending, &mut found);
    }
    found.sort();
    found.into_iter().map(|path| Source { text: read(&path), path }).collect()
}

fn collect(place: &Path, ending: &str, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(root().join(place)) else {
        return found.extend(place.to_str().filter(|path| path.ends_with(ending)).map(str::to_owned));
    };
    for entry in entries.map(|entry| entry.expect("a folder of the repository can be read")) {
        collect(&place.join(entry.file_name()), ending, found);
    }
}

/// What a program says in the repository's root; `Err` with its complaint where it fails.
///
/// # Errors
/// It cannot be started, or fails.
pub fn ask(program: &str, arguments: &[&str]) -> Result<String, String> {
    let asked = Command::new(program).args(arguments).current_dir(root()).output();
    let output = asked.map_err(|error| format!("start {program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

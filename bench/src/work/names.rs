//! Many files in one folder: created, looked at, read, removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{block, rate};

const FILES: usize = 2000;

/// What [`run`] measures, in its order.
pub const CASES: [&str; 3] = ["create", "stat", "unlink"];

/// Files that one program makes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Files {
    /// Where.
    pub folder: PathBuf,
    /// What their names begin with.
    pub prefix: String,
    /// How many.
    pub count: usize,
    /// Bytes of each.
    pub bytes: usize,
}

/// What is done with each of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Makes it, with its bytes.
    Create,
    /// Asks for its attributes.
    Stat,
    /// Reads all of it.
    Read,
    /// Removes it.
    Remove,
}

impl Files {
    /// The step's work, that is left to do: their names are made now.
    pub fn each(&self, step: Step) -> impl FnOnce() -> io::Result<()> + 'static {
        let path = |number| self.folder.join(format!("{}{number}", self.prefix));
        let paths: Vec<PathBuf> = (0..self.count).map(path).collect();
        let contents = block(self.bytes);
        move || paths.iter().try_for_each(|path| step.of(path, &contents))
    }
}

impl Step {
    fn of(self, path: &Path, contents: &[u8]) -> io::Result<()> {
        match self {
            Step::Create => File::create_new(path)?.write_all(contents),
            Step::Stat => fs::metadata(path).map(drop),
            Step::Read if fs::read(path)? == contents => Ok(()),
            Step::Read => Err(io::Error::other(format!("{} is damaged", path.display()))),
            Step::Remove => fs::remove_file(path),
        }
    }
}

/// Empty files in `folder`, which is left as it was: files per second.
pub fn run(folder: &Path) -> Result<Vec<f64>> {
    let folder = folder.join("names");
    fs::create_dir(&folder)?;
    let files = Files { folder, prefix: "file-".into(), count: FILES, bytes: 0 };
    let each = |what: &str, step| rate(what, FILES, files.each(step));
    let rates = vec![each("create", Step::Create)?, each("stat", Step::Stat)?, each("unlink", Step::Remove)?];
    fs::remove_dir(&files.folder)?;
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_other_bytes_is_not_taken_for_read() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { folder: folder.path().into(), prefix: "f".into(), count: 2, bytes: 9 };
        let each = |step| files.each(step)();
        each(Step::Create).unwrap();
        each(Step::Stat).unwrap();
        each(Step::Read).unwrap();
        fs::write(folder.path().join("f1"), "other").unwrap();
        assert!(each(Step::Read).is_err());
        each(Step::Remove).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

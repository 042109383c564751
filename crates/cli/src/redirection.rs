//! Files that the standard streams of a job and its steps are sent to.

use std::fs::File;
use std::path::Path;

use crate::failure::Failure;

/// Opens what is to be written to; what is in it goes unless it is to be appended to. `option` asked for it.
///
/// # Errors
/// It cannot be made: most often its folder is not there.
pub fn to(path: &Path, append: bool, option: &str) -> Result<File, Failure> {
    // Appended to in any case, as Slurm does: others may write to the same file.
    let opened = File::options().append(true).create(true).open(path);
    let emptied = opened.and_then(|file| {
        // A terminal or /dev/null has no length.
        if !append && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    });
    emptied.map_err(|error| {
        Failure::no_input(
            format!("open {} of {option} to write to it: {error}", path.display()),
            "make its folder, or correct the option",
        )
    })
}

/// Opens what is to be read from. `option` asked for it.
///
/// # Errors
/// It is not there, or cannot be read.
pub fn from(path: &Path, option: &str) -> Result<File, Failure> {
    File::open(path).map_err(|error| {
        Failure::no_input(format!("open {} of {option}: {error}", path.display()), "correct the option")
    })
}

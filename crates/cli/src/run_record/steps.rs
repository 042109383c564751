//! The numbers of a job's steps, `DIR/run/TOKEN.steps`: how many there were.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// The number of a step of the job `token` that begins now; 0 is the first.
///
/// # Errors
/// The disk refuses.
pub fn next_step(state_folder: &Path, token: &str) -> io::Result<u32> {
    let path = state_folder.join("run").join(format!("{token}.steps"));
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    // Steps may begin at once: each has a number of its own.
    flock(&file, FlockOperation::LockExclusive)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let number = text.trim().parse().unwrap_or(0);
    file.rewind()?;
    writeln!(file, "{}", number + 1)?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_a_job_has_the_next_number() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("run")).unwrap();
        let numbers = [0; 12].map(|_| next_step(folder.path(), "3").unwrap());
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(next_step(folder.path(), "4").unwrap(), 0);
    }
}

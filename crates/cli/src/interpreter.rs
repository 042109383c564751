//! What the kernel starts: the program of a script's `#!` line, and what is no program although it may be executed.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::env;
use crate::failure::Failure;

/// As much of a program as tells what it is.
const HEAD: u64 = 256;

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

    /// The same, where the program can be started on this machine.
    ///
    /// # Errors
    /// As [`Interpreter::of`], or it cannot.
    pub fn found(path: &Path, text: &str) -> Result<Interpreter, Failure> {
        let interpreter = Interpreter::of(path, text)?;
        let program = Path::new(&interpreter.program);
        let why = match env::is_program(program) {
            true => unstartable(program).map(|why| format!(", as {why}")),
            false => Some(String::new()),
        };
        let Some(why) = why else { return Ok(interpreter) };
        let (path, program) = (path.display(), program.display());
        let message = format!("{path}: line 1: {program} cannot be started{why}");
        Err(Failure::script(message, "correct its path"))
    }
}

/// Why the kernel does not start an executable file, as far as its beginning tells.
pub fn unstartable(program: &Path) -> Option<String> {
    let mut head = Vec::new();
    // One that may be started and not read is not judged.
    File::open(program).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    if head.is_empty() {
        return Some("it is empty".to_owned());
    }
    // What is neither may be known to another handler of the kernel.
    let is_text = !head.iter().any(|byte| *byte < b' ' && !byte.is_ascii_whitespace());
    let Some(line) = head.strip_prefix(b"#!") else {
        return is_text.then(|| "it is text without a `#!` line".to_owned());
    };
    let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or_default());
    let named = line.split_whitespace().next().unwrap_or_default();
    let is_there = env::is_program(Path::new(named));
    (!is_there).then(|| format!("its first line names `{named}`, which cannot be started"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_has_at_most_one_argument() {
        let of = |line: &str| Interpreter::of(Path::new("j"), line).unwrap();
        assert_eq!(of("#!/bin/bash\n"), Interpreter { program: "/bin/bash".into(), argument: None });
        assert_eq!(of("#! /usr/bin/env -S a b\n").argument.as_deref(), Some("-S a b"));
    }

    #[test]
    fn what_only_a_shell_would_run_is_told_from_what_the_kernel_starts() {
        let folder = tempfile::tempdir().unwrap();
        let of = |content: &[u8]| {
            let path = folder.path().join("program");
            std::fs::write(&path, content).unwrap();
            unstartable(&path).unwrap_or_default()
        };
        assert_eq!(of(b""), "it is empty");
        assert_eq!(of("echo hé\n".as_bytes()), "it is text without a `#!` line");
        assert_eq!(of(b"#! /no/such -x\n"), "its first line names `/no/such`, which cannot be started");
        assert_eq!(of(b"#!/bin/sh\n"), "");
        for other in [&b"\x7fELF\x02\x01"[..], b"MZ\x90\x00"] {
            assert_eq!(of(other), "");
        }
    }
}

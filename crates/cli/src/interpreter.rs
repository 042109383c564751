//! What runs a script: its `#!` line.

use std::path::Path;

use crate::failure::Failure;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_has_at_most_one_argument() {
        let of = |line: &str| Interpreter::of(Path::new("j"), line).unwrap();
        assert_eq!(of("#!/bin/bash\n"), Interpreter { program: "/bin/bash".into(), argument: None });
        assert_eq!(of("#! /usr/bin/env -S a b\n").argument.as_deref(), Some("-S a b"));
    }
}

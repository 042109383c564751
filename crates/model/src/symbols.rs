//! The `%` symbols that Slurm replaces on `#DW` and `#BB` lines, and nowhere else.
//!
//! | symbol | stands for |
//! |---|---|
//! | `%%` | a percent sign |
//! | `%A` | job id of the array |
//! | `%a` | task id in the array |
//! | `%b` | task id in the array, modulo 10 |
//! | `%d` | the folder that the job starts in |
//! | `%j` | job id |
//! | `%u` | user name |
//! | `%x` | job name |
//! | `\\` | nothing; ends the replacement for the rest of the line |
//!
//! Source: Slurm's `doc/html/burst_buffer.shtml`. Slurm leaves an unknown symbol as it is; here it is an error, since
//! a path with a forgotten `%` in it is staged to the wrong place only after hours in the queue.

/// What the symbols stand for in one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// `%j`.
    pub job_id: String,
    /// `%A`.
    pub array_job_id: String,
    /// `%a`, and its last digit `%b`.
    pub array_task_id: String,
    /// `%d`: absolute.
    pub workdir: String,
    /// `%u`.
    pub user: String,
    /// `%x`.
    pub job_name: String,
}

/// A character of a line after replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Char {
    /// The character.
    pub ch: char,
    /// Index in the line as written, in characters from 0: of the character, or of the `%` that it came from.
    pub index: usize,
    /// Whether it came from a symbol: white space in a folder's name does not end a word.
    pub from_symbol: bool,
}

/// A `%` that stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown symbol `%{}`; known are %A %a %b %d %j %u %x, and %% is a percent sign",
    symbol.map(String::from).unwrap_or_default()
)]
pub struct SymbolError {
    /// Index of the `%` in the line, in characters from 0.
    pub index: usize,
    /// What follows the `%`; `None` at the end of the line.
    pub symbol: Option<char>,
}

impl Symbols {
    /// Replaces the symbols of one line. Unknown ones stay and are added to `errors`.
    pub fn expand(&self, line: &str, errors: &mut Vec<SymbolError>) -> Vec<Char> {
        let mut expanded = Vec::with_capacity(line.len());
        let mut rest = line.chars().enumerate().peekable();
        let mut stopped = false;
        while let Some((index, ch)) = rest.next() {
            let next = rest.peek().map(|(_, next)| *next);
            match (ch, next) {
                ('\\', Some('\\')) if !stopped => {
                    rest.next();
                    stopped = true;
                }
                ('%', symbol) if !stopped => match symbol.and_then(|symbol| self.value(symbol)) {
                    Some(value) => {
                        rest.next();
                        expanded.extend(value.chars().map(|ch| Char { ch, index, from_symbol: true }));
                    }
                    None => {
                        errors.push(SymbolError { index, symbol });
                        expanded.push(Char { ch, index, from_symbol: false });
                    }
                },
                _ => expanded.push(Char { ch, index, from_symbol: false }),
            }
        }
        expanded
    }

    /// What `%symbol` stands for.
    fn value(&self, symbol: char) -> Option<&str> {
        match symbol {
            '%' => Some("%"),
            'A' => Some(&self.array_job_id),
            'a' => Some(&self.array_task_id),
            // The last digit is the number modulo 10.
            'b' => {
                Some(self.array_task_id.char_indices().last().map_or("", |(i, _)| &self.array_task_id[i..]))
            }
            'd' => Some(&self.workdir),
            'j' => Some(&self.job_id),
            'u' => Some(&self.user),
            'x' => Some(&self.job_name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(line: &str) -> (String, Vec<SymbolError>) {
        let symbols = Symbols {
            job_id: "12".into(),
            array_job_id: "10".into(),
            array_task_id: "27".into(),
            workdir: "/pfs/run".into(),
            user: "ada".into(),
            job_name: "mesh".into(),
        };
        let mut errors = Vec::new();
        let text = symbols.expand(line, &mut errors).iter().map(|c| c.ch).collect();
        (text, errors)
    }

    #[test]
    fn every_symbol_is_replaced() {
        assert_eq!(expand("%A %a %b %d %j %u %x 5%%"), ("10 27 7 /pfs/run 12 ada mesh 5%".into(), vec![]));
    }

    #[test]
    fn two_backslashes_end_the_replacement() {
        assert_eq!(expand(r"%j/\\%j/%y\\"), (r"12/%j/%y\\".into(), vec![]));
    }

    #[test]
    fn an_unknown_symbol_is_an_error_at_its_place() {
        let (_, errors) = expand("a%yb%");
        assert_eq!(
            errors,
            [SymbolError { index: 1, symbol: Some('y') }, SymbolError { index: 4, symbol: None }]
        );
    }
}

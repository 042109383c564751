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
//! | `%20` to `%7E` | the character with this number, as in a URL: `%20` is a space in a name |
//! | `\\` | nothing; ends the replacement for the rest of the line |
//!
//! Source: Slurm's `doc/html/burst_buffer.shtml`; the characters by number are Forebay's own. Slurm leaves an unknown
//! symbol as it is, so these reach us; here it is an error, since a path with a forgotten `%` in it is staged to the
//! wrong place only after hours in the queue.

use std::borrow::Cow;

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
    "unknown symbol `%{}`; known are %A %a %b %d %j %u %x, %20 for a space, and %% for a percent sign",
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
                ('%', symbol) if !stopped => match self.replacement(rest.clone().map(|(_, ch)| ch)) {
                    Some((length, value)) => {
                        rest.nth(length - 1);
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

    /// What a symbol stands for that goes on after its `%` with the first characters of `rest`, and how many of them.
    fn replacement(&self, mut rest: impl Iterator<Item = char>) -> Option<(usize, Cow<'_, str>)> {
        let first = rest.next()?;
        if let Some(value) = self.value(first) {
            return Some((1, value.into()));
        }
        let ch = numbered(first, rest.next()?)?;
        Some((2, ch.to_string().into()))
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

/// The character with this number, two hexadecimal digits: printable ASCII alone, as the rest can be typed or not seen.
fn numbered(high: char, low: char) -> Option<char> {
    let number = high.to_digit(16)? * 16 + low.to_digit(16)?;
    char::from_u32(number).filter(|ch| matches!(ch, ' '..='~'))
}

/// `text` as a directive has it in the value of an option: what would end the value, or mean something else there, by
/// its number.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for ch in text.chars() {
        match ch {
            ' ' | '%' | '\\' | '#' => encoded.push_str(&format!("%{:02X}", u32::from(ch))),
            _ => encoded.push(ch),
        }
    }
    encoded
}

/// The text of a script for one task of an array: `%A`, `%a` and `%b` of its directives replaced, as Slurm does before
/// it hands a script on. The other symbols stay.
pub fn for_array_task(text: &str, array_job_id: &str, task: u32) -> String {
    let task = Symbols {
        array_job_id: array_job_id.to_owned(),
        array_task_id: task.to_string(),
        ..Symbols::default()
    };
    let is_directive = |line: &str| line.starts_with("#DW") || line.starts_with("#BB");
    let lines = text.split_inclusive('\n');
    lines.map(|line| if is_directive(line) { task.expand_array(line) } else { line.to_owned() }).collect()
}

impl Symbols {
    fn expand_array(&self, line: &str) -> String {
        let (body, unchanged) = line.split_at(line.find(r"\\").unwrap_or(line.len()));
        let mut expanded = String::with_capacity(line.len());
        let mut rest = body.chars();
        while let Some(ch) = rest.next() {
            let symbol = if ch == '%' { rest.next() } else { None };
            match symbol {
                Some('A' | 'a' | 'b') => expanded.extend(symbol.and_then(|symbol| self.value(symbol))),
                _ => expanded.extend([Some(ch), symbol].into_iter().flatten()),
            }
        }
        expanded + unchanged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_by_its_number_is_one_of_a_name() {
        assert_eq!(expand("/a%20b%2Fc%25d%7e"), ("/a b/c%d~".into(), vec![]));
        for (line, symbol) in
            [("%1F", '1'), ("%80", '8'), ("%7F", '7'), ("%2", '2'), ("%2 x", '2'), ("%2g", '2')]
        {
            assert_eq!(
                expand(line),
                (line.into(), vec![SymbolError { index: 0, symbol: Some(symbol) }]),
                "{line}"
            );
        }
        let name = r"/my data/100%d \\ #1";
        assert_eq!(expand(&encoded(name)).0, name);
    }

    #[test]
    fn a_script_for_a_task_of_an_array_differs_in_its_directives_alone() {
        let text = "#!/bin/sh\n#SBATCH -o %A\n#DW %A_%a.%b/%%a/%j \\\\ %a\n#BB %a\necho %a";
        let expected = "#!/bin/sh\n#SBATCH -o %A\n#DW 70_12.2/%%a/%j \\\\ %a\n#BB 12\necho %a";
        assert_eq!(for_array_task(text, "70", 12), expected);
    }

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

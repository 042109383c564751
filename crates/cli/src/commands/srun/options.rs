//! srun's command line: its own options up to the first word that is none, then a program and its arguments.

mod known;

use std::ffi::OsString;

use model::sbatch::{Export, Streams};

use crate::failure::Failure;
use known::{
    LONG_ALONE, LONG_WITH_OPTIONAL_VALUE, LONG_WITH_VALUE, SHORT_ALONE, SHORT_WITH_OPTIONAL_VALUE,
    SHORT_WITH_VALUE,
};

/// The options that mean something here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-n`.
    pub ranks: Option<u32>,
    /// `-N`: the smaller number of two.
    pub nodes: Option<u32>,
    /// `--ntasks-per-node`.
    pub ranks_per_node: Option<u32>,
    /// `-c`.
    pub cpus_per_rank: Option<u32>,
    /// `-i`, `-o`, `-e` and `--open-mode`.
    pub streams: Streams,
    /// `--export`.
    pub export: Option<Export>,
    /// `-D`.
    pub chdir: Option<OsString>,
}

/// A job step.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// What applies.
    pub options: Options,
    /// What does not, by name and without values.
    pub skipped: Vec<String>,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Reads the words after `srun`.
///
/// # Errors
/// No program, an unknown option (its value could not be told from the program), or a bad number of ranks.
pub fn parse(words: Vec<OsString>) -> Result<Step, Failure> {
    let mut words = words.into_iter();
    let mut options = Options::default();
    let mut skipped = Vec::new();
    let program = loop {
        let Some(word) = words.next() else {
            return Err(Failure::usage("srun: there is no program to start", "write it after the options"));
        };
        let option = match word.to_str() {
            Some("--") => break words.next(),
            Some(text) if text.len() > 1 && text.starts_with('-') => text.to_owned(),
            _ => break Some(word),
        };
        for Given { name, value } in read(&option)? {
            let value = match value {
                Value::None => None,
                Value::Attached(value) => Some(value),
                Value::Next => Some(words.next().ok_or_else(|| {
                    Failure::usage(format!("srun: option {name} needs a value"), "write it after the option")
                })?),
            };
            if !options.take(&name, value)? {
                skipped.push(name);
            }
        }
    };
    let Some(program) = program else {
        return Err(Failure::usage("srun: there is no program to start", "write it after the options"));
    };
    Ok(Step { options, skipped, program, arguments: words.collect() })
}

impl Options {
    /// Takes an option; false where it means nothing here.
    fn take(&mut self, name: &str, value: Option<OsString>) -> Result<bool, Failure> {
        let Some(value) = value else { return Ok(false) };
        let text = || value.to_string_lossy().into_owned();
        match name {
            "-n" | "--ntasks" => self.ranks = Some(count(name, &text())?),
            "-N" | "--nodes" => self.nodes = Some(count(name, text().split('-').next().unwrap_or_default())?),
            "--ntasks-per-node" => self.ranks_per_node = Some(count(name, &text())?),
            "-c" | "--cpus-per-task" => self.cpus_per_rank = Some(count(name, &text())?),
            "-D" | "--chdir" => self.chdir = Some(value),
            "-i" | "--input" => self.streams.input = Some(text()),
            "-o" | "--output" => self.streams.output = Some(text()),
            "-e" | "--error" => self.streams.error = Some(text()),
            "--open-mode" => self.streams.append = text().starts_with('a'),
            "--export" => self.export = Some(Export::parse(&text())),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// How many ranks there are; `default` is what the job has.
    pub fn ranks(&self, default: Option<u32>) -> u32 {
        let on_nodes = self.ranks_per_node.map(|ranks| ranks.saturating_mul(self.nodes.unwrap_or(1)));
        self.ranks.or(on_nodes.max(default)).unwrap_or(1)
    }
}

struct Given {
    name: String,
    value: Value,
}

enum Value {
    None,
    Attached(OsString),
    Next,
}

fn read(option: &str) -> Result<Vec<Given>, Failure> {
    match option.strip_prefix("--") {
        Some(long) => read_long(option, long).map(|given| vec![given]),
        None => read_short(option),
    }
}

fn read_long(option: &str, long: &str) -> Result<Given, Failure> {
    let (name, attached) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    let with_value = LONG_WITH_VALUE.contains(&name);
    let optional = LONG_WITH_OPTIONAL_VALUE.contains(&name);
    if !with_value && !optional && !LONG_ALONE.contains(&name) {
        return Err(unknown(option));
    }
    let value = match attached {
        Some(value) => Value::Attached(value.into()),
        None if with_value => Value::Next,
        None => Value::None,
    };
    Ok(Given { name: format!("--{name}"), value })
}

/// `-n4`, `-n 4`, and several without values in one word: `-lu`.
fn read_short(option: &str) -> Result<Vec<Given>, Failure> {
    let mut found = Vec::new();
    for (index, letter) in option.char_indices().skip(1) {
        let name = format!("-{letter}");
        let rest = &option[index + letter.len_utf8()..];
        if SHORT_WITH_VALUE.contains(letter) {
            let value = if rest.is_empty() {
                Value::Next
            } else {
                Value::Attached(rest.trim_start_matches('=').into())
            };
            found.push(Given { name, value });
            return Ok(found);
        }
        if SHORT_WITH_OPTIONAL_VALUE.contains(letter) {
            found.push(Given { name, value: Value::None });
            return Ok(found);
        }
        if !SHORT_ALONE.contains(letter) {
            return Err(unknown(option));
        }
        found.push(Given { name, value: Value::None });
    }
    Ok(found)
}

fn count(option: &str, text: &str) -> Result<u32, Failure> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
        Failure::usage(
            format!("srun: `{text}` is not a number for {option}"),
            "write a whole number from 1 up, as -n 4",
        )
    })
}

fn unknown(option: &str) -> Failure {
    Failure::usage(
        format!("srun: unknown option {option}"),
        "remove it; without Slurm its value cannot be told from the program",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Step {
        parse(line.split_whitespace().map(OsString::from).collect()).unwrap()
    }

    #[test]
    fn the_number_of_ranks_is_understood_in_every_form() {
        for line in ["-n 4 a", "-n4 a", "--ntasks=4 a", "--ntasks 4 a", "-n=4 a", "-l -un4 a"] {
            assert_eq!(parsed(line).options.ranks, Some(4), "{line}");
            assert_eq!(parsed(line).program, "a", "{line}");
        }
        assert_eq!(parsed("a -n 4").options.ranks, None);
        assert_eq!(parsed("a -n 4").arguments, ["-n", "4"]);
    }

    #[test]
    fn what_means_nothing_here_is_skipped_with_its_value() {
        let step = parsed("-N 2 -c2 --cpu-bind=cores --mem 4G --exclusive -K1 -u -t 10 python3 -u x.py");
        assert_eq!(step.skipped, ["--cpu-bind", "--mem", "--exclusive", "-K", "-u", "-t"]);
        assert_eq!(step.program, "python3");
        assert_eq!(step.arguments, ["-u", "x.py"]);
    }

    #[test]
    fn ranks_per_node_count_where_no_number_is_given() {
        assert_eq!(parsed("--ntasks-per-node=4 a").options.ranks(Some(1)), 4);
        assert_eq!(parsed("-N2 --ntasks-per-node=4 a").options.ranks(None), 8);
        assert_eq!(parsed("-N2 a").options.ranks(Some(3)), 3);
        assert_eq!(parsed("-n 2 --ntasks-per-node=4 a").options.ranks(Some(3)), 2);
        assert_eq!(parsed("a").options.ranks(None), 1);
    }

    #[test]
    fn streams_and_variables_are_kept() {
        let options = parsed("-o o.%t --error=e.%j -i /dev/null --export=ALL,A=1 -c 3 a").options;
        assert_eq!(options.streams.output.as_deref(), Some("o.%t"));
        assert_eq!(options.streams.error.as_deref(), Some("e.%j"));
        assert_eq!(options.export, Some(Export::parse("ALL,A=1")));
        assert_eq!(options.cpus_per_rank, Some(3));
    }

    #[test]
    fn the_folder_of_a_step_is_kept() {
        assert_eq!(parsed("-D /a b").options.chdir, Some("/a".into()));
        assert_eq!(parsed("--chdir=/a b").options.chdir, Some("/a".into()));
    }

    #[test]
    fn two_dashes_end_the_options() {
        assert_eq!(parsed("-n 2 -- -odd x").program, "-odd");
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        for line in ["", "-n 2", "--frobnicate a", "-n 0 a", "-n x a", "-y a", "-n"] {
            let words = line.split_whitespace().map(OsString::from).collect();
            assert!(parse(words).is_err(), "{line}");
        }
    }
}

//! srun's command line: its own options up to the first word that is none, then a program and its arguments.

use std::ffi::OsString;

use crate::failure::Failure;

/// Options of one letter that take a value, attached or as the next word.
const SHORT_WITH_VALUE: &str = "ABCDGJLMNSTWcdeimnopqrtwx";

/// Options of one letter that may have a value attached.
const SHORT_WITH_OPTIONAL_VALUE: &str = "IK";

/// Options of one letter without a value.
const SHORT_ALONE: &str = "EHOQXZbklsuv";

/// Long options that take a value: with `=`, or as the next word.
const LONG_WITH_VALUE: &[&str] = &[
    "account",
    "accel-bind",
    "acctg-freq",
    "bb",
    "bbf",
    "chdir",
    "cluster-constraint",
    "clusters",
    "comment",
    "constraint",
    "container",
    "cores-per-socket",
    "cpu-bind",
    "cpu_bind",
    "cpu-freq",
    "cpus-per-gpu",
    "cpus-per-task",
    "deadline",
    "delay-boot",
    "dependency",
    "distribution",
    "epilog",
    "error",
    "exclude",
    "export",
    "extra-node-info",
    "gpu-bind",
    "gpu-freq",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "gres-flags",
    "hint",
    "input",
    "job-name",
    "jobid",
    "licenses",
    "mail-type",
    "mail-user",
    "mem",
    "mem-bind",
    "mem_bind",
    "mem-per-cpu",
    "mem-per-gpu",
    "mincpus",
    "mpi",
    "msg-timeout",
    "network",
    "nodefile",
    "nodelist",
    "nodes",
    "ntasks",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-node",
    "ntasks-per-socket",
    "open-mode",
    "output",
    "partition",
    "power",
    "prefer",
    "priority",
    "profile",
    "prolog",
    "qos",
    "relative",
    "reservation",
    "signal",
    "slurmd-debug",
    "sockets-per-node",
    "switches",
    "task-epilog",
    "task-prolog",
    "thread-spec",
    "threads",
    "threads-per-core",
    "time",
    "time-min",
    "tmp",
    "tres-per-task",
    "uid",
    "gid",
    "wait",
    "wckey",
    "core-spec",
];

/// Long options that take a value only with `=`.
const LONG_WITH_OPTIONAL_VALUE: &[&str] =
    &["bcast", "compress", "exclusive", "immediate", "kill-on-bad-exit", "nice", "propagate", "x11"];

/// Long options without a value.
const LONG_ALONE: &[&str] = &[
    "contiguous",
    "disable-status",
    "exact",
    "hold",
    "interactive",
    "label",
    "no-allocate",
    "no-kill",
    "overcommit",
    "overlap",
    "oversubscribe",
    "preserve-env",
    "pty",
    "quiet",
    "quit-on-interrupt",
    "reboot",
    "send-libs",
    "share",
    "spread-job",
    "test-only",
    "unbuffered",
    "use-min-nodes",
    "verbose",
    "whole",
];

/// The options that mean something here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-n`.
    pub ranks: Option<u32>,
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
            match (name.as_str(), value) {
                ("-n" | "--ntasks", Some(value)) => options.ranks = Some(ranks(&value)?),
                ("-D" | "--chdir", Some(value)) => options.chdir = Some(value),
                _ => skipped.push(name),
            }
        }
    };
    let Some(program) = program else {
        return Err(Failure::usage("srun: there is no program to start", "write it after the options"));
    };
    Ok(Step { options, skipped, program, arguments: words.collect() })
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

fn ranks(value: &OsString) -> Result<u32, Failure> {
    let count = value.to_str().and_then(|text| text.parse().ok()).filter(|count| *count > 0);
    count.ok_or_else(|| {
        Failure::usage(
            format!("srun: `{}` is not a number of ranks", value.to_string_lossy()),
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
        assert_eq!(step.skipped, ["-N", "-c", "--cpu-bind", "--mem", "--exclusive", "-K", "-u", "-t"]);
        assert_eq!(step.program, "python3");
        assert_eq!(step.arguments, ["-u", "x.py"]);
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

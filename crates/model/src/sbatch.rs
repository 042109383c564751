//! The `#SBATCH` options of a job script, where Slurm itself is absent.
//!
//! As `sbatch` does, only the leading block counts: lines that begin with `#`, and blank lines, up to the first
//! command (`src/sbatch/opt.c`, `_opt_batch_script`). Words may be quoted; an unquoted `#` ends a line.

mod array;
mod components;
mod export;
mod forgotten;
mod words;

pub use self::array::Array;
pub use self::components::components;
pub use self::export::Export;
pub use self::forgotten::forgotten;

/// What a script's `#SBATCH` lines ask for. Where an option is given twice the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sbatch {
    /// `-J`, `--job-name`.
    pub job_name: Option<String>,
    /// `-n`, `--ntasks`.
    pub ntasks: Option<u32>,
    /// `-N`, `--nodes`: the smaller number of two.
    pub nodes: Option<u32>,
    /// `--ntasks-per-node`.
    pub ntasks_per_node: Option<u32>,
    /// `-c`, `--cpus-per-task`.
    pub cpus_per_task: Option<u32>,
    /// `-a`, `--array`.
    pub array: Option<Array>,
    /// `--export`; `None`: everything, and `srun` is told nothing.
    pub export: Option<Export>,
    /// `-D`, `--chdir`, and `--workdir` as older releases called it. As written, so it may be relative.
    pub chdir: Option<String>,
    /// `-i`, `-o`, `-e` and `--open-mode`.
    pub streams: Streams,
    /// Options that only name something which the job finds in its environment, with their values.
    pub named: Vec<(&'static str, String)>,
    /// `--bb` and `--bbf`: burst-buffer requests outside `#DW` lines. Not to be ignored: the job counts on a buffer.
    pub burst_buffer: Vec<Request>,
    /// Names of the options that mean nothing here, in the script's order and without values: `-t`, `--partition`.
    pub ignored: Vec<String>,
    /// Options and values that `sbatch` refuses, and what it wants.
    pub wrong: Vec<Wrong>,
}

/// Where a job's standard streams are, as patterns (see [`crate::file_pattern`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// `-i`, `--input`.
    pub input: Option<String>,
    /// `-o`, `--output`.
    pub output: Option<String>,
    /// `-e`, `--error`.
    pub error: Option<String>,
    /// `--open-mode=append`: what is in the files stays.
    pub append: bool,
}

/// A burst-buffer request outside `#DW` lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `--bb` or `--bbf`.
    pub option: String,
    /// What is asked for, or the file that says it.
    pub value: String,
}

/// An option whose value cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// As it was written.
    pub option: String,
    /// Empty where there was none.
    pub value: String,
    /// What it has to be.
    pub wanted: &'static str,
}

/// What counts tasks, nodes and processors.
const COUNT: &str = "a whole number from 1 up";

/// Reads the `#SBATCH` lines of a script. Never fails: what `sbatch` would refuse is listed as wrong.
pub fn parse(text: &str) -> Sbatch {
    let mut sbatch = Sbatch::default();
    for line in text.lines() {
        if let Some(options) = line.strip_prefix("#SBATCH") {
            sbatch.read_line(options);
        } else if !is_head(line) {
            break;
        }
    }
    sbatch
}

/// Whether a line may stand above the first command.
fn is_head(line: &str) -> bool {
    matches!(line.trim_start().chars().next(), None | Some('#'))
}

impl Sbatch {
    /// How many ranks the job's steps have where they do not say it themselves: `-n`, or what so many nodes have.
    pub fn ranks(&self) -> u32 {
        let on_nodes = self.nodes.unwrap_or(1).saturating_mul(self.ntasks_per_node.unwrap_or(1));
        self.ntasks.unwrap_or(on_nodes)
    }

    /// Reads the options of one line.
    fn read_line(&mut self, options: &str) {
        let mut words = words::split(options).into_iter();
        while let Some(word) = words.next() {
            // What does not begin with a dash is the value of an option that was ignored.
            let Some((name, attached)) = words::split_option(&word) else { continue };
            let attached = attached.map(str::to_owned);
            let mut value = || attached.clone().or_else(|| words.next());
            match name {
                "-J" | "--job-name" => self.job_name = value().or(self.job_name.take()),
                "-D" | "--chdir" | "--workdir" => self.chdir = value().or(self.chdir.take()),
                "-i" | "--input" => self.streams.input = value().or(self.streams.input.take()),
                "-o" | "--output" => self.streams.output = value().or(self.streams.output.take()),
                "-e" | "--error" => self.streams.error = value().or(self.streams.error.take()),
                "--export" => self.export = value().map(|value| Export::parse(&value)),
                "--bb" | "--bbf" => {
                    let (option, value) = (name.to_owned(), value().unwrap_or_default());
                    self.burst_buffer.push(Request { option, value });
                }
                _ if is_checked(name) => self.read_checked(name, value().unwrap_or_default()),
                _ => {
                    self.ignored.push(name.to_owned());
                    if let Some(variable) = variable(name) {
                        self.named
                            .extend(value().and_then(|value| Some((variable, shown_as(variable, value)?))));
                    }
                }
            }
        }
    }

    /// Reads an option of which not every value is right.
    fn read_checked(&mut self, option: &str, value: String) {
        let number = || value.parse().ok().filter(|number| *number > 0);
        let (place, number, wanted) = match option {
            "-n" | "--ntasks" => (&mut self.ntasks, number(), COUNT),
            "-c" | "--cpus-per-task" => (&mut self.cpus_per_task, number(), COUNT),
            "--ntasks-per-node" => (&mut self.ntasks_per_node, number(), COUNT),
            "-N" | "--nodes" => {
                let fewest = value.split(['-', ',']).next().and_then(|number| number.parse().ok());
                (&mut self.nodes, fewest.filter(|number| *number > 0), "a number of nodes, as 2 or 2-4")
            }
            "--open-mode" => {
                let append = ["append", "a"].contains(&value.as_str());
                self.streams.append = append;
                let known = append || ["truncate", "t"].contains(&value.as_str());
                (&mut None, known.then_some(0), "append or truncate")
            }
            _ => {
                let array = Array::parse(&value);
                let known = array.as_ref().map(|_| 0);
                self.array = array;
                (&mut None, known, "task numbers, as 0-15, 1,3,5 or 0-15:4")
            }
        };
        match number {
            Some(number) => *place = Some(number),
            None => self.wrong.push(Wrong { option: option.to_owned(), value, wanted }),
        }
    }
}

fn is_checked(option: &str) -> bool {
    let long = ["--ntasks", "--cpus-per-task", "--ntasks-per-node", "--nodes", "--open-mode", "--array"];
    long.contains(&option) || ["-n", "-c", "-N", "-a"].contains(&option)
}

/// Where a job finds what an option without another meaning said.
fn variable(option: &str) -> Option<&'static str> {
    match option {
        "-A" | "--account" => Some("SLURM_JOB_ACCOUNT"),
        "-p" | "--partition" => Some("SLURM_JOB_PARTITION"),
        "-q" | "--qos" => Some("SLURM_JOB_QOS"),
        "--mem" => Some("SLURM_MEM_PER_NODE"),
        "--mem-per-cpu" => Some("SLURM_MEM_PER_CPU"),
        _ => None,
    }
}

/// As the job finds it: memory is in MiB. `None` where it is no amount.
fn shown_as(variable: &str, value: String) -> Option<String> {
    if !variable.starts_with("SLURM_MEM") {
        return Some(value);
    }
    let digits = value.trim_end_matches(|ch: char| ch.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let mebibytes = match value[digits.len()..].chars().next().map(|unit| unit.to_ascii_uppercase()) {
        None | Some('M') => number,
        Some('K') => number.div_ceil(1 << 10),
        Some('G') => number.checked_mul(1 << 10)?,
        Some('T') => number.checked_mul(1 << 20)?,
        Some(_) => return None,
    };
    Some(mebibytes.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_option_is_read() {
        for spelling in ["-J mesh", "-Jmesh", "--job-name=mesh", "--job-name mesh", "--job-name='mesh'"] {
            let sbatch = parse(&format!("#!/bin/bash\n#SBATCH {spelling} -n 4\n"));
            assert_eq!((sbatch.job_name.as_deref(), sbatch.ntasks), (Some("mesh"), Some(4)), "{spelling}");
        }
        for spelling in ["-D /pfs/run", "--chdir=/pfs/run", "--workdir /pfs/run"] {
            assert_eq!(
                parse(&format!("#SBATCH {spelling}")).chdir.as_deref(),
                Some("/pfs/run"),
                "{spelling}"
            );
        }
    }

    #[test]
    fn options_that_mean_nothing_here_are_named_in_order() {
        let sbatch = parse(
            "#SBATCH -N1 -t 10 -p debug --time=00:10:00\n#SBATCH --exclusive -C haswell # --qos=high\n",
        );
        assert_eq!(sbatch.ignored, ["-t", "-p", "--time", "--exclusive", "-C"]);
        assert_eq!(sbatch.named, [("SLURM_JOB_PARTITION", "debug".to_owned())]);
    }

    #[test]
    fn memory_is_told_in_mebibytes() {
        let sbatch = parse("#SBATCH --mem=4G --mem-per-cpu 1500\n#SBATCH --mem=2048K --mem=x\n");
        let values: Vec<_> = sbatch.named.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["4096", "1500", "2"]);
    }

    #[test]
    fn only_the_leading_comment_block_counts() {
        let sbatch = parse("#!/bin/bash\n\n# by ada\n#SBATCH -n 2\n#DW jobdw\necho hi\n#SBATCH -n 8\n");
        assert_eq!(sbatch.ntasks, Some(2));
    }

    #[test]
    fn the_last_of_several_counts_and_quotes_keep_spaces() {
        let sbatch = parse("#SBATCH -J one\n#SBATCH --job-name=\"two # three\" -n 2 -n 3\n");
        assert_eq!(sbatch.job_name.as_deref(), Some("two # three"));
        assert_eq!(sbatch.ntasks, Some(3));
    }

    #[test]
    fn ranks_are_those_of_the_nodes_where_no_number_is_given() {
        let ranks = |options: &str| parse(&format!("#SBATCH {options}\n")).ranks();
        assert_eq!(ranks("-t 1"), 1);
        assert_eq!(ranks("-N 2"), 2);
        assert_eq!(ranks("-N 2-4 --ntasks-per-node=3"), 6);
        assert_eq!(ranks("-N2 --ntasks-per-node=8 -n 4"), 4);
    }

    #[test]
    fn streams_and_what_is_exported_are_read() {
        let sbatch = parse("#SBATCH -o out.%j -e err.%j --open-mode=append --export=NONE -c4\n");
        assert_eq!(sbatch.streams.output.as_deref(), Some("out.%j"));
        assert_eq!(sbatch.streams.error.as_deref(), Some("err.%j"));
        assert!(sbatch.streams.append && sbatch.ignored.is_empty());
        assert!(!sbatch.export.expect("it was given").passes("HOME"));
        assert_eq!(sbatch.cpus_per_task, Some(4));
    }

    #[test]
    fn what_sbatch_refuses_is_named_with_what_it_wants() {
        let options = ["-n x", "-c 0", "--ntasks-per-node=", "-N a", "--open-mode=x", "--array=5-1"];
        for option in options {
            let sbatch = parse(&format!("#SBATCH {option}\n"));
            assert_eq!(sbatch.wrong.len(), 1, "{option}");
            assert!(option.starts_with(&sbatch.wrong[0].option), "{option}");
        }
    }

    #[test]
    fn a_buffer_asked_for_outside_the_directives_is_not_lost() {
        let asked = parse("#SBATCH --bbf=bb.conf --bb=\"capacity=1g pool=a\"\n").burst_buffer;
        let asked: Vec<_> = asked.iter().map(|it| (it.option.as_str(), it.value.as_str())).collect();
        assert_eq!(asked, [("--bbf", "bb.conf"), ("--bb", "capacity=1g pool=a")]);
    }
}

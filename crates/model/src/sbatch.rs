//! The `#SBATCH` options of a job script, where Slurm itself is absent.
//!
//! As `sbatch` does, only the leading block counts: lines that begin with `#`, and blank lines, up to the first
//! command (`src/sbatch/opt.c`, `_opt_batch_script`). Words may be quoted; an unquoted `#` ends a line.

/// What a script's `#SBATCH` lines ask for. Where an option is given twice the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sbatch {
    /// `-J`, `--job-name`.
    pub job_name: Option<String>,
    /// `-n`, `--ntasks`.
    pub ntasks: Option<u32>,
    /// `-D`, `--chdir`, and `--workdir` as older releases called it. As written, so it may be relative.
    pub chdir: Option<String>,
    /// `--bb` and `--bbf`: burst-buffer requests outside `#DW` lines. Not to be ignored: the job counts on a buffer.
    pub burst_buffer: Vec<String>,
    /// Names of the options that mean nothing here, in the script's order and without values: `-t`, `--partition`.
    pub ignored: Vec<String>,
}

/// Reads the `#SBATCH` lines of a script. Never fails: what `sbatch` would refuse is listed as ignored.
pub fn parse(text: &str) -> Sbatch {
    let mut sbatch = Sbatch::default();
    for line in text.lines() {
        if let Some(options) = line.strip_prefix("#SBATCH") {
            sbatch.read_line(options);
        } else if !matches!(line.trim_start().chars().next(), None | Some('#')) {
            break;
        }
    }
    sbatch
}

impl Sbatch {
    /// Reads the options of one line.
    fn read_line(&mut self, options: &str) {
        let mut words = split(options).into_iter();
        while let Some(word) = words.next() {
            // What does not begin with a dash is the value of an option that was ignored.
            let Some((name, attached)) = split_option(&word) else { continue };
            let attached = attached.map(str::to_owned);
            let mut value = || attached.clone().or_else(|| words.next());
            match name {
                "-J" | "--job-name" => self.job_name = value().or(self.job_name.take()),
                "-D" | "--chdir" | "--workdir" => self.chdir = value().or(self.chdir.take()),
                "-n" | "--ntasks" => match value().and_then(|count| count.parse().ok()) {
                    Some(count) => self.ntasks = Some(count),
                    None => self.ignored.push(name.to_owned()),
                },
                "--bb" | "--bbf" => self.burst_buffer.push(name.to_owned()),
                _ => self.ignored.push(name.to_owned()),
            }
        }
    }
}

/// The name of an option and the value attached to it: `--name=value`, `-nvalue`.
fn split_option(word: &str) -> Option<(&str, Option<&str>)> {
    if word.starts_with("--") {
        return Some(word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value))));
    }
    let letter = word.strip_prefix('-')?.chars().next()?;
    let (name, value) = word.split_at(1 + letter.len_utf8());
    Some((name, Some(value).filter(|value| !value.is_empty())))
}

/// Splits a line into words. `'` and `"` keep white space and `#`; a backslash keeps the next character, except
/// inside `'`.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(ch) = chars.next() {
        match (quote, ch) {
            (Some(open), ch) if ch == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(ch);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '#') if word.is_none() => break,
            (None, ch) if ch.is_whitespace() => words.extend(word.take()),
            (_, ch) => word.get_or_insert_default().push(ch),
        }
    }
    words.extend(word);
    words
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
        assert_eq!(sbatch.ignored, ["-N", "-t", "-p", "--time", "--exclusive", "-C"]);
    }

    #[test]
    fn only_the_leading_comment_block_counts() {
        let sbatch = parse("#!/bin/bash\n\n# by ada\n#SBATCH -n 2\n#DW jobdw\necho hi\n#SBATCH -n 8\n");
        assert_eq!(sbatch.ntasks, Some(2));
    }

    #[test]
    fn the_last_of_several_counts_and_quotes_keep_spaces() {
        let sbatch = parse("#SBATCH -J one\n#SBATCH --job-name=\"two # three\" -n x\n");
        assert_eq!(sbatch.job_name.as_deref(), Some("two # three"));
        assert_eq!(sbatch.ignored, ["-n"]);
    }

    #[test]
    fn a_buffer_asked_for_outside_the_directives_is_not_lost() {
        assert_eq!(parse("#SBATCH --bbf=bb.conf --bb=\"capacity=1g\"\n").burst_buffer, ["--bbf", "--bb"]);
    }
}

//! `--capacity`, `--in` and `--out` as the directives that say the same: from there on what they ask for goes the way
//! of a script's.

use std::path::{Path, PathBuf};

use model::symbols;
use serde::{Deserialize, Serialize};

use crate::arguments::Buffer;
use crate::failure::Failure;
use crate::render;

/// Directives that options add to a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    lines: Vec<Line>,
}

/// One option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    /// As it was typed, a word for a shell.
    option: String,
    /// The directive.
    directive: String,
}

impl Added {
    /// The directives for what was typed in `folder`, which is absolute.
    ///
    /// # Errors
    /// A value is not what its option takes.
    pub fn of(buffer: &Buffer, folder: &Path) -> Result<Added, Failure> {
        let capacity = buffer.capacity.iter().map(|size| capacity(size));
        let ins = buffer.stage_in.iter().map(|typed| stage_in(typed, folder));
        let outs = buffer.stage_out.iter().map(|typed| stage_out(typed, folder));
        Ok(Added { lines: capacity.chain(ins).chain(outs).collect::<Result<_, _>>()? })
    }

    /// Whether no option was given.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The script with the directives at its end.
    pub fn to(&self, text: &str) -> String {
        let mut whole = text.to_owned();
        if !self.is_empty() && !whole.ends_with('\n') {
            whole.push('\n');
        }
        whole.extend(self.lines.iter().map(|line| line.directive.as_str()));
        whole
    }

    /// The option that the line with this number, from 1, of the whole script comes from.
    pub fn option(&self, text: &str, line: u32) -> Option<&str> {
        let first = text.lines().count() + 1;
        let index = usize::try_from(line).ok()?.checked_sub(first)?;
        Some(&self.lines.get(index)?.option)
    }

    /// The options again, as words for a shell.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| line.option.as_str())
    }
}

fn line(option: &str, typed: &str, directive: String) -> Line {
    Line { option: format!("{option} {}", render::word(Path::new(typed))), directive }
}

fn capacity(size: &str) -> Result<Line, Failure> {
    check_capacity(size)?;
    let text = format!("#DW jobdw type=scratch access_mode=striped capacity={size}\n");
    Ok(line("--capacity", size, text))
}

/// Refuses what `--capacity` does not take.
///
/// # Errors
/// It is no size, or 0.
pub fn check_capacity(size: &str) -> Result<(), Failure> {
    match model::size::parse(size) {
        Ok(0) => {
            Err(Failure::usage(format!("--capacity {size} is zero"), "give a size above zero, such as 10GiB"))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::usage(format!("--capacity: {error}"), "write a size, as 10GiB")),
    }
}

fn stage_in(typed: &str, folder: &Path) -> Result<Line, Failure> {
    let (source, destination) = match parts("--in", typed)?.as_slice() {
        [source] => (pfs("--in", typed, source, folder)?, None),
        [source, destination] => {
            (pfs("--in", typed, source, folder)?, Some(in_buffer("--in", typed, destination)?))
        }
        _ => return Err(two_colons("--in", typed)),
    };
    let own_name = || source.file_name().map(|name| name.to_string_lossy().into_owned());
    let destination = destination.or_else(own_name).ok_or_else(|| {
        Failure::usage(
            format!("--in {typed} has no name of its own"),
            "write --in SRC:DST, with DST in the buffer",
        )
    })?;
    let text = directive("stage_in", &source.display().to_string(), &in_namespace(&destination));
    Ok(line("--in", typed, text))
}

fn stage_out(typed: &str, folder: &Path) -> Result<Line, Failure> {
    match parts("--out", typed)?.as_slice() {
        [source, destination] => {
            let source = in_namespace(&in_buffer("--out", typed, source)?);
            let destination = pfs("--out", typed, destination, folder)?;
            Ok(line("--out", typed, directive("stage_out", &source, &destination.display().to_string())))
        }
        [_] => Err(Failure::usage(
            format!("--out {typed} does not say where to"),
            "write --out SRC:DST, with SRC in the buffer",
        )),
        _ => Err(two_colons("--out", typed)),
    }
}

fn directive(keyword: &str, source: &str, destination: &str) -> String {
    let [source, destination] = [source, destination].map(symbols::encoded);
    format!("#DW {keyword} type=any source={source} destination={destination}\n")
}

fn in_namespace(path: &str) -> String {
    format!("$DW_JOB_STRIPED/{path}")
}

/// What stands between colons; `\:` is one in a name.
fn parts(option: &str, typed: &str) -> Result<Vec<String>, Failure> {
    if typed.contains(char::is_control) {
        let message =
            format!("{option} {}: a line break or another control character", render::on_one_line(typed));
        return Err(Failure::usage(
            message,
            "stage the folder that it is in: names below may have any bytes",
        ));
    }
    let mut parts = vec![String::new()];
    let mut rest = typed.chars().peekable();
    while let Some(ch) = rest.next() {
        match ch {
            '\\' if rest.next_if_eq(&':').is_some() => parts.last_mut().expect("one is there").push(':'),
            ':' => parts.push(String::new()),
            _ => parts.last_mut().expect("one is there").push(ch),
        }
    }
    Ok(parts)
}

fn two_colons(option: &str, typed: &str) -> Failure {
    Failure::usage(format!("{option} {typed} has more than one colon"), r"write `\:` for a colon in a name")
}

/// A path outside the buffer. A slash at its end stays: it says that a folder is meant.
fn pfs(option: &str, typed: &str, path: &str, folder: &Path) -> Result<PathBuf, Failure> {
    if path.is_empty() {
        return Err(Failure::usage(
            format!("{option} {typed} lacks a path"),
            "name one on each side of the colon",
        ));
    }
    // A shell replaces it at the beginning of a word alone.
    if path == "~" || path.starts_with("~/") {
        return Err(Failure::usage(format!("{option} {typed}: no shell replaces this `~`"), "write $HOME"));
    }
    let whole = folder.join(path.trim_start_matches("./"));
    if whole.to_str().is_none() {
        let message = format!("{option} {typed}: {} is not UTF-8 text", whole.display());
        return Err(Failure::usage(message, "name an absolute path without such bytes"));
    }
    Ok(whole)
}

/// A path in the buffer, below its root.
fn in_buffer(option: &str, typed: &str, path: &str) -> Result<String, Failure> {
    // What `$DW_JOB_STRIPED/x` is to the shell that starts us.
    let below = path.trim_start_matches('/');
    if below.split('/').any(|part| part == "..") {
        return Err(Failure::usage(
            format!("{option} {typed}: `{path}` leads out of the buffer"),
            "name a path below the buffer's root, without `..`",
        ));
    }
    let parts: Vec<&str> = below.split('/').filter(|part| *part != ".").collect();
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit_code::ExitCode;

    fn added(capacity: &str, ins: &[&str], outs: &[&str]) -> Result<Added, Failure> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let buffer = Buffer { capacity: Some(capacity.into()), stage_in: owned(ins), stage_out: owned(outs) };
        Added::of(&buffer, Path::new("/home/ada/a b"))
    }

    #[test]
    fn options_are_the_directives_that_say_the_same() {
        let added = added(
            "1GiB",
            &["in put", "/pfs/data/:/d", r"x\:1:y\:2", "./f:g/"],
            &["out:results", ".:/pfs/100%", "./a/./b:/pfs/c"],
        );
        let expected = "\
#!/bin/sh
#DW jobdw type=scratch access_mode=striped capacity=1GiB
#DW stage_in type=any source=/home/ada/a%20b/in%20put destination=$DW_JOB_STRIPED/in%20put
#DW stage_in type=any source=/pfs/data/ destination=$DW_JOB_STRIPED/d
#DW stage_in type=any source=/home/ada/a%20b/x:1 destination=$DW_JOB_STRIPED/y:2
#DW stage_in type=any source=/home/ada/a%20b/f destination=$DW_JOB_STRIPED/g/
#DW stage_out type=any source=$DW_JOB_STRIPED/out destination=/home/ada/a%20b/results
#DW stage_out type=any source=$DW_JOB_STRIPED/ destination=/pfs/100%25
#DW stage_out type=any source=$DW_JOB_STRIPED/a/b destination=/pfs/c
";
        let added = added.unwrap();
        assert_eq!(added.to("#!/bin/sh"), expected);
        assert_eq!(added.option("#!/bin/sh", 3), Some("--in 'in put'"));
        assert_eq!((added.option("#!/bin/sh\n", 1), added.option("#!/bin/sh\n", 10)), (None, None));
        assert_eq!(Added::default().to("no line end"), "no line end");
    }

    #[test]
    fn what_is_no_stage_is_the_command_lines_fault() {
        for (ins, outs, part) in [
            (&["/"][..], &[][..], "no name of its own"),
            (&["a:b:c"], &[], "more than one colon"),
            (&["a:../b"], &[], "leads out of the buffer"),
            (&[":b"], &[], "lacks a path"),
            (&["a\nb"], &[], "line break"),
            (&[], &["a"], "does not say where to"),
            (&[], &["a:~/b"], "write $HOME"),
            (&[], &["a:"], "lacks a path"),
        ] {
            let failure = added("1GiB", ins, outs).unwrap_err();
            assert_eq!(failure.exit_code(), ExitCode::Usage);
            assert!(failure.to_string().contains(part), "{failure}");
        }
        assert!(added("0", &[], &[]).unwrap_err().to_string().contains("is zero"));
        assert!(added("10Gig", &[], &[]).unwrap_err().to_string().contains("Gig"));
    }
}

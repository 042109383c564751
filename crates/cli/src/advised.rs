//! Every command of ours that a message of any crate advises is one that can be copied: it parses as typed, and what
//! the user would have to fill in is only what nobody but the user knows.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::arguments::Arguments;

/// What only the user knows.
const CHOSEN: [&str; 5] = ["PATH", "SCRIPT", "SOURCE", "DESTINATION", "FOLDER"];

/// The program's sources of all crates.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if disk::is_folder(&path).unwrap() && name != "tests" {
            sources(&path, into);
        } else if name.ends_with(".rs") && !matches!(name.as_str(), "tests.rs" | "advised.rs") {
            into.push(path);
        }
    }
}

/// The program's text without comments and unit tests, with string literals that go on over lines put together.
fn text(path: &Path) -> String {
    let source = fs::read_to_string(path).unwrap();
    let program = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = program.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let mut text = String::new();
    for line in lines {
        text += line.strip_suffix('\\').unwrap_or(line);
        if !line.ends_with('\\') {
            text.push('\n');
        }
    }
    text
}

/// The commands of ours between backticks, each with the line that it is in.
fn commands(text: &str) -> Vec<(&str, &str)> {
    let of_line = |line| -> Vec<(&str, &str)> {
        let quoted = str::split(line, '`').skip(1).step_by(2);
        quoted.filter_map(|quoted| Some((quoted.strip_prefix("forebay ")?, line))).collect()
    };
    text.lines().flat_map(of_line).collect()
}

/// Words as a shell makes them, with a value in the place of what the program fills in.
fn words(command: &str) -> Vec<String> {
    let mut filled = String::new();
    for (at, piece) in command.split(['{', '}']).enumerate() {
        filled += if at % 2 == 0 { piece } else { "3" };
    }
    let words = filled.split_whitespace().map(|word| word.trim_matches('\'').to_owned());
    ["forebay".to_owned()].into_iter().chain(words).collect()
}

/// Why it cannot be copied.
fn fault(command: &str, line: &str) -> Option<String> {
    if let Err(error) = Arguments::try_parse_from(words(command)) {
        return error.use_stderr().then(|| error.to_string());
    }
    let is_capital = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
    let left = command.split(' ').map(|word| word.trim_matches('\'')).filter(is_capital);
    // Where the buffer is not known, say where to read the tokens.
    let is_said = |word: &&str| *word == "TOKEN" && line.contains("`forebay status`");
    let unknown = left.filter(|word| !CHOSEN.contains(word) && !is_said(word));
    let unknown: Vec<&str> = unknown.collect();
    (!unknown.is_empty()).then(|| format!("leaves {} to the user", unknown.join(" ")))
}

#[test]
fn every_command_that_a_message_advises_can_be_copied() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut files);
    let (mut seen, mut faults) = (0, Vec::new());
    for file in files {
        let text = text(&file);
        let is_quoted = text.contains("'forebay ");
        faults.extend(is_quoted.then(|| format!("{}: a command stands between ` and `", file.display())));
        for (command, line) in commands(&text) {
            seen += 1;
            let fault = fault(command, line);
            faults.extend(fault.map(|why| format!("{}: `forebay {command}`: {why}", file.display())));
        }
    }
    assert!(seen > 40, "{seen} were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_cannot_be_copied_is_found() {
    let text = "\"`forebay rm` or `forebay scrub TOKEN` or `forebay node loose n1`; `forebay rm {token}`\"";
    let found = commands(text);
    let faulty = found.iter().filter(|(command, line)| fault(command, line).is_some()).count();
    assert_eq!((found.len(), faulty), (4, 3));
    assert_eq!(fault("rm TOKEN", "`forebay status` lists them, `forebay rm TOKEN` removes one"), None);
}

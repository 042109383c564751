//! Runs the command blocks of a page of docs/, in their order, and compares what they print with what the page shows.
//!
//! `sh` and `console` are as `scripts/site/hooks.py` defines them.

/// A page with command blocks.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Its path in the repository.
    pub path: &'static str,
    /// All of it: tests also run where the repository cannot be read.
    pub text: &'static str,
}

macro_rules! page {
    ($path:literal) => {
        Page { path: $path, text: include_str!(concat!("../", $path)) }
    };
}

/// Pages whose commands a user runs on one machine.
pub const OF_USERS: &[Page] = &[
    page!("README.md"),
    page!("docs/use/tutorial.md"),
    page!("docs/use/with.md"),
    page!("docs/use/interactive.md"),
    page!("docs/use/job-scripts.md"),
    page!("docs/use/troubleshooting.md"),
];

/// Pages whose commands an operator runs on the cluster of `make cluster`.
pub const OF_OPERATORS: &[Page] = &[
    page!("docs/run/install.md"),
    page!("docs/run/nodes.md"),
    page!("docs/run/monitoring.md"),
    page!("docs/run/backup.md"),
    page!("docs/SLURM.md"),
];

/// What begins a block that is run from the source tree: this is how `make test` itself was started, and how its
/// cluster is made.
const OF_THE_SOURCE_TREE: &str = "make ";

/// What runs commands: it gets a script for bash, and returns all that it printed.
pub type Shell<'a> = &'a mut dyn FnMut(&str) -> String;

/// Printed after each command of a session; no program prints it.
const ENDED: &str = "-- a command of the page ended --";

/// A block of commands.
struct Block<'a> {
    /// Where it begins in the page, from 1.
    line: usize,
    commands: Vec<Command<'a>>,
}

/// A command and the lines that the page shows below it.
struct Command<'a> {
    text: String,
    shown: Option<Vec<&'a str>>,
}

impl Page {
    /// Runs the blocks in their order.
    ///
    /// In what is shown, `…` stands for any lines, or for the rest of a line. Measured values (durations, rates, GiB)
    /// are compared by their units. `home` is what the page calls `/home/ada`.
    ///
    /// # Panics
    /// A command prints something else.
    #[track_caller]
    pub fn run(&self, home: &str, shell: Shell<'_>) {
        let of_the_tree = |block: &Block<'_>| block.commands[0].text.starts_with(OF_THE_SOURCE_TREE);
        for block in blocks(self.text).iter().filter(|block| !of_the_tree(block)) {
            let ended =
                |command: &Command<'_>| format!("{}\n(s=$?; echo; echo '{ENDED}'; exit $s)\n", command.text);
            let script: String = block.commands.iter().map(ended).collect();
            let printed = shell(&script).replace(home, "/home/ada");
            let end = format!("\n{ENDED}\n");
            for (command, output) in block.commands.iter().zip(printed.split(&end)) {
                self.compare(block.line, command, output);
            }
        }
    }

    #[track_caller]
    fn compare(&self, line: usize, command: &Command<'_>, output: &str) {
        let Some(shown) = &command.shown else { return };
        let lines: Vec<&str> = output.trim_end_matches('\n').lines().collect();
        let (path, text, page) = (self.path, &command.text, shown.join("\n"));
        assert!(
            matches(shown, &lines),
            "{path}, line {line}: `{text}` prints\n{output}\nand the page shows\n{page}"
        );
    }
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let inside: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        let commands = match language {
            "sh" => vec![Command { text: inside.join("\n"), shown: None }],
            "console" => session(&inside),
            _ => continue,
        };
        blocks.push(Block { line: at + 1, commands });
    }
    blocks
}

fn session<'a>(lines: &[&'a str]) -> Vec<Command<'a>> {
    let mut commands: Vec<Command<'a>> = Vec::new();
    for line in lines {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(text), _) => commands.push(Command { text: text.to_owned(), shown: Some(Vec::new()) }),
            (None, Some(Command { shown: Some(shown), .. })) => shown.push(line),
            (None, _) => panic!("a session begins with a command, not with: {line}"),
        }
    }
    commands
}

fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (Some((line, rest)), _) if line.trim() == "…" => {
            (0..=printed.len()).any(|skip| matches(rest, &printed[skip..]))
        }
        (Some((line, shown)), Some((other, printed))) => is_line(line, other) && matches(shown, printed),
        _ => false,
    }
}

fn is_line(shown: &str, printed: &str) -> bool {
    match shown.strip_suffix('…') {
        Some(start) => unmeasured(printed).starts_with(unmeasured(start).trim_end()),
        None => unmeasured(shown).trim_end() == unmeasured(printed).trim_end(),
    }
}

/// The line without the values that differ from run to run.
fn unmeasured(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let is_unit = |word: &str| {
        let word = word.trim_end_matches([',', ';', ')']);
        matches!(word, "ms" | "s" | "GiB") || word.ends_with("/s")
    };
    let mut kept = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let measured =
            words[at].parse::<f64>().is_ok() && words.get(at + 1).is_some_and(|unit| is_unit(unit));
        kept.push(match (measured, words.get(at + 1)) {
            (true, Some(unit)) if unit.ends_with("/s") || unit.ends_with("/s,") => "RATE",
            (true, Some(unit)) if unit.starts_with("GiB") => "ROOM",
            (true, _) => "TIME",
            (false, _) => words[at],
        });
        at += if measured { 2 } else { 1 };
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{OF_OPERATORS, OF_USERS, Page, blocks};

    const PAGE: Page = Page {
        path: "page",
        text: "words\n```console\n$ one\ntook 3 ms, 1.5 MiB/s\n…\nlast: one…\n```\n```text\nno command\n```\n",
    };

    fn prints(text: &'static str) -> impl FnMut(&str) -> String {
        move |script| {
            assert!(script.starts_with("one\n"));
            format!("{text}\n\n-- a command of the page ended --\n")
        }
    }

    #[test]
    fn what_is_measured_and_what_is_left_out_may_differ() {
        PAGE.run("/root", &mut prints("took 0.4 s, 9 KiB/s\nfirst\nsecond\nlast: one of two"));
    }

    #[test]
    #[should_panic(expected = "page, line 2: `one` prints")]
    fn other_words_are_a_failure() {
        PAGE.run("/root", &mut prints("took 0.4 s, 9 KiB/s\nlast: two"));
    }

    #[test]
    #[should_panic(expected = "and the page shows")]
    fn a_line_more_is_a_failure() {
        PAGE.run("/root", &mut prints("took 0.4 s, 9 KiB/s\nlast: one\nand more"));
    }

    /// Pages of `folder` and below with command blocks, by their paths in the repository.
    fn with_commands(folder: &Path, name: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("the repository is there").flatten() {
            let path = entry.path();
            let name = format!("{name}{}", entry.file_name().to_string_lossy());
            if path.is_dir() {
                with_commands(&path, &format!("{name}/"), found);
            } else if name.ends_with(".md")
                && !blocks(&fs::read_to_string(&path).expect("pages are text")).is_empty()
            {
                found.push(name);
            }
        }
    }

    #[test]
    fn every_page_with_command_blocks_is_run() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = vec!["README.md".to_owned()];
        with_commands(&repository.join("docs"), "docs/", &mut found);
        let mut run: Vec<&str> = OF_USERS.iter().chain(OF_OPERATORS).map(|page| page.path).collect();
        found.sort();
        run.sort_unstable();
        assert_eq!(run, found);
    }
}

//! The manual pages in `packaging/man`: of each command, made of what `--help` says, and of the configuration files,
//! made of their comments. `MANUAL=write cargo test --release -p cli manual` writes them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::{Arguments, srun};

/// What `docs/use/with.md` says at length.
const WITH: &str = "\
.SH \"EXIT STATUS\"
That of COMMAND; 64 where the command line is wrong, 66 where a source of --in, or COMMAND, is not there or cannot be
started, 74 where COMMAND did well and what it made could not be staged out: the buffer is kept then.
.SH ENVIRONMENT
.TP
.B DW_JOB_STRIPED
The path of the buffer, with a slash at its end, for COMMAND; also FOREBAY_TOKEN, its number, and what sbatch sets.
.SH NOTES
Write -- before COMMAND. --capacity has no default. SRC of --in and DST of --out are relative to the current folder, the
other sides to the buffer. What a COMMAND that failed did not make is not staged out, and is no error.
.PP
A run that was interrupted goes on with
.BR \"forebay run --resume\" .
.SH EXAMPLE
.nf
forebay with --capacity 10GiB --in data:in --out results:results -- ./simulate
.fi
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/man")
}

/// The pages of the commands below `command`, by their files' names.
fn of_commands(command: &Command, above: &str, pages: &mut Vec<(String, String)>) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        let name = format!("{above}-{}", below.get_name());
        let mut page = Vec::new();
        // Names of commands live as long as the program.
        let title: &'static str = name.clone().leak();
        let named = below.clone().name(title).bin_name(name.replace('-', " ")).version(None::<&str>);
        let man =
            Man::new(named).title(name.to_uppercase()).date("").source("Forebay").manual("User Commands");
        man.render(&mut page).unwrap();
        let mut page = String::from_utf8(page).unwrap();
        page.push_str(&beyond_help(&name));
        page.push_str(".SH \"SEE ALSO\"\n.BR forebay (1)\n");
        pages.push((format!("{name}.1"), page));
        of_commands(below, &name, pages);
    }
}

/// What the page of a command says that its `--help` does not, or says by itself.
fn beyond_help(name: &str) -> String {
    let plain = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    match name {
        // It is not `clap` that reads srun's own options.
        "forebay-srun" => format!(".SH \"OPTIONS OF SRUN\"\n.nf\n{}\n.fi\n", plain(srun::TEXT)),
        "forebay-with" => plain(WITH),
        _ => String::new(),
    }
}

/// The page of a configuration file whose every key has a comment above it.
fn of_configuration(program: &str, name: &str, text: &str) -> (String, String) {
    let plain = |line: &str| line.replace('\\', "\\e").replace('-', "\\-");
    let mut page = format!(
        ".TH {} 5 \"\" Forebay \"File Formats\"\n.SH NAME\n{name} \\- the configuration of {program}\n\
         .SH DESCRIPTION\n",
        name.to_uppercase()
    );
    let mut words: Vec<&str> = Vec::new();
    let mut is_first = true;
    for line in text.lines() {
        match line.strip_prefix('#') {
            Some(comment) => words.push(comment.trim()),
            None if line.is_empty() && is_first => {
                page.push_str(&format!("{}\n.SH KEYS\n", plain(&words.join("\n"))));
                (words, is_first) = (Vec::new(), false);
            }
            None if line.is_empty() => {}
            None => {
                let key = plain(line).replace('"', "\\(dq");
                write!(page, ".TP\n.B {key}\n{}\n", plain(&words.join("\n"))).unwrap();
                words.clear();
            }
        }
    }
    write!(
        page,
        ".SH \"SEE ALSO\"\n.BR forebay (1);\n.B {program} \\-\\-check\nsays what a start would refuse.\n"
    )
    .unwrap();
    (format!("{name}.5"), page)
}

fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let mut command = Arguments::command();
    command.build();
    of_commands(&command, "forebay", &mut pages);
    let control = include_str!("../../../../packaging/control.toml");
    let node = include_str!("../../../../packaging/node.toml");
    pages.push(of_configuration("forebay-control", "control.toml", control));
    pages.push(of_configuration("forebay-node", "node.toml", node));
    pages
}

#[test]
fn each_command_and_each_configuration_file_has_a_page_that_says_what_it_says() {
    let pages = pages();
    assert!(pages.len() > 25, "{}", pages.len());
    for (name, page) in pages {
        let path = folder().join(&name);
        if std::env::var_os("MANUAL").is_some() {
            fs::write(&path, page).unwrap();
        } else {
            let there = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(there, page, "{name}: write it again, see the head of this file");
        }
    }
}

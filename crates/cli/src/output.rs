//! Where words go: results to standard output, everything said on the way to standard error, so that a job's own output
//! stays clean and `--json` leaves nothing but its object on the last line.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::MultiProgress;

use crate::render;

/// What works on the buffers of a state folder.
const OF_A_FOLDER: [&str; 12] =
    ["run", "with", "check", "status", "rm", "scrub", "fsck", "rekey", "stage", "mount", "umount", "node"];

fn is_of_a_folder(command: &str) -> bool {
    let verb = command.split(' ').next().unwrap_or_default();
    OF_A_FOLDER.contains(&verb) && !command.contains(" --dir ")
}

/// The terminal, or whatever stands there.
#[derive(Clone, Debug)]
pub struct Output {
    json: bool,
    /// `--dir`, which commands that we advise must repeat.
    folder: Option<PathBuf>,
    /// Bars are drawn on standard error; lines must go round them.
    bars: MultiProgress,
    /// Whoever read standard output has gone.
    unread: Arc<AtomicBool>,
    /// Programs were given a result.
    has_result: Arc<AtomicBool>,
}

impl Output {
    /// For people, or with `json` for programs. `folder` is `--dir` where it was given.
    pub fn new(json: bool, folder: Option<PathBuf>) -> Output {
        Output {
            json,
            folder,
            bars: MultiProgress::new(),
            unread: Arc::default(),
            has_result: Arc::default(),
        }
    }

    /// A command to advise: `forebay rm 3`, with the `--dir` that this one was given.
    pub fn command(&self, command: &str) -> String {
        match &self.folder {
            None => format!("forebay {command}"),
            Some(folder) => format!("forebay {command} --dir {}", render::word(folder)),
        }
    }

    /// Words that others wrote, with the `--dir` that this command was given in each command of ours that they advise.
    fn advised(&self, words: &str) -> String {
        if self.folder.is_none() {
            return words.to_owned();
        }
        let mut pieces: Vec<String> = words.split('`').map(str::to_owned).collect();
        for piece in pieces.iter_mut().skip(1).step_by(2) {
            if let Some(command) = piece.strip_prefix("forebay ").filter(|rest| is_of_a_folder(rest)) {
                *piece = self.command(command);
            }
        }
        pieces.join("`")
    }

    /// Whether results are for programs.
    pub fn json(&self) -> bool {
        self.json
    }

    /// The progress bars that lines go round.
    pub fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// A result for people: standard output, or standard error where that belongs to programs. As in
    /// [`Output::advised`].
    pub fn say(&self, text: &str) {
        if self.json {
            return self.note(text);
        }
        let text = shown(&self.advised(text));
        self.bars.suspend(|| self.heard(writeln!(io::stdout(), "{text}")));
    }

    /// What takes the place of what it was before: on a terminal there, else below it, after an empty line.
    pub fn redraw(&self, text: &str) {
        if !io::stdout().is_terminal() {
            return self.say(&format!("{text}\n"));
        }
        // From the top, each line to its end, and what was below: a screen that is cleared first would flicker.
        let lines = shown(&self.advised(text)).replace('\n', "\x1b[K\n");
        self.bars.suspend(|| {
            let written = write!(io::stdout(), "\x1b[H{lines}\x1b[K\n\x1b[J");
            self.heard(written.and_then(|()| io::stdout().flush()));
        });
    }

    /// A result for programs: one line on standard output.
    pub fn object(&self, value: &impl serde::Serialize) {
        let line = serde_json::to_string(value).expect("our own types have only string keys");
        let line = wire::without_numbers(&line);
        self.has_result.store(true, Ordering::Relaxed);
        self.bars.suspend(|| self.heard(writeln!(io::stdout(), "{line}")));
    }

    /// Whether programs were given a result: what fails after it is said on standard error alone.
    pub fn has_result(&self) -> bool {
        self.has_result.load(Ordering::Relaxed)
    }

    /// A reader that is gone (`forebay status | head`) is no error of ours.
    fn heard(&self, written: io::Result<()>) {
        if written.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            self.unread.store(true, Ordering::Relaxed);
        }
    }

    /// Whether nobody can read any more what is written to standard output.
    pub fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// What happens meanwhile: standard error. As in [`Output::advised`].
    pub fn note(&self, text: &str) {
        let text = shown(&self.advised(text));
        self.bars.suspend(|| drop(writeln!(io::stderr(), "{text}")));
    }
}

/// Lines for a terminal, which obeys none of what names of files may have in them.
fn shown(text: &str) -> String {
    let text = wire::without_numbers(text);
    text.split('\n').map(render::on_one_line).collect::<Vec<String>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_told_nothing_by_the_names_of_files() {
        assert_eq!(shown("one\n  \u{1b}[31mtwo\r"), "one\n  \\u{1b}[31mtwo\\r");
    }

    #[test]
    fn commands_that_others_advise_find_the_buffer_where_this_command_found_it() {
        let words =
            "`forebay status` lists them, `forebay rm 3 --dir /c` removes one; see `forebay local list`";
        let advised = words.replace("status`", "status --dir /b`");
        assert_eq!(Output::new(false, Some("/b".into())).advised(words), advised);
        assert_eq!(Output::new(false, None).advised(words), words);
        let spaced = Output::new(false, Some("/st dir".into()));
        assert_eq!(spaced.command("rm 3"), "forebay rm 3 --dir '/st dir'");
    }
}

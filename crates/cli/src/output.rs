//! Where words go: results to standard output, everything said on the way to standard error, so that a job's own output
//! stays clean and `--json` leaves nothing but its object on the last line.

use std::io::Write;
use std::path::PathBuf;

use indicatif::MultiProgress;

/// The terminal, or whatever stands there.
#[derive(Clone, Debug)]
pub struct Output {
    json: bool,
    /// `--dir`, which commands that we advise must repeat.
    folder: Option<PathBuf>,
    /// Bars are drawn on standard error; lines must go round them.
    bars: MultiProgress,
}

impl Output {
    /// For people, or with `json` for programs. `folder` is `--dir` where it was given.
    pub fn new(json: bool, folder: Option<PathBuf>) -> Output {
        Output { json, folder, bars: MultiProgress::new() }
    }

    /// A command to advise: `forebay rm 3`, with the `--dir` that this one was given.
    pub fn command(&self, command: &str) -> String {
        match &self.folder {
            None => format!("forebay {command}"),
            Some(folder) => format!("forebay {command} --dir {}", folder.display()),
        }
    }

    /// Whether results are for programs.
    pub fn json(&self) -> bool {
        self.json
    }

    /// The progress bars that lines go round.
    pub fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// A result for people: standard output, or standard error where that belongs to programs.
    pub fn say(&self, text: &str) {
        if self.json {
            return self.note(text);
        }
        // A reader that is gone (`forebay status | head`) is no error of ours.
        self.bars.suspend(|| drop(writeln!(std::io::stdout(), "{text}")));
    }

    /// A result for programs: one line on standard output.
    pub fn object(&self, value: &impl serde::Serialize) {
        let line = serde_json::to_string(value).expect("our own types have only string keys");
        self.bars.suspend(|| drop(writeln!(std::io::stdout(), "{line}")));
    }

    /// What happens meanwhile: standard error.
    pub fn note(&self, text: &str) {
        self.bars.suspend(|| drop(writeln!(std::io::stderr(), "{text}")));
    }
}

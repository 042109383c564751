//! Programs that work in a mount, each by a script: `SCRIPT prepare FOLDER`, then `work FOLDER PROGRESS` until the file
//! FOLDER/stop is there, with a line in the file PROGRESS for what it has done, then `check FOLDER`, by the program's
//! own means; it prints how many transactions, commits or keys it compared.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tests::processes::wait_until;
use tests::site::HANGS_AFTER;

/// A program at work.
pub struct Program {
    script: PathBuf,
    folder: PathBuf,
    /// What it says; not in the mount.
    log: PathBuf,
    /// It grows with what the program does; not in the mount, either.
    progress: PathBuf,
    /// How long that was when somebody asked last.
    seen: u64,
    work: Child,
}

impl Program {
    /// Starts the program `name` in a folder of its own below `mount`.
    #[track_caller]
    pub fn start(name: &str, mount: &Path) -> Program {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("drills/programs/{name}"));
        let folder = mount.join(name);
        fs::create_dir(&folder).expect("the mount is writable");
        let log = mount.with_extension(name);
        let progress = mount.with_extension("progress");
        run(&script, "prepare", &folder, &log);
        let work = command(&script, "work", &folder, &log).arg(&progress).spawn().expect("bash is there");
        Program { script, folder, log, progress, seen: 0, work }
    }

    /// It has done something since this was asked last.
    #[track_caller]
    pub fn await_progress(&mut self) {
        let done = || fs::metadata(&self.progress).map_or(0, |file| file.len());
        let before = self.seen;
        let went_on = wait_until(HANGS_AFTER, || done() > before);
        self.seen = done();
        self.assert_works();
        assert!(went_on, "it does nothing:\n{}", last_words(&self.log));
    }

    /// It works; if not, why it ended.
    #[track_caller]
    pub fn assert_works(&mut self) {
        let ended = self.work.try_wait().expect("it is our child");
        assert!(ended.is_none(), "it ended with {ended:?}:\n{}", last_words(&self.log));
    }

    /// Ends its work and lets it look at what it has; how much it compared.
    #[track_caller]
    pub fn finish(mut self) -> u64 {
        fs::write(self.folder.join("stop"), "").expect("the mount is writable");
        let ended = wait_until(HANGS_AFTER, || self.work.try_wait().expect("it is our child").is_some());
        let status = self.work.try_wait().expect("it is our child");
        assert!(ended && status.is_some_and(|s| s.success()), "{status:?}:\n{}", last_words(&self.log));
        run(&self.script, "check", &self.folder, &self.log)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It sees the file, unless its mount is gone; then its processes end with their calls.
        let _stopped = fs::write(self.folder.join("stop"), "");
        let _gone = self.work.kill();
        let _status = self.work.wait();
    }
}

fn command(script: &Path, what: &str, folder: &Path, log: &Path) -> Command {
    let file = File::options().create(true).append(true).open(log).expect("the folder is ours");
    let mut command = Command::new("bash");
    command.arg(script).arg(what).arg(folder).stdin(Stdio::null());
    command.stdout(file.try_clone().expect("a file can be shared")).stderr(file);
    command
}

/// Runs it to its end; the number that it printed last.
#[track_caller]
fn run(script: &Path, what: &str, folder: &Path, log: &Path) -> u64 {
    let status = command(script, what, folder, log).status().expect("bash is there");
    let said = last_words(log);
    assert!(status.success(), "{what} of {script:?} failed with {status}:\n{said}");
    said.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or_default()
}

fn last_words(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

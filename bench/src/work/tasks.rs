//! What a process of the benchmark may be asked to do beside others.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::names::{Files, Step};
use super::processes::{self, Done};
use super::requests::Requests;
use super::{data, mapped, rounds};

/// How many processes do their work at once.
pub const PROCESSES: usize = 2;

/// The word on the command line of a process that has a task.
pub const WORD: &str = "task";

/// One process's part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// A new file of [`data::FILE_MEBIBYTES`], written in order, until it is on stable storage.
    Write(PathBuf),
    /// It is read in order.
    Read(PathBuf),
    /// It is read through a mapping.
    ReadMapped(PathBuf),
    /// So many pages of it are read at random.
    ReadPages(PathBuf, usize),
    /// So many are written, until they are on stable storage.
    WritePages(PathBuf, usize),
    /// Requests of any length are written to a file that is there, until they are on stable storage.
    WriteRequests(PathBuf, Requests),
    /// They are read.
    ReadRequests(PathBuf, Requests),
    /// Something is done with many files.
    Names(Files, Step),
    /// A file that is there is opened, written and closed so many times.
    Rounds(PathBuf, usize),
}

/// A task that only has to be done.
type Prepared = Box<dyn FnOnce() -> Result<()>>;

impl Task {
    /// Does what is not to be measured.
    fn prepare(self) -> Result<Prepared> {
        Ok(match self {
            Task::Write(path) => Box::new(move || data::sequential_write(&path).map(drop)),
            Task::Read(path) => Box::new(move || data::sequential_read(&path).map(drop)),
            Task::ReadMapped(path) => {
                let file = File::open(path)?;
                Box::new(move || Ok(mapped::read(&file)?))
            }
            Task::ReadPages(path, count) => Box::new(move || data::read_pages(&path, count).map(drop)),
            Task::WritePages(path, count) => Box::new(move || data::write_pages(&path, count).map(drop)),
            Task::WriteRequests(path, requests) => {
                let file = OpenOptions::new().write(true).open(path)?;
                Box::new(move || Ok(requests.write(&file)?))
            }
            Task::ReadRequests(path, requests) => {
                let file = File::open(path)?;
                Box::new(move || Ok(requests.read(&file)?))
            }
            Task::Names(files, step) => {
                let each = files.each(step);
                Box::new(move || Ok(each()?))
            }
            Task::Rounds(path, count) => Box::new(move || Ok(rounds::work(&path, count)?)),
        })
    }
}

/// Does the tasks at once, in a process each.
pub fn run(tasks: &[Task]) -> Result<Vec<Done>> {
    let arguments = |task| Ok([WORD.to_owned(), serde_json::to_string(task)?]);
    let arguments: Vec<[String; 2]> = tasks.iter().map(arguments).collect::<Result<_>>()?;
    processes::run(&arguments).with_context(|| format!("do {:?}", tasks[0]))
}

/// What each of these processes does with its argument.
pub fn serve(task: &str) -> Result<()> {
    let task: Task = serde_json::from_str(task)?;
    let prepared = task.prepare()?;
    processes::serve(prepared)
}

/// Rounds of opening, writing and closing per second of all processes together, of `count` each, in `folder`, which is
/// left as it was.
pub fn rounds(folder: &Path, count: usize) -> Result<f64> {
    let done = rounds_done(folder, count)?;
    Ok(done.iter().map(|done| count as f64 / done.seconds).sum())
}

/// The same, as each process did it.
pub fn rounds_done(folder: &Path, count: usize) -> Result<Vec<Done>> {
    let paths: Vec<PathBuf> = (0..PROCESSES).map(|number| folder.join(format!("round-{number}"))).collect();
    paths.iter().try_for_each(|path| rounds::work(path, 1))?;
    let tasks: Vec<Task> = paths.iter().map(|path| Task::Rounds(path.clone(), count)).collect();
    let done = run(&tasks)?;
    paths.iter().try_for_each(fs::remove_file)?;
    Ok(done)
}

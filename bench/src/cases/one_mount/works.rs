//! What two programs do through one mount, on any file system.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::work::names::{Files, Step};
use crate::work::processes::Done;
use crate::work::requests::Requests;
use crate::work::tasks::{self, PROCESSES, Task};
use crate::work::{MEBIBYTE, data};

/// Where the work is done.
pub struct Place<'a> {
    /// The folder.
    pub folder: PathBuf,
    /// Where the bytes of what is in it lie.
    pub below: Vec<PathBuf>,
    /// CPU seconds so far of the processes that serve it.
    pub cpu: Box<dyn Fn() -> Result<f64> + 'a>,
}

/// What a piece of work took.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// How much was done by all processes, in what its case counts.
    amount: f64,
    /// Until the last process was done.
    seconds: f64,
    /// CPU seconds of the processes that did it, and of those that serve the folder.
    cpu: f64,
}

impl Figure {
    /// So much per second.
    pub fn rate(&self) -> f64 {
        self.amount / self.seconds
    }

    /// CPU seconds for so much.
    pub fn cpu_for(&self, amount: f64) -> f64 {
        self.cpu / self.amount * amount
    }
}

/// Pages of each process at random.
const PAGES: usize = 2048;

/// Files of each process, of the kernel's sources' median length.
const FILES: usize = 500;
const FILE_BYTES: usize = 3901;

/// Each process's.
const ROUNDS: usize = 3000;

/// A large file of each process: written, read again, read cold, read through a mapping, and pages of it at random.
pub fn large_files(place: &Place<'_>) -> Result<Vec<Figure>> {
    let paths = place.own_paths("large");
    let all = |task: &dyn Fn(PathBuf) -> Task| -> Vec<Task> { paths.iter().cloned().map(task).collect() };
    let whole = (data::FILE_MEBIBYTES * PROCESSES) as f64;
    let mut figures = vec![
        place.figure(whole, || tasks::run(&all(&Task::Write)))?,
        place.figure(whole, || tasks::run(&all(&Task::Read)))?,
    ];
    place.forget(&paths)?;
    figures.push(place.figure(whole, || tasks::run(&all(&Task::Read)))?);
    // From here on the media are not what is measured.
    paths.iter().try_for_each(|path| data::forget(path))?;
    figures.push(place.figure(whole, || tasks::run(&all(&Task::ReadMapped)))?);
    paths.iter().try_for_each(|path| data::forget(path))?;
    let pages = (PAGES * PROCESSES) as f64;
    figures.push(place.figure(pages, || tasks::run(&all(&|path| Task::ReadPages(path, PAGES))))?);
    figures.push(place.figure(pages, || tasks::run(&all(&|path| Task::WritePages(path, PAGES))))?);
    paths.iter().try_for_each(fs::remove_file)?;
    Ok(figures)
}

/// Requests of each process, in what file.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Bytes of a request.
    pub bytes: usize,
    /// How many of each process.
    pub count: usize,
    /// Whether both take turns in one file.
    pub one_file: bool,
}

/// Requests that are written and then read cold, in MiB.
pub fn written_and_read(place: &Place<'_>, series: Series) -> Result<Vec<Figure>> {
    let (paths, requests) = series.begin(place)?;
    let of = |task: fn(PathBuf, Requests) -> Task| -> Vec<Task> {
        paths.iter().cloned().zip(&requests).map(|(path, own)| task(path, *own)).collect()
    };
    let mebibytes = (series.bytes * series.count * PROCESSES) as f64 / MEBIBYTE as f64;
    let written = place.figure(mebibytes, || tasks::run(&of(Task::WriteRequests)))?;
    place.forget(&paths)?;
    let read = place.figure(mebibytes, || tasks::run(&of(Task::ReadRequests)))?;
    series.end(&paths)?;
    Ok(vec![written, read])
}

/// Requests that are written, counted.
pub fn written(place: &Place<'_>, series: Series) -> Result<Figure> {
    let (paths, requests) = series.begin(place)?;
    let tasks: Vec<Task> =
        paths.iter().cloned().zip(requests).map(|(path, own)| Task::WriteRequests(path, own)).collect();
    let written = place.figure((series.count * PROCESSES) as f64, || tasks::run(&tasks))?;
    series.end(&paths)?;
    Ok(written)
}

impl Series {
    /// The same, in a file of each.
    pub fn in_own_files(self) -> Series {
        Series { one_file: false, ..self }
    }

    /// The files, which are there then, and each process's requests.
    fn begin(self, place: &Place<'_>) -> Result<(Vec<PathBuf>, Vec<Requests>)> {
        let Series { bytes, count, one_file } = self;
        let paths = if one_file {
            vec![place.folder.join("requests"); PROCESSES]
        } else {
            place.own_paths("requests")
        };
        paths.iter().try_for_each(|path| File::create(path).map(drop))?;
        let turns = if one_file { PROCESSES } else { 1 };
        let requests = |client| Requests { bytes, count, client, turns };
        Ok((paths, (0..PROCESSES).map(requests).collect()))
    }

    fn end(self, paths: &[PathBuf]) -> Result<()> {
        let files = if self.one_file { 1 } else { PROCESSES };
        Ok(paths[..files].iter().try_for_each(fs::remove_file)?)
    }
}

/// Small files of each process, in a folder of its own or all in one: created, looked at, read, removed.
pub fn small_files(place: &Place<'_>, one_folder: bool) -> Result<Vec<Figure>> {
    let folders =
        if one_folder { vec![place.folder.join("small"); PROCESSES] } else { place.own_paths("small") };
    folders.iter().try_for_each(fs::create_dir_all)?;
    let files: Vec<Files> = (0..PROCESSES)
        .map(|number| Files {
            folder: folders[number].clone(),
            prefix: format!("file-{number}-"),
            count: FILES,
            bytes: FILE_BYTES,
        })
        .collect();
    let step = |step| {
        let tasks: Vec<Task> = files.iter().map(|own| Task::Names(own.clone(), step)).collect();
        place.figure((FILES * PROCESSES) as f64, || tasks::run(&tasks))
    };
    let figures = [Step::Create, Step::Stat, Step::Read, Step::Remove].map(step);
    let distinct = if one_folder { &folders[..1] } else { &folders[..] };
    distinct.iter().try_for_each(fs::remove_dir)?;
    figures.into_iter().collect()
}

/// A small file of each process is opened, written and closed.
pub fn rounds(place: &Place<'_>) -> Result<Vec<Figure>> {
    Ok(vec![place.figure((ROUNDS * PROCESSES) as f64, || tasks::rounds_done(&place.folder, ROUNDS))?])
}

impl Place<'_> {
    fn own_paths(&self, name: &str) -> Vec<PathBuf> {
        (0..PROCESSES).map(|number| self.folder.join(format!("{name}-{number}"))).collect()
    }

    fn figure(&self, amount: f64, work: impl FnOnce() -> Result<Vec<Done>>) -> Result<Figure> {
        let before = (self.cpu)()?;
        let done = work()?;
        let served = (self.cpu)()? - before;
        let own: f64 = done.iter().map(|done| done.cpu).sum();
        let seconds = done.iter().map(|done| done.seconds).fold(0.0, f64::max);
        Ok(Figure { amount, seconds, cpu: served + own })
    }

    /// Takes the files out of the page cache of what they are read through, and everything out of that of the file
    /// systems below: the next read comes from the media.
    fn forget(&self, paths: &[PathBuf]) -> Result<()> {
        paths.iter().try_for_each(|path| data::forget(path))?;
        self.below.iter().try_for_each(|folder| forget_below(folder))
    }
}

fn forget_below(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget_below(&entry.path())?;
        } else if kind.is_file() && entry.path().exists() {
            // A log may have been replaced meanwhile.
            data::forget(&entry.path())?;
        }
    }
    Ok(())
}

//! The work itself: the same code on every file system.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

const MEBIBYTE: usize = 1 << 20;
const PAGE: usize = 4096;

/// Long enough for a tenth of a second at memory speed, short enough for five pairs on a slow disk.
const FILE_MEBIBYTES: usize = 128;
const RANDOM_REQUESTS: usize = 16384;
const SMALL_FILES: usize = 2000;

/// A set of measurements that need the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// One large file.
    Data,
    /// Many empty files.
    Names,
}

/// Every group.
pub const GROUPS: [Group; 2] = [Group::Data, Group::Names];

/// One thing that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// 1 MiB writes in order to a new file, and one fsync.
    SequentialWrite,
    /// 1 MiB reads in order of the file just written.
    SequentialRead,
    /// 4 KiB reads at random places of it.
    RandomRead,
    /// 4 KiB overwrites at random places of it, and one fsync.
    RandomWrite,
    /// New empty files.
    Create,
    /// Their attributes.
    Stat,
    /// Their end.
    Unlink,
}

impl Case {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Case::SequentialWrite => "1 MiB sequential write",
            Case::SequentialRead => "1 MiB sequential read",
            Case::RandomRead => "4 KiB random read",
            Case::RandomWrite => "4 KiB random write",
            Case::Create => "create",
            Case::Stat => "stat",
            Case::Unlink => "unlink",
        }
    }

    /// What its rate counts.
    pub fn unit(self) -> &'static str {
        match self {
            Case::SequentialWrite | Case::SequentialRead => "MiB/s",
            _ => "1/s",
        }
    }
}

/// A rate in the case's unit.
pub type Rate = (Case, f64);

/// A group's work in one folder.
pub struct Work {
    folder: PathBuf,
    group: Group,
}

impl Work {
    /// Work on files in `folder`.
    pub fn new(folder: &Path, group: Group) -> Self {
        Self { folder: folder.to_owned(), group }
    }

    /// Does it once; leaves the folder as it was.
    pub fn run(&self) -> Result<Vec<Rate>> {
        let done = match self.group {
            Group::Data => self.data(),
            Group::Names => self.names(),
        };
        done.with_context(|| format!("measure in {}", self.folder.display()))
    }

    fn data(&self) -> Result<Vec<Rate>> {
        let path = self.folder.join("data");
        let block: Vec<u8> = (0..MEBIBYTE).map(|at| (at % 251) as u8).collect();
        let write = rate(Case::SequentialWrite, FILE_MEBIBYTES, || {
            let mut file = File::create(&path)?;
            for _ in 0..FILE_MEBIBYTES {
                file.write_all(&block)?;
            }
            file.sync_all()
        })?;
        let read = rate(Case::SequentialRead, FILE_MEBIBYTES, || {
            let mut file = File::open(&path)?;
            let mut buffer = vec![0; MEBIBYTE];
            (0..FILE_MEBIBYTES).try_for_each(|_| file.read_exact(&mut buffer))
        })?;
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let mut page = vec![0; PAGE];
        let random_read = rate(Case::RandomRead, RANDOM_REQUESTS, || {
            pages().try_for_each(|page_number| file.read_exact_at(&mut page, page_number * PAGE as u64))
        })?;
        let random_write = rate(Case::RandomWrite, RANDOM_REQUESTS, || {
            pages()
                .try_for_each(|page_number| file.write_all_at(&block[..PAGE], page_number * PAGE as u64))?;
            file.sync_all()
        })?;
        drop(file);
        fs::remove_file(&path)?;
        Ok(vec![write, read, random_read, random_write])
    }

    fn names(&self) -> Result<Vec<Rate>> {
        let folder = self.folder.join("names");
        fs::create_dir(&folder)?;
        let paths: Vec<PathBuf> =
            (0..SMALL_FILES).map(|number| folder.join(format!("file-{number}"))).collect();
        let create = rate(Case::Create, SMALL_FILES, || {
            paths.iter().try_for_each(|path| File::create_new(path).map(drop))
        })?;
        let stat =
            rate(Case::Stat, SMALL_FILES, || paths.iter().try_for_each(|path| fs::metadata(path).map(drop)))?;
        let unlink = rate(Case::Unlink, SMALL_FILES, || paths.iter().try_for_each(fs::remove_file))?;
        fs::remove_dir(&folder)?;
        Ok(vec![create, stat, unlink])
    }
}

fn rate(case: Case, count: usize, action: impl FnOnce() -> std::io::Result<()>) -> Result<Rate> {
    let start = Instant::now();
    action().with_context(|| case.name())?;
    Ok((case, count as f64 / start.elapsed().as_secs_f64()))
}

/// Page numbers of the large file that look random and are the same every time.
fn pages() -> impl Iterator<Item = u64> {
    let count = (FILE_MEBIBYTES * MEBIBYTE / PAGE) as u64;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..RANDOM_REQUESTS).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % count
    })
}

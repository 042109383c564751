//! Records that are aligned to nothing, written by several clients at once: into one file, or into a file each.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};

use super::MEBIBYTE;
use super::requests::Requests;

/// Bytes of a record: that of the N-1 runs on Cori.
pub const RECORD_BYTES: usize = 47_008;

/// Records of each client: 31 MiB.
pub const RECORDS: usize = 700;

/// MiB/s of all clients together, each in its own one of `folders`, which show the same files: they take turns in the
/// one file. Until everything is on the storage nodes' media.
pub fn shared(folders: &[&Path]) -> Result<f64> {
    let clients = folders.len();
    // A name that was never there: a peer's other clients go on knowing for a while that one is gone, or what it was.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("shared-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let paths: Vec<PathBuf> = folders.iter().map(|folder| folder.join(&name)).collect();
    File::create_new(&paths[0])?;
    let rate = write(&paths, clients)?;
    // A rate at which wrong bytes are written is none.
    let file = File::open(&paths[0])?;
    (0..clients).try_for_each(|client| records(client, clients).check(&file))?;
    fs::remove_file(&paths[0])?;
    Ok(rate)
}

/// The same with a file for each client.
pub fn separate(folders: &[&Path]) -> Result<f64> {
    let path = |(client, folder): (usize, &&Path)| folder.join(format!("separate-{client}"));
    let paths: Vec<PathBuf> = folders.iter().enumerate().map(path).collect();
    paths.iter().try_for_each(|path| File::create_new(path).map(drop))?;
    let rate = write(&paths, 1)?;
    paths.iter().try_for_each(fs::remove_file)?;
    Ok(rate)
}

fn records(client: usize, turns: usize) -> Requests {
    Requests { bytes: RECORD_BYTES, count: RECORDS, client, turns }
}

/// Writes with a thread for each path, `turns` of which take turns in a file.
fn write(paths: &[PathBuf], turns: usize) -> Result<f64> {
    let begin = &Barrier::new(paths.len() + 1);
    let seconds = std::thread::scope(|scope| {
        let start = |(client, path): (usize, &PathBuf)| {
            let path = path.clone();
            scope.spawn(move || {
                let opened = OpenOptions::new().write(true).open(path);
                // Also where that failed: the others wait.
                begin.wait();
                records(client, turns).write(&opened?)
            })
        };
        let threads: Vec<_> = paths.iter().enumerate().map(start).collect();
        begin.wait();
        let start = Instant::now();
        let written: std::io::Result<()> =
            threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"));
        written.map(|()| start.elapsed().as_secs_f64())
    });
    let bytes = paths.len() * RECORDS * RECORD_BYTES;
    Ok(bytes as f64 / MEBIBYTE as f64 / seconds.context("write records")?)
}

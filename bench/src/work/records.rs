//! Records that are aligned to nothing, written by several clients at once: into one file, or into a file each.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::MEBIBYTE;

/// Bytes of a record: that of the N-1 runs on Cori.
const RECORD_BYTES: usize = 47_008;

/// Records of each client: 31 MiB.
const RECORDS: usize = 700;

/// MiB/s of all clients together, each in its own one of `folders`, which show the same files: record `k` of client `i`
/// of `n` is record `k * n + i` of the one file. Until everything is on the storage nodes' media.
pub fn shared(folders: &[&Path]) -> Result<f64> {
    let clients = folders.len();
    // A name that was never there: a peer's other clients go on knowing for a while that one is gone, or what it was.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("shared-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let paths: Vec<PathBuf> = folders.iter().map(|folder| folder.join(&name)).collect();
    File::create_new(&paths[0])?;
    let rate = write(&paths, |client, record| record * clients + client)?;
    check(&paths[0], clients)?;
    fs::remove_file(&paths[0])?;
    Ok(rate)
}

/// The same with a file for each client.
pub fn separate(folders: &[&Path]) -> Result<f64> {
    let path = |(client, folder): (usize, &&Path)| folder.join(format!("separate-{client}"));
    let paths: Vec<PathBuf> = folders.iter().enumerate().map(path).collect();
    paths.iter().try_for_each(|path| File::create_new(path).map(drop))?;
    let rate = write(&paths, |_, record| record)?;
    paths.iter().try_for_each(fs::remove_file)?;
    Ok(rate)
}

/// Writes with a thread for each path; `place` says where a client's record goes.
fn write(paths: &[PathBuf], place: impl Fn(usize, usize) -> usize + Sync) -> Result<f64> {
    let (place, begin) = (&place, &Barrier::new(paths.len() + 1));
    let seconds = std::thread::scope(|scope| {
        let start = |(client, path): (usize, &PathBuf)| {
            let path = path.clone();
            scope.spawn(move || {
                let opened = OpenOptions::new().write(true).open(path);
                // Also where that failed: the others wait.
                begin.wait();
                write_records(&opened?, client, |record| place(client, record))
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

fn write_records(file: &File, client: usize, place: impl Fn(usize) -> usize) -> std::io::Result<()> {
    let mut bytes = vec![0; RECORD_BYTES];
    for record in 0..RECORDS {
        bytes.fill(mark(client, record));
        file.write_all_at(&bytes, (place(record) * RECORD_BYTES) as u64)?;
    }
    file.sync_all()
}

/// A rate at which wrong bytes are written is none.
fn check(path: &Path, clients: usize) -> Result<()> {
    let file = File::open(path)?;
    let mut bytes = vec![0; RECORD_BYTES];
    for number in 0..RECORDS * clients {
        file.read_exact_at(&mut bytes, (number * RECORD_BYTES) as u64)?;
        let mark = mark(number % clients, number / clients);
        ensure!(bytes.iter().all(|&byte| byte == mark), "record {number} is damaged");
    }
    Ok(())
}

/// What a record is filled with; never the 0 of a hole.
fn mark(client: usize, record: usize) -> u8 {
    u8::try_from((client * 7 + record) % 251 + 1).expect("at most 251")
}

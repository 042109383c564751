//! Files made through the client library, without FUSE.

use std::time::Instant;

use anyhow::{Context, Result};
use client::{Client, Creator, Errno, FileKind, ROOT};

/// Who makes the files.
const CREATOR: Creator = Creator { uid: 0, gid: 0 };

/// Creates per second of `threads` threads, a connection each, of `count` files each in a folder of their own. The closes and
/// the removal that follow do not count; the namespace is left as it was.
pub fn run(client: &Client, threads: usize, count: usize) -> Result<f64> {
    let names: Vec<Vec<u8>> = (0..count).map(|number| format!("file-{number}").into_bytes()).collect();
    let folders = folders(client, threads)?;
    let start = Instant::now();
    let inodes: Vec<Vec<u64>> = in_each(&folders, |folder| {
        names.iter().map(|name| Ok(client.create(folder, name, 0o644, &CREATOR)?.ino)).collect()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    inodes.iter().flatten().try_for_each(|&ino| client.close(ino, true)).context("close the files")?;
    in_each(&folders, |folder| names.iter().try_for_each(|name| client.unlink(folder, name)))?;
    folders.iter().try_for_each(|(name, _)| client.rmdir(ROOT, name)).context("remove the folders")?;
    Ok((threads * count) as f64 / seconds)
}

/// Makes `count` empty files and leaves them there, in a folder for each of `threads` threads.
pub fn fill(client: &Client, threads: usize, count: usize) -> Result<()> {
    let folders = folders(client, threads)?;
    let each = count / threads;
    in_each(&folders, |folder| {
        (0..each).try_for_each(|number| {
            let name = format!("file-{number:06}");
            client.mknod(folder, name.as_bytes(), FileKind::Regular, 0o644, 0, &CREATOR).map(drop)
        })
    })?;
    Ok(())
}

fn folders(client: &Client, threads: usize) -> Result<Vec<(Vec<u8>, u64)>> {
    let make = |thread| {
        let name = format!("creates-{thread}").into_bytes();
        let made = client.mkdir(ROOT, &name, 0o755, &CREATOR).context("make a folder")?;
        Ok((name, made.ino))
    };
    (0..threads).map(make).collect()
}

/// Does `action` in each folder at once.
fn in_each<T: Send>(
    folders: &[(Vec<u8>, u64)],
    action: impl Fn(u64) -> Result<T, Errno> + Sync,
) -> Result<Vec<T>> {
    let action = &action;
    let results: Result<Vec<T>, Errno> = std::thread::scope(|scope| {
        let threads: Vec<_> = folders.iter().map(|&(_, ino)| scope.spawn(move || action(ino))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    results.context("make or remove files")
}

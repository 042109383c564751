//! Files made through the client library, without FUSE.

use std::time::Instant;

use anyhow::{Context, Result};
use client::{Client, Creator, FileKind, Names, Node, ROOT, RequestId::New};
use model::Ino;

use super::at_once;

/// Who makes the files.
pub const CREATOR: Creator = Creator { uid: 0, gid: 0, umask: 0 };

/// Creates per second of all clients together, of `count` files each in a folder of its own. The closes and the removal
/// that follow do not count; the namespace is left as it was.
pub fn run(clients: &[Client], count: usize) -> Result<f64> {
    let names: Vec<Vec<u8>> = (0..count).map(|number| format!("file-{number}").into_bytes()).collect();
    let folders = folders(clients)?;
    let start = Instant::now();
    let inodes: Vec<Vec<Ino>> = at_once(clients.len(), |n| {
        names.iter().map(|name| Ok(clients[n].create(New, folders[n], name, 0o644, &CREATOR)?.ino)).collect()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    at_once(clients.len(), |n| {
        for (name, &ino) in names.iter().zip(&inodes[n]) {
            clients[n].close(ino, true)?;
            clients[n].unlink(New, folders[n], name)?;
        }
        clients[n].rmdir(New, ROOT, &folder_name(n)).context("remove a folder")
    })?;
    Ok((clients.len() * count) as f64 / seconds)
}

/// Makes `count` empty files in all and leaves them there.
pub fn fill(clients: &[Client], count: usize) -> Result<()> {
    let folders = folders(clients)?;
    at_once(clients.len(), |n| {
        for number in 0..count / clients.len() {
            let name = format!("file-{number:06}");
            clients[n].mknod(
                New,
                folders[n],
                name.as_bytes(),
                &Node { kind: FileKind::Regular, mode: 0o644, rdev: 0 },
                &CREATOR,
            )?;
        }
        Ok(())
    })?;
    Ok(())
}

/// One for each client.
fn folders(clients: &[Client]) -> Result<Vec<Ino>> {
    let make = |(n, client): (usize, &Client)| {
        let made = client.mkdir(New, ROOT, &folder_name(n), 0o755, &CREATOR).context("make a folder")?;
        Ok(made.ino)
    };
    clients.iter().enumerate().map(make).collect()
}

fn folder_name(n: usize) -> Vec<u8> {
    format!("creates-{n}").into_bytes()
}

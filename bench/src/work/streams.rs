//! Large files, written and read in order through the client library, without FUSE.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Result, ensure};
use client::{Client, Contents, Names, ROOT, RequestId::New};
use model::Ino;

use super::creates::CREATOR;
use super::{MEBIBYTE, at_once, block};

/// Which files the clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// Each its own.
    Own,
    /// All the same, each a part of it, as the aggregators of collective MPI-IO do.
    One,
}

/// What one client does: the file, and which MiB of it.
struct Part {
    ino: Ino,
    mebibytes: Range<usize>,
}

/// MiB/s of all clients together, written and then read, `total` MiB in requests of one.
pub fn run(clients: &[Client], files: Files, total: usize) -> Result<(f64, f64)> {
    let names: Vec<Vec<u8>> = match files {
        Files::Own => (0..clients.len()).map(|n| format!("stream-{n}").into_bytes()).collect(),
        Files::One => vec![b"stream".to_vec()],
    };
    let inodes: Vec<Ino> = names
        .iter()
        .map(|name| Ok(clients[0].create(New, ROOT, name, 0o644, &CREATOR)?.ino))
        .collect::<Result<_>>()?;
    let parts: Vec<Part> = (0..clients.len()).map(|n| part(n, clients.len(), &inodes, total)).collect();
    let opened = |n: usize| Ok(clients[n].open(parts[n].ino, true)?);
    at_once(clients.len(), opened)?;
    let written = timed(total, clients.len(), |n| write(&clients[n], &parts[n]))?;
    let read = timed(total, clients.len(), |n| read(&clients[n], &parts[n]))?;
    at_once(clients.len(), |n| Ok(clients[n].close(parts[n].ino, true)?))?;
    for (name, &ino) in names.iter().zip(&inodes) {
        clients[0].close(ino, true)?;
        clients[0].unlink(New, ROOT, name)?;
    }
    Ok((written, read))
}

fn part(n: usize, clients: usize, inodes: &[Ino], total: usize) -> Part {
    let mebibytes = total * n / clients..total * (n + 1) / clients;
    match inodes {
        [ino] => Part { ino: *ino, mebibytes },
        _ => Part { ino: inodes[n], mebibytes: 0..mebibytes.len() },
    }
}

fn timed(total: usize, clients: usize, action: impl Fn(usize) -> Result<()> + Sync) -> Result<f64> {
    let start = Instant::now();
    at_once(clients, action)?;
    Ok(total as f64 / start.elapsed().as_secs_f64())
}

fn write(client: &Client, part: &Part) -> Result<()> {
    let block = block(MEBIBYTE);
    for mebibyte in part.mebibytes.clone() {
        client.write(part.ino, (mebibyte * MEBIBYTE) as u64, &block)?;
    }
    Ok(())
}

fn read(client: &Client, part: &Part) -> Result<()> {
    let mut buffer = vec![0; MEBIBYTE];
    for mebibyte in part.mebibytes.clone() {
        let len = client.read(part.ino, (mebibyte * MEBIBYTE) as u64, &mut buffer)?;
        ensure!(len == MEBIBYTE, "MiB {mebibyte} is cut off");
    }
    Ok(())
}

//! The work itself: the same code on every file system.

pub mod bursts;
pub mod creates;
pub mod data;
mod mapped;
pub mod names;
pub mod processes;
pub mod records;
pub mod requests;
mod rounds;
pub mod staging;
pub mod streams;
pub mod tasks;

use std::io;
use std::time::Instant;

use anyhow::{Context, Result};

/// Bytes in a MiB.
pub const MEBIBYTE: usize = 1 << 20;

/// Bytes in a page.
pub const PAGE: usize = 4096;

/// How many per second `action` does, which does `count`.
pub fn rate(what: &str, count: usize, action: impl FnOnce() -> io::Result<()>) -> Result<f64> {
    let start = Instant::now();
    action().with_context(|| what.to_owned())?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// A block whose bytes tell where they are.
pub fn block(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Does `action` for each of `0..count` at once, in a thread each.
pub fn at_once<T: Send>(count: usize, action: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let action = &action;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || action(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

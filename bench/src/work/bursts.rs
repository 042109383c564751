//! A program that writes a burst and computes, again and again, as simulations write checkpoints.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use tests::local_node::USER;

use super::{MEBIBYTE, PAGE, block};

/// What the program does.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What its files' names begin with.
    pub name: &'static str,
    /// How many bursts.
    pub bursts: usize,
    /// How many files of how many bytes are in each, as if as many processes had one each.
    pub files: (usize, usize),
    /// How long it computes after each, on one processor.
    pub compute: Duration,
    /// Whether it writes past the page cache.
    pub direct: bool,
}

impl Program {
    /// Runs it in `volume`, as the volume's user; seconds.
    pub fn run(&self, volume: &Path) -> Result<f64> {
        std::thread::scope(|scope| {
            let work = || {
                let user = rustix::process::Uid::from_raw(USER);
                // Of this thread only: the benchmark stays root.
                rustix::thread::set_thread_res_uid(user, user, user)?;
                self.work(volume)
            };
            scope.spawn(work).join().expect("the program does not panic")
        })
    }

    fn work(&self, volume: &Path) -> Result<f64> {
        let start = Instant::now();
        let flags = if self.direct { OFlags::DIRECT.bits().cast_signed() } else { 0 };
        // The device takes whole pages only.
        let memory = block(MEBIBYTE + PAGE);
        let aligned = memory.as_ptr().align_offset(PAGE);
        let bytes = &memory[aligned..aligned + MEBIBYTE];
        for burst in 0..self.bursts {
            for file in 0..self.files.0 {
                let path = volume.join(format!("{}{burst}-{file}", self.name));
                let mut options = OpenOptions::new();
                let mut file =
                    options.write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
                (0..self.files.1 / MEBIBYTE).try_for_each(|_| file.write_all(bytes))?;
            }
            let end = Instant::now() + self.compute;
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Removes the files of all programs.
pub fn clear(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().contains('-') && path.is_file()) {
            fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

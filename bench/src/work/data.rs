//! One large file: in order and at random.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Result;
use rustix::fs::{Advice, OFlags};

use super::{MEBIBYTE, PAGE, block, rate};

/// Long enough for a tenth of a second at memory speed, short enough for five pairs on a slow disk.
pub const FILE_MEBIBYTES: usize = 128;
/// Pages that are read or written of it.
pub const RANDOM_REQUESTS: usize = 16384;

/// What [`run`] measures, in its order: name and unit.
pub const CASES: [(&str, &str); 4] = [SEQUENTIAL_WRITE, SEQUENTIAL_READ, RANDOM_READ, RANDOM_WRITE];

/// 1 MiB writes in order to a new file, and one fsync.
pub const SEQUENTIAL_WRITE: (&str, &str) = ("1 MiB sequential write", "MiB/s");
/// 1 MiB reads in order of the file just written.
pub const SEQUENTIAL_READ: (&str, &str) = ("1 MiB sequential read", "MiB/s");
/// 4 KiB reads at random places of it.
pub const RANDOM_READ: (&str, &str) = ("4 KiB random read", "1/s");
/// 4 KiB overwrites at random places of it, and one fsync.
pub const RANDOM_WRITE: (&str, &str) = ("4 KiB random write", "1/s");

/// What [`run_direct`] measures.
pub const DIRECT_CASES: [(&str, &str); 2] =
    [("4 KiB random read, direct", "1/s"), ("4 KiB random write, direct", "1/s")];

/// Each waits for the device.
const DIRECT_REQUESTS: usize = 2048;

/// Pages past the kernel's cache, one at a time, in `folder`, which is left as it was.
pub fn run_direct(folder: &Path) -> Result<Vec<f64>> {
    let path = folder.join("data");
    sequential_write(&path)?;
    let direct = OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(direct).open(&path)?;
    // The device takes whole pages only, also in memory.
    let mut memory = block(2 * PAGE);
    let aligned = memory.as_ptr().align_offset(PAGE);
    let page = &mut memory[aligned..aligned + PAGE];
    let places = || pages().take(DIRECT_REQUESTS).map(|number| number * PAGE as u64);
    let rates = vec![
        rate("read past the cache", DIRECT_REQUESTS, || {
            places().try_for_each(|at| file.read_exact_at(page, at))
        })?,
        rate("write past the cache", DIRECT_REQUESTS, || {
            places().try_for_each(|at| file.write_all_at(page, at))
        })?,
    ];
    fs::remove_file(&path)?;
    Ok(rates)
}

/// All of it, in `folder`, which is left as it was.
pub fn run(folder: &Path) -> Result<Vec<f64>> {
    let path = folder.join("data");
    let rates =
        vec![sequential_write(&path)?, sequential_read(&path)?, random_read(&path)?, random_write(&path)?];
    fs::remove_file(&path)?;
    Ok(rates)
}

/// Writes the file: the others need it.
pub fn sequential_write(path: &Path) -> Result<f64> {
    let block = block(MEBIBYTE);
    rate("write in order", FILE_MEBIBYTES, || {
        let mut file = File::create(path)?;
        for _ in 0..FILE_MEBIBYTES {
            file.write_all(&block)?;
        }
        file.sync_all()
    })
}

/// Reads the file.
pub fn sequential_read(path: &Path) -> Result<f64> {
    rate("read in order", FILE_MEBIBYTES, || {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; MEBIBYTE];
        (0..FILE_MEBIBYTES).try_for_each(|_| file.read_exact(&mut buffer))
    })
}

/// Reads [`RANDOM_REQUESTS`] pages of the file.
pub fn random_read(path: &Path) -> Result<f64> {
    read_pages(path, RANDOM_REQUESTS)
}

/// Writes as many.
pub fn random_write(path: &Path) -> Result<f64> {
    write_pages(path, RANDOM_REQUESTS)
}

/// Reads so many pages of the file.
pub fn read_pages(path: &Path, count: usize) -> Result<f64> {
    let file = File::open(path)?;
    let mut page = vec![0; PAGE];
    rate("read at random", count, || {
        pages().take(count).try_for_each(|number| file.read_exact_at(&mut page, number * PAGE as u64))
    })
}

/// Writes so many pages of the file.
pub fn write_pages(path: &Path, count: usize) -> Result<f64> {
    let file = OpenOptions::new().write(true).open(path)?;
    let page = block(PAGE);
    rate("write at random", count, || {
        pages().take(count).try_for_each(|number| file.write_all_at(&page, number * PAGE as u64))?;
        file.sync_all()
    })
}

/// Takes the file out of the page cache of the mount that it is read through, as if another node had written it. What
/// storage nodes have in memory stays there.
pub fn forget(path: &Path) -> Result<()> {
    Ok(rustix::fs::fadvise(File::open(path)?, 0, None, Advice::DontNeed)?)
}

/// Page numbers of the file that look random and are the same every time; none twice, which a page cache would have.
fn pages() -> impl Iterator<Item = u64> {
    // A linear congruence has its full period where its modulus is a power of two, its factor 1 more than a multiple of
    // four and its summand odd (Hull and Dobell 1962).
    const COUNT: u64 = (FILE_MEBIBYTES * MEBIBYTE / PAGE) as u64;
    const { assert!(COUNT.is_power_of_two() && COUNT >= RANDOM_REQUESTS as u64) };
    std::iter::successors(Some(1), |page| Some((page * 20_077 + 12_345) % COUNT)).take(RANDOM_REQUESTS)
}

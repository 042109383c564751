//! What the file system says of an object: its length, its times, and where it has data.

mod allocated;

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use wire::data::Time;

use self::allocated::unwritten;
use crate::extents::{Extents, blocks_touched};

/// What an object is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Length, bytes.
    pub size: u64,
    /// Space, in units of 512 bytes.
    pub blocks: u64,
    /// Last write.
    pub mtime: Time,
    /// Last change of any kind.
    pub ctime: Time,
}

/// Looks at it.
pub fn measure(file: &File) -> io::Result<Measure> {
    let stat = rustix::fs::fstat(file)?;
    // The kernel's nanoseconds are below 10^9, and its sizes are not negative.
    let time = |seconds: i64, nanos: u64| Time { seconds, nanos: u32::try_from(nanos).unwrap_or(0) };
    Ok(Measure {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
    })
}

/// The next range of a file that has data.
pub fn next_data(file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(start..rustix::fs::seek(file, SeekFrom::Hole(start))?))
}

/// The blocks that it has: those with data, and those that were allocated for some.
pub fn extents_of(file: &File) -> io::Result<Extents> {
    let mut extents = Extents::default();
    let mut at = 0;
    while let Some(range) = next_data(file, at)? {
        at = range.end;
        extents.insert(blocks_touched(range));
    }
    unwritten(file, |range| extents.insert(blocks_touched(range)))?;
    Ok(extents)
}

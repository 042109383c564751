//! Four clients that write 47,008-byte records into one file in turn (N-1), against the same records into a file each.

use std::path::Path;

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::namespace;
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::work::records;

const CLIENTS: usize = 4;

/// With `coherence=posix`.
const TARGET: f64 = 0.5;

/// On each medium, through four mounts of one namespace on four nodes.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let buffer = Buffer::mount(medium, 4, Volume::Directory)?;
        let mounts = namespace::mount_shared(&buffer, CLIENTS)?;
        let folders: Vec<&Path> = mounts.iter().map(|mount| mount.mountpoint()).collect();
        let rates = alternate(effort.pairs, || records::shared(&folders), || records::separate(&folders))?;
        let case = format!("47,008-byte records into one file, posix, {CLIENTS} clients, {}", buffer.name());
        lines.push(Line::new(case, "MiB/s", "a file for each client", TARGET).of(&rates));
        drop(mounts);
        buffer.unmount()?;
    }
    Ok(lines)
}

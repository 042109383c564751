//! Four clients that write 47,008-byte records into one file in turn (N-1), against the same records into a file each.

use std::path::Path;

use anyhow::Result;
use model::phase::Coherence;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::namespace;
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::work::records;

const CLIENTS: usize = 4;

/// What the clients are promised of each other's writes, and what we want of each.
const COHERENCES: [(Coherence, &str, f64); 2] =
    [(Coherence::Posix, "posix", 0.5), (Coherence::Commit, "commit", 0.8)];

/// On each medium, through four mounts of one namespace on four nodes.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        for (coherence, word, target) in COHERENCES {
            let buffer = Buffer::mount(medium, 4, Volume::Directory)?;
            let mounts = namespace::mount_shared(&buffer, CLIENTS, coherence)?;
            let folders: Vec<&Path> = mounts.iter().map(|mount| mount.mountpoint()).collect();
            let rates =
                alternate(effort.pairs, || records::shared(&folders), || records::separate(&folders))?;
            let case =
                format!("47,008-byte records into one file, {word}, {CLIENTS} clients, {}", buffer.name());
            lines.push(Line::new(case, "MiB/s", "a file for each client", target).of(&rates));
            drop(mounts);
            buffer.unmount()?;
        }
    }
    Ok(lines)
}

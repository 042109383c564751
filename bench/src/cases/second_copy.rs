//! What the second copy of the metadata costs: the same work on a buffer with two nodes, which keeps one, and on one
//! with one node, which does not.

use std::fs::{self, File};
use std::path::Path;

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::pairs::{alternate, nth};
use crate::report::{Line, Measurement};
use crate::work::rate;

/// Files of each kind.
const FILES: usize = 2000;
const SYNCED: usize = 200;

const CASES: [&str; 2] = ["create", "create and fsync"];

/// On each medium.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let one = Buffer::mount(medium, 1, Volume::Directory)?;
        let two = Buffer::mount(medium, 2, Volume::Directory)?;
        let rates = alternate(effort.pairs, || creates(two.mountpoint()), || creates(one.mountpoint()))?;
        lines.extend(CASES.into_iter().enumerate().map(|(index, case)| {
            let case = format!("{case} with a second copy of metadata, {}", two.name());
            Line::shown(case, "1/s", "one node, without").of(&nth(&rates, index))
        }));
        one.unmount()?;
        two.unmount()?;
    }
    Ok(lines)
}

/// Empty files in a folder that is removed again: per second, and with an fsync of each.
fn creates(mountpoint: &Path) -> Result<Vec<f64>> {
    let folder = mountpoint.join("second-copy");
    fs::create_dir(&folder)?;
    let each = |count: usize, kind: &str, action: fn(File) -> std::io::Result<()>| {
        let create = |n: usize| File::create_new(folder.join(format!("{kind}-{n}"))).and_then(action);
        rate(kind, count, || (0..count).try_for_each(create))
    };
    let rates = vec![each(FILES, "plain", |_| Ok(()))?, each(SYNCED, "synced", |file| file.sync_all())?];
    fs::remove_dir_all(&folder)?;
    Ok(rates)
}

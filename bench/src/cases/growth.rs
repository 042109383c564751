//! How bandwidth and creates grow with the number of storage nodes and of clients, FUSE taken away.
//!
//! All of it shares this machine's cores, so nothing can grow beyond them: what shows is whether a cost grows.

use anyhow::Result;
use client::Client;

use super::Effort;
use crate::buffer::{Buffer, Volume, memory};
use crate::namespace;
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::work::creates;
use crate::work::streams::{self, Files};

const NODES: [u32; 3] = [2, 4, 8];
const CLIENTS: [usize; 4] = [2, 4, 8, 16];
const NODES_OF_CLIENTS: u32 = 4;

/// In all, whatever the number of clients.
const MEBIBYTES: usize = 128;
const CREATES: usize = 16_000;

/// What [`rates`] measures, in its order: name and unit.
const CASES: [(&str, &str); 3] =
    [("1 MiB write", "MiB/s"), ("1 MiB read", "MiB/s"), ("create at the shard", "1/s")];

/// Several nodes against one; several clients against one.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let Some(medium) = memory() else { return Ok(Vec::new()) };
    let mut lines = Vec::new();
    let one = Buffer::mount(medium, 1, Volume::Directory)?;
    for nodes in NODES {
        let buffer = Buffer::mount(medium, nodes, Volume::Directory)?;
        let [ours, theirs] = [namespace::clients(&buffer, 2)?, namespace::clients(&one, 2)?];
        let name = format!("2 clients, {}", buffer.name());
        lines.extend(compare(&name, "one storage node", &ours, &theirs, effort)?);
        if nodes == NODES_OF_CLIENTS {
            lines.extend(of_clients(&buffer, effort)?);
        }
        drop(ours);
        buffer.unmount()?;
    }
    one.unmount()?;
    Ok(lines)
}

fn of_clients(buffer: &Buffer, effort: Effort) -> Result<Vec<Measurement>> {
    let one = namespace::clients(buffer, 1)?;
    let mut lines = Vec::new();
    for count in CLIENTS {
        let clients = namespace::clients(buffer, count)?;
        let name = format!("{count} clients, {}", buffer.name());
        lines.extend(compare(&name, "one client", &clients, &one, effort)?);
    }
    Ok(lines)
}

fn compare(
    name: &str,
    against: &'static str,
    ours: &[Client],
    theirs: &[Client],
    effort: Effort,
) -> Result<Vec<Measurement>> {
    let pairs = alternate(effort.pairs, || rates(ours), || rates(theirs))?;
    let lines = CASES.into_iter().enumerate().map(|(index, (case, unit))| {
        let pairs: Vec<_> = pairs.iter().map(|(ours, theirs)| (ours[index], theirs[index])).collect();
        Line::shown(format!("{case}, {name}"), unit, against).of(&pairs)
    });
    Ok(lines.collect())
}

fn rates(clients: &[Client]) -> Result<[f64; 3]> {
    let (write, read) = streams::run(clients, Files::Own, MEBIBYTES)?;
    Ok([write, read, creates::run(clients, CREATES / clients.len())?])
}

//! Creates at the metadata shard with FUSE taken away: two clients, a TCP connection each.

use anyhow::Result;

use super::Effort;
use crate::buffer::{Buffer, Volume, memory};
use crate::pairs::alternate;
use crate::report::{Line, Measurement};
use crate::work::creates;
use crate::{namespace, tcp};

const CONNECTIONS: usize = 2;
const FILES: usize = 20_000;

/// What we want, per second, on two cores.
const WANTED: f64 = 100_000.0;

/// Bytes of a create and of its answer, about.
const CREATE_BYTES: usize = 64;
const CREATED_BYTES: usize = 128;

/// Creates, and what two connections without a shard behind them could do.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let Some(medium) = memory() else { return Ok(Vec::new()) };
    let buffer = Buffer::mount(medium, 4, Volume::Directory)?;
    let clients = namespace::clients(&buffer, CONNECTIONS)?;
    let rates = alternate(
        effort.pairs,
        || creates::run(&clients, FILES),
        || tcp::round_trips(CONNECTIONS, CREATE_BYTES, CREATED_BYTES),
    )?;
    let wanted: Vec<_> = rates.iter().map(|&(ours, _)| (ours, WANTED)).collect();
    let case = format!("create at the shard, {CONNECTIONS} connections, {}", medium.name);
    let lines = vec![
        Line::new(case.clone(), "1/s", "what is wanted", 1.0).of(&wanted),
        Line::shown(case, "1/s", "round trips of as many bytes on as many connections").of(&rates),
    ];
    drop(clients);
    buffer.unmount()?;
    Ok(lines)
}

//! Whose turn it is: which of the stages that wait may run beside those that do, and which share a worker.

use std::collections::HashSet;

use model::phase::AccessMode;
use rusqlite::{Transaction, params};

use super::super::Result;
use super::{Demand, select};

/// How many that wait are looked at for the next to run.
const LOOK_AHEAD: u32 = 256;

/// As many small files as one worker stages at most.
const BATCH_MAX: usize = 64;

/// Marks the next ones that may run as active, and replies them, those together that one worker is to stage: in order, no more
/// workers at once than the instance allows, and none beside another of the same file, or of a folder above or below it.
///
/// # Errors
/// The database's.
pub fn start_next(tx: &Transaction<'_>, token: &str) -> Result<Vec<Vec<Demand>>> {
    let sql = "SELECT stage_concurrency, (SELECT COUNT(DISTINCT COALESCE(batch, number)) FROM demands
         WHERE token = ?1 AND state = 'active') FROM instances WHERE token = ?1";
    let mut query = tx.prepare_cached(sql)?;
    let mut room = query
        .query_map([token], |row| Ok(row.get::<_, usize>(0)?.saturating_sub(row.get::<_, usize>(1)?)))?;
    let room = room.next().transpose()?.unwrap_or(0);
    if room == 0 {
        return Ok(Vec::new());
    }
    let mut busy = Busy::default();
    select(tx, "token = ?1 AND state = 'active'", params![token])?.iter().for_each(|demand| busy.add(demand));
    let waiting =
        select(tx, "token = ?1 AND state = 'pending' ORDER BY number LIMIT ?2", params![token, LOOK_AHEAD])?;
    let free = waiting.into_iter().filter(|demand| {
        let free = !busy.overlaps(demand);
        // One that has to wait keeps later ones of its file behind it.
        busy.add(demand);
        free
    });
    let next = batches(free.collect(), room);
    for batch in &next {
        for demand in batch {
            let sql = "UPDATE demands SET state = 'active', batch = ?2 WHERE number = ?1";
            tx.execute(sql, params![demand.number, batch[0].number])?;
        }
    }
    Ok(next)
}

/// For each of `room` workers a stage, or several small files.
fn batches(free: Vec<Demand>, room: usize) -> Vec<Vec<Demand>> {
    let small = free.iter().filter(|demand| demand.is_small()).count();
    let each = small.div_ceil(room).clamp(1, BATCH_MAX);
    let mut batches: Vec<Vec<Demand>> = Vec::new();
    for demand in free {
        let fits = |batch: &Vec<Demand>| {
            let first = &batch[0];
            batch.len() < each
                && first.is_small()
                && demand.is_small()
                && (first.direction, first.access_mode, &first.owner, &first.job)
                    == (demand.direction, demand.access_mode, &demand.owner, &demand.job)
        };
        match batches.iter().position(fits) {
            Some(at) => batches[at].push(demand),
            None if batches.len() < room => batches.push(vec![demand]),
            None => {}
        }
    }
    batches
}

/// Paths that stages work on.
#[derive(Default)]
struct Busy {
    paths: HashSet<(bool, String)>,
    above: HashSet<(bool, String)>,
}

impl Busy {
    fn add(&mut self, demand: &Demand) {
        let private = demand.access_mode == AccessMode::Private;
        self.above.extend(above(&demand.buffer_path).map(|path| (private, path.to_owned())));
        self.paths.insert((private, demand.buffer_path.clone()));
    }

    fn overlaps(&self, demand: &Demand) -> bool {
        let private = demand.access_mode == AccessMode::Private;
        let own = (private, demand.buffer_path.clone());
        self.above.contains(&own)
            || self.paths.contains(&own)
            || above(&demand.buffer_path).any(|path| self.paths.contains(&(private, path.to_owned())))
    }
}

/// The folders above a path, the root (an empty path) last.
pub fn above(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.rmatch_indices('/').map(|(end, _)| end);
    ends.chain((!path.is_empty()).then_some(0)).map(|end| &path[..end])
}

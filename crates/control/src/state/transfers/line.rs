//! Whose turn it is: which of the stages that wait may run beside those that do, and which share a worker.

use std::collections::HashSet;

use model::Token;
use model::phase::AccessMode;
use rusqlite::{Transaction, params};

use super::super::Result;
use super::super::text::{Word, first_word};
use super::Transfer;
use super::on_demand::on_demand;

/// How many of one user that wait are looked at for the next to run.
const LOOK_AHEAD: u32 = 256;

/// As many small files as one worker stages at most.
const BATCH_MAX: usize = 64;

/// As many workers as one user has at once, whatever he asks for: they run on nodes that others use, too.
pub(crate) const WORKERS_OF_USER: u32 = 64;

/// Marks the next ones that may run as active, and replies them, those together that one worker is to stage. Each user
/// has a line of his own, and nobody waits for another: in the order in which he asked, no more workers of his at once
/// than the instance allows and he may have in all, and none beside another of his for the same file, or for a folder
/// above or below it.
///
/// # Errors
/// The database's.
pub(crate) fn start_next(tx: &Transaction<'_>, token: &Token, paused: &[u32]) -> Result<Vec<Vec<Transfer>>> {
    let mut next = Vec::new();
    for uid in users_waiting(tx, token)?.into_iter().filter(|uid| !paused.contains(uid)) {
        next.append(&mut start_of_user(tx, token, uid)?);
    }
    Ok(next)
}

fn start_of_user(tx: &Transaction<'_>, token: &Token, uid: u32) -> Result<Vec<Vec<Transfer>>> {
    let room = room(tx, token, uid)?;
    if room == 0 {
        return Ok(Vec::new());
    }
    let of_user = params![Word(token), uid, LOOK_AHEAD];
    let mut busy = Busy::default();
    on_demand(tx, "token = ?1 AND owner_uid = ?2 AND state = 'active'", &of_user[..2])?
        .iter()
        .for_each(|transfer| busy.add(transfer));
    let waiting = "token = ?1 AND owner_uid = ?2 AND state = 'pending' ORDER BY number LIMIT ?3";
    let free = on_demand(tx, waiting, of_user)?.into_iter().filter(|transfer| {
        let free = !busy.overlaps(transfer);
        // One that has to wait keeps later ones of its file behind it.
        busy.add(transfer);
        free
    });
    let next = batches(free.collect(), room);
    for batch in &next {
        for transfer in batch {
            let sql = "UPDATE transfers SET state = 'active', batch = ?2 WHERE number = ?1";
            tx.execute(sql, params![transfer.number, batch[0].number])?;
        }
    }
    Ok(next)
}

/// The users with stages that wait in the instance. Each is found by himself in the index, however many of his wait.
fn users_waiting(tx: &Transaction<'_>, token: &Token) -> Result<Vec<u32>> {
    let sql = "WITH RECURSIVE users (uid) AS (
             SELECT MIN(owner_uid) FROM transfers WHERE state = 'pending'
             UNION ALL
             SELECT (SELECT MIN(owner_uid) FROM transfers WHERE state = 'pending' AND owner_uid > uid)
             FROM users WHERE uid IS NOT NULL
         )
         SELECT uid FROM users WHERE uid IS NOT NULL
         AND EXISTS (SELECT 1 FROM transfers WHERE state = 'pending' AND owner_uid = uid AND token = ?1)";
    let mut query = tx.prepare_cached(sql)?;
    Ok(query.query_map([Word(token)], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

/// How many more workers the user may have in the instance.
fn room(tx: &Transaction<'_>, token: &Token, uid: u32) -> Result<usize> {
    let sql = "SELECT stage_concurrency,
         (SELECT COUNT(DISTINCT COALESCE(batch, number)) FROM transfers
          WHERE position IS NULL AND state = 'active' AND owner_uid = ?2 AND token = ?1)
         FROM instances WHERE token = ?1";
    let mut query = tx.prepare_cached(sql)?;
    let room = query.query_map(params![Word(token), uid], |row| {
        Ok(row.get::<_, u32>(0)?.saturating_sub(row.get::<_, u32>(1)?))
    })?;
    let here = room.collect::<rusqlite::Result<Vec<u32>>>()?.pop().unwrap_or(0);
    Ok(here.min(WORKERS_OF_USER.saturating_sub(at_work(tx, uid)?)) as usize)
}

/// How many workers the user has, in all buffers.
fn at_work(tx: &Transaction<'_>, uid: u32) -> Result<u32> {
    let sql = "SELECT COUNT(DISTINCT COALESCE(batch, number)) FROM transfers
         WHERE position IS NULL AND state = 'active' AND owner_uid = ?1";
    Ok(tx.prepare_cached(sql)?.query_row([uid], |row| row.get(0))?)
}

/// The buffers with stages of the user `uid` that wait, where he had all workers that he may have, or nothing of
/// his was started for a while (`was_paused`).
///
/// # Errors
/// The database's.
pub(crate) fn waiting_for_user(tx: &Transaction<'_>, uid: u32, was_paused: bool) -> Result<Vec<Token>> {
    if !was_paused && at_work(tx, uid)? + 1 < WORKERS_OF_USER {
        return Ok(Vec::new());
    }
    let sql = "WITH RECURSIVE tokens (token) AS (
             SELECT MIN(token) FROM transfers WHERE state = 'pending' AND owner_uid = ?1
             UNION ALL
             SELECT (SELECT MIN(token) FROM transfers
                     WHERE state = 'pending' AND owner_uid = ?1 AND transfers.token > tokens.token)
             FROM tokens WHERE token IS NOT NULL
         )
         SELECT token FROM tokens WHERE token IS NOT NULL";
    let mut query = tx.prepare_cached(sql)?;
    Ok(query.query_map([uid], first_word)?.collect::<rusqlite::Result<_>>()?)
}

/// For each of `room` workers a stage of one user, or several small files.
fn batches(free: Vec<Transfer>, room: usize) -> Vec<Vec<Transfer>> {
    let small = free.iter().filter(|transfer| transfer.is_small()).count();
    let each = small.div_ceil(room).clamp(1, BATCH_MAX);
    let mut batches: Vec<Vec<Transfer>> = Vec::new();
    for transfer in free {
        let fits = |batch: &Vec<Transfer>| {
            let first = &batch[0];
            batch.len() < each
                && first.is_small()
                && transfer.is_small()
                && (first.direction, first.access_mode, &first.owner, &first.job)
                    == (transfer.direction, transfer.access_mode, &transfer.owner, &transfer.job)
        };
        match batches.iter().position(fits) {
            Some(at) => batches[at].push(transfer),
            None if batches.len() < room => batches.push(vec![transfer]),
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
    fn add(&mut self, transfer: &Transfer) {
        let private = transfer.access_mode == AccessMode::Private;
        self.above.extend(above(&transfer.buffer_path).map(|path| (private, path.to_owned())));
        self.paths.insert((private, transfer.buffer_path.clone()));
    }

    fn overlaps(&self, transfer: &Transfer) -> bool {
        let private = transfer.access_mode == AccessMode::Private;
        let own = (private, transfer.buffer_path.clone());
        self.above.contains(&own)
            || self.paths.contains(&own)
            || above(&transfer.buffer_path).any(|path| self.paths.contains(&(private, path.to_owned())))
    }
}

/// The folders above a path, the root (an empty path) last.
pub(super) fn above(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.rmatch_indices('/').map(|(end, _)| end);
    ends.chain((!path.is_empty()).then_some(0)).map(|end| &path[..end])
}

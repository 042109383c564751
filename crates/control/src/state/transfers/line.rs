//! Whose turn it is: which of the stages that wait may run beside those that do, and which share a worker.

use std::collections::{HashMap, HashSet};

use model::Token;
use model::phase::AccessMode;
use rusqlite::{Transaction, params};

use super::super::Result;
use super::super::text::{Word, first_word};
use super::Transfer;
use super::on_demand::on_demand;

/// How many that wait are looked at for the next to run.
const LOOK_AHEAD: u32 = 256;

/// As many small files as one worker stages at most.
const BATCH_MAX: usize = 64;

/// As many workers as one user has at once, whatever he asks for: they run on nodes that others use, too.
const WORKERS_OF_USER: usize = 64;

/// Marks the next ones that may run as active, and replies them, those together that one worker is to stage: in
/// order, no more workers at once than the instance allows and its user may have, and none beside another of the same
/// file, or of a folder above or below it.
///
/// # Errors
/// The database's.
pub(crate) fn start_next(tx: &Transaction<'_>, token: &Token) -> Result<Vec<Vec<Transfer>>> {
    let sql = "SELECT stage_concurrency, (SELECT COUNT(DISTINCT COALESCE(batch, number)) FROM transfers
         WHERE token = ?1 AND position IS NULL AND state = 'active') FROM instances WHERE token = ?1";
    let mut query = tx.prepare_cached(sql)?;
    let mut room = query.query_map([Word(token)], |row| {
        Ok(row.get::<_, usize>(0)?.saturating_sub(row.get::<_, usize>(1)?))
    })?;
    let room = room.next().transpose()?.unwrap_or(0);
    if room == 0 {
        return Ok(Vec::new());
    }
    let mut busy = Busy::default();
    on_demand(tx, "token = ?1 AND state = 'active'", params![Word(token)])?
        .iter()
        .for_each(|transfer| busy.add(transfer));
    let waiting = on_demand(
        tx,
        "token = ?1 AND state = 'pending' ORDER BY number LIMIT ?2",
        params![Word(token), LOOK_AHEAD],
    )?;
    let free = waiting.into_iter().filter(|transfer| {
        let free = !busy.overlaps(transfer);
        // One that has to wait keeps later ones of its file behind it.
        busy.add(transfer);
        free
    });
    let next = batches(free.collect(), room, &at_work(tx)?);
    for batch in &next {
        for transfer in batch {
            let sql = "UPDATE transfers SET state = 'active', batch = ?2 WHERE number = ?1";
            tx.execute(sql, params![transfer.number, batch[0].number])?;
        }
    }
    Ok(next)
}

/// How many workers each user has.
fn at_work(tx: &Transaction<'_>) -> Result<HashMap<u32, usize>> {
    let sql = "SELECT owner_uid, COUNT(DISTINCT COALESCE(batch, number)) FROM transfers
         WHERE position IS NULL AND state = 'active' GROUP BY owner_uid";
    let mut query = tx.prepare_cached(sql)?;
    let counted = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(counted.collect::<rusqlite::Result<_>>()?)
}

/// The buffers with stages that wait for a worker of the user `uid`, where he had all that he may have.
///
/// # Errors
/// The database's.
pub(crate) fn waiting_for_user(tx: &Transaction<'_>, uid: u32) -> Result<Vec<Token>> {
    if at_work(tx)?.get(&uid).copied().unwrap_or(0) + 1 < WORKERS_OF_USER {
        return Ok(Vec::new());
    }
    let sql = "SELECT DISTINCT token FROM transfers
         WHERE position IS NULL AND state = 'pending' AND owner_uid = ?1";
    let mut query = tx.prepare_cached(sql)?;
    Ok(query.query_map([uid], first_word)?.collect::<rusqlite::Result<_>>()?)
}

/// For each of `room` workers a stage, or several small files. `at_work`: the workers that users have.
fn batches(free: Vec<Transfer>, room: usize, at_work: &HashMap<u32, usize>) -> Vec<Vec<Transfer>> {
    let mut begun: HashMap<u32, usize> = at_work.clone();
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
            None if batches.len() < room => {
                let workers = begun.entry(transfer.owner.uid).or_default();
                if *workers < WORKERS_OF_USER {
                    *workers += 1;
                    batches.push(vec![transfer]);
                }
            }
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

#[cfg(test)]
mod tests {
    use model::buffer::BufferRef;
    use model::phase::{Direction, StageKind, StageState};
    use wire::control::Owner;

    use super::super::Origin;
    use super::*;

    fn of(uid: u32, number: u64) -> Transfer {
        Transfer {
            number,
            token: Token::literal("7"),
            job: None,
            origin: Origin::OnDemand { size_hint: None, ino: None },
            direction: Direction::Out,
            kind: StageKind::File,
            buffer: BufferRef::Own,
            access_mode: AccessMode::Striped,
            buffer_path: format!("f{number}"),
            pfs_path: format!("/pfs/f{number}").into(),
            pfs_mount: None,
            owner: Owner { uid, gid: uid },
            state: StageState::Pending,
            report: None,
        }
    }

    #[test]
    fn one_user_has_no_more_workers_than_others_can_bear() {
        let ada = || (0..70).map(|number| of(4001, number));
        assert_eq!(batches(ada().collect(), usize::MAX, &HashMap::new()).len(), WORKERS_OF_USER);
        // Some of hers work in another buffer, and all of another user's.
        let at_work = HashMap::from([(4001, 60), (4002, WORKERS_OF_USER)]);
        let next = batches(ada().chain([of(4002, 80), of(4003, 81)]).collect(), usize::MAX, &at_work);
        let of_user = |uid| next.iter().filter(|batch| batch[0].owner.uid == uid).count();
        assert_eq!([of_user(4001), of_user(4002), of_user(4003)], [4, 0, 1]);
    }
}

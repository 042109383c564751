//! How stages count, as DataWarp's users count files.

use model::phase::{StageKind, StageState};
use rusqlite::{OptionalExtension, Transaction, params};
use wire::control::StageCounts;

use super::super::Result;
use super::super::text::Word;
use super::Transfer;
use super::space::{Space, below};

/// Counts the files of stages: of each path and direction the newest. A folder counts what is in it; one that is
/// complete at least once, so that who waits for `complete` sees it also of an empty one.
pub(crate) fn counts(transfers: &[Transfer]) -> StageCounts {
    let mut counts = StageCounts::default();
    let newer = |older: &Transfer, at: usize| {
        let same =
            |other: &Transfer| (&other.buffer_path, other.direction) == (&older.buffer_path, older.direction);
        // One that runs is followed by at most one that waits, so there is never far to look in practice.
        older.state == StageState::Active && transfers[at + 1..].iter().any(same)
    };
    for (at, transfer) in transfers.iter().enumerate() {
        if !newer(transfer, at) {
            add(&mut counts, transfer);
        }
    }
    counts
}

/// Counts one more.
pub(super) fn add(counts: &mut StageCounts, transfer: &Transfer) {
    let progress = transfer.report.as_ref().map(|report| report.progress).unwrap_or_default();
    let of_folder = transfer.kind == StageKind::Directory;
    let left = progress.entries_total.saturating_sub(progress.entries_done + progress.entries_failed);
    match transfer.state {
        StageState::Complete => counts.complete += if of_folder { progress.entries_done.max(1) } else { 1 },
        StageState::Deferred => counts.deferred += 1,
        StageState::Pending => counts.pending += 1,
        StageState::Active => {
            if of_folder {
                counts.complete += progress.entries_done;
                counts.failed += progress.entries_failed;
            }
            counts.pending += if of_folder { left.max(1) } else { 1 };
        }
        StageState::Failed => {
            if of_folder {
                counts.complete += progress.entries_done;
            }
            counts.failed += if of_folder { (left + progress.entries_failed).max(1) } else { 1 };
            let first = transfer.report.as_ref().and_then(|report| report.failures.first());
            if counts.errno == 0 {
                counts.errno = first.map_or(0, |failure| failure.errno);
            }
        }
    }
}

/// The same of all in a folder. The rows are not read: there may be hundreds of thousands. Only folders have a report
/// that counts.
///
/// # Errors
/// The database's.
pub(super) fn count_in_folder(tx: &Transaction<'_>, space: &Space, folder: &str) -> Result<StageCounts> {
    let with = params![Word(&space.token), Word(&space.access_mode), space.owner, folder];
    let mut counts = StageCounts::default();
    let mut query = tx.prepare_cached(&groups(space, folder))?;
    let mut rows = query.query(with)?;
    while let Some(row) = rows.next()? {
        let (of_folders, stages): (bool, u64) = (row.get(1)?, row.get(2)?);
        let or_stages = |column: usize| if of_folders { row.get::<_, u64>(column) } else { Ok(stages) };
        let inside = |column: usize| if of_folders { row.get::<_, u64>(column) } else { Ok(0) };
        match row.get::<_, Word<StageState>>(0)?.0 {
            StageState::Complete => counts.complete += or_stages(5)?,
            StageState::Deferred => counts.deferred += stages,
            StageState::Pending => counts.pending += stages,
            StageState::Active => {
                counts.complete += inside(3)?;
                counts.failed += inside(4)?;
                counts.pending += or_stages(6)?;
            }
            StageState::Failed => {
                counts.complete += inside(3)?;
                counts.failed += or_stages(7)?;
            }
        }
    }
    if counts.failed > 0 {
        counts.errno = first_errno(tx, space, folder)?;
    }
    Ok(counts)
}

/// For each state, and for folders by themselves: how many there are, the files in them that are done, that failed,
/// that are done (at least one in each), that are left (likewise), and that are left or failed (likewise). Of what is
/// no folder an index has all of that.
fn groups(space: &Space, folder: &str) -> String {
    let of =
        |name: &str| format!("COALESCE(json_extract(report_json, '$.progress.entries_{name}'), 0) AS {name}");
    let (total, done, failed) = (of("total"), of("done"), of("failed"));
    let counted = format!(
        "FROM transfers AS one WHERE position IS NULL AND {} AND {} AND NOT (state = 'active' AND EXISTS (
             SELECT 1 FROM transfers AS newer WHERE newer.position IS NULL AND newer.token = one.token
             AND newer.access_mode = one.access_mode AND newer.owner_uid = one.owner_uid
             AND newer.buffer_path = one.buffer_path AND newer.direction = one.direction
             AND newer.number > one.number))",
        space.seen(),
        below(folder)
    );
    format!(
        "SELECT state, FALSE, COUNT(*), 0, 0, 0, 0, 0 {counted} AND kind <> 'directory' GROUP BY state
         UNION ALL
         SELECT state, TRUE, COUNT(*), SUM(done), SUM(failed), SUM(MAX(done, 1)),
         SUM(MAX(total - done - failed, 1)), SUM(MAX(MAX(total - done - failed, 0) + failed, 1))
         FROM (SELECT state, {total}, {done}, {failed} {counted} AND kind = 'directory') GROUP BY state"
    )
}

fn first_errno(tx: &Transaction<'_>, space: &Space, folder: &str) -> Result<i32> {
    let sql = format!(
        "SELECT json_extract(report_json, '$.failures[0].errno') AS errno FROM transfers
         WHERE position IS NULL AND {} AND {} AND state = 'failed' AND errno <> 0 ORDER BY number LIMIT 1",
        space.seen(),
        below(folder)
    );
    let with = params![Word(&space.token), Word(&space.access_mode), space.owner, folder];
    Ok(tx.query_row(&sql, with, |row| row.get(0)).optional()?.unwrap_or(0))
}

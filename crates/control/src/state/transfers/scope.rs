//! Which transfers on demand a question is about, and how they count.

use model::Token;
use model::phase::{AccessMode, StageKind, StageState};
use rusqlite::{Transaction, params};
use wire::control::{StageCounts, StageScope};

use super::super::Result;
use super::super::text::Word;
use super::line::above;
use super::on_demand::on_demand;
use super::{Transfer, find};

/// A namespace, as somebody sees it.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    /// The session whose instance it is in.
    pub token: Token,
    /// Which namespace.
    pub access_mode: AccessMode,
    /// Only stages of this user; `None`: all.
    pub owner: Option<u32>,
}

impl Space {
    fn seen(&self, found: Result<Vec<Transfer>>) -> Result<Vec<Transfer>> {
        let mut found = found?;
        found.retain(|transfer| self.owner.is_none_or(|owner| owner == transfer.owner.uid));
        Ok(found)
    }
}

/// The stages that `scope` names themselves, oldest first.
///
/// # Errors
/// The database's.
pub(crate) fn named(tx: &Transaction<'_>, space: &Space, scope: &StageScope) -> Result<Vec<Transfer>> {
    match scope {
        StageScope::All => {
            let sql = "token = ?1 AND access_mode = ?2 ORDER BY number";
            space.seen(on_demand(tx, sql, params![Word(&space.token), Word(space.access_mode)]))
        }
        StageScope::Directory(path) => below(tx, space, path),
        StageScope::Files(paths) => {
            let found = paths.iter().map(|path| at(tx, space, path));
            Ok(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        }
        StageScope::Ids(ids) => {
            let numbers = ids.iter().filter_map(|id| Transfer::number_in(id));
            let found = numbers.map(|number| find(tx, number)).collect::<Result<Vec<_>>>()?;
            // A number of another buffer is none of this one's.
            let is_of_this = |transfer: &Transfer| transfer.is_on_demand() && transfer.token == space.token;
            let found = found.into_iter().flatten().filter(is_of_this);
            space.seen(Ok(found.collect()))
        }
    }
}

/// The stages that say how `scope` is: of files, also those of folders above them. Oldest first.
///
/// # Errors
/// The database's.
pub(crate) fn telling(tx: &Transaction<'_>, space: &Space, scope: &StageScope) -> Result<Vec<Transfer>> {
    let StageScope::Files(paths) = scope else { return named(tx, space, scope) };
    let found = paths.iter().map(|path| of_file(tx, space, path));
    let mut found: Vec<Transfer> = found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    found.sort_by_key(|transfer| transfer.number);
    found.dedup_by_key(|transfer| transfer.number);
    Ok(found)
}

/// Counts the files of a scope by the state of their newest stage.
///
/// # Errors
/// The database's.
pub(crate) fn count(tx: &Transaction<'_>, space: &Space, scope: &StageScope) -> Result<StageCounts> {
    let StageScope::Files(paths) = scope else { return Ok(counts(&named(tx, space, scope)?)) };
    let mut counts = StageCounts::default();
    for path in paths {
        if let Some(transfer) = of_file(tx, space, path)? {
            // One file of a folder is one file.
            add(&mut counts, &Transfer { kind: StageKind::File, ..transfer });
        }
    }
    Ok(counts)
}

/// Of a folder and all below it.
fn below(tx: &Transaction<'_>, space: &Space, path: &str) -> Result<Vec<Transfer>> {
    if path.is_empty() {
        return named(tx, space, &StageScope::All);
    }
    // All names that begin with `path/` are from `path/` to before `path0`, which is the next character.
    let sql = "token = ?1 AND access_mode = ?2 AND (buffer_path = ?3 OR (buffer_path >= ?3 || '/' AND buffer_path < ?3 || '0'))
         ORDER BY number";
    space.seen(on_demand(tx, sql, params![Word(&space.token), Word(space.access_mode), path]))
}

/// Of a path itself.
fn at(tx: &Transaction<'_>, space: &Space, path: &str) -> Result<Vec<Transfer>> {
    let own = "token = ?1 AND access_mode = ?2 AND buffer_path = ?3 ORDER BY number";
    space.seen(on_demand(tx, own, params![Word(&space.token), Word(space.access_mode), path]))
}

/// The newest of a file: its own, or of a folder above it.
fn of_file(tx: &Transaction<'_>, space: &Space, path: &str) -> Result<Option<Transfer>> {
    let mut newest = at(tx, space, path)?.pop();
    for folder in above(path) {
        let mut folders = at(tx, space, folder)?.into_iter();
        let last = folders.rfind(|transfer| transfer.kind == StageKind::Directory);
        newest = newest.into_iter().chain(last).max_by_key(|transfer| transfer.number);
    }
    Ok(newest)
}

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

fn add(counts: &mut StageCounts, transfer: &Transfer) {
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

//! Which transfers on demand a question is about.

use model::phase::StageKind;
use rusqlite::{Transaction, params};
use wire::control::{StageCounts, StageScope};

use super::super::Result;
use super::super::text::Word;
use super::counts::{add, count_in_folder, counts};
use super::line::above;
use super::on_demand::{PAGE, on_demand, page};
use super::space::{Space, below};
use super::{Transfer, find};

/// The stages that `scope` names themselves, oldest first: those after number `after`, at most [`PAGE`].
///
/// # Errors
/// The database's.
pub(crate) fn named(
    tx: &Transaction<'_>,
    space: &Space,
    scope: &StageScope,
    after: u64,
) -> Result<Vec<Transfer>> {
    let found = match scope {
        StageScope::All => return in_folder(tx, space, "", after),
        StageScope::Directory(path) => return in_folder(tx, space, path, after),
        StageScope::Files(paths) => {
            let found = paths.iter().map(|path| at(tx, space, path));
            found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
        }
        StageScope::Ids(ids) => {
            let numbers = ids.iter().filter_map(|id| Transfer::number_in(id));
            let found = numbers.map(|number| find(tx, number)).collect::<Result<Vec<_>>>()?;
            // A number of another buffer is none of this one's.
            let is_of_this = |transfer: &Transfer| {
                let is_seen = space.owner.is_none_or(|owner| owner == transfer.owner.uid);
                transfer.is_on_demand() && transfer.token == space.token && is_seen
            };
            found.into_iter().flatten().filter(is_of_this).collect()
        }
    };
    Ok(next(found, after))
}

/// The stages that say how `scope` is: of files, also those of folders above them. Likewise.
///
/// # Errors
/// The database's.
pub(crate) fn telling(
    tx: &Transaction<'_>,
    space: &Space,
    scope: &StageScope,
    after: u64,
) -> Result<Vec<Transfer>> {
    let StageScope::Files(paths) = scope else { return named(tx, space, scope, after) };
    let found = paths.iter().map(|path| of_file(tx, space, path));
    Ok(next(found.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect(), after))
}

fn next(mut found: Vec<Transfer>, after: u64) -> Vec<Transfer> {
    found.retain(|transfer| transfer.number > after);
    found.sort_by_key(|transfer| transfer.number);
    found.dedup_by_key(|transfer| transfer.number);
    found.truncate(PAGE);
    found
}

fn in_folder(tx: &Transaction<'_>, space: &Space, folder: &str, after: u64) -> Result<Vec<Transfer>> {
    let what = format!("{} AND {} AND number > ?5", space.seen(), below(folder));
    page(tx, &what, params![Word(&space.token), Word(&space.access_mode), space.owner, folder, after])
}

/// Counts the files of a scope by the state of their newest stage.
///
/// # Errors
/// The database's.
pub(crate) fn count(tx: &Transaction<'_>, space: &Space, scope: &StageScope) -> Result<StageCounts> {
    match scope {
        StageScope::All => count_in_folder(tx, space, ""),
        StageScope::Directory(path) => count_in_folder(tx, space, path),
        StageScope::Ids(_) => Ok(counts(&named(tx, space, scope, 0)?)),
        StageScope::Files(paths) => {
            let mut counts = StageCounts::default();
            for path in paths {
                if let Some(transfer) = of_file(tx, space, path)? {
                    // One file of a folder is one file.
                    add(&mut counts, &Transfer { kind: StageKind::File, ..transfer });
                }
            }
            Ok(counts)
        }
    }
}

/// Of a path itself.
fn at(tx: &Transaction<'_>, space: &Space, path: &str) -> Result<Vec<Transfer>> {
    let own = format!("{} AND buffer_path = ?4 ORDER BY number", space.seen());
    on_demand(tx, &own, params![Word(&space.token), Word(&space.access_mode), space.owner, path])
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

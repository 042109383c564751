//! The first database of a state folder.
//!
//! **Invariant:** the name of the database is that of a whole one, whatever was killed meanwhile: an empty one is never
//! a beginning, but a loss.

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;

use super::{Result, StateError, migrate_from, sums};

/// Makes the database `path`, durably. There is none.
///
/// # Errors
/// SQLite's or the disk's; there is still none then.
pub(super) fn make(path: &Path) -> Result<()> {
    let failed = |source| StateError::Io { path: path.into(), source };
    let making = path.with_extension("new");
    for left in [making.clone(), making.with_extension("new-journal")] {
        disk::remove_file(&left).map_err(failed)?;
    }
    let mut connection = Connection::open(&making)?;
    sums::prepare(&connection)?;
    // Nobody has it yet: it is synced once, as a whole.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "foreign_keys", false)?;
    migrate_from(&mut connection, 0)?;
    connection.close().map_err(|(_, error)| error)?;
    let renamed =
        File::open(&making).and_then(|file| file.sync_all()).and_then(|()| std::fs::rename(&making, path));
    renamed.and_then(|()| disk::sync_names(path)).map_err(failed)
}

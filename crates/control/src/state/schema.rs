//! Which schema a database has. SQLite keeps the number in the file's head, without a checksum; so it is in a row as
//! well, and a bit that flips in it is not taken for a newer Forebay's, nor has tables made anew that are there.
//!
//! **Invariant:** every schema from [`REPEATED_SINCE`] on has the table `schema` with one row, `version`, whatever else
//! a newer Forebay changes.

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::sums;

/// The first schema that says its number in a row.
const REPEATED_SINCE: i64 = 20;

/// The first one whose rows have sums.
const SUMMED_SINCE: i64 = 19;

/// The number of the schema; or why the number in the head cannot be right, in words.
///
/// # Errors
/// SQLite's.
pub(super) fn find(connection: &Connection) -> rusqlite::Result<Result<usize, String>> {
    let head: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let is = match repeated(connection)? {
        Some(row) if row == head => Ok(()),
        Some(row) => Err(format!("its table schema says {row}")),
        None if head >= REPEATED_SINCE => Err("it has no table schema".into()),
        None if (head >= SUMMED_SINCE) != sums::has_any(connection)? => {
            Err("whether its rows have checksums does not fit that".into())
        }
        None if (head > 0) != has_tables(connection)? => Err("its tables do not fit that".into()),
        None => Ok(()),
    };
    let number = usize::try_from(head).map_err(|_| "no schema has that number".to_owned());
    Ok(is.and(number).map_err(|why| format!("its head has schema {head}, but {why}")))
}

/// Notes that it has this one from now on.
///
/// # Errors
/// SQLite's.
pub(super) fn note(tx: &Transaction<'_>, number: usize) -> rusqlite::Result<()> {
    if repeated(tx)?.is_some() {
        tx.execute("UPDATE schema SET version = ?1", [number])?;
        sums::renew(tx)?;
    }
    tx.pragma_update(None, "user_version", number)
}

/// What the row says; `None` where there is no table for it.
fn repeated(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let named = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema'";
    if connection.query_row(named, [], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    let said: Option<i64> = connection.query_row("SELECT max(version) FROM schema", [], |row| row.get(0))?;
    Ok(Some(said.unwrap_or(0)))
}

fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) FROM sqlite_schema WHERE type = 'table'", [], |row| {
        row.get::<_, i64>(0).map(|count| count > 0)
    })
}

#[cfg(test)]
mod tests;

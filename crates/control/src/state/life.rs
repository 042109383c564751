//! Table `life`: one word, drawn at each start of control. What is kept beside the database says in which life it was
//! written: a copy of the database that was put back does not know of the last one.

use rusqlite::{OptionalExtension, Transaction};

use super::Result;

/// Begins the life `word`; gives the one before.
///
/// # Errors
/// The database's.
pub(crate) fn begin(tx: &Transaction<'_>, word: &str) -> Result<Option<String>> {
    let former = tx.query_row("SELECT word FROM life", [], |row| row.get(0)).optional()?;
    tx.execute("DELETE FROM life", [])?;
    tx.execute("INSERT INTO life (word) VALUES (?1)", [word])?;
    Ok(former)
}

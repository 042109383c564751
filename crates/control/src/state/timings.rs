//! Table `timings`: how long completed functions took.

use model::Token;
use model::phase::Function;
use rusqlite::{Transaction, params};

use super::Result;
use super::text::Word;

/// Notes a completed function, in place of its last time.
///
/// # Errors
/// The database's.
pub(crate) fn set(tx: &Transaction<'_>, token: &Token, function: Function, elapsed_ms: u64) -> Result<()> {
    tx.execute(
        "DELETE FROM timings WHERE token = ?1 AND function = ?2",
        params![Word(token), Word(&function)],
    )?;
    tx.execute(
        "INSERT INTO timings (token, function, elapsed_ms) VALUES (?1, ?2, ?3)",
        params![Word(token), Word(&function), elapsed_ms],
    )?;
    Ok(())
}

/// Milliseconds of each completed function, in order of completion.
///
/// # Errors
/// The database's.
pub(crate) fn of(tx: &Transaction<'_>, token: &Token) -> Result<Vec<(Function, u64)>> {
    let mut query =
        tx.prepare("SELECT function, elapsed_ms FROM timings WHERE token = ?1 ORDER BY sequence")?;
    let rows = query.query_map([Word(token)], |row| Ok((row.get::<_, Word<Function>>(0)?.0, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

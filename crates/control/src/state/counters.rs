//! Table `counters`: numbers that are given out once.

use rusqlite::{Transaction, params};

use super::Result;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counter {
    /// Tokens of sessions.
    Token,
    /// Ids of instances.
    Instance,
}

/// The next number, from 1.
///
/// # Errors
/// The database's.
pub(crate) fn next(tx: &Transaction<'_>, counter: Counter) -> Result<u64> {
    let name = match counter {
        Counter::Token => "token",
        Counter::Instance => "instance",
    };
    let sql = "INSERT INTO counters (name, value) VALUES (?1, 1)
        ON CONFLICT DO UPDATE SET value = value + 1 RETURNING value";
    Ok(tx.query_row(sql, params![name], |row| row.get(0))?)
}

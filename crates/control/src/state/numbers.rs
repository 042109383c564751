//! The numbers of a session's objects, which people and workload managers know them by.

use model::Token;
use model::buffer::BufferRef;
use model::phase::AccessMode;
use rusqlite::{Row, Transaction};

use super::Result;
use super::registrations::Registration;
use super::text::Word;

/// The numbers of one session's objects, each list in the order of its table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Of its instance's fragments.
    pub fragments: Vec<u64>,
    /// Of its instance's namespaces.
    pub namespaces: Vec<(AccessMode, u64)>,
    /// Of its activations, also those that are not mounted any more.
    pub activations: Vec<u64>,
    /// Its registrations.
    pub registrations: Vec<Registration>,
}

/// Reads them.
///
/// # Errors
/// The database's.
pub(crate) fn of(tx: &Transaction<'_>, token: &Token) -> Result<Numbers> {
    Ok(Numbers {
        fragments: rows(
            tx,
            "SELECT number FROM fragments WHERE token = ?1 ORDER BY position",
            token,
            |row| row.get(0),
        )?,
        namespaces: rows(
            tx,
            "SELECT access_mode, number FROM namespaces WHERE token = ?1 ORDER BY position",
            token,
            |row| Ok((row.get::<_, Word<AccessMode>>(0)?.0, row.get(1)?)),
        )?,
        activations: rows(
            tx,
            "SELECT number FROM activations WHERE token = ?1 ORDER BY number",
            token,
            |row| row.get(0),
        )?,
        registrations: rows(
            tx,
            "SELECT number, buffer, access_mode FROM registrations WHERE token = ?1 ORDER BY number",
            token,
            |row| {
                let access_mode = row.get::<_, Word<AccessMode>>(2)?.0;
                let buffer = row.get::<_, Word<BufferRef>>(1)?.0;
                Ok(Registration { number: row.get(0)?, buffer, access_mode })
            },
        )?,
    })
}

fn rows<T>(
    tx: &Transaction<'_>,
    sql: &str,
    token: &Token,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut query = tx.prepare(sql)?;
    Ok(query.query_map([Word(token)], |row| read(row))?.collect::<rusqlite::Result<_>>()?)
}

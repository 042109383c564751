//! Table `registrations`: which session uses the namespaces of which instance, its own or a persistent buffer's.

use model::Token;
use model::buffer::BufferRef;
use model::phase::{AccessMode, Phase};
use rusqlite::{Transaction, params};

use super::Result;
use super::text::{Word, first_word};

/// One use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Its number.
    pub number: u64,
    /// The buffer.
    pub buffer: BufferRef,
    /// Which namespace.
    pub access_mode: AccessMode,
}

/// Notes that session `token` uses `buffer`. Nothing changes where that is noted.
///
/// # Errors
/// The database's.
pub(crate) fn add(
    tx: &Transaction<'_>,
    token: &Token,
    buffer: &BufferRef,
    modes: &[AccessMode],
) -> Result<()> {
    for mode in modes {
        tx.execute(
            "INSERT OR IGNORE INTO registrations (token, buffer, access_mode) VALUES (?1, ?2, ?3)",
            params![Word(token), Word(buffer), Word(mode)],
        )?;
    }
    Ok(())
}

/// The persistent buffers that the session uses.
///
/// # Errors
/// The database's.
pub(crate) fn buffers_of(tx: &Transaction<'_>, token: &Token) -> Result<Vec<Token>> {
    let mut query = tx.prepare(
        "SELECT buffer FROM registrations WHERE token = ?1 AND buffer != '' GROUP BY buffer ORDER BY MIN(number)",
    )?;
    Ok(query.query_map([Word(token)], first_word)?.collect::<rusqlite::Result<_>>()?)
}

/// The sessions that use the persistent buffer `name`.
///
/// # Errors
/// The database's.
pub(crate) fn users_of(tx: &Transaction<'_>, name: &Token) -> Result<Vec<Token>> {
    let mut query = tx.prepare(
        "SELECT DISTINCT token FROM registrations JOIN sessions USING (token)
         WHERE buffer = ?1 AND phase != ?2 ORDER BY token",
    )?;
    let rows = query.query_map(params![Word(name), Word(&Phase::TornDown)], first_word)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Forgets what the session uses.
///
/// # Errors
/// The database's.
pub(crate) fn delete(tx: &Transaction<'_>, token: &Token) -> Result<()> {
    tx.execute("DELETE FROM registrations WHERE token = ?1", [Word(token)])?;
    Ok(())
}

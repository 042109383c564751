//! Transfers of scripts.

use rusqlite::{Transaction, params};

use super::super::Result;
use super::super::text::Word;
use super::{Origin, Transfer, select};

/// Notes what a script has copied.
///
/// # Errors
/// The database's.
pub fn insert(tx: &Transaction<'_>, planned: &[Transfer]) -> Result<()> {
    for transfer in planned {
        let Origin::Script { position, source, destination } = &transfer.origin else { continue };
        tx.execute(
            "INSERT INTO transfers (token, job, position, source, destination, direction, kind, buffer, access_mode,
             buffer_path, pfs_path, owner_uid, owner_gid, state)
             VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            params![
                transfer.token,
                position,
                source,
                destination,
                Word(transfer.direction),
                Word(transfer.kind),
                transfer.buffer,
                Word(transfer.access_mode),
                transfer.buffer_path,
                transfer.pfs_path.to_string_lossy(),
                transfer.owner.uid,
                transfer.owner.gid,
                Word(transfer.state),
            ],
        )?;
    }
    Ok(())
}

/// Those of a session's script, in its order.
///
/// # Errors
/// The database's.
pub fn of_script(tx: &Transaction<'_>, token: &str) -> Result<Vec<Transfer>> {
    select(tx, "token = ?1 AND position IS NOT NULL ORDER BY position", params![token])
}

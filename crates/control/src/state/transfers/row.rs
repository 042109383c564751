//! A transfer as a row of the table.

use model::buffer::BufferRef;
use model::phase::{AccessMode, Direction, StageKind, StageState};
use model::{Ino, Token};
use rusqlite::{Row, Transaction, params};
use wire::control::Owner;

use super::super::Result;
use super::super::text::{Word, from_json, to_json};
use super::{Origin, Transfer};

/// Notes a new one, of which nothing is done; replies its number.
///
/// # Errors
/// The database's.
pub(crate) fn insert(tx: &Transaction<'_>, transfer: &Transfer) -> Result<u64> {
    let (position, source, destination) = match &transfer.origin {
        Origin::Script { position, source, destination } => (Some(position), Some(source), Some(destination)),
        Origin::OnDemand { .. } => (None, None, None),
    };
    let mut insert = tx.prepare_cached(
        "INSERT INTO transfers (token, job, position, source, destination, direction, kind, buffer, access_mode,
         buffer_path, pfs_path, owner_uid, owner_gid, state, size_hint, pfs_mount_json,
         source_ino)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
    )?;
    let number = insert.insert(params![
        Word(&transfer.token),
        transfer.job.as_ref().map(Word),
        position,
        source,
        destination,
        Word(&transfer.direction),
        Word(&transfer.kind),
        Word(&transfer.buffer),
        Word(&transfer.access_mode),
        transfer.buffer_path,
        transfer.pfs_path.to_string_lossy(),
        transfer.owner.uid,
        transfer.owner.gid,
        Word(&transfer.state),
        transfer.size_hint(),
        transfer.pfs_mount.as_ref().map(to_json),
        transfer.source_ino().map(u64::from),
    ])?;
    Ok(u64::try_from(number).unwrap_or_default())
}

/// Those that a condition is true of.
pub(super) fn select(
    tx: &Transaction<'_>,
    what: &str,
    with: &[&dyn rusqlite::ToSql],
) -> Result<Vec<Transfer>> {
    let mut query = tx.prepare_cached(&format!("SELECT * FROM transfers WHERE {what}"))?;
    Ok(query.query_map(with, read)?.collect::<rusqlite::Result<_>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Transfer> {
    let origin = match row.get("position")? {
        Some(position) => {
            Origin::Script { position, source: row.get("source")?, destination: row.get("destination")? }
        }
        None => Origin::OnDemand {
            size_hint: row.get("size_hint")?,
            ino: row.get::<_, Option<u64>>("source_ino")?.map(Ino::from),
        },
    };
    Ok(Transfer {
        number: row.get("number")?,
        token: row.get::<_, Word<Token>>("token")?.0,
        job: row.get::<_, Option<Word<Token>>>("job")?.map(|word| word.0),
        origin,
        direction: row.get::<_, Word<Direction>>("direction")?.0,
        kind: row.get::<_, Word<StageKind>>("kind")?.0,
        buffer: row.get::<_, Word<BufferRef>>("buffer")?.0,
        access_mode: row.get::<_, Word<AccessMode>>("access_mode")?.0,
        buffer_path: row.get("buffer_path")?,
        pfs_path: row.get::<_, String>("pfs_path")?.into(),
        pfs_mount: from_json(row.get("pfs_mount_json")?),
        owner: Owner { uid: row.get("owner_uid")?, gid: row.get("owner_gid")? },
        state: row.get::<_, Word<StageState>>("state")?.0,
        report: from_json(row.get("report_json")?),
    })
}

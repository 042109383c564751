//! Transfers that are asked for while a buffer lives.

use model::Token;
use model::phase::AccessMode;
use rusqlite::{Transaction, params};
use wire::control::StageStatus;

use super::super::Result;
use super::super::text::{Word, first_word, to_json};
use super::row::{insert, select};
use super::{Transfer, set_report};

/// How many of one user are remembered, in all buffers. Beyond that his oldest complete ones are forgotten.
pub(crate) const ON_DEMAND_MAX: u64 = 200_000;

/// As many are forgotten at least, so that this is seldom looked for.
const FORGOTTEN_AT_ONCE: u64 = 1000;

/// As many are read at once. Everybody waits for who uses the database, and reading that many takes some milliseconds.
pub(crate) const PAGE: usize = 1000;

/// Notes one, in place of one that is complete for that path. One like it that waits or failed becomes that one.
/// Those of other owners are left alone: each is made with the rights of who asked. Replies its number.
///
/// # Errors
/// The database's.
pub(crate) fn add(tx: &Transaction<'_>, transfer: &Transfer) -> Result<u64> {
    const SAME: &str =
        "position IS NULL AND token = ?1 AND access_mode = ?2 AND buffer_path = ?3 AND direction = ?4
         AND owner_uid = ?5";
    let pfs_path = transfer.pfs_path.to_string_lossy();
    let (mode, direction) = (Word(&transfer.access_mode), Word(&transfer.direction));
    let (kind, state) = (Word(&transfer.kind), Word(&transfer.state));
    let all = params![
        Word(&transfer.token),
        mode,
        transfer.buffer_path,
        direction,
        transfer.owner.uid,
        kind,
        pfs_path,
        state,
        transfer.job.as_ref().map(Word),
        transfer.owner.gid,
        transfer.size_hint(),
        transfer.pfs_mount.as_ref().map(to_json),
        transfer.source_ino().map(u64::from),
    ];
    tx.execute(&format!("DELETE FROM transfers WHERE {SAME} AND state = 'complete'"), &all[..5])?;
    // One that has not begun may as well be this one; one that failed has left a journal at its node, which this one
    // uses.
    let waiting = format!(
        "UPDATE transfers SET kind = ?6, pfs_path = ?7, state = ?8, job = ?9, owner_gid = ?10, size_hint = ?11,
         source_ino = ?13,
         pfs_mount_json = CASE WHEN pfs_path = ?7 THEN COALESCE(pfs_mount_json, ?12) ELSE ?12 END
         WHERE {SAME} AND state IN ('pending', 'deferred', 'failed') RETURNING number"
    );
    let mut waiting = tx.prepare_cached(&waiting)?;
    let known: Vec<u64> = waiting.query_map(all, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    match known.first() {
        Some(number) => Ok(*number),
        None => insert(tx, transfer),
    }
}

/// Forgets the user's oldest complete ones where there are too many. Replies whether there is room for `more`.
///
/// # Errors
/// The database's.
pub(crate) fn make_room(tx: &Transaction<'_>, uid: u32, more: u64) -> Result<bool> {
    let count = |tx: &Transaction<'_>| -> Result<u64> {
        let sql = "SELECT COUNT(*) FROM transfers WHERE owner_uid = ?1 AND position IS NULL";
        Ok(tx.query_row(sql, [uid], |row| row.get(0))?)
    };
    let known = count(tx)?;
    if known + more <= ON_DEMAND_MAX {
        return Ok(true);
    }
    let excess = (known + more).saturating_sub(ON_DEMAND_MAX);
    tx.execute(
        "DELETE FROM transfers WHERE number IN (SELECT number FROM transfers
         WHERE owner_uid = ?1 AND position IS NULL AND state = 'complete' ORDER BY number LIMIT ?2)",
        params![uid, excess.max(FORGOTTEN_AT_ONCE)],
    )?;
    Ok(count(tx)? + more <= ON_DEMAND_MAX)
}

/// Puts those that failed, or were stopped, in the company of others back into the line: each gets its own verdict.
///
/// # Errors
/// The database's.
pub(crate) fn set_alone(tx: &Transaction<'_>, number: u64) -> Result<()> {
    let sql = "UPDATE transfers SET state = 'pending', size_hint = NULL, batch = NULL WHERE number = ?1";
    tx.execute(sql, [number])?;
    Ok(())
}

/// Puts one that waits for the job's end, or that failed, into the line. One that another has put there meanwhile stays
/// as it is: it may run already.
///
/// # Errors
/// The database's.
pub(crate) fn set_waiting(tx: &Transaction<'_>, number: u64) -> Result<()> {
    let sql = "UPDATE transfers SET state = 'pending' WHERE number = ?1 AND state IN ('deferred', 'failed')";
    tx.execute(sql, [number])?;
    Ok(())
}

/// Notes how a transfer ended. Where the same was asked for meanwhile, that one counts.
///
/// # Errors
/// The database's.
pub(crate) fn end(tx: &Transaction<'_>, number: u64, report: &StageStatus) -> Result<()> {
    set_report(tx, number, report)?;
    tx.execute(
        "DELETE FROM transfers WHERE number = ?1 AND position IS NULL AND EXISTS (SELECT 1 FROM transfers AS newer
         WHERE newer.position IS NULL AND newer.token = transfers.token AND newer.access_mode = transfers.access_mode
         AND newer.buffer_path = transfers.buffer_path AND newer.direction = transfers.direction
         AND newer.owner_uid = transfers.owner_uid AND newer.number > ?1)",
        [number],
    )?;
    Ok(())
}

/// Those of a session's instance, and those that the session asked for, of the user `owner` if it is given; what is not
/// complete first.
///
/// # Errors
/// The database's.
pub(crate) fn shown(
    tx: &Transaction<'_>,
    token: &Token,
    owner: Option<u32>,
    limit: u32,
) -> Result<Vec<Transfer>> {
    // Each state by itself is in the order of its numbers in an index: nothing is read that is not shown.
    let mut found: Vec<Transfer> = Vec::new();
    for state in ["failed", "active", "pending", "deferred", "complete"] {
        // A user's are found among his own, however many others have here: `+` keeps the index by token from that.
        let (of_owner, plus) = if owner.is_some() { ("owner_uid = ?3", "+") } else { ("?3 IS NULL", "") };
        let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(limit));
        let mut of_state: Vec<Transfer> = Vec::new();
        for whose in ["token", "job"] {
            let sql = format!("{plus}{whose} = ?1 AND state = ?2 AND {of_owner} ORDER BY number LIMIT ?4");
            of_state.append(&mut on_demand(tx, &sql, params![Word(token), state, owner, left])?);
        }
        of_state.sort_by_key(|transfer| transfer.number);
        of_state.dedup_by_key(|transfer| transfer.number);
        of_state.truncate(left as usize);
        found.append(&mut of_state);
    }
    found.sort_by_key(|transfer| transfer.number);
    Ok(found)
}

/// Those that the session asked for and that are not complete: the next after `after`, at most [`PAGE`].
///
/// # Errors
/// The database's.
pub(crate) fn unfinished_of_job(tx: &Transaction<'_>, job: &Token, after: u64) -> Result<Vec<Transfer>> {
    page(tx, "job = ?1 AND state != 'complete' AND number > ?2", params![Word(job), after])
}

/// Those of a session's instance that are not complete, likewise.
///
/// # Errors
/// The database's.
pub(crate) fn unfinished_of(tx: &Transaction<'_>, token: &Token, after: u64) -> Result<Vec<Transfer>> {
    page(tx, "token = ?1 AND state != 'complete' AND number > ?2", params![Word(token), after])
}

/// Whether any that the session asked for has not ended.
///
/// # Errors
/// The database's.
pub(crate) fn any_under_way(tx: &Transaction<'_>, job: &Token) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM transfers
         WHERE job = ?1 AND state IN ('pending', 'active', 'deferred') AND position IS NULL)";
    Ok(tx.prepare_cached(sql)?.query_row([Word(job)], |row| row.get(0))?)
}

/// A stage-out of the session's instance that is not complete.
///
/// # Errors
/// The database's.
pub(crate) fn any_owed(tx: &Transaction<'_>, token: &Token) -> Result<Option<Transfer>> {
    let sql = "token = ?1 AND state != 'complete' AND direction = 'out' LIMIT 1";
    Ok(on_demand(tx, sql, params![Word(token)])?.pop())
}

/// Puts those back into the line that an earlier life of control had started: a start is repeated. Replies the tokens
/// of all that wait.
///
/// # Errors
/// The database's.
pub(crate) fn resume(tx: &Transaction<'_>) -> Result<Vec<Token>> {
    tx.execute("UPDATE transfers SET state = 'pending' WHERE state = 'active' AND position IS NULL", [])?;
    let mut query =
        tx.prepare("SELECT DISTINCT token FROM transfers WHERE state = 'pending' AND position IS NULL")?;
    Ok(query.query_map([], first_word)?.collect::<rusqlite::Result<_>>()?)
}

/// Whether a stage-in was ever asked for in a namespace of the session's instance.
///
/// # Errors
/// The database's.
pub(crate) fn any_in(tx: &Transaction<'_>, token: &Token, mode: AccessMode) -> Result<bool> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM transfers WHERE token = ?1 AND access_mode = ?2 AND direction = 'in'
         AND position IS NULL)";
    Ok(tx.query_row(sql, params![Word(token), Word(&mode)], |row| row.get(0))?)
}

/// A session with stages on demand that wait or run.
///
/// # Errors
/// The database's.
pub(crate) fn any_at_work(tx: &Transaction<'_>) -> Result<Option<Token>> {
    let sql = "SELECT token FROM transfers WHERE state IN ('pending', 'active') AND position IS NULL LIMIT 1";
    let mut query = tx.prepare(sql)?;
    Ok(query.query_map([], first_word)?.next().transpose()?)
}

/// A stage that copies from or to the instance of `token` now, as its id is shown.
///
/// # Errors
/// The database's.
pub(crate) fn running_in(tx: &Transaction<'_>, token: &Token) -> Result<Option<String>> {
    let sql = "state = 'active' AND ((buffer = '' AND token = ?1) OR buffer = ?1) LIMIT 1";
    let found = select(tx, sql, params![Word(token)])?.pop();
    Ok(found.map(|transfer| transfer.id(transfer.token.as_str())))
}

/// Those on demand that a condition is true of.
pub(super) fn on_demand(
    tx: &Transaction<'_>,
    what: &str,
    with: &[&dyn rusqlite::ToSql],
) -> Result<Vec<Transfer>> {
    select(tx, &format!("position IS NULL AND {what}"), with)
}

/// The first [`PAGE`] of those on demand that a condition is true of. Only these are read.
pub(super) fn page(tx: &Transaction<'_>, what: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<Transfer>> {
    let numbers = format!("SELECT number FROM transfers WHERE position IS NULL AND {what} ORDER BY number");
    select(tx, &format!("number IN ({numbers} LIMIT {PAGE}) ORDER BY number"), with)
}

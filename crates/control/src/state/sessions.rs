//! Table `sessions`: tokens, their scripts, and how far they have come.

use model::phase::{Function, Phase};
use rusqlite::{OptionalExtension, Row, Transaction, params};
use wire::control::{ApiError, Owner, Script};

use super::Result;
use super::text::{Word, from_json, to_json};

/// How many sessions are remembered after their teardown.
const TORN_DOWN_MAX: u32 = 1000;

/// One session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Job id or name.
    pub token: String,
    /// Seconds since 1970.
    pub created_unix: u64,
    /// Who owns it.
    pub owner: Owner,
    /// The script.
    pub script: Script,
    /// The last function completed.
    pub phase: Phase,
    /// Whether the job could ever write.
    pub was_mounted: bool,
    /// The last function that failed, and why.
    pub failed: Option<(Function, ApiError)>,
    /// Why teardown kept the data.
    pub kept: Option<String>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// Registers a session, in place of one of that token that is torn down or was never set up.
///
/// # Errors
/// The database's.
pub fn replace(tx: &Transaction<'_>, session: &Session) -> Result<()> {
    tx.execute("DELETE FROM sessions WHERE token = ?1", [&session.token])?;
    let sql =
        "INSERT INTO sessions (token, created_unix, owner_uid, owner_gid, script_text, script_path, workdir,
               job_name, user_name, phase, notes_json) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let script = &session.script;
    tx.execute(
        sql,
        params![
            session.token,
            session.created_unix,
            session.owner.uid,
            session.owner.gid,
            script.text,
            script.path.to_string_lossy(),
            script.workdir.to_string_lossy(),
            script.job_name,
            script.user,
            Word(session.phase),
            to_json(&session.notes),
        ],
    )?;
    Ok(())
}

/// The session of a token.
///
/// # Errors
/// The database's.
pub fn find(tx: &Transaction<'_>, token: &str) -> Result<Option<Session>> {
    Ok(tx.query_row("SELECT * FROM sessions WHERE token = ?1", [token], read).optional()?)
}

/// The sessions that are not torn down, oldest first.
///
/// # Errors
/// The database's.
pub fn living(tx: &Transaction<'_>) -> Result<Vec<Session>> {
    let mut query = tx.prepare("SELECT * FROM sessions WHERE phase != ?1 ORDER BY created_unix, rowid")?;
    let rows = query.query_map([Word(Phase::TornDown)], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Sets how far the session has come. A job starts only after `Mounted` is noted, so that is when it could first write.
///
/// # Errors
/// The database's.
pub fn set_phase(tx: &Transaction<'_>, token: &str, phase: Phase) -> Result<()> {
    let was_mounted = phase == Phase::Mounted;
    tx.execute(
        "UPDATE sessions SET phase = ?2, was_mounted = was_mounted OR ?3 WHERE token = ?1",
        params![token, Word(phase), was_mounted],
    )?;
    Ok(())
}

/// Sets or clears the last failure.
///
/// # Errors
/// The database's.
pub fn set_failed(tx: &Transaction<'_>, token: &str, failed: Option<&(Function, ApiError)>) -> Result<()> {
    tx.execute("UPDATE sessions SET failed_json = ?2 WHERE token = ?1", params![token, failed.map(to_json)])?;
    Ok(())
}

/// Sets or clears why teardown kept the data.
///
/// # Errors
/// The database's.
pub fn set_kept(tx: &Transaction<'_>, token: &str, kept: Option<&str>) -> Result<()> {
    tx.execute("UPDATE sessions SET kept = ?2 WHERE token = ?1", params![token, kept])?;
    Ok(())
}

/// Replaces the remarks for the user.
///
/// # Errors
/// The database's.
pub fn set_notes(tx: &Transaction<'_>, token: &str, notes: &[String]) -> Result<()> {
    tx.execute("UPDATE sessions SET notes_json = ?2 WHERE token = ?1", params![token, to_json(&notes)])?;
    Ok(())
}

/// Forgets the oldest of the sessions that are torn down, beyond a thousand.
///
/// # Errors
/// The database's.
pub fn prune(tx: &Transaction<'_>) -> Result<()> {
    tx.execute(
        "DELETE FROM sessions WHERE phase = ?1 AND rowid NOT IN
         (SELECT rowid FROM sessions WHERE phase = ?1 ORDER BY created_unix DESC, rowid DESC LIMIT ?2)",
        params![Word(Phase::TornDown), TORN_DOWN_MAX],
    )?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        token: row.get("token")?,
        created_unix: row.get("created_unix")?,
        owner: Owner { uid: row.get("owner_uid")?, gid: row.get("owner_gid")? },
        script: Script {
            text: row.get("script_text")?,
            path: row.get::<_, String>("script_path")?.into(),
            workdir: row.get::<_, String>("workdir")?.into(),
            job_name: row.get("job_name")?,
            user: row.get("user_name")?,
        },
        phase: row.get::<_, Word<Phase>>("phase")?.0,
        was_mounted: row.get("was_mounted")?,
        failed: from_json(row.get("failed_json")?),
        kept: row.get("kept")?,
        notes: from_json(row.get("notes_json")?).unwrap_or_default(),
    })
}

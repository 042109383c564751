//! Table `demands`: stages that were asked for while a buffer lived. They belong to the instance.
//!
//! **Invariant:** of one path, direction and owner there is at most one stage that has ended, and none that is older than it.

mod line;
mod scope;

use std::path::PathBuf;

use model::phase::{AccessMode, Direction, StageKind, StageState};
use rusqlite::{Row, Transaction, params};
use wire::control::{ApiError, Owner, StageNotes, StageProgress, StageStatus};

use super::Result;
use super::text::{Word, from_json, to_json};

pub use line::start_next;
pub use scope::{Space, count, counts, named, telling};

/// How many stages of one buffer are remembered. Beyond that the oldest complete ones are forgotten.
pub const DEMANDS_MAX: u64 = 200_000;

/// Files up to this size are staged many at a time: starting a worker costs more than copying them.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// One stage on demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Its number, never given twice; 0 until it is noted.
    pub number: u64,
    /// The session whose instance it is.
    pub token: String,
    /// The session that asked.
    pub job: Option<String>,
    /// Which way.
    pub direction: Direction,
    /// A file or a directory.
    pub kind: StageKind,
    /// Which namespace.
    pub access_mode: AccessMode,
    /// Below the namespace's root: no slash at either end, no `.` and `..`.
    pub buffer_path: String,
    /// An absolute path.
    pub pfs_path: PathBuf,
    /// Whose rights apply.
    pub owner: Owner,
    /// State.
    pub state: StageState,
    /// The file's size, as far as who asked knows.
    pub size_hint: Option<u64>,
    /// The last report.
    pub report: Option<StageStatus>,
}

impl Demand {
    /// Its id for people, in session `token`; and for nodes, in the session's handle.
    pub fn id(&self, token: &str) -> String {
        format!("{token}.d{}", self.number)
    }

    /// Whether it failed before. Its node has kept its journal then.
    pub fn has_failed(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.state == StageState::Failed)
    }

    /// One that failed goes on by itself.
    fn is_small(&self) -> bool {
        let is_small = self.size_hint.is_some_and(|size| size <= SMALL_BYTES_MAX);
        self.kind == StageKind::File && is_small && !self.has_failed()
    }

    /// The number in an id for people.
    pub fn number_in(id: &str) -> Option<u64> {
        id.rsplit_once(".d")?.1.parse().ok()
    }

    /// For people, with the namespace written as `name`: the last report, or what was asked.
    pub fn status(&self, name: &str) -> StageStatus {
        let buffer = format!("{name}/{}", self.buffer_path);
        let pfs = self.pfs_path.to_string_lossy().into_owned();
        let (source, destination) = match self.direction {
            Direction::In => (pfs, buffer),
            Direction::Out => (buffer, pfs),
        };
        let fresh = StageStatus {
            id: String::new(),
            direction: self.direction,
            kind: self.kind,
            source,
            destination,
            state: self.state,
            progress: StageProgress::default(),
            elapsed_ms: 0,
            failures: Vec::new(),
            error: None,
            notes: StageNotes::default(),
        };
        let id = self.id(&self.token);
        StageStatus { id, state: self.state, ..self.report.clone().unwrap_or(fresh) }
    }
}

/// Notes a demand, in place of one that is complete for that path. One like it that waits or failed becomes that one. Stages of other
/// owners are left alone: each is made with the rights of who asked. Replies its number.
///
/// # Errors
/// The database's.
pub fn add(tx: &Transaction<'_>, demand: &Demand) -> Result<u64> {
    const SAME: &str =
        "token = ?1 AND access_mode = ?2 AND buffer_path = ?3 AND direction = ?4 AND owner_uid = ?5";
    let pfs_path = demand.pfs_path.to_string_lossy();
    let (mode, direction) = (Word(demand.access_mode), Word(demand.direction));
    let (kind, state) = (Word(demand.kind), Word(demand.state));
    let all = params![
        demand.token,
        mode,
        demand.buffer_path,
        direction,
        demand.owner.uid,
        kind,
        pfs_path,
        state,
        demand.job,
        demand.owner.gid,
        demand.size_hint,
    ];
    tx.execute(&format!("DELETE FROM demands WHERE {SAME} AND state = 'complete'"), &all[..5])?;
    // One that has not begun may as well be this one; one that failed has left a journal at its node, which this one uses.
    let waiting = format!(
        "UPDATE demands SET kind = ?6, pfs_path = ?7, state = ?8, job = ?9, owner_gid = ?10, size_hint = ?11
         WHERE {SAME} AND state IN ('pending', 'deferred', 'failed') RETURNING number"
    );
    let mut waiting = tx.prepare_cached(&waiting)?;
    let known: Vec<u64> = waiting.query_map(all, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if let Some(number) = known.first() {
        return Ok(*number);
    }
    tx.execute(
        "INSERT INTO demands (token, access_mode, buffer_path, direction, owner_uid, kind, pfs_path, state, job, owner_gid, size_hint)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        all,
    )?;
    Ok(u64::try_from(tx.last_insert_rowid()).unwrap_or_default())
}

/// Forgets the oldest complete ones where there are too many. Replies whether there is room for `more`.
///
/// # Errors
/// The database's.
pub fn make_room(tx: &Transaction<'_>, token: &str, more: u64) -> Result<bool> {
    let count = |tx: &Transaction<'_>| -> Result<u64> {
        Ok(tx.query_row("SELECT COUNT(*) FROM demands WHERE token = ?1", [token], |row| row.get(0))?)
    };
    let excess = (count(tx)? + more).saturating_sub(DEMANDS_MAX);
    if excess > 0 {
        tx.execute(
            "DELETE FROM demands WHERE number IN (SELECT number FROM demands WHERE token = ?1 AND state = 'complete'
             ORDER BY number LIMIT ?2)",
            params![token, excess],
        )?;
    }
    Ok(count(tx)? + more <= DEMANDS_MAX)
}

/// Puts stages that failed, or were stopped, in the company of others back into the line: each gets its own verdict.
///
/// # Errors
/// The database's.
pub fn set_alone(tx: &Transaction<'_>, number: u64) -> Result<()> {
    let sql = "UPDATE demands SET state = 'pending', size_hint = NULL, batch = NULL WHERE number = ?1";
    tx.execute(sql, [number])?;
    Ok(())
}

/// Notes a report.
///
/// # Errors
/// The database's.
pub fn set_report(tx: &Transaction<'_>, number: u64, report: &StageStatus) -> Result<()> {
    tx.execute(
        "UPDATE demands SET state = ?2, report_json = ?3 WHERE number = ?1",
        params![number, Word(report.state), to_json(report)],
    )?;
    Ok(())
}

/// Notes how one ended. Where the same was asked for meanwhile, that one counts.
///
/// # Errors
/// The database's.
pub fn end(tx: &Transaction<'_>, number: u64, report: &StageStatus) -> Result<()> {
    set_report(tx, number, report)?;
    tx.execute(
        "DELETE FROM demands WHERE number = ?1 AND EXISTS (SELECT 1 FROM demands AS newer
         WHERE newer.token = demands.token AND newer.access_mode = demands.access_mode
         AND newer.buffer_path = demands.buffer_path AND newer.direction = demands.direction
         AND newer.owner_uid = demands.owner_uid AND newer.number > ?1)",
        [number],
    )?;
    Ok(())
}

/// The report of one that was stopped, or that never reached a node.
pub fn failed(demand: &Demand, name: &str, error: ApiError) -> StageStatus {
    StageStatus { state: StageState::Failed, error: Some(error), ..demand.status(name) }
}

/// Sets the state.
///
/// # Errors
/// The database's.
pub fn set_state(tx: &Transaction<'_>, number: u64, state: StageState) -> Result<()> {
    tx.execute("UPDATE demands SET state = ?2 WHERE number = ?1", params![number, Word(state)])?;
    Ok(())
}

/// Forgets one.
///
/// # Errors
/// The database's.
pub fn delete(tx: &Transaction<'_>, number: u64) -> Result<()> {
    tx.execute("DELETE FROM demands WHERE number = ?1", [number])?;
    Ok(())
}

/// One.
///
/// # Errors
/// The database's.
pub fn find(tx: &Transaction<'_>, number: u64) -> Result<Option<Demand>> {
    Ok(select(tx, "number = ?1", params![number])?.pop())
}

/// Those of a session's instance, and those that the session asked for; what is not complete first.
///
/// # Errors
/// The database's.
pub fn shown(tx: &Transaction<'_>, token: &str, limit: u32) -> Result<Vec<Demand>> {
    let sql = "number IN (SELECT number FROM demands WHERE token = ?1 OR job = ?1
         ORDER BY state = 'complete', number LIMIT ?2) ORDER BY number";
    select(tx, sql, params![token, limit])
}

/// Those that the session asked for and that are not complete.
///
/// # Errors
/// The database's.
pub fn unfinished_of_job(tx: &Transaction<'_>, job: &str) -> Result<Vec<Demand>> {
    select(tx, "job = ?1 AND state != 'complete' ORDER BY number", params![job])
}

/// Those of a session's instance that are not complete.
///
/// # Errors
/// The database's.
pub fn unfinished_of(tx: &Transaction<'_>, token: &str) -> Result<Vec<Demand>> {
    select(tx, "token = ?1 AND state != 'complete' ORDER BY number", params![token])
}

/// Puts those back into the line that an earlier life of control had started: a start is repeated. Replies the tokens of all
/// that wait.
///
/// # Errors
/// The database's.
pub fn resume(tx: &Transaction<'_>) -> Result<Vec<String>> {
    tx.execute("UPDATE demands SET state = 'pending' WHERE state = 'active'", [])?;
    let mut query = tx.prepare("SELECT DISTINCT token FROM demands WHERE state = 'pending'")?;
    Ok(query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

/// Whether a stage-in was ever asked for in a namespace of the session's instance.
///
/// # Errors
/// The database's.
pub fn any_in(tx: &Transaction<'_>, token: &str, mode: AccessMode) -> Result<bool> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM demands WHERE token = ?1 AND access_mode = ?2 AND direction = 'in')";
    Ok(tx.query_row(sql, params![token, Word(mode)], |row| row.get(0))?)
}

/// A session with stages on demand that wait or run.
///
/// # Errors
/// The database's.
pub fn any_at_work(tx: &Transaction<'_>) -> Result<Option<String>> {
    let mut query = tx.prepare("SELECT token FROM demands WHERE state IN ('pending', 'active') LIMIT 1")?;
    Ok(query.query_map([], |row| row.get(0))?.next().transpose()?)
}

fn select(tx: &Transaction<'_>, what: &str, with: &[&dyn rusqlite::ToSql]) -> Result<Vec<Demand>> {
    let mut query = tx.prepare_cached(&format!("SELECT * FROM demands WHERE {what}"))?;
    Ok(query.query_map(with, read)?.collect::<rusqlite::Result<_>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Demand> {
    Ok(Demand {
        number: row.get("number")?,
        token: row.get("token")?,
        job: row.get("job")?,
        direction: row.get::<_, Word<Direction>>("direction")?.0,
        kind: row.get::<_, Word<StageKind>>("kind")?.0,
        access_mode: row.get::<_, Word<AccessMode>>("access_mode")?.0,
        buffer_path: row.get("buffer_path")?,
        pfs_path: row.get::<_, String>("pfs_path")?.into(),
        owner: Owner { uid: row.get("owner_uid")?, gid: row.get("owner_gid")? },
        state: row.get::<_, Word<StageState>>("state")?.0,
        size_hint: row.get("size_hint")?,
        report: from_json(row.get("report_json")?),
    })
}

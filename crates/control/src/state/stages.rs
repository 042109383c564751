//! Table `stages`: the script's `stage_in` and `stage_out` directives, and how far each is.

use std::path::PathBuf;

use model::phase::{AccessMode, Direction, StageKind, StageState};
use rusqlite::{Transaction, params};
use wire::control::{StageNotes, StageProgress, StageStatus};

use super::Result;
use super::text::{Word, from_json, to_json};

/// One stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Its place: every `stage_in` of the script in its order, then every `stage_out`.
    pub position: u32,
    /// Which way.
    pub direction: Direction,
    /// What the source names.
    pub kind: StageKind,
    /// The persistent buffer that is staged; empty: the session's own instance.
    pub buffer: String,
    /// Which namespace is the buffer side.
    pub access_mode: AccessMode,
    /// The PFS side: an absolute path.
    pub pfs_path: PathBuf,
    /// The buffer side, below the namespace's root.
    pub buffer_path: String,
    /// As the directive has it.
    pub source: String,
    /// As the directive has it.
    pub destination: String,
    /// State.
    pub state: StageState,
    /// The last report.
    pub report: Option<StageStatus>,
}

impl Stage {
    /// The stage's id for people, in session `token`; and for nodes, in the session's handle.
    pub fn id(&self, token: &str) -> String {
        format!("{token}.{}", self.position)
    }

    /// For people: the last report, or what the directive says.
    pub fn status(&self, token: &str) -> StageStatus {
        let fresh = || StageStatus {
            id: self.id(token),
            direction: self.direction,
            kind: self.kind,
            source: self.source.clone(),
            destination: self.destination.clone(),
            state: self.state,
            progress: StageProgress::default(),
            elapsed_ms: 0,
            failures: Vec::new(),
            error: None,
            notes: StageNotes::default(),
        };
        let id = self.id(token);
        StageStatus { id, state: self.state, ..self.report.clone().unwrap_or_else(fresh) }
    }
}

/// Notes the session's stages.
///
/// # Errors
/// The database's.
pub fn insert(tx: &Transaction<'_>, token: &str, stages: &[Stage]) -> Result<()> {
    for stage in stages {
        tx.execute(
            "INSERT INTO stages (token, position, direction, kind, access_mode, pfs_path, buffer_path, source,
             destination, state, buffer) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                token,
                stage.position,
                Word(stage.direction),
                Word(stage.kind),
                Word(stage.access_mode),
                stage.pfs_path.to_string_lossy(),
                stage.buffer_path,
                stage.source,
                stage.destination,
                Word(stage.state),
                stage.buffer,
            ],
        )?;
    }
    Ok(())
}

/// The session's stages, in order.
///
/// # Errors
/// The database's.
pub fn of(tx: &Transaction<'_>, token: &str) -> Result<Vec<Stage>> {
    let mut query = tx.prepare("SELECT * FROM stages WHERE token = ?1 ORDER BY position")?;
    let rows = query.query_map([token], |row| {
        Ok(Stage {
            position: row.get("position")?,
            direction: row.get::<_, Word<Direction>>("direction")?.0,
            kind: row.get::<_, Word<StageKind>>("kind")?.0,
            buffer: row.get("buffer")?,
            access_mode: row.get::<_, Word<AccessMode>>("access_mode")?.0,
            pfs_path: row.get::<_, String>("pfs_path")?.into(),
            buffer_path: row.get("buffer_path")?,
            source: row.get("source")?,
            destination: row.get("destination")?,
            state: row.get::<_, Word<StageState>>("state")?.0,
            report: from_json(row.get("report_json")?),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Notes a report.
///
/// # Errors
/// The database's.
pub fn set_report(tx: &Transaction<'_>, token: &str, position: u32, report: &StageStatus) -> Result<()> {
    tx.execute(
        "UPDATE stages SET state = ?3, report_json = ?4 WHERE token = ?1 AND position = ?2",
        params![token, position, Word(report.state), to_json(report)],
    )?;
    Ok(())
}

/// Forgets the session's stages.
///
/// # Errors
/// The database's.
pub fn delete(tx: &Transaction<'_>, token: &str) -> Result<()> {
    tx.execute("DELETE FROM stages WHERE token = ?1", [token])?;
    Ok(())
}

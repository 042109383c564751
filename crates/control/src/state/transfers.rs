//! Table `transfers`: everything that is copied between the PFS and a buffer, why, and how far it is.
//!
//! ```text
//! script      setup -> pending, deferred --data_in, data_out--> active --> complete, failed
//! on demand   asked -> pending --its turn--> active --> complete, failed
//!                   -> deferred --activate, end of the job--> pending
//! ```
//!
//! **Invariant:** a transfer is forgotten with the session `token`; of what was asked for on demand with one path,
//! direction and owner there is at most one that has ended, and none that is older than it.

mod counts;
#[cfg(test)]
mod fixture;
mod line;
mod on_demand;
mod row;
mod scope;
mod space;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use model::buffer::BufferRef;
use model::directive::BufferRoot;
use model::phase::{AccessMode, Direction, StageKind, StageState};
use model::{Ino, Token};
use rusqlite::{Transaction, params};
use wire::control::{ApiError, Owner, StageDue, StageStatus};
use wire::node::PfsMount;

use super::Result;
use super::text::{Word, to_json};
use row::select;

pub(crate) use counts::counts;
pub(crate) use line::{WORKERS_OF_USER, start_next, waiting_for_user};
pub(crate) use on_demand::{
    ON_DEMAND_MAX, PAGE, add, any_at_work, any_in, any_owed, any_under_way, end, make_room, resume,
    running_in, set_alone, set_waiting, shown, unfinished_of, unfinished_of_job,
};
pub(crate) use row::insert;
pub(crate) use scope::{count, named, telling};
pub(crate) use space::Space;

/// Files up to this size are copied many at a time: starting a worker costs more than copying them.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// One transfer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transfer {
    /// Its number, never given twice; 0 until it is noted.
    pub number: u64,
    /// The session with which it is forgotten: whose script has it, or whose instance it was asked for.
    pub token: Token,
    /// The session whose job it is done for; `None`: that was forgotten before a persistent buffer.
    pub job: Option<Token>,
    /// Where it comes from.
    pub origin: Origin,
    /// Which way.
    pub direction: Direction,
    /// What the source names.
    pub kind: StageKind,
    /// What is copied from or to, where the job is the token's.
    pub buffer: BufferRef,
    /// Which namespace is the buffer side.
    pub access_mode: AccessMode,
    /// The buffer side, below the namespace's root. On demand: no slash at either end, no `.` and `..`.
    pub buffer_path: String,
    /// The PFS side: an absolute path.
    pub pfs_path: PathBuf,
    /// What that was on when the transfer was accepted; `None`: nobody knows yet.
    pub pfs_mount: Option<PfsMount>,
    /// Whose rights apply.
    pub owner: Owner,
    /// State.
    pub state: StageState,
    /// The last report.
    pub report: Option<StageStatus>,
}

/// Where a transfer comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A directive of the script.
    Script {
        /// Its place: every `stage_in` of the script in its order, then every `stage_out`.
        position: u32,
        /// As the directive has it.
        source: String,
        /// As the directive has it.
        destination: String,
    },
    /// Somebody asked while the buffer lived.
    OnDemand {
        /// The file's size, as far as who asked knows.
        size_hint: Option<u64>,
        /// The inode that a stage-out was asked for, as far as who asked knows.
        ino: Option<Ino>,
    },
}

/// The state in which a transfer waits for when it is due.
pub(crate) fn waiting(due: StageDue) -> StageState {
    match due {
        StageDue::Now => StageState::Pending,
        StageDue::AtJobEnd => StageState::Deferred,
    }
}

impl Transfer {
    /// Its id for people, where `session` is the token; for nodes, where it is the handle.
    pub(crate) fn id(&self, session: &str) -> String {
        match &self.origin {
            Origin::Script { position, .. } => format!("{session}.{position}"),
            Origin::OnDemand { .. } => format!("{session}.d{}", self.number),
        }
    }

    /// The number in an id on demand, as people have it.
    pub(crate) fn number_in(id: &str) -> Option<u64> {
        id.rsplit_once(".d")?.1.parse().ok()
    }

    /// Whether it was asked for while the buffer lived.
    pub(crate) fn is_on_demand(&self) -> bool {
        matches!(self.origin, Origin::OnDemand { .. })
    }

    /// Whether it failed before. Its node has kept its journal then.
    pub(crate) fn has_failed(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.state == StageState::Failed)
    }

    /// The file's size, as far as who asked knows.
    pub(crate) fn size_hint(&self) -> Option<u64> {
        match self.origin {
            Origin::Script { .. } => None,
            Origin::OnDemand { size_hint, .. } => size_hint,
        }
    }

    /// The inode that a stage-out was asked for, as far as who asked knows.
    pub(crate) fn source_ino(&self) -> Option<Ino> {
        match self.origin {
            Origin::OnDemand { ino, .. } if self.direction == Direction::Out => ino,
            _ => None,
        }
    }

    /// One that failed goes on by itself.
    fn is_small(&self) -> bool {
        let is_small = self.size_hint().is_some_and(|size| size <= SMALL_BYTES_MAX);
        self.kind == StageKind::File && is_small && !self.has_failed()
    }

    /// The session whose instance is copied from or to.
    pub(crate) fn holder(&self) -> &Token {
        self.buffer.holder(&self.token)
    }

    /// How the job writes the namespace, as `$DW_JOB_STRIPED`.
    pub(crate) fn buffer_name(&self) -> String {
        let own = self.job.as_ref().is_some_and(|job| job == self.holder());
        let buffer = if own { BufferRef::Own } else { BufferRef::Persistent(self.holder().to_owned()) };
        BufferRoot { buffer, access_mode: self.access_mode }.to_string()
    }

    /// The source, as the job writes it.
    pub(crate) fn source(&self) -> String {
        self.ends().0
    }

    /// Source and destination, as the job writes them.
    fn ends(&self) -> (String, String) {
        if let Origin::Script { source, destination, .. } = &self.origin {
            return (source.clone(), destination.clone());
        }
        let buffer = format!("{}/{}", self.buffer_name(), self.buffer_path);
        let pfs = self.pfs_path.to_string_lossy().into_owned();
        match self.direction {
            Direction::In => (pfs, buffer),
            Direction::Out => (buffer, pfs),
        }
    }

    /// For people: the last report, or what is to be done.
    pub(crate) fn status(&self) -> StageStatus {
        let report = self.report.clone().unwrap_or_else(|| self.untouched());
        StageStatus { id: self.id(self.token.as_str()), state: self.state, ..report }
    }

    /// For people, as if nothing of it had been done.
    pub(crate) fn untouched(&self) -> StageStatus {
        let (source, destination) = self.ends();
        StageStatus {
            id: self.id(self.token.as_str()),
            direction: self.direction,
            kind: self.kind,
            source,
            destination,
            state: self.state,
            ..StageStatus::default()
        }
    }

    /// The report of one that was stopped, or that never reached a node.
    pub(crate) fn failed(&self, error: ApiError) -> StageStatus {
        StageStatus { state: StageState::Failed, error: Some(error), ..self.status() }
    }
}

/// One.
///
/// # Errors
/// The database's.
pub(crate) fn find(tx: &Transaction<'_>, number: u64) -> Result<Option<Transfer>> {
    Ok(select(tx, "number = ?1", params![number])?.pop())
}

/// Those of a session's script, in its order.
///
/// # Errors
/// The database's.
pub(crate) fn of_script(tx: &Transaction<'_>, token: &Token) -> Result<Vec<Transfer>> {
    select(tx, "token = ?1 AND position IS NOT NULL ORDER BY position", params![Word(token)])
}

/// Notes a report.
///
/// # Errors
/// The database's.
pub(crate) fn set_report(tx: &Transaction<'_>, number: u64, report: &StageStatus) -> Result<()> {
    tx.execute(
        "UPDATE transfers SET state = ?2, report_json = ?3 WHERE number = ?1",
        params![number, Word(&report.state), to_json(report)],
    )?;
    Ok(())
}

/// Notes what the PFS side is on, if that is not known.
///
/// # Errors
/// The database's.
pub(crate) fn note_mount(tx: &Transaction<'_>, number: u64, mount: &PfsMount) -> Result<()> {
    let sql = "UPDATE transfers SET pfs_mount_json = ?2 WHERE number = ?1 AND pfs_mount_json IS NULL";
    tx.execute(sql, params![number, to_json(mount)])?;
    Ok(())
}

/// Forgets one.
///
/// # Errors
/// The database's.
pub(crate) fn delete(tx: &Transaction<'_>, number: u64) -> Result<()> {
    tx.execute("DELETE FROM transfers WHERE number = ?1", [number])?;
    Ok(())
}

/// Forgets all that goes with the session.
///
/// # Errors
/// The database's.
pub(crate) fn delete_all(tx: &Transaction<'_>, token: &Token) -> Result<()> {
    tx.execute("DELETE FROM transfers WHERE token = ?1", [Word(token)])?;
    Ok(())
}

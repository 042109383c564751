//! What control knows across restarts: one SQLite database, one file here per table.
//!
//! **Invariant:** what a restart needs is committed before it is acted on. A committed change survives the death of any
//! process, and a power loss: each commit syncs the database. A bit that flips in a row is seen at the next start.

pub(crate) mod activations;
pub(crate) mod counters;
pub(crate) mod fragments;
mod fresh;
pub(crate) mod instances;
pub(crate) mod leftovers;
pub(crate) mod life;
pub(crate) mod nodes;
pub(crate) mod numbers;
pub(crate) mod registrations;
mod schema;
pub(crate) mod sessions;
mod sums;
mod text;
pub(crate) mod timings;
pub(crate) mod transfers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use daemon::error::{chain, site};
use disk::Room;
use disk::format::UPGRADE;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use wire::control::{ApiError, ErrorCode};

/// The schema, one step after the other; a step is never changed once it was released.
const MIGRATIONS: [&str; 23] = [
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
    include_str!("migrations/6.sql"),
    include_str!("migrations/7.sql"),
    include_str!("migrations/8.sql"),
    include_str!("migrations/9.sql"),
    include_str!("migrations/10.sql"),
    include_str!("migrations/11.sql"),
    include_str!("migrations/12.sql"),
    include_str!("migrations/13.sql"),
    include_str!("migrations/14.sql"),
    include_str!("migrations/15.sql"),
    include_str!("migrations/16.sql"),
    include_str!("migrations/17.sql"),
    include_str!("migrations/18.sql"),
    include_str!("migrations/19.sql"),
    include_str!("migrations/20.sql"),
    include_str!("migrations/21.sql"),
    include_str!("migrations/22.sql"),
    include_str!("migrations/23.sql"),
];

/// Why the state cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// SQLite's reason.
    #[error("use the state database")]
    Sqlite(#[from] rusqlite::Error),
    /// The disk refused.
    #[error("look for or make the state database {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A newer Forebay wrote the file.
    #[error(
        "{path} has schema {found}, this Forebay knows up to {known}: a newer one wrote it; {UPGRADE}, and start \
         control again"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: usize,
        /// The newest schema known here.
        known: usize,
    },
    /// There is a file, and nothing in it: no life of control has left it so.
    #[error(
        "{0} is empty: what control knew is not there; stop control, and put a backup in its place with \
         `forebay-control restore FILE --replace`; leave the folders beside it. Only where control never ran here, \
         remove the file and start control",
        path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The disk gave something else than was written.
    #[error(
        "{0} is damaged: {found}; stop control, and put a backup in its place with `forebay-control restore FILE \
         --replace`; leave the folders beside it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        found: String,
    },
}

impl StateError {
    fn is_full(&self) -> bool {
        let StateError::Sqlite(error) = self else { return false };
        error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
    }
}

impl From<StateError> for ApiError {
    fn from(error: StateError) -> ApiError {
        site(ErrorCode::StateDatabase, chain(&error), "check the disk of the state folder, then try again")
    }
}

/// A result of state functions.
pub(crate) type Result<T> = std::result::Result<T, StateError>;

/// The database. Clones share it.
#[derive(Clone)]
pub(crate) struct Database {
    connection: Arc<Mutex<Connection>>,
    /// Kept on the database's disk for its log, and for the socket beside it.
    room: Arc<Room>,
}

impl Database {
    /// Opens the database file `path`, or makes it where there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// See [`StateError`].
    pub(crate) fn open(path: &Path) -> Result<Database> {
        let room = Arc::new(Room::of(path.parent().unwrap_or(Path::new("."))));
        room.make_way();
        if !disk::exists(path).map_err(|source| StateError::Io { path: path.into(), source })? {
            fresh::make(path)?;
        }
        let mut connection = Connection::open(path)?;
        check(&connection, path)?;
        // Not WAL: a bit that flips in a log that commits stand in for long is taken for its end, and what nodes have
        // acted on would never have been.
        connection.pragma_update(None, "journal_mode", "PERSIST")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Off while tables are made anew: dropping one would take what refers to it along.
        connection.pragma_update(None, "foreign_keys", false)?;
        migrate(&mut connection, path)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        sums::keep(&connection)?;
        Ok(Database { connection: Arc::new(Mutex::new(connection)), room })
    }

    /// Keeps some room, once all files are there: the next start, or a change, may find the disk full.
    pub(crate) fn keep_room(&self) {
        self.room.take();
    }

    /// Runs `work` in one transaction, which is committed if it succeeds. Goes on when the caller is dropped.
    ///
    /// # Errors
    /// What `work` fails with; nothing is changed then. Where the disk is full, there is some room for the next call.
    pub(crate) async fn transact<R: Send + 'static>(
        &self,
        work: impl Fn(&Transaction<'_>) -> Result<R> + Send + 'static,
    ) -> std::result::Result<R, ApiError> {
        let Database { connection, room } = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            match transact(&mut connection, &work) {
                Err(error) if error.is_full() && room.give_up_some() => transact(&mut connection, work),
                done => done,
            }
        });
        let result = done.await.map_err(|e| daemon::error::bug(ErrorCode::StatePanicked, e.to_string()))?;
        result.map_err(ApiError::from)
    }
}

fn transact<R>(connection: &mut Connection, work: impl Fn(&Transaction<'_>) -> Result<R>) -> Result<R> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let result = work(&tx)?;
    tx.commit()?;
    Ok(result)
}

/// Whether its tables and indexes fit together, and each row is as it was written: nothing is done in the name of a
/// damaged one.
fn check(connection: &Connection, path: &Path) -> Result<()> {
    let damaged = |found: String| StateError::Damaged { path: path.into(), found };
    let prepared = sums::prepare(connection);
    let checked =
        prepared.and_then(|()| connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)));
    let found = checked.and_then(|found: String| match found.as_str() {
        "ok" => sums::find_damaged(connection),
        _ => Ok(Some(found)),
    });
    match found {
        Ok(None) => Ok(()),
        Ok(Some(found)) => Err(damaged(found)),
        Err(error) => match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                Err(damaged(error.to_string()))
            }
            _ => Err(error.into()),
        },
    }
}

/// Whether a database, a copy of `path`, is whole and one that [`Database::open`] would take.
///
/// # Errors
/// See [`StateError`].
pub(crate) fn check_known(connection: &Connection, path: &Path) -> Result<()> {
    check(connection, path)?;
    known_schema(connection, path).map(drop)
}

/// Its schema, if it is none of a newer Forebay.
fn known_schema(connection: &Connection, path: &Path) -> Result<usize> {
    let found = schema::find(connection)?;
    let found = found.map_err(|found| StateError::Damaged { path: path.into(), found })?;
    if found == 0 {
        return Err(StateError::Empty { path: path.into() });
    }
    if found > MIGRATIONS.len() {
        return Err(StateError::Newer { path: path.into(), found, known: MIGRATIONS.len() });
    }
    Ok(found)
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    let found = known_schema(connection, path)?;
    migrate_from(connection, found)
}

fn migrate_from(connection: &mut Connection, found: usize) -> Result<()> {
    for (index, step) in MIGRATIONS.iter().enumerate().skip(found) {
        let tx = connection.transaction()?;
        tx.execute_batch(step)?;
        sums::renew(&tx)?;
        schema::note(&tx, index + 1)?;
        tx.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

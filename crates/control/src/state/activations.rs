//! Table `activations`: which namespaces are mounted where. A row stays after the unmount, with its count.

use std::path::{Path, PathBuf};

use model::buffer::BufferRef;
use model::phase::AccessMode;
use model::{NodeName, Token};
use rusqlite::{Row, Transaction, params};

use super::Result;
use super::text::{Word, first_word};

/// One mount of one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Activation {
    /// What is mounted.
    pub buffer: BufferRef,
    /// Which namespace.
    pub access_mode: AccessMode,
    /// The compute node.
    pub node: NodeName,
    /// Which of the namespace's mounts on that node, from 0.
    pub ordinal: u32,
    /// Whether other mounts may be there beside it.
    pub shared: bool,
    /// Where; no trailing slash.
    pub mountpoint: PathBuf,
    /// Whether it was asked for and not yet taken away.
    pub mounted: bool,
    /// How often it was lost, as last reported.
    pub interruptions: u32,
}

impl Activation {
    /// Whether the other one is of the same namespace on the same node.
    pub(crate) fn is_beside(&self, other: &Activation) -> bool {
        (&self.buffer, self.access_mode, &self.node) == (&other.buffer, other.access_mode, &other.node)
    }
}

/// Notes an activation, in place of an earlier one of that namespace, node and ordinal.
///
/// # Errors
/// The database's.
pub(crate) fn set(tx: &Transaction<'_>, token: &Token, activation: &Activation) -> Result<()> {
    tx.execute(
        "INSERT INTO activations
             (token, buffer, access_mode, node, ordinal, shared, mountpoint, mounted, interruptions)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT DO UPDATE SET shared = ?6, mountpoint = ?7, mounted = ?8, interruptions = ?9",
        params![
            Word(token),
            Word(&activation.buffer),
            Word(&activation.access_mode),
            Word(&activation.node),
            activation.ordinal,
            activation.shared,
            activation.mountpoint.to_string_lossy(),
            activation.mounted,
            activation.interruptions
        ],
    )?;
    Ok(())
}

/// The session's activations.
///
/// # Errors
/// The database's.
pub(crate) fn of(tx: &Transaction<'_>, token: &Token) -> Result<Vec<Activation>> {
    let mut query = tx.prepare("SELECT * FROM activations WHERE token = ?1 ORDER BY number")?;
    Ok(query.query_map([Word(token)], read)?.collect::<rusqlite::Result<_>>()?)
}

/// One that is mounted at a path, on whatever node, with the token of its session.
///
/// # Errors
/// The database's.
pub(crate) fn at(tx: &Transaction<'_>, mountpoint: &Path) -> Result<Option<(Token, Activation)>> {
    let mut query = tx.prepare("SELECT * FROM activations WHERE mountpoint = ?1 AND mounted LIMIT 1")?;
    let mut rows = query.query_map([mountpoint.to_string_lossy()], |row| {
        Ok((row.get::<_, Word<Token>>("token")?.0, read(row)?))
    })?;
    Ok(rows.next().transpose()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Activation> {
    Ok(Activation {
        buffer: row.get::<_, Word<BufferRef>>("buffer")?.0,
        access_mode: row.get::<_, Word<AccessMode>>("access_mode")?.0,
        node: row.get::<_, Word<NodeName>>("node")?.0,
        ordinal: row.get("ordinal")?,
        shared: row.get("shared")?,
        mountpoint: row.get::<_, String>("mountpoint")?.into(),
        mounted: row.get("mounted")?,
        interruptions: row.get("interruptions")?,
    })
}

/// One that is mounted, of any session: its token and where.
///
/// # Errors
/// The database's.
pub(crate) fn any_mounted(tx: &Transaction<'_>) -> Result<Option<(Token, PathBuf)>> {
    let mut query = tx.prepare("SELECT token, mountpoint FROM activations WHERE mounted LIMIT 1")?;
    let mut rows = query.query_map([], |row| Ok((first_word(row)?, row.get::<_, String>(1)?.into())))?;
    Ok(rows.next().transpose()?)
}

/// All that are mounted, with the tokens of their sessions.
///
/// # Errors
/// The database's.
pub(crate) fn all_mounted(tx: &Transaction<'_>) -> Result<Vec<(Token, Activation)>> {
    let mut query = tx.prepare("SELECT * FROM activations WHERE mounted ORDER BY token, number")?;
    let rows = query.query_map([], |row| Ok((row.get::<_, Word<Token>>("token")?.0, read(row)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Forgets one of the session's activations.
///
/// # Errors
/// The database's.
pub(crate) fn remove(tx: &Transaction<'_>, token: &Token, gone: &Activation) -> Result<()> {
    tx.execute(
        "DELETE FROM activations
         WHERE token = ?1 AND buffer = ?2 AND access_mode = ?3 AND node = ?4 AND ordinal = ?5",
        params![Word(token), Word(&gone.buffer), Word(&gone.access_mode), Word(&gone.node), gone.ordinal],
    )?;
    Ok(())
}

/// Forgets what is not mounted any more of the namespace and node of `activation`, but for its own predecessor.
///
/// # Errors
/// The database's.
pub(crate) fn remove_ended(tx: &Transaction<'_>, token: &Token, activation: &Activation) -> Result<()> {
    let ended = of(tx, token)?.into_iter().filter(|other| !other.mounted && other.is_beside(activation));
    ended.filter(|other| other.ordinal != activation.ordinal).try_for_each(|other| remove(tx, token, &other))
}

/// Forgets the session's activations.
///
/// # Errors
/// The database's.
pub(crate) fn delete(tx: &Transaction<'_>, token: &Token) -> Result<()> {
    tx.execute("DELETE FROM activations WHERE token = ?1", [Word(token)])?;
    Ok(())
}

/// How many namespaces are mounted on each node that has any.
///
/// # Errors
/// The database's.
pub(crate) fn mounted_by_node(tx: &Transaction<'_>) -> Result<Vec<(NodeName, u32)>> {
    let mut query = tx.prepare("SELECT node, COUNT(*) FROM activations WHERE mounted GROUP BY node")?;
    let rows = query.query_map([], |row| Ok((row.get::<_, Word<NodeName>>(0)?.0, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

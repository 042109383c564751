//! Table `nodes`: the nodes of a cluster, as they registered, and which are drained.

use model::NodeName;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use wire::control::{NodeRole, RegisterNode};

use super::Result;
use super::text::Word;

/// A node that registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it said of itself.
    pub registration: RegisterNode,
    /// Why it gets nothing new; `None`: it does.
    pub drained: Option<String>,
    /// The host that said so: its address, [`HERE`], or nothing where that was not noted.
    pub host: String,
}

/// The machine that control is on.
pub(crate) const HERE: &str = "here";

/// Notes a node, in place of what it said before; it stays drained.
///
/// # Errors
/// The database's.
pub(crate) fn set(tx: &Transaction<'_>, node: &RegisterNode, host: &str) -> Result<Known> {
    let has = |role| node.roles.contains(&role);
    tx.execute(
        "INSERT INTO nodes (name, storage, compute, address, pool, capacity_bytes, mount_root, version,
         host) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT DO UPDATE SET storage = ?2, compute = ?3, address = ?4, pool = ?5, capacity_bytes = ?6,
         mount_root = ?7, version = ?8, host = ?9",
        params![
            Word(&node.name),
            has(NodeRole::Storage),
            has(NodeRole::Compute),
            node.address,
            node.pool.as_deref().unwrap_or_default(),
            node.capacity_bytes,
            node.mount_root.to_string_lossy(),
            node.version,
            host,
        ],
    )?;
    Ok(tx.query_row("SELECT * FROM nodes WHERE name = ?1", [Word(&node.name)], read)?)
}

/// Sets or clears why a node gets nothing new. `None`: there is no such node.
///
/// # Errors
/// The database's.
pub(crate) fn set_drained(
    tx: &Transaction<'_>,
    name: &NodeName,
    drained: Option<&str>,
) -> Result<Option<Known>> {
    tx.execute("UPDATE nodes SET drained = ?2 WHERE name = ?1", params![Word(name), drained])?;
    Ok(tx.query_row("SELECT * FROM nodes WHERE name = ?1", [Word(name)], read).optional()?)
}

/// One node.
///
/// # Errors
/// The database's.
pub(crate) fn find(tx: &Transaction<'_>, name: &NodeName) -> Result<Option<Known>> {
    Ok(tx.query_row("SELECT * FROM nodes WHERE name = ?1", [Word(name)], read).optional()?)
}

/// Every node.
///
/// # Errors
/// The database's.
pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<Known>> {
    let mut query = tx.prepare("SELECT * FROM nodes ORDER BY name")?;
    Ok(query.query_map([], read)?.collect::<rusqlite::Result<_>>()?)
}

/// Forgets a node.
///
/// # Errors
/// The database's.
pub(crate) fn delete(tx: &Transaction<'_>, name: &NodeName) -> Result<()> {
    tx.execute("DELETE FROM nodes WHERE name = ?1", [Word(name)])?;
    tx.execute("DELETE FROM leftovers WHERE node = ?1", [Word(name)])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Known> {
    let roles = [("storage", NodeRole::Storage), ("compute", NodeRole::Compute)];
    let mut has = Vec::new();
    for (column, role) in roles {
        if row.get::<_, bool>(column)? {
            has.push(role);
        }
    }
    let pool: String = row.get("pool")?;
    let registration = RegisterNode {
        name: row.get::<_, Word<NodeName>>("name")?.0,
        roles: has,
        address: row.get("address")?,
        pool: (!pool.is_empty()).then_some(pool),
        capacity_bytes: row.get("capacity_bytes")?,
        mount_root: row.get::<_, String>("mount_root")?.into(),
        version: row.get("version")?,
    };
    Ok(Known { registration, drained: row.get("drained")?, host: row.get("host")? })
}

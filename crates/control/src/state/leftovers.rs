//! Table `leftovers`: what was to be taken from a node that did not answer, or told it. That is done when it is back.

use model::{InstanceId, NodeName};
use rusqlite::{Transaction, params};

use super::Result;
use super::text::Word;

/// What is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A mount.
    Mount,
    /// A fragment.
    Fragment,
    /// A stage.
    Stage,
    /// A private volume, of which what is owed is still to be drained.
    Local,
    /// A private volume with all that is in it.
    LocalGivenUp,
    /// That it does not know where the parts of a buffer are now.
    Unaware,
}

/// Something on a node that nobody needs any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    /// The node.
    pub node: NodeName,
    /// What it is.
    pub kind: Kind,
    /// The node's name for it.
    pub id: String,
}

impl Leftover {
    /// A fragment of an instance.
    pub(crate) fn fragment(node: &NodeName, instance: &InstanceId) -> Leftover {
        Leftover { node: node.clone(), kind: Kind::Fragment, id: instance.to_string() }
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Mount => "mount",
            Kind::Fragment => "fragment",
            Kind::Stage => "stage",
            Kind::Local => "local",
            Kind::LocalGivenUp => "local-given-up",
            Kind::Unaware => "unaware",
        }
    }
}

/// Notes one.
///
/// # Errors
/// The database's.
pub(crate) fn add(tx: &Transaction<'_>, leftover: &Leftover) -> Result<()> {
    let Leftover { node, kind, id } = leftover;
    tx.execute(
        "INSERT OR IGNORE INTO leftovers (node, kind, id) VALUES (?1, ?2, ?3)",
        params![Word(node), kind.word(), id],
    )?;
    Ok(())
}

/// All.
///
/// # Errors
/// The database's.
pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<Leftover>> {
    let mut query = tx.prepare("SELECT node, kind, id FROM leftovers ORDER BY rowid")?;
    let rows = query.query_map([], |row| {
        let kind = match row.get::<_, String>(1)?.as_str() {
            "mount" => Kind::Mount,
            "fragment" => Kind::Fragment,
            "local" => Kind::Local,
            "local-given-up" => Kind::LocalGivenUp,
            "unaware" => Kind::Unaware,
            _ => Kind::Stage,
        };
        Ok(Leftover { node: row.get::<_, Word<NodeName>>(0)?.0, kind, id: row.get(2)? })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Whether it is still noted.
///
/// # Errors
/// The database's.
pub(crate) fn is_noted(tx: &Transaction<'_>, leftover: &Leftover) -> Result<bool> {
    let Leftover { node, kind, id } = leftover;
    let mut query = tx.prepare("SELECT 1 FROM leftovers WHERE node = ?1 AND kind = ?2 AND id = ?3")?;
    Ok(query.exists(params![Word(node), kind.word(), id])?)
}

/// Forgets one: it is gone.
///
/// # Errors
/// The database's.
pub(crate) fn delete(tx: &Transaction<'_>, leftover: &Leftover) -> Result<()> {
    let Leftover { node, kind, id } = leftover;
    tx.execute(
        "DELETE FROM leftovers WHERE node = ?1 AND kind = ?2 AND id = ?3",
        params![Word(node), kind.word(), id],
    )?;
    Ok(())
}

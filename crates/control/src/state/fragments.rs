//! Table `fragments`: the node of each fragment of an instance, whether it was made there, and its term: how often
//! another node took its place.
//!
//! **Invariant:** one that was made is never asked to be made again: where its node does not have it, it is lost, or
//! not mounted, which somebody must decide. No two nodes were ever to have a fragment in the same term.

use model::{InstanceId, NodeName, Token};
use rusqlite::{Transaction, params};
use serde::{Deserialize, Serialize};
use wire::node::Missing;

use super::Result;
use super::text::Word;

/// What is known of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// It is to be made, and perhaps was.
    New,
    /// It was made.
    There,
    /// It is to take the place of one that is lost, and perhaps does.
    Replacing,
    /// The same, where its objects are taken as lost.
    ReplacingNames,
    /// The same, and its names are taken as a copy has them that may lack some.
    AcceptingNames,
}

kept::own_forms!(State);

impl State {
    /// What its node does where it does not have it.
    pub(crate) fn missing(self) -> Missing {
        match self {
            State::New => Missing::Made,
            State::There => Missing::Refused,
            State::Replacing => Missing::Restored,
            State::ReplacingNames => Missing::NamesRestored,
            State::AcceptingNames => Missing::NamesAccepted,
        }
    }
}

/// Notes where the session's instance is to be, in place of where it was to be before.
///
/// # Errors
/// The database's; so for all that follow.
pub(crate) fn set(tx: &Transaction<'_>, token: &Token, nodes: &[NodeName]) -> Result<()> {
    tx.execute("DELETE FROM fragments WHERE token = ?1", [Word(token)])?;
    for (position, node) in nodes.iter().enumerate() {
        tx.execute(
            "INSERT INTO fragments (token, position, node, state) VALUES (?1, ?2, ?3, ?4)",
            params![Word(token), position, Word(node), Word(&State::New)],
        )?;
    }
    Ok(())
}

/// The node of each fragment of the session's instance, in order.
///
/// # Errors
/// The database's.
pub(crate) fn nodes(tx: &Transaction<'_>, token: &Token) -> Result<Vec<NodeName>> {
    let mut query = tx.prepare("SELECT node FROM fragments WHERE token = ?1 ORDER BY position")?;
    Ok(query
        .query_map([Word(token)], |row| Ok(row.get::<_, Word<NodeName>>(0)?.0))?
        .collect::<rusqlite::Result<_>>()?)
}

/// What is known of each fragment of the instance with this id, and its term, in order.
///
/// # Errors
/// The database's.
pub(crate) fn states(tx: &Transaction<'_>, instance: &InstanceId) -> Result<Vec<(State, u32)>> {
    let sql =
        "SELECT state, term FROM fragments JOIN instances USING (token) WHERE id = ?1 ORDER BY position";
    let mut query = tx.prepare(sql)?;
    let states =
        query.query_map([Word(instance)], |row| Ok((row.get::<_, Word<State>>(0)?.0, row.get(1)?)))?;
    Ok(states.collect::<rusqlite::Result<_>>()?)
}

/// Every fragment of the instance with this id was made.
///
/// # Errors
/// The database's.
pub(crate) fn note_made(tx: &Transaction<'_>, instance: &InstanceId) -> Result<()> {
    let sql = "UPDATE fragments SET state = ?2 WHERE token = (SELECT token FROM instances WHERE id = ?1)";
    tx.execute(sql, params![Word(instance), Word(&State::There)])?;
    Ok(())
}

/// The fragment that the session's instance had on the node `lost` is to be on `spare`, in another term, and `replaced`
/// so.
///
/// # Errors
/// The database's.
pub(crate) fn replace(
    tx: &Transaction<'_>,
    token: &Token,
    (lost, spare): (&NodeName, &NodeName),
    replaced: State,
) -> Result<()> {
    let sql = "UPDATE fragments SET node = ?3, state = ?4, term = term + 1 WHERE token = ?1 AND node = ?2";
    tx.execute(sql, params![Word(token), Word(lost), Word(spare), Word(&replaced)])?;
    Ok(())
}

/// The fragment that the session's instance had on the node `lost` is on `found`, in this term, as that says.
///
/// # Errors
/// The database's.
pub(crate) fn replaced(
    tx: &Transaction<'_>,
    token: &Token,
    (lost, found): (&NodeName, &NodeName),
    term: u32,
) -> Result<()> {
    let sql = "UPDATE fragments SET node = ?3, state = ?4, term = ?5 WHERE token = ?1 AND node = ?2";
    tx.execute(sql, params![Word(token), Word(lost), Word(found), Word(&State::There), term])?;
    Ok(())
}

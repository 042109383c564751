//! Tables `instances` and `namespaces`: what is allocated.

use model::directive::Behaviour;
use model::phase::AccessMode;
use model::{InstanceId, NodeName, Token};
use rusqlite::{OptionalExtension, Transaction, params};
use wire::control::VolumeKind;

use super::text::{Json, Word, first_word};
use super::{Result, fragments};
use crate::site::PoolKind;

/// One instance; present from before its first fragment is made until its last is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Its id, as `i3`.
    pub id: InstanceId,
    /// Its key, 64 hexadecimal digits.
    pub key: String,
    /// Another one that its nodes take while the key is being changed; empty: none.
    pub other_key: String,
    /// How often the keys were changed.
    pub key_step: u64,
    /// Signs the tickets of its stages, 64 hexadecimal digits: no node ever has it. Empty in an instance that was
    /// made before there was one.
    pub stage_key: String,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes allocated over all fragments.
    pub capacity_bytes: u64,
    /// Where the fragments' bytes live.
    pub volume: VolumeKind,
    /// The pool that it is allocated from.
    pub pool: String,
    /// Bytes in a grain of that pool when it was allocated.
    pub granularity_bytes: u64,
    /// The node of each fragment, in order.
    pub nodes: Vec<NodeName>,
    /// Of each fragment, in order, whether it is noted that it was made; none that is not noted was.
    pub made: Vec<bool>,
    /// Its namespaces, in the script's order.
    pub access_modes: Vec<AccessMode>,
    /// How it behaves.
    pub behaviour: Behaviour,
    /// What it is. `nodes` is empty where these are the job's own, until they are known.
    pub kind: PoolKind,
}

impl Instance {
    /// Whether each fragment's objects are on the next fragment's node as well.
    pub(crate) fn is_mirrored(&self) -> bool {
        self.behaviour.of_fragments().mirrored
    }

    /// Bytes that it takes from its pool.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.capacity_bytes * if self.is_mirrored() { 2 } else { 1 }
    }
}

/// Notes the session's instance.
///
/// # Errors
/// The database's; the session has one already.
pub(crate) fn insert(tx: &Transaction<'_>, token: &Token, instance: &Instance) -> Result<()> {
    tx.execute(
        "INSERT INTO instances (token, id, key, requested_bytes, capacity_bytes, volume, pool, granularity_bytes, kind,
         stage_key, behaviour) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        params![
            Word(token),
            Word(&instance.id),
            instance.key,
            instance.requested_bytes,
            instance.capacity_bytes,
            Word(&instance.volume),
            instance.pool,
            instance.granularity_bytes,
            Word(&instance.kind),
            instance.stage_key,
            Json(instance.behaviour),
        ],
    )?;
    fragments::set(tx, token, &instance.nodes)?;
    for (position, mode) in instance.access_modes.iter().enumerate() {
        tx.execute(
            "INSERT INTO namespaces (token, position, access_mode) VALUES (?1, ?2, ?3)",
            params![Word(token), position, Word(mode)],
        )?;
    }
    Ok(())
}

/// Notes where the session's instance is to be made, how large and in what.
///
/// # Errors
/// The database's.
pub(crate) fn place(tx: &Transaction<'_>, token: &Token, instance: &Instance) -> Result<()> {
    tx.execute(
        "UPDATE instances SET capacity_bytes = ?2, volume = ?3 WHERE token = ?1",
        params![Word(token), instance.capacity_bytes, Word(&instance.volume)],
    )?;
    fragments::set(tx, token, &instance.nodes)
}

/// The session's instance.
///
/// # Errors
/// The database's.
pub(crate) fn find(tx: &Transaction<'_>, token: &Token) -> Result<Option<Instance>> {
    let found = tx
        .query_row("SELECT * FROM instances WHERE token = ?1", [Word(token)], |row| {
            Ok(Instance {
                id: row.get::<_, Word<InstanceId>>("id")?.0,
                key: row.get("key")?,
                other_key: row.get("other_key")?,
                key_step: row.get("key_step")?,
                stage_key: row.get("stage_key")?,
                requested_bytes: row.get("requested_bytes")?,
                capacity_bytes: row.get("capacity_bytes")?,
                volume: row.get::<_, Word<VolumeKind>>("volume")?.0,
                pool: row.get("pool")?,
                granularity_bytes: row.get("granularity_bytes")?,
                nodes: Vec::new(),
                made: Vec::new(),
                access_modes: Vec::new(),
                behaviour: row.get::<_, Json<Behaviour>>("behaviour")?.0,
                kind: row.get::<_, Word<PoolKind>>("kind")?.0,
            })
        })
        .optional()?;
    let Some(mut instance) = found else { return Ok(None) };
    instance.nodes = fragments::nodes(tx, token)?;
    let states = fragments::states(tx, &instance.id)?;
    instance.made = states.iter().map(|(state, _)| *state == fragments::State::There).collect();
    let mut modes = tx.prepare("SELECT access_mode FROM namespaces WHERE token = ?1 ORDER BY position")?;
    let modes = modes.query_map([Word(token)], |row| Ok(row.get::<_, Word<AccessMode>>(0)?.0))?;
    instance.access_modes = modes.collect::<rusqlite::Result<_>>()?;
    Ok(Some(instance))
}

/// The instance with the keys that it has now: they may have been changed since it was found.
///
/// # Errors
/// The database's.
pub(crate) fn with_present_keys(tx: &Transaction<'_>, found: &Instance) -> Result<Instance> {
    let sql = "SELECT key, other_key, key_step FROM instances WHERE id = ?1";
    let keys =
        tx.query_row(sql, [Word(&found.id)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let found = found.clone();
    Ok(match keys {
        Some((key, other_key, key_step)) => Instance { key, other_key, key_step, ..found },
        None => found,
    })
}

/// Goes on to the next step of a change of keys, unless another call has: `now` is as it was found.
///
/// # Errors
/// The database's.
pub(crate) fn next_keys(tx: &Transaction<'_>, now: &Instance, key: &str, other_key: &str) -> Result<()> {
    tx.execute(
        "UPDATE instances SET key = ?3, other_key = ?4, key_step = key_step + 1 WHERE id = ?1 AND key_step = ?2",
        params![Word(&now.id), now.key_step, key, other_key],
    )?;
    Ok(())
}

/// The sessions whose instances had other keys once.
///
/// # Errors
/// The database's.
pub(crate) fn with_changed_keys(tx: &Transaction<'_>) -> Result<Vec<Token>> {
    let mut query = tx.prepare("SELECT token FROM instances WHERE key_step > 0 ORDER BY rowid")?;
    Ok(query.query_map([], first_word)?.collect::<rusqlite::Result<_>>()?)
}

/// The instances of which the node has a part, and how often the keys of each were changed.
///
/// # Errors
/// The database's.
pub(crate) fn steps_on(tx: &Transaction<'_>, node: &NodeName) -> Result<Vec<(InstanceId, u64)>> {
    let mut query = tx.prepare(
        "SELECT id, key_step FROM instances JOIN fragments USING (token) WHERE node = ?1 ORDER BY instances.rowid",
    )?;
    let rows =
        query.query_map([Word(node)], |row| Ok((row.get::<_, Word<InstanceId>>(0)?.0, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Sets how many stages on demand of the session's instance may run at once.
///
/// # Errors
/// The database's.
pub(crate) fn set_stage_concurrency(tx: &Transaction<'_>, token: &Token, concurrency: u32) -> Result<()> {
    tx.execute(
        "UPDATE instances SET stage_concurrency = ?2 WHERE token = ?1",
        params![Word(token), concurrency],
    )?;
    Ok(())
}

/// Every instance.
///
/// # Errors
/// The database's.
pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<Instance>> {
    let mut query = tx.prepare("SELECT token FROM instances ORDER BY rowid")?;
    let tokens: Vec<Token> = query.query_map([], first_word)?.collect::<rusqlite::Result<_>>()?;
    tokens.iter().filter_map(|token| find(tx, token).transpose()).collect()
}

/// The first number of a private namespace of a compute node.
const PRIVATE_FIRST: u32 = 16;

/// The private namespaces of the instance: which node has which number, in order of their numbers.
///
/// # Errors
/// The database's.
pub(crate) fn private_namespaces(tx: &Transaction<'_>, token: &Token) -> Result<Vec<(NodeName, u32)>> {
    let mut query = tx.prepare("SELECT node, id FROM private_namespaces WHERE token = ?1 ORDER BY id")?;
    let rows = query.query_map([Word(token)], |row| Ok((row.get::<_, Word<NodeName>>(0)?.0, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Gives each of `nodes` that has none a private namespace; replies all.
///
/// # Errors
/// The database's.
pub(crate) fn add_private_namespaces(
    tx: &Transaction<'_>,
    token: &Token,
    nodes: &[NodeName],
) -> Result<Vec<(NodeName, u32)>> {
    let sql = "INSERT OR IGNORE INTO private_namespaces (token, node, id)
         SELECT ?1, ?2, COALESCE(MAX(id) + 1, ?3) FROM private_namespaces WHERE token = ?1";
    for node in nodes {
        tx.execute(sql, params![Word(token), Word(node), PRIVATE_FIRST])?;
    }
    private_namespaces(tx, token)
}

/// Forgets the session's instance: its fragments are gone.
///
/// # Errors
/// The database's.
pub(crate) fn delete(tx: &Transaction<'_>, token: &Token) -> Result<()> {
    tx.execute("DELETE FROM instances WHERE token = ?1", [Word(token)])?;
    Ok(())
}

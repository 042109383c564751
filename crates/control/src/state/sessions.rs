//! Table `sessions`: tokens, their scripts, and how far they have come.

use model::Token;
use model::phase::{Function, Phase};
use rusqlite::{OptionalExtension, Row, Transaction, params};
use wire::control::{ApiError, Owner, Script};

use super::Result;
use super::text::{Word, first_word, from_json, to_json};

/// How many sessions are remembered after their teardown.
const TORN_DOWN_MAX: u32 = 1000;

/// One session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Session {
    /// Its number, never given twice; 0 until it is noted.
    pub number: u64,
    /// Job id or name.
    pub token: Token,
    /// What nodes know its mounts and stages by.
    pub handle: String,
    /// Who made it, as `SLURM`.
    pub caller: String,
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
    /// Whether it is a persistent buffer.
    pub persistent: bool,
    /// Whether every user's jobs may use it.
    pub shared: bool,
    /// Permission bits of the roots of its buffer.
    pub root_mode: u32,
    /// The token that it had before it was quarantined.
    pub quarantined: Option<Token>,
}

/// Permission bits of the roots of a buffer that is its owner's alone.
const ROOT_MODE: u32 = 0o700;

impl Session {
    /// A session that nobody knows yet.
    pub(crate) fn new(
        token: &Token,
        caller: &str,
        created_unix: u64,
        owner: Owner,
        script: Script,
    ) -> Session {
        Session {
            number: 0,
            token: token.to_owned(),
            handle: String::new(),
            caller: caller.to_owned(),
            created_unix,
            owner,
            script,
            phase: Phase::Registered,
            was_mounted: false,
            failed: None,
            kept: None,
            notes: Vec::new(),
            persistent: false,
            shared: false,
            root_mode: ROOT_MODE,
            quarantined: None,
        }
    }

    /// Whether it is of a job that its workload manager knows.
    pub(crate) fn is_of_job(&self) -> bool {
        self.is_managed() && self.quarantined.is_none()
    }

    /// Whether a workload manager made it, which forgets it when its teardown succeeds.
    pub(crate) fn is_managed(&self) -> bool {
        self.caller != wire::control::CLI
    }
}

/// Registers a session, in place of one of that token that is torn down or was never set up. Replies it with its number
/// and its handle.
///
/// # Errors
/// The database's.
pub(crate) fn replace(tx: &Transaction<'_>, session: &Session) -> Result<Session> {
    tx.execute("DELETE FROM sessions WHERE token = ?1", [Word(&session.token)])?;
    let handle = free_handle(tx, &session.token)?;
    let sql =
        "INSERT INTO sessions (token, created_unix, owner_uid, owner_gid, script_text, script_path, workdir,
         job_name, user_name, phase, notes_json, handle, caller, persistent, shared, root_mode)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    let script = &session.script;
    tx.execute(
        sql,
        params![
            Word(&session.token),
            session.created_unix,
            session.owner.uid,
            session.owner.gid,
            script.text,
            script.path.to_string_lossy(),
            script.workdir.to_string_lossy(),
            script.job_name,
            script.user,
            Word(&session.phase),
            to_json(&session.notes),
            handle,
            session.caller,
            session.persistent,
            session.shared,
            session.root_mode,
        ],
    )?;
    let number = u64::try_from(tx.last_insert_rowid()).unwrap_or_default();
    Ok(Session { number, handle, ..session.clone() })
}

/// The token, or where nodes may still know something by that name, the token with a number.
fn free_handle(tx: &Transaction<'_>, token: &Token) -> Result<String> {
    let mut taken = tx.prepare(
        "SELECT EXISTS (SELECT 1 FROM sessions WHERE handle = ?1 AND phase != ?2)
         OR EXISTS (SELECT 1 FROM leftovers WHERE id = ?1 OR id LIKE ?1 || '-%' OR id LIKE ?1 || '.%')",
    )?;
    let mut handle = token.to_string();
    for again in 2.. {
        if !taken.query_row(params![handle, Word(&Phase::TornDown)], |row| row.get(0))? {
            break;
        }
        handle = format!("{token}-r{again}");
    }
    Ok(handle)
}

/// Quarantines the session: its token becomes `TOKEN-WORD-N`, which is replied; of a long one, its beginning.
///
/// # Errors
/// The database's.
pub(crate) fn quarantine(tx: &Transaction<'_>, token: &Token, word: &str) -> Result<Token> {
    let mut renamed = Token::default();
    for n in 1.. {
        let end = format!("-{word}-{n}");
        let kept = token.as_str().len().min(Token::LEN_MAX.saturating_sub(end.len()));
        // Tokens are ASCII.
        renamed = Token::unchecked(format!("{}{end}", token.as_str().get(..kept).unwrap_or_default()));
        if find(tx, &renamed)?.is_none() {
            break;
        }
    }
    tx.execute(
        "UPDATE sessions SET token = ?2, quarantined = ?1 WHERE token = ?1",
        params![Word(token), Word(&renamed)],
    )?;
    Ok(renamed)
}

/// Notes that a quarantined session is staged out and released by control itself.
///
/// # Errors
/// The database's.
pub(crate) fn set_to_finish(tx: &Transaction<'_>, token: &Token) -> Result<()> {
    tx.execute("UPDATE sessions SET to_finish = 1 WHERE token = ?1", [Word(token)])?;
    Ok(())
}

/// The tokens of those that are not released yet.
///
/// # Errors
/// The database's.
pub(crate) fn to_finish(tx: &Transaction<'_>) -> Result<Vec<Token>> {
    let mut query = tx.prepare("SELECT token FROM sessions WHERE to_finish AND phase != ?1")?;
    Ok(query.query_map([Word(&Phase::TornDown)], first_word)?.collect::<rusqlite::Result<_>>()?)
}

/// The session of a number.
///
/// # Errors
/// The database's.
pub(crate) fn numbered(tx: &Transaction<'_>, number: u64) -> Result<Option<Session>> {
    Ok(tx.query_row("SELECT * FROM sessions WHERE number = ?1", [number], read).optional()?)
}

/// The session of a token.
///
/// # Errors
/// The database's.
pub(crate) fn find(tx: &Transaction<'_>, token: &Token) -> Result<Option<Session>> {
    Ok(tx.query_row("SELECT * FROM sessions WHERE token = ?1", [Word(token)], read).optional()?)
}

/// The sessions that are not torn down, oldest first.
///
/// # Errors
/// The database's.
pub(crate) fn living(tx: &Transaction<'_>) -> Result<Vec<Session>> {
    let mut query = tx.prepare("SELECT * FROM sessions WHERE phase != ?1 ORDER BY number")?;
    let rows = query.query_map([Word(&Phase::TornDown)], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Sets how far the session has come. A job starts only after `Mounted` is noted, so that is when it could first write.
///
/// # Errors
/// The database's.
pub(crate) fn set_phase(tx: &Transaction<'_>, token: &Token, phase: Phase) -> Result<()> {
    let was_mounted = phase == Phase::Mounted;
    tx.execute(
        "UPDATE sessions SET phase = ?2, was_mounted = was_mounted OR ?3 WHERE token = ?1",
        params![Word(token), Word(&phase), was_mounted],
    )?;
    Ok(())
}

/// Sets or clears the last failure.
///
/// # Errors
/// The database's.
pub(crate) fn set_failed(
    tx: &Transaction<'_>,
    token: &Token,
    failed: Option<&(Function, ApiError)>,
) -> Result<()> {
    tx.execute(
        "UPDATE sessions SET failed_json = ?2 WHERE token = ?1",
        params![Word(token), failed.map(to_json)],
    )?;
    Ok(())
}

/// Sets or clears why teardown kept the data.
///
/// # Errors
/// The database's.
pub(crate) fn set_kept(tx: &Transaction<'_>, token: &Token, kept: Option<&str>) -> Result<()> {
    tx.execute("UPDATE sessions SET kept = ?2 WHERE token = ?1", params![Word(token), kept])?;
    Ok(())
}

/// Replaces the remarks for the user.
///
/// # Errors
/// The database's.
pub(crate) fn set_notes(tx: &Transaction<'_>, token: &Token, notes: &[String]) -> Result<()> {
    let (sql, json) = ("UPDATE sessions SET notes_json = ?2 WHERE token = ?1", to_json(&notes.to_vec()));
    tx.execute(sql, params![Word(token), json])?;
    Ok(())
}

/// Forgets the oldest of the sessions that are torn down, beyond a thousand.
///
/// # Errors
/// The database's.
pub(crate) fn prune(tx: &Transaction<'_>) -> Result<()> {
    tx.execute(
        "DELETE FROM sessions WHERE phase = ?1 AND rowid NOT IN
         (SELECT rowid FROM sessions WHERE phase = ?1 ORDER BY number DESC LIMIT ?2)",
        params![Word(&Phase::TornDown), TORN_DOWN_MAX],
    )?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        number: row.get("number")?,
        token: row.get::<_, Word<Token>>("token")?.0,
        handle: row.get("handle")?,
        caller: row.get("caller")?,
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
        persistent: row.get("persistent")?,
        shared: row.get("shared")?,
        root_mode: row.get("root_mode")?,
        quarantined: row.get::<_, Option<Word<Token>>>("quarantined")?.map(|word| word.0),
    })
}

//! What every part of the service works on: the database, the nodes, and what runs now. It knows nothing of what runs:
//! that is `dispatch.rs`, which starts the life-cycle's functions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use daemon::error::{bug, user};
use model::phase::Function;
use model::{InstanceId, Token};
use wire::control::{ApiError, ErrorCode};

use crate::audit::Audit;
use crate::site::{NodeView, Site};
use crate::state::{Database, sessions};
use crate::token_queue::TokenQueues;
use crate::transfers::running::Running;
use crate::user_queue::UserQueues;

/// The control service over some site.
pub struct App<S> {
    pub(crate) database: Database,
    /// The machine and its nodes.
    pub(crate) site: S,
    pub(crate) audit: Audit,
    /// One function of a token at a time.
    pub(crate) queues: Arc<TokenQueues>,
    pub(crate) on_demand: Running,
    pub(crate) user_queues: UserQueues,
    /// Held while what was left behind is taken from a node.
    pub(crate) tidying: tokio::sync::Mutex<()>,
    pub(crate) losing: tokio::sync::Mutex<()>,
    /// Held while the key of a buffer is changed.
    pub(crate) rekeying: tokio::sync::Mutex<()>,
    /// Quarantined sessions that are to be finished by ourselves.
    to_finish: Mutex<Vec<Token>>,
    /// When this process noted that all parts of an instance are there. A node that was asked before does not know.
    made: Mutex<HashMap<InstanceId, Instant>>,
}

impl<S: Site> App<S> {
    /// Over a database that may hold the sessions of an earlier life.
    pub(crate) fn new(database: Database, site: S, audit: Audit) -> App<S> {
        App {
            database,
            site,
            audit,
            queues: Arc::default(),
            on_demand: Running::default(),
            user_queues: UserQueues::default(),
            tidying: tokio::sync::Mutex::default(),
            losing: tokio::sync::Mutex::default(),
            rekeying: tokio::sync::Mutex::default(),
            to_finish: Mutex::default(),
            made: Mutex::default(),
        }
    }

    /// Nodes as they were seen last, each with the instances that are newer than what it said.
    pub(crate) fn nodes(&self) -> Vec<NodeView> {
        let mut nodes = self.site.nodes();
        let made = self.made();
        for view in &mut nodes {
            let is_newer = |at: &Instant| view.asked.is_none_or(|asked| asked < *at);
            view.too_new = made.iter().filter(|(_, at)| is_newer(at)).map(|(id, _)| id.clone()).collect();
        }
        nodes
    }

    /// All parts of the instance are there, as their nodes have just said.
    pub(crate) fn note_made(&self, instance: &InstanceId) {
        self.made().insert(instance.to_owned(), Instant::now());
    }

    /// The instance is no more.
    pub(crate) fn forget_made(&self, instance: &InstanceId) {
        self.made().remove(instance);
    }

    fn made(&self) -> MutexGuard<'_, HashMap<InstanceId, Instant>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stages out and releases the quarantined session, when the function that runs is done.
    pub(crate) fn finish_later(&self, token: Token) {
        self.to_finish.lock().unwrap_or_else(PoisonError::into_inner).push(token);
    }

    /// Who was quarantined since this was asked last.
    pub(crate) fn take_to_finish(&self) -> Vec<Token> {
        std::mem::take(&mut *self.to_finish.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The session of a token, also one that is torn down.
    ///
    /// # Errors
    /// `no_such_session`.
    pub(crate) async fn session(&self, token: &Token) -> Result<sessions::Session, ApiError> {
        let name = token.to_owned();
        let found = self.database.transact(move |tx| sessions::find(tx, &name)).await?;
        found.ok_or_else(|| no_such_session(token))
    }

    /// The function of the session that runs now.
    pub(crate) fn running(&self, token: &Token) -> Option<Function> {
        self.queues.running(token)
    }
}

/// Slurm looks for the words `token not found` in what teardown says.
pub(crate) fn no_such_session(token: &Token) -> ApiError {
    user(
        ErrorCode::NoSuchSession,
        format!("session {token}: token not found"),
        "`forebay status` lists the sessions",
    )
}

/// Seconds since 1970.
pub(crate) fn now_unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default()
}

/// 32 random bytes in hexadecimal.
pub(crate) fn new_key() -> Result<String, ApiError> {
    let mut key = [0u8; 32];
    getrandom::fill(&mut key).map_err(|e| bug(ErrorCode::NoRandom, format!("draw a random key: {e}")))?;
    Ok(wire::hex::encode(&key))
}

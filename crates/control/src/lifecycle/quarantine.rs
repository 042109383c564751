//! Gives a session another token: its data is still owed to its owner, but its token is needed, or its workload manager
//! is to forget it.
//!
//! **Invariant:** the session keeps everything.

use model::Token;
use model::phase::Phase;
use wire::control::ApiError;

use crate::app::App;
use crate::site::Site;
use crate::state::sessions::{self, Session};

/// Gives the session another token and says why; replies it. Control is to `finish` it by itself where nobody else
/// knows that it is to be staged out.
///
/// # Errors
/// The database's.
pub(super) async fn rename<S: Site>(
    app: &App<S>,
    session: &Session,
    (word, kept): (&'static str, String),
    finish: bool,
) -> Result<Token, ApiError> {
    let (token, mounted) = (session.token.clone(), session.phase == Phase::Mounted);
    let change = move |tx: &rusqlite::Transaction<'_>| {
        if mounted {
            sessions::set_phase(tx, &token, Phase::Unmounted)?;
        }
        sessions::set_kept(tx, &token, Some(&kept))?;
        let renamed = sessions::quarantine(tx, &token, word)?;
        if finish {
            sessions::set_to_finish(tx, &renamed)?;
        }
        Ok(renamed)
    };
    let renamed = app.database.transact(change).await?;
    tracing::warn!(token = ?session.token, ?renamed, "session quarantined, its data is kept");
    if finish {
        app.finish_later(renamed.clone());
    }
    Ok(renamed)
}

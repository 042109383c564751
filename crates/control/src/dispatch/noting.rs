//! How a function ended, for `forebay status`.
//!
//! **Invariant:** who called it is told how it ended, also where that cannot be noted: what the function did is in the
//! database by then, and an answer that does not agree with it would have it done, or mended, once more.

use std::time::Instant;

use model::Token;
use model::phase::Function;
use wire::control::ApiError;

use crate::app::App;
use crate::lifecycle::{self, Done};
use crate::site::Site;
use crate::state::{sessions, timings};

impl<S: Site> App<S> {
    /// Notes how a function ended. A call that was out of order changes nothing of what is known.
    pub(super) async fn note(
        &self,
        token: &Token,
        function: Function,
        result: Result<Done, ApiError>,
        started: Instant,
    ) -> Result<(), ApiError> {
        let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let name = token.to_owned();
        let noted = match &result {
            Ok(Done::Already) => Ok(()),
            Ok(Done::Now) => {
                tracing::info!(?token, ?function, elapsed_ms, "done");
                let note = move |tx: &rusqlite::Transaction<'_>| {
                    let Some(session) = sessions::find(tx, &name)? else { return Ok(()) };
                    timings::set(tx, &name, function, elapsed_ms)?;
                    if session.failed.is_some_and(|(failed, _)| failed == function) {
                        sessions::set_failed(tx, &name, None)?;
                    }
                    Ok(())
                };
                self.database.transact(note).await
            }
            Err(error) if lifecycle::REFUSALS.contains(&error.code) => Ok(()),
            Err(error) => {
                tracing::warn!(?token, ?function, %error, "failed");
                let failed = (function, error.clone());
                self.database.transact(move |tx| sessions::set_failed(tx, &name, Some(&failed))).await
            }
        };
        if let Err(error) = noted {
            tracing::warn!(?token, ?function, %error, "cannot note how a function ended: `forebay status` does not \
                                                       show it");
        }
        result.map(drop)
    }
}

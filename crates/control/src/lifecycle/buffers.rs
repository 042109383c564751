//! The buffers that a session uses: its own instance, and persistent ones by name.

use daemon::error::user;
use model::Token;
use model::buffer::BufferRef;
use model::phase::Phase;
use wire::control::{ApiError, ErrorCode, Owner, one_machine};

use super::squash;
use super::target::Described;
use crate::app::App;
use crate::site::Site;
use crate::state::sessions::{self, Session};
use crate::state::{self, instances, registrations};

/// One buffer of a session.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// Which of the session's it is.
    pub which: BufferRef,
    /// The session that the instance belongs to.
    pub token: Token,
    /// The instance.
    pub described: Described,
}

/// Every buffer of the session, its own first.
///
/// # Errors
/// A persistent one is gone.
pub(crate) async fn of<S: Site>(app: &App<S>, session: &Session) -> Result<Vec<Buffer>, ApiError> {
    let session = session.clone();
    let read =
        move |tx: &rusqlite::Transaction<'_>| {
            let own = describe(tx, &session)?;
            let mut buffers: Vec<Result<Buffer, Token>> = Vec::new();
            buffers.extend(own.map(|described| {
                Ok(Buffer { which: BufferRef::Own, token: session.token.clone(), described })
            }));
            for name in registrations::buffers_of(tx, &session.token)? {
                let found = match sessions::find(tx, &name)? {
                    Some(other) => describe(tx, &other)?,
                    None => None,
                };
                buffers.push(match found {
                    Some(described) => {
                        Ok(Buffer { which: BufferRef::Persistent(name.clone()), token: name, described })
                    }
                    None => Err(name),
                });
            }
            Ok(buffers)
        };
    let found = app.database.transact(read).await?;
    found.into_iter().map(|buffer| buffer.map_err(|name| gone(&name))).collect()
}

/// The session's instance with all that describes it.
///
/// # Errors
/// The database's.
pub(crate) fn describe(
    tx: &rusqlite::Transaction<'_>,
    session: &Session,
) -> state::Result<Option<Described>> {
    let Some(instance) = instances::find(tx, &session.token)? else { return Ok(None) };
    Ok(Some(Described {
        token: session.token.clone(),
        instance,
        owner: session.owner.clone(),
        root_mode: session.root_mode,
        private: instances::private_namespaces(tx, &session.token)?,
    }))
}

/// Checks that `owner`'s job may use each of the persistent buffers `names`.
///
/// # Errors
/// One is not there, or is another user's and not shared, or is not for root.
pub(crate) async fn check_usable<S: Site>(
    app: &App<S>,
    names: &[Token],
    owner: &Owner,
) -> Result<(), ApiError> {
    let names = names.to_vec();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        let found = names
            .iter()
            .map(|name| Ok((name.clone(), sessions::find(tx, name)?, instances::find(tx, name)?)));
        found.collect::<state::Result<Vec<_>>>()
    };
    for (name, found, instance) in app.database.transact(read).await? {
        let ready = |session: &Session| session.persistent && session.phase == Phase::Ready;
        let buffer = found.filter(ready).ok_or_else(|| gone(&name))?;
        check_open(&buffer, owner.uid)?;
        instance.map_or(Ok(()), |instance| squash::check_user(&app.site, &instance, owner.uid))?;
    }
    Ok(())
}

/// Checks of those of the buffers `names` that are there by now that `uid`'s job may use them.
///
/// # Errors
/// One is another user's and not shared.
pub(crate) async fn check_not_others<S: Site>(
    app: &App<S>,
    names: &[Token],
    uid: u32,
) -> Result<(), ApiError> {
    let names = names.to_vec();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        names.iter().map(|name| sessions::find(tx, name)).collect::<state::Result<Vec<_>>>()
    };
    let found = app.database.transact(read).await?;
    found.iter().flatten().filter(|session| session.persistent).try_for_each(|buffer| check_open(buffer, uid))
}

fn check_open(buffer: &Session, uid: u32) -> Result<(), ApiError> {
    if buffer.owner.uid == uid || buffer.shared {
        return Ok(());
    }
    let message =
        format!("the persistent buffer {} belongs to user {} alone", buffer.token, buffer.owner.uid);
    Err(user(
        ErrorCode::NotYours,
        message,
        "ask its owner to make it anew without shared=no, or create your own",
    ))
}

/// The error of a persistent buffer that is not there.
pub(crate) fn gone(name: &Token) -> ApiError {
    one_machine::no_persistent(name)
}

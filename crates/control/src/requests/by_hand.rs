//! `POST /v1/persistent/{name}/mount`: a user has a persistent buffer mounted on a node without a job. That is a
//! session of his own, which uses the buffer and has one mount; its teardown is the unmounting.
//!
//! **Invariant:** a user has one such session for a buffer and a node, however often he asks: what a cluster keeps for
//! those who forget their mounts is bounded.

use std::slice;
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use model::phase::Phase;
use model::{NodeName, Token};
use rusqlite::Transaction;
use server::{Body, Caller, Refusal};
use wire::control::{ApiError, CLI, MountPersistent, Owner, PreRun, Script, SessionStatus, Setup, Teardown};

use super::Handler;
use super::token::Named;
use crate::app::{App, now_unix};
use crate::audit::Concerned;
use crate::dispatch::Request;
use crate::lifecycle::buffers;
use crate::site::Site;
use crate::state;
use crate::state::counters::{self, Counter};
use crate::state::sessions::{self, Session};

/// Mounts for the caller and for nobody else, as nobody counts it.
pub(super) async fn mount<S: Site>(
    State(handler): State<Handler<S>>,
    caller: Caller,
    Named(name): Named,
    Body(how): Body<MountPersistent>,
) -> Result<(Extension<Concerned>, Json<SessionStatus>), Refusal> {
    let token =
        mount_for(&handler.app, &name, &Owner { uid: caller.uid, gid: caller.gid }, &how.node).await?;
    let concerned = Concerned::from(&handler.app.session(&token).await?);
    Ok((
        Extension(concerned),
        Json(crate::status::of_token(&handler.app, &token, handler.rights(caller)).await?),
    ))
}

/// Mounts the buffer `name` as the owner's jobs would have it; replies the session.
///
/// # Errors
/// There is no such buffer, or it is another user's alone; the node is none that mounts, or does not.
async fn mount_for<S: Site>(
    app: &Arc<App<S>>,
    name: &Token,
    owner: &Owner,
    node: &NodeName,
) -> Result<Token, ApiError> {
    buffers::check_usable(app, slice::from_ref(name), owner).await?;
    let script = script(name, node, owner);
    let token = token(app, owner, &script).await?;
    let mounted = set_up_and_mount(app, &token, owner, script, node).await;
    if let Err(error) = mounted {
        if app.session(&token).await.is_ok_and(|session| session.phase != Phase::Mounted)
            && let Err(error) = app.run(&token, Request::Teardown(Teardown { hurry: true })).await
        {
            tracing::warn!(?token, %error, "cannot remove yet a mount by hand that failed");
        }
        return Err(error);
    }
    Ok(token)
}

async fn set_up_and_mount<S: Site>(
    app: &Arc<App<S>>,
    token: &Token,
    owner: &Owner,
    script: Script,
    node: &NodeName,
) -> Result<(), ApiError> {
    let setup = Setup {
        owner: owner.clone(),
        script,
        fragments: None,
        volume: None,
        caller: CLI.to_owned(),
        capacity: None,
        hosts: Vec::new(),
    };
    app.run(token, Request::Setup(Box::new(setup))).await?;
    app.run(token, Request::PreRun(PreRun { hosts: vec![node.clone()], ..PreRun::default() })).await
}

/// What a job on that node would have asked for the same mount with.
fn script(name: &Token, node: &NodeName, owner: &Owner) -> Script {
    Script {
        text: format!("#!/bin/sh\n#DW persistentdw name={name}\n"),
        path: "/".into(),
        workdir: "/".into(),
        job_name: node.to_string(),
        user: owner.uid.to_string(),
    }
}

/// The session that the user has for this already, or a new one, in one transaction.
async fn token<S: Site>(app: &App<S>, owner: &Owner, script: &Script) -> Result<Token, ApiError> {
    let (owner, script) = (owner.clone(), script.clone());
    let find = move |tx: &Transaction<'_>| {
        let known = sessions::living(tx)?.into_iter().find(|session| {
            (session.caller == CLI && session.owner.uid == owner.uid)
                && (&session.script.text, &session.script.job_name) == (&script.text, &script.job_name)
        });
        match known {
            Some(session) => Ok(session.token),
            None => {
                let token = free_token(tx)?;
                let new = Session::new(&token, CLI, now_unix(), owner.clone(), script.clone());
                sessions::replace(tx, &new).map(|session| session.token)
            }
        }
    };
    app.database.transact(find).await
}

/// `1-mount`: neither a job's id nor a name that a persistent buffer can have.
fn free_token(tx: &Transaction<'_>) -> state::Result<Token> {
    loop {
        let token = Token::unchecked(format!("{}-mount", counters::next(tx, Counter::Token)?));
        if sessions::find(tx, &token)?.is_none() {
            return Ok(token);
        }
    }
}

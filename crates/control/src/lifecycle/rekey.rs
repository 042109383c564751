//! The key of a buffer is changed while jobs use it. What each step means is told in [`wire::data::keys`].
//!
//! Each step is noted before the nodes are told of it, and the next is noted when all have answered: a call that is cut
//! short, or fails as a node is away, is simply made again.
//!
//! **Invariant:** no node shows a key before all take it, and none stops taking one before whoever has something that
//! was made of it has something else.

use std::time::{Duration, Instant};

use daemon::error::{site, user};
use model::phase::Function;
use model::{NodeName, Token};
use wire::control::{ApiError, ErrorCode, Rekeyed};
use wire::data::credential::Credential;
use wire::data::hello::Key;

use super::target::{self, Described};
use super::{buffers, encrypted, fragments, join_all, mounting, squash};
use crate::advice;
use crate::app::{App, new_key};
use crate::pool::Ground;
use crate::site::Site;
use crate::state::activations::{self, Activation};
use crate::state::sessions::{self, Session};
use crate::state::{instances, registrations, transfers};
use crate::transfers::while_running;

/// How long to wait for a mount that a function is just making.
const MOUNTED_WITHIN: Duration = Duration::from_secs(10);

/// Between two looks at that.
const PAUSE: Duration = Duration::from_millis(100);

/// A mount of a buffer, and the session that it is for.
type Mount = (Session, Activation);

/// Gives the buffer another key, which is drawn in this call: a change that an earlier call began is finished before.
///
/// # Errors
/// A stage runs with the former key, or a node is away: the same call goes on later.
pub(crate) async fn run<S: Site>(app: &App<S>, token: &Token) -> Result<Rekeyed, ApiError> {
    // A credential that is late must not take the place of one that a further change has brought.
    let _alone = app.rekeying.lock().await;
    check_stays(app, token).await?;
    match change(app, token).await {
        Ok(rekeyed) => Ok(rekeyed),
        Err(error) => check_stays(app, token).await.and(Err(unchanged(token, error))),
    }
}

/// What is removed has no key that somebody could use, and its nodes have lost nothing.
async fn check_stays<S: Site>(app: &App<S>, token: &Token) -> Result<(), ApiError> {
    if app.running(token) == Some(Function::Teardown) {
        let message = format!("buffer {token} is just being removed");
        return Err(user(ErrorCode::NoInstance, message, "`forebay status` shows when it is gone"));
    }
    described(app, token).await.map(drop)
}

async fn change<S: Site>(app: &App<S>, token: &Token) -> Result<Rekeyed, ApiError> {
    // What an earlier call has drawn may have been read since, which may be why this one is made.
    let mut is_drawn = false;
    loop {
        let of = described(app, token).await?;
        let Described { instance, .. } = &of;
        match instance.key_step % 3 {
            0 => {
                check_no_stage_runs(app, token).await?;
                // No node may have another key of the next step.
                check_is_last(app, &of).await?;
                let encrypts = Ground::of(&app.site)?.encrypts(&instance.pool);
                let drawn = encrypted::key(encrypts, &instance.key, &new_key()?);
                next(app, &of, instance.key.clone(), drawn).await?;
                is_drawn = true;
            }
            1 => {
                tell(app, &of).await?;
                next(app, &of, instance.other_key.clone(), instance.key.clone()).await?;
            }
            _ => {
                tell(app, &of).await?;
                let mounts = renew(app, token).await?;
                while_running::renew(app, token).await?;
                check_no_stage_runs(app, token).await?;
                next(app, &of, instance.key.clone(), String::new()).await?;
                let of = described(app, token).await?;
                tell(app, &of).await?;
                if is_drawn {
                    return Ok(Rekeyed { token: token.clone(), nodes: of.instance.nodes.clone(), mounts });
                }
            }
        }
    }
}

/// Tells all nodes of the keys that they are to take; replies at which step they are.
async fn tell<S: Site>(app: &App<S>, of: &Described) -> Result<Vec<u64>, ApiError> {
    let told = fragments::made(app, of).await?;
    let steps: Vec<u64> = told.into_iter().map(|status| status.key_step).collect();
    let mut nodes = of.instance.nodes.iter().zip(&steps);
    match nodes.find(|(_, step)| **step < of.instance.key_step) {
        None => Ok(steps),
        Some((node, _)) => {
            let message =
                format!("forebay-node on node {node} is of a release that cannot change the key of a buffer");
            let advice = format!("install this release on {node} and restart forebay-node there");
            Err(site(ErrorCode::KeyNotChanged, message, advice))
        }
    }
}

/// Whether no node has later keys than control, as each has said last; where one has said nothing all are asked. An
/// earlier life has drawn them then, of which the database knows nothing.
async fn check_is_last<S: Site>(app: &App<S>, of: &Described) -> Result<(), ApiError> {
    let views = app.nodes();
    let said = |node: &NodeName| {
        let health = views.iter().find(|view| view.name == *node)?.health.as_ref()?;
        health.fragments.iter().find(|part| part.instance == of.instance.id).map(|part| part.key_step)
    };
    let steps = match of.instance.nodes.iter().map(said).collect::<Option<Vec<u64>>>() {
        Some(steps) => steps,
        None => tell(app, of).await?,
    };
    match of.instance.nodes.iter().zip(steps).find(|(_, step)| *step > of.instance.key_step) {
        None => Ok(()),
        Some((node, step)) => Err(fragments::key_behind(&of.instance, node, step)),
    }
}

/// Whoever wants the former key to be worthless must not take an error for that.
fn unchanged(token: &Token, error: ApiError) -> ApiError {
    let message = format!("the key that buffer {token} had still opens it: {}", error.message);
    let advice = format!("{}; then repeat `forebay rekey {token}`, which finishes it", error.advice);
    ApiError { message, advice, ..error }
}

async fn next<S: Site>(app: &App<S>, of: &Described, key: String, other: String) -> Result<(), ApiError> {
    let now = of.instance.clone();
    app.database.transact(move |tx| instances::next_keys(tx, &now, &key, &other)).await
}

async fn described<S: Site>(app: &App<S>, token: &Token) -> Result<Described, ApiError> {
    let wanted = token.clone();
    let find = move |tx: &rusqlite::Transaction<'_>| match sessions::find(tx, &wanted)? {
        Some(session) => buffers::describe(tx, &session),
        None => Ok(None),
    };
    let is_made = |of: &Described| !of.instance.made.is_empty() && of.instance.made.iter().all(|made| *made);
    app.database.transact(find).await?.filter(is_made).ok_or_else(|| {
        let message = format!("session {token} has no buffer whose bytes storage nodes keep");
        user(ErrorCode::NoInstance, message, "`forebay status` shows what it has")
    })
}

/// A stage has a credential for as long as it runs, and gets it before it is noted as one that runs.
async fn check_no_stage_runs<S: Site>(app: &App<S>, token: &Token) -> Result<(), ApiError> {
    let wanted = token.clone();
    let find = move |tx: &rusqlite::Transaction<'_>| {
        let mut sessions = registrations::users_of(tx, &wanted)?;
        sessions.push(wanted.clone());
        Ok((sessions, transfers::running_in(tx, &wanted)?))
    };
    let (sessions, stage) = app.database.transact(find).await?;
    let stages = |of: &&Token| matches!(app.running(of), Some(Function::DataIn | Function::DataOut));
    let what = match (stage, sessions.iter().find(stages)) {
        (None, None) => return Ok(()),
        (Some(stage), _) => format!("stage {stage} runs"),
        (None, Some(session)) => format!("session {session} stages"),
    };
    let message = format!("{what} with what was made of it");
    Err(user(ErrorCode::KeyInUse, message, "wait until that has ended (`forebay status` shows it)"))
}

/// Gives every mount of the buffer a credential of its present key; replies how many there are.
async fn renew<S: Site>(app: &App<S>, token: &Token) -> Result<usize, ApiError> {
    let begun = Instant::now();
    loop {
        let mounts = mounts(app, token).await?;
        // After them: they may have got namespaces of their own since.
        let of = described(app, token).await?;
        let all = mounts.iter().map(|mount| renew_one(app, &of, mount));
        match join_all(all).await.into_iter().collect::<Result<Vec<bool>, ApiError>>() {
            Ok(renewed) => return Ok(renewed.into_iter().filter(|is| *is).count()),
            Err(error) if error.code == ErrorCode::NoSuchMount && begun.elapsed() < MOUNTED_WITHIN => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Replies whether there is such a mount. One that is noted and not there has none of the former key, unless somebody
/// makes it at this moment.
async fn renew_one<S: Site>(
    app: &App<S>,
    of: &Described,
    (session, mount): &Mount,
) -> Result<bool, ApiError> {
    let is_being_made = app.running(&session.token) == Some(Function::PreRun);
    let Some(credential) = credential(app, of, mount) else { return Ok(false) };
    encrypted::check(&app.site, &of.instance, std::slice::from_ref(&mount.node))?;
    let id = mounting::mount_id(&session.handle, mount);
    match app.site.renew_mount(&mount.node, &id, &credential).await {
        Ok(()) => Ok(true),
        Err(error) if error.code == ErrorCode::NoSuchMount && !is_being_made => Ok(false),
        Err(error) if error.code == ErrorCode::NoSuchMount => {
            let message = format!("mount {id} on node {} is just being made", mount.node);
            Err(site(ErrorCode::NoSuchMount, message, "wait until it is there"))
        }
        Err(error) => Err(advice::of_node(&app.site, (&mount.node, &of.token), &of.instance, error)),
    }
}

/// What is mounted of the buffer, by whatever session.
async fn mounts<S: Site>(app: &App<S>, token: &Token) -> Result<Vec<Mount>, ApiError> {
    let holder = token.clone();
    let find = move |tx: &rusqlite::Transaction<'_>| {
        let mut found = Vec::new();
        for (session, mount) in activations::all_mounted(tx)? {
            if mount.buffer.holder(&session) == &holder
                && let Some(session) = sessions::find(tx, &session)?
            {
                found.push((session, mount));
            }
        }
        Ok(found)
    };
    app.database.transact(find).await
}

fn credential<S: Site>(app: &App<S>, of: &Described, mount: &Activation) -> Option<Credential> {
    let namespace = target::namespace(&app.site, of, mount.access_mode, &mount.node, Vec::new()).namespace;
    let capability = squash::capability(&app.site, &of.instance, namespace);
    Some(Credential::derive(&Key::from_hex(&of.instance.key)?, capability))
}

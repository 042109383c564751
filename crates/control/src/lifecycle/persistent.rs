//! Persistent buffers: instances that outlive jobs, each with a session whose token is its name.

use daemon::error::user;
use model::directive::Behaviour;
use model::phase::{AccessMode, Phase};
use model::{BadBufferName, Token};
use wire::control::{ApiError, CreatePersistent, ErrorCode, Owner, Script};

use super::setup::{self, Order};
use super::{Done, redundancy};
use crate::app::{App, now_unix};
use crate::pool;
use crate::script::Own;
use crate::site::Site;
use crate::state::sessions::Session;

/// Permission bits of the roots of a buffer that every user's jobs may use.
const SHARED_ROOT_MODE: u32 = 0o755;

/// Creates.
///
/// # Errors
/// Another user has a buffer of that name, or another one of the same user; a pool without room; a node that does not
/// make its fragment.
pub(crate) async fn run<S: Site>(
    app: &App<S>,
    token: &Token,
    request: CreatePersistent,
) -> Result<Done, ApiError> {
    check_name(&request.name)?;
    check_capacity(request.capacity_bytes)?;
    pool::check_persistent(&app.site, request.pool.as_deref(), &request.owner)?;
    if let Some(known) = setup::living(app, token).await?
        && known.phase != Phase::Registered
    {
        return same(&known, &request).map(|()| Done::Already);
    }
    let modes = match request.access_modes.is_empty() {
        true => vec![AccessMode::Striped],
        false => request.access_modes.clone(),
    };
    let (redundancy, if_possible) =
        redundancy::of_persistent(app, request.redundancy, request.pool.as_deref(), &modes)?;
    let session = session(app, token, &request);
    let own = Own {
        requested_bytes: request.capacity_bytes,
        access_modes: modes,
        pool: request.pool.clone(),
        // Jobs that know nothing of each other share it.
        behaviour: Behaviour { redundancy, ..Behaviour::default() },
    };
    redundancy::check(app, &own)?;
    let order = Order {
        session,
        own: Some(own),
        mirror_if_possible: if_possible,
        fragments: None,
        volume: None,
        stages: Vec::new(),
        uses: Vec::new(),
    };
    setup::allocate(app, order).await?;
    Ok(Done::Now)
}

/// Everybody gets as far as the root of a shared one; who may do what in it is for its owner to say.
fn session<S: Site>(app: &App<S>, token: &Token, request: &CreatePersistent) -> Session {
    let of_site = || app.site.cluster().is_some_and(|site| site.persistent_shared);
    let (owner, script) = (request.owner.clone(), script(token, &request.owner));
    let session = Session::new(token, &request.caller, now_unix(), owner, script);
    match request.shared.unwrap_or_else(of_site) {
        true => Session { persistent: true, shared: true, root_mode: SHARED_ROOT_MODE, ..session },
        false => Session { persistent: true, ..session },
    }
}

/// What stands for the script that it has not.
fn script(token: &Token, owner: &Owner) -> Script {
    Script {
        text: String::new(),
        path: "/".into(),
        workdir: "/".into(),
        job_name: token.to_string(),
        user: owner.uid.to_string(),
    }
}

/// A workload manager asks twice where the first reply was lost.
fn same(known: &Session, request: &CreatePersistent) -> Result<(), ApiError> {
    if known.persistent && known.owner.uid == request.owner.uid {
        return Ok(());
    }
    let message =
        format!("there is a buffer or session {} already, of user {}", request.name, known.owner.uid);
    Err(user(ErrorCode::NameTaken, message, "choose another name"))
}

fn check_name(name: &str) -> Result<(), ApiError> {
    let refused = |bad: BadBufferName| user(ErrorCode::BadName, bad.to_string(), "choose another name");
    Token::of_buffer(name).map(drop).map_err(refused)
}

fn check_capacity(bytes: u64) -> Result<(), ApiError> {
    match bytes {
        0 => {
            let message = "a persistent buffer of 0 bytes is asked for";
            Err(user(ErrorCode::NoCapacity, message, "ask for some bytes"))
        }
        _ => Ok(()),
    }
}

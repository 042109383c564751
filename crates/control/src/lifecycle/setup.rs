//! `setup`: register the session and allocate every fragment of its instance.
//!
//! The instance is in the database before its first fragment is made: a call after a crash makes the same fragments.

use daemon::error::user;
use model::directive::Behaviour;
use model::phase::{Phase, Redundancy};
use model::{InstanceId, Token, buffer::BufferRef};
use wire::control::{ApiError, Blame, ErrorCode, Owner, Setup, VolumeKind, one_machine};

use super::target::Described;
use super::{Done, absent, buffers, encrypted, proven, redundancy, reuse};
use crate::app::{App, new_key, now_unix};
use crate::pool::{self, Ground, Share, Wish};
use crate::script::{self, Own};
use crate::site::Site;
use crate::state::counters::{self, Counter};
use crate::state::instances::{self, Instance};
use crate::state::sessions::{self, Session};
use crate::state::transfers::{self, Transfer};
use crate::state::{self, registrations};
use crate::views::used_bytes;

/// What is to be allocated for a session.
pub(crate) struct Order {
    /// The session, as it is to be registered.
    pub session: Session,
    /// Its own instance.
    pub own: Option<Own>,
    /// A mirror is its pool's wish, and no condition.
    pub mirror_if_possible: bool,
    /// Over how many nodes; `None`: as the pool does it.
    pub fragments: Option<u32>,
    /// `None`: what works.
    pub volume: Option<VolumeKind>,
    /// Its stages.
    pub stages: Vec<Transfer>,
    /// The persistent buffers that it uses.
    pub uses: Vec<Token>,
}

/// Allocates.
///
/// # Errors
/// The script's mistakes, a pool without room, a node that does not make its fragment; nothing is left allocated then.
pub(crate) async fn run<S: Site>(app: &App<S>, token: &Token, request: Setup) -> Result<Done, ApiError> {
    if let Some(known) = living(app, token).await? {
        if known.persistent {
            let message = format!("{token} is the name of a persistent buffer");
            return Err(user(ErrorCode::NameTaken, message, "use the job's id as its token"));
        }
        if reuse::is_reused(&known, &request) {
            reuse::make_room(app, &known).await?;
        } else if known.phase != Phase::Registered {
            return Ok(Done::Already);
        }
    }
    let plan = script::plan(&request.script, token, &request.owner)?;
    check_here(app, &plan, &request.owner)?;
    buffers::check_usable(app, &plan.uses, &request.owner).await?;
    tracing::info!(?token, caller = request.caller, counted = request.capacity, hosts = ?request.hosts, "set up");
    let mut session =
        Session::new(token, &request.caller, now_unix(), request.owner.clone(), request.script.clone());
    if let Some(own) = &plan.own {
        pool::kind_in(&app.site, own.pool.as_deref(), &own.access_modes)?.complete(&mut session).await?;
    }
    let order = Order {
        session: Session { notes: plan.notes, ..session },
        own: plan.own,
        mirror_if_possible: false,
        fragments: request.fragments,
        volume: request.volume,
        stages: plan.stages,
        uses: plan.uses,
    };
    allocate(app, order).await?;
    Ok(Done::Now)
}

/// Refuses what this service cannot do, beyond what no service can, and pools that are not for this user.
///
/// # Errors
/// The script asks for it.
pub(crate) fn check_here<S: Site>(app: &App<S>, plan: &script::Plan, owner: &Owner) -> Result<(), ApiError> {
    let mut creates = plan.creates.iter();
    creates.try_for_each(|(_, pool)| pool::check_persistent(&app.site, pool.as_deref(), owner))?;
    let kind = match &plan.own {
        Some(own) => {
            pool::check_user(&app.site, own.pool.as_deref(), owner)?;
            redundancy::check(app, own)?;
            pool::kind_in(&app.site, own.pool.as_deref(), &own.access_modes)?
        }
        None => pool::kind_of_persistent(&app.site),
    };
    if plan.has_bb && app.site.cluster().is_none() {
        return Err(one_machine::no_manager());
    }
    kind.check_script(plan)
}

/// Allocates what is ordered, or goes on where an earlier call broke off.
///
/// # Errors
/// A pool without room, or a node that does not make its fragment; nothing is left allocated then.
pub(crate) async fn allocate<S: Site>(app: &App<S>, order: Order) -> Result<(), ApiError> {
    loop {
        match try_allocate(app, &order).await {
            // The next try takes the next id: there are only so many that others have.
            Err(error) if error.code == ErrorCode::FragmentOfAnother => {
                tracing::warn!(token = ?order.session.token, %error, "the buffer gets another id");
            }
            allocated => return allocated,
        }
    }
}

async fn try_allocate<S: Site>(app: &App<S>, order: &Order) -> Result<(), ApiError> {
    let session = register(app, order).await?;
    let token = &session.token;
    let Some(own) = &order.own else { return finish(app, order, &session, None).await };
    let mut instance = match find_instance(app, token).await? {
        // An earlier call broke off: its specification goes on.
        Some(instance) => instance,
        None => choose(app, own, order).await?,
    };
    let kind = pool::kind(instance.kind);
    let mut made = kind.allocate(app, &described(&session, &instance)).await;
    if may_fall_back(app, &made, order, &instance) {
        instance = fall_back(app, &session, instance).await?;
        made = kind.allocate(app, &described(&session, &instance)).await;
    }
    if let Err(error) = made {
        kind.discard(app, &session, &instance, false).await?;
        let token = token.to_owned();
        app.database.transact(move |tx| instances::delete(tx, &token)).await?;
        return Err(error);
    }
    proven::wait(app, &instance).await?;
    finish(app, order, &session, Some(&instance)).await
}

fn described(session: &Session, instance: &Instance) -> Described {
    let (token, owner, root_mode) = (session.token.clone(), session.owner.clone(), session.root_mode);
    Described { token, instance: instance.clone(), owner, root_mode, private: Vec::new() }
}

/// The session of the token, unless it is torn down.
///
/// # Errors
/// The database's.
pub(crate) async fn living<S: Site>(app: &App<S>, token: &Token) -> Result<Option<Session>, ApiError> {
    let token = token.to_owned();
    let found = app.database.transact(move |tx| sessions::find(tx, &token)).await?;
    Ok(found.filter(|session| session.phase != Phase::TornDown))
}

/// The session's row, new or from a call that broke off. A workload manager may use the token of a finished job again.
async fn register<S: Site>(app: &App<S>, order: &Order) -> Result<Session, ApiError> {
    let (session, planned) = (order.session.clone(), order.stages.clone());
    let register = move |tx: &rusqlite::Transaction<'_>| {
        let known = sessions::find(tx, &session.token)?;
        if let Some(known) = known
            && instances::find(tx, &session.token)?.is_some()
        {
            return Ok(known);
        }
        let session = sessions::replace(tx, &session)?;
        for transfer in &planned {
            transfers::insert(tx, transfer)?;
        }
        Ok(session)
    };
    app.database.transact(register).await
}

async fn find_instance<S: Site>(app: &App<S>, token: &Token) -> Result<Option<Instance>, ApiError> {
    let token = token.to_owned();
    app.database.transact(move |tx| instances::find(tx, &token)).await
}

/// Decides size, nodes and volume, and notes it, in one transaction: two setups at once do not get the same room.
async fn choose<S: Site>(app: &App<S>, own: &Own, order: &Order) -> Result<Instance, ApiError> {
    let (ground, views) = (Ground::of(&app.site)?, app.site.nodes());
    let (key, stage_key) = (new_key()?, new_key()?);
    let (token, own, fragments) = (order.session.token.clone(), own.clone(), order.fragments);
    let if_possible = order.mirror_if_possible;
    let (wanted, image_from) = (order.volume, app.site.image_bytes_min());
    let volume_of = move |bytes| {
        let image = image_from.is_some_and(|from| bytes >= from);
        wanted.unwrap_or(if image { VolumeKind::Image } else { VolumeKind::Directory })
    };
    let note = move |tx: &rusqlite::Transaction<'_>| {
        let shares = shares(tx, &views)?;
        let wish = Wish {
            requested_bytes: own.requested_bytes,
            pool: own.pool.as_deref(),
            fragments,
            access_modes: &own.access_modes,
            redundancy: own.behaviour.redundancy,
        };
        let (placed, redundancy) = match ground.place::<S>(&wish, &shares) {
            Err(_) if if_possible => {
                (ground.place::<S>(&Wish { redundancy: Redundancy::None, ..wish }, &shares), Redundancy::None)
            }
            placed => (placed, own.behaviour.redundancy),
        };
        let placement = match placed {
            Ok(placement) => placement,
            Err(refused) => return Ok(Err(refused)),
        };
        let instance = Instance {
            id: InstanceId::unchecked(format!("i{}", counters::next(tx, Counter::Instance)?)),
            key: encrypted::key(ground.encrypts(&placement.pool), "", &key),
            stage_key: stage_key.clone(),
            requested_bytes: own.requested_bytes,
            capacity_bytes: placement.capacity_bytes,
            volume: volume_of(placement.fragment_bytes),
            pool: placement.pool,
            granularity_bytes: placement.granularity_bytes,
            nodes: placement.nodes,
            access_modes: own.access_modes.clone(),
            behaviour: Behaviour { redundancy, ..own.behaviour },
            kind: placement.kind,
            ..Instance::default()
        };
        instances::insert(tx, &token, &instance)?;
        Ok(Ok(instance))
    };
    app.database.transact(note).await?
}

/// What every instance takes.
///
/// # Errors
/// The database's.
pub(crate) fn shares(
    tx: &rusqlite::Transaction<'_>,
    views: &[crate::site::NodeView],
) -> state::Result<Vec<Share>> {
    let all = instances::all(tx)?;
    Ok(all.iter().map(|instance| Share::of(instance, used_bytes(instance, views))).collect())
}

/// An image was our own choice and the machine does not let us have one.
fn may_fall_back<S: Site>(
    app: &App<S>,
    made: &Result<(), ApiError>,
    order: &Order,
    instance: &Instance,
) -> bool {
    let others = [ErrorCode::FragmentStarting, ErrorCode::FragmentOfAnother];
    let is_refusal = |error: &ApiError| error.blame == Blame::Site && !others.contains(&error.code);
    let refused = matches!(made, Err(error) if is_refusal(error) && !absent(&app.site, error));
    refused && order.volume.is_none() && instance.volume == VolumeKind::Image
}

async fn fall_back<S: Site>(
    app: &App<S>,
    session: &Session,
    instance: Instance,
) -> Result<Instance, ApiError> {
    let token = session.token.clone();
    tracing::info!(?token, instance = ?instance.id, "no image possible, use a directory");
    pool::kind(instance.kind).discard(app, session, &instance, false).await?;
    let instance = Instance { volume: VolumeKind::Directory, ..instance };
    let noted = instance.clone();
    let note = move |tx: &rusqlite::Transaction<'_>| {
        instances::delete(tx, &token)?;
        instances::insert(tx, &token, &noted)
    };
    app.database.transact(note).await?;
    Ok(instance)
}

async fn finish<S: Site>(
    app: &App<S>,
    order: &Order,
    session: &Session,
    instance: Option<&Instance>,
) -> Result<(), ApiError> {
    let note = instance
        .and_then(|of| pool::rounding_note(of.requested_bytes, of.capacity_bytes, of.granularity_bytes));
    let is_single = order.mirror_if_possible && instance.is_some_and(|instance| !instance.is_mirrored());
    let single = "each byte is on one node: no two nodes of the pool had room for a mirror";
    let single = is_single.then(|| single.to_owned());
    let notes: Vec<String> = order.session.notes.iter().cloned().chain(note).chain(single).collect();
    let own = instance.map(|instance| instance.access_modes.clone()).unwrap_or_default();
    let (token, uses) = (session.token.clone(), order.uses.clone());
    let finish = move |tx: &rusqlite::Transaction<'_>| {
        registrations::add(tx, &token, &BufferRef::Own, &own)?;
        for name in &uses {
            let modes = instances::find(tx, name)?.map(|instance| instance.access_modes).unwrap_or_default();
            registrations::add(tx, &token, &BufferRef::Persistent(name.clone()), &modes)?;
        }
        sessions::set_notes(tx, &token, &notes)?;
        sessions::set_phase(tx, &token, Phase::Ready)
    };
    app.database.transact(finish).await
}

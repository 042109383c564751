//! A storage node is lost for good: other nodes take the places of its fragments, with all that their mirrors have.
//! Where a buffer has none, its names come from the copy of the metadata log, and the files that had data there are
//! named: what was there reads as an error.
//!
//! A place is noted before it is taken, so that a call after a crash goes on: until the lost node is back and what it
//! had is discarded, which waits until nothing lacks elsewhere ([`crate::leftovers`]), every call sees to all fragments
//! of the buffers that it was in.
//!
//! **Invariant:** a fragment gets another place only where the last word of its node that served it said that its copies
//! have all, or have noted what they lack ([`super::doubt`]), or where an operator accepts that nobody knows; and where
//! its node may answer nothing alone since.

use daemon::error::user;
use model::{FragmentIndex, NodeName, Token};
use wire::control::{ApiError, AtRisk, Damaged, ErrorCode, GiveUp, Lost, Moved as Replaced};
use wire::node::{FragmentSpec, Missing};

use super::lacking::{self, Lacking};
use super::target::{self, Described};
use super::{buffers, doubt, encrypted, fragments, join_all, proven, remade, setup, taken_before};
use crate::app::App;
use crate::leftovers;
use crate::pool::Ground;
use crate::site::{NodeView, Site};
use crate::state::fragments::{self as places, State};
use crate::state::instances::Instance;
use crate::state::leftovers::{self as left, Kind, Leftover};
use crate::state::nodes;
use crate::state::sessions;

/// What is noted of a node that is lost, where a drained one has its reason.
const REASON: &str = "lost for good";

/// Gives up the node `name`; tells which buffers go on elsewhere, and which are at risk.
///
/// # Errors
/// There is no such node, it answers, or the database failed.
pub(crate) async fn run<S: Site>(app: &App<S>, name: &NodeName, asked: &GiveUp) -> Result<Lost, ApiError> {
    let view = app.site.nodes().into_iter().find(|view| view.name == *name);
    let view = view.ok_or_else(|| {
        let advice = "`forebay status` lists the nodes; for one of a cluster leave --dir and FOREBAY_DIR out";
        user(ErrorCode::NoSuchNode, format!("there is no node {name}"), advice)
    })?;
    let is_cluster = app.site.cluster().is_some();
    if view.online && is_cluster {
        return Err(answers(name));
    }
    let _alone = app.losing.lock().await;
    let wanted = name.to_owned();
    let drain = move |tx: &rusqlite::Transaction<'_>| nodes::set_drained(tx, &wanted, Some(REASON));
    if let Some(known) = app.database.transact(drain).await? {
        app.site.admit(known)?;
    }
    let mut lost = Lost::default();
    let mut concerned = concerned(app, name).await?;
    if !is_cluster {
        concerned = remade::lacking(app, name, concerned).await?;
    }
    for (token, described) in concerned {
        match replace(app, &token, described, (&view, asked)).await {
            Ok((nodes, None)) => lost.moved.push(Replaced { token, nodes }),
            Ok((nodes, Some((files, names_lack)))) => {
                lost.damaged.push(Damaged { token, nodes, files, names_lack });
            }
            Err(error) => lost.at_risk.push(AtRisk { token, why: error.message }),
        }
    }
    Ok(lost)
}

/// The buffers that have a fragment there, or had one that is not discarded yet.
async fn concerned<S: Site>(app: &App<S>, name: &NodeName) -> Result<Vec<(Token, Described)>, ApiError> {
    let name = name.to_owned();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        let noted = left::all(tx)?;
        let mut all = Vec::new();
        for session in sessions::living(tx)? {
            let Some(described) = buffers::describe(tx, &session)? else { continue };
            let given_up = Leftover::fragment(&name, &described.instance.id);
            if described.instance.nodes.contains(&name) || noted.contains(&given_up) {
                all.push((session.token, described));
            }
        }
        Ok(all)
    };
    app.database.transact(read).await
}

/// Finds another place for the fragment of the lost node, if it still has it, and has it filled. Returns the buffer's
/// nodes, and if the bytes were nowhere else, whose they were, and whether names may lack.
async fn replace<S: Site>(
    app: &App<S>,
    token: &Token,
    mut described: Described,
    (lost, asked): (&NodeView, &GiveUp),
) -> Result<(Vec<NodeName>, Option<Lacking>), ApiError> {
    if described.instance.nodes.len() < 2 {
        let message = "all that it had, names too, was on this node only";
        return Err(user(ErrorCode::AllLost, message, "remove the buffer, or bring the node back"));
    }
    let place = FragmentIndex::of_each(&described.instance.nodes).find(|(_, node)| **node == lost.name);
    let place = place.map(|(place, _)| place);
    let mut remade = None;
    if let Some(place) = place {
        let of = (&described, place);
        let taken = match app.site.cluster() {
            Some(_) => take_place(app, token, of, (lost, asked)).await.map(|instance| (instance, None)),
            None => {
                let begun = remade::begin(app, token, of, (lost, asked)).await;
                begun.map(|state| (described.instance.clone(), state))
            }
        };
        if taken.is_err() {
            app.site.keep(&lost.name, &described.instance.id);
        }
        (described.instance, remade) = taken?;
    }
    let lacking = fill(app, &described, (place, remade)).await?;
    if app.site.cluster().is_none() {
        // Its nodes may end with this command.
        proven::wait(app, &described.instance).await?;
    }
    Ok((described.instance.nodes, lacking))
}

/// Has what took the place of lost fragments filled, among them that of the fragment `place`, which is `remade` so on
/// one machine. Returns what lacks.
async fn fill<S: Site>(
    app: &App<S>,
    described: &Described,
    (place, remade): (Option<FragmentIndex>, Option<State>),
) -> Result<Option<Lacking>, ApiError> {
    let instance = &described.instance;
    instance.nodes.iter().for_each(|node| app.site.keep(node, &instance.id));
    let addresses = target::addresses(app, instance).await?;
    encrypted::check(&app.site, instance, &instance.nodes)?;
    let mut specs = fragments::specs(app, described, &addresses).await?;
    if let (Some(place), Some(state)) = (place, remade) {
        specs[place.place()].missing = state.missing();
    }
    let replaced = || instance.nodes.iter().zip(&specs).filter(|(_, spec)| spec.missing.is_replacing());
    let made = replaced().map(async |(node, spec)| app.site.create_fragment(node, spec).await.map(drop));
    join_all(made).await.into_iter().collect::<Result<Vec<()>, ApiError>>()?;
    fragments::note_made(app, instance).await?;
    tell(app, instance).await?;
    let is_without = |spec: &&FragmentSpec| match instance.is_mirrored() {
        true => spec.missing.is_replacing() && spec.missing != Missing::Restored,
        false => spec.missing.is_replacing() || Some(spec.index) == place,
    };
    let without: Vec<FragmentIndex> = specs.iter().filter(is_without).map(|spec| spec.index).collect();
    let names_lack = replaced().any(|(_, spec)| spec.missing == Missing::NamesAccepted);
    let told = match without.is_empty() || instance.is_mirrored() {
        true => lacking::told(app, described, &addresses).await?,
        false => None,
    };
    match without.is_empty() {
        true => Ok(told),
        false => Ok(Some((lacking::files_on(app, described, &without).await, names_lack))),
    }
}

/// Gives the fragment `place` to another node, if its last word does not say that more is lost with it.
async fn take_place<S: Site>(
    app: &App<S>,
    token: &Token,
    (described, place): (&Described, FragmentIndex),
    (lost, asked): (&NodeView, &GiveUp),
) -> Result<Instance, ApiError> {
    if let Some(instance) = taken_before::find(app, token, (described, place), lost).await? {
        return Ok(instance);
    }
    let word = app.site.give_up(&lost.name, &described.instance.id);
    // It may have been back since the command was begun.
    if word.online {
        return Err(answers(&lost.name));
    }
    let replaced = doubt::judged(&app.site, token, (described, place), (&lost.name, &word), asked)?;
    note_place(app, token, described.instance.clone(), (lost, replaced)).await
}

fn answers(name: &NodeName) -> ApiError {
    let message = format!("node {name} answers: a node that may still be written to must not be given up");
    user(ErrorCode::NodeAnswers, message, "stop its forebay-node, or its machine, then repeat the command")
}

/// Notes another place, and that what the lost node had is to be discarded when it is back.
async fn note_place<S: Site>(
    app: &App<S>,
    token: &Token,
    instance: Instance,
    (lost, replaced): (&NodeView, State),
) -> Result<Instance, ApiError> {
    let (ground, views) = (Ground::of(&app.site)?, app.site.nodes());
    let (token, name) = (token.to_owned(), lost.name.clone());
    let note = move |tx: &rusqlite::Transaction<'_>| {
        let shares = setup::shares(tx, &views)?;
        // What was given up, and is kept until it is of no use any more, is in nobody's way.
        let is_kept = |left: &Leftover| *left == Leftover::fragment(&left.node, &instance.id);
        let noted = left::all(tx)?.into_iter().filter(is_kept).map(|left| left.node);
        // Also where that is not noted, as in a database that was put back: it would refuse to serve another part.
        let has_one = |view: &&NodeView| {
            let mut parts = view.health.iter().flat_map(|health| &health.fragments);
            parts.any(|part| part.instance == instance.id)
        };
        let kept = noted.chain(views.iter().filter(has_one).map(|view| view.name.clone()));
        let Some(spare) = ground.spare::<S>(&instance, &kept.collect::<Vec<_>>(), &shares) else {
            return Ok(None);
        };
        let to_spare = |node: &NodeName| if *node == name { spare.clone() } else { node.clone() };
        let nodes = instance.nodes.iter().map(to_spare).collect();
        let instance = Instance { nodes, ..instance.clone() };
        places::replace(tx, &token, (&name, &spare), replaced)?;
        left::add(tx, &Leftover::fragment(&name, &instance.id))?;
        Ok(Some(instance))
    };
    app.database.transact(note).await?.ok_or_else(|| {
        let message = "no other node of its pool has room for this part and none of the buffer's parts: add a node \
                       to the pool";
        user(ErrorCode::NoSpareNode, message, "start forebay-node on one more host, then repeat the command")
    })
}

/// Tells every node where the fragments are. One that cannot be told now is told when it can be: it may be starting,
/// and keep a copy of one of them.
async fn tell<S: Site>(app: &App<S>, instance: &Instance) -> Result<(), ApiError> {
    let nodes = app.site.nodes();
    let unaware = |view: &NodeView| Leftover {
        node: view.name.clone(),
        kind: Kind::Unaware,
        id: instance.id.to_string(),
    };
    let unaware: Vec<Leftover> = nodes.iter().map(unaware).collect();
    app.database.transact(move |tx| unaware.iter().try_for_each(|each| left::add(tx, each))).await?;
    let online = nodes.into_iter().filter(|view| view.online);
    let told = online.map(async |view| leftovers::told(app, &view.name, instance).await);
    join_all(told).await.into_iter().collect()
}
